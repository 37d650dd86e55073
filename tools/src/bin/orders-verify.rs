//! Judges an output of `order_life_cycle`: the report in words on stderr, as JSON on stdout, and as the exit code: 0 every
//! event had exactly one output in its place, 1 not so or it could not be judged, 2 wrong usage.

use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use serde_json::json;
use tidegate_tools::oracle::orders;
use tidegate_tools::{Error, rest};

/// Is the output of order_life_cycle what its input says it must be?
#[derive(Parser)]
#[command(name = "orders-verify")]
struct Options {
    /// Broker addresses, host:port separated by commas
    #[arg(long)]
    bootstrap: String,
    /// The topic with the events of orders
    #[arg(long)]
    input: String,
    /// The topic with the transitions and alerts
    #[arg(long)]
    output: String,
    /// Also look whether the broker is at rest: no open transaction in the output, no lag of this group
    #[arg(long)]
    group: Option<String>,
}

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("orders-verify: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> Result<bool, Error> {
    let Options { bootstrap, input, output, group } = options;
    let report = orders::judge_orders(bootstrap, input, output)?;
    eprintln!("{report}");
    let look =
        |group: &String| rest::wait(bootstrap, Some(group), &[input], &[output], Duration::from_secs(10));
    let rest = group.as_ref().map(look).transpose()?;
    if let Some(rest) = &rest {
        eprintln!("{rest}");
    }
    let holds = report.holds() && rest.as_ref().is_none_or(rest::RestReport::holds);
    println!("{}", json!({ "holds": holds, "output": report, "rest": rest }));
    Ok(holds)
}
