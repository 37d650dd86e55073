//! Judges an output of `clicks_per_url`: the report in words on stderr, as JSON on stdout, and as the exit code: 0 the
//! promise was kept, 1 it was not or could not be judged, 2 wrong usage.

use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use serde_json::json;
use tidegate_tools::oracle::{self, Promise};
use tidegate_tools::{Error, rest};

/// Is the output of clicks_per_url what its input says it must be?
#[derive(Parser)]
#[command(name = "clicks-verify")]
struct Options {
    /// Broker addresses, host:port separated by commas
    #[arg(long)]
    bootstrap: String,
    /// The topic with the clicks
    #[arg(long)]
    input: String,
    /// The topic with the counts
    #[arg(long)]
    output: String,
    /// Allow repeated counts, but no lost ones
    #[arg(long)]
    at_least_once: bool,
    /// Also look whether the broker is at rest: no open transaction in the output, no lag of this group
    #[arg(long)]
    group: Option<String>,
}

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("clicks-verify: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> Result<bool, Error> {
    let Options { bootstrap, input, output, group, .. } = options;
    let promise = if options.at_least_once { Promise::AtLeastOnce } else { Promise::ExactlyOnce };
    let report = oracle::judge_clicks(bootstrap, input, output, promise)?;
    eprintln!("{report}");
    let rest = match group {
        Some(group) => {
            Some(rest::wait(bootstrap, Some(group), &[input], &[output], Duration::from_secs(10))?)
        }
        None => None,
    };
    if let Some(rest) = &rest {
        eprintln!("{rest}");
    }
    let holds = report.holds() && rest.as_ref().is_none_or(rest::RestReport::holds);
    println!("{}", json!({ "holds": holds, "output": report, "rest": rest }));
    Ok(holds)
}
