//! Kills a program on a steady feed by SIGKILL, starts it again at once, and measures when its readers see output.
//!
//! Per kill, seconds from SIGKILL until a read_committed consumer of the output gets
//! - `first_committed`: a record that was not visible at the kill (it may have been written before),
//! - `first_new`: a record that was written after the kill,
//! - `caught_up`: so much that no more than two seconds of the feed are missing.
//!
//! In the end the feed stops, the output becomes complete, and the judge checks that every click counted exactly once;
//! the limits keep no counts over a kill, so theirs is only counted. JSON lines on stdout, medians on stderr. Exit code
//! 0: recovered and correct; 1: not; 2: wrong usage.

mod drill;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, ValueEnum};
use tidegate_tools::program::System;
use tidegate_tools::{Error, interval, process};

/// Kill a program on a steady feed, and measure how soon its output goes on
#[derive(Parser)]
#[command(name = "recovery")]
struct Options {
    /// Broker addresses, host:port separated by commas
    #[arg(long)]
    bootstrap: String,
    /// Where the built programs are
    #[arg(long)]
    bin_dir: PathBuf,
    /// Which systems, one after the other
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Which::Bare, Which::ClicksPerUrl])]
    systems: Vec<Which>,
    /// Clicks a second
    #[arg(long, default_value_t = 20_000, value_parser = clap::value_parser!(u64).range(1..))]
    rate: u64,
    /// How often it is killed
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    kills: u32,
    /// Steady output before each kill
    #[arg(long, default_value = "15s", value_parser = interval::parse)]
    warm: Duration,
    /// How long to wait for output
    #[arg(long, default_value = "180s", value_parser = interval::parse)]
    patience: Duration,
    /// Time between two checkpoints or commits
    #[arg(long, default_value = "1s", value_parser = interval::parse)]
    interval: Duration,
    /// Number of subtasks per operator
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..))]
    parallelism: u16,
    /// Partitions of each topic
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(i32).range(1..))]
    partitions: i32,
    /// Where the folder for logs and checkpoints is made, which is removed unless a run fails [default:
    /// $TIDEGATE_RUN_DIR or the system's folder for temporary files]
    #[arg(long)]
    run_dir: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Which {
    /// limit --work none
    Bare,
    /// The example
    ClicksPerUrl,
}

fn main() -> ExitCode {
    let options = Options::parse();
    process::watch_for_stop();
    match run(&options) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("recovery: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> Result<bool, Error> {
    let mut good = true;
    let mut bare = None;
    for which in &options.systems {
        let system = match which {
            Which::Bare => System::Bare,
            Which::ClicksPerUrl => System::ClicksPerUrl,
        };
        let report = drill::run(options, system)?;
        println!("{}", serde_json::to_string(&report).expect("because the report is plain data"));
        eprint!("{report}");
        match bare {
            None if system == System::Bare => bare = Some(report.first_new_s_median),
            Some(bare) => eprintln!(
                "  first new output: {:.1} times the bare limit's",
                report.first_new_s_median / bare
            ),
            None => {}
        }
        eprintln!();
        good &= report.correct;
    }
    Ok(good)
}
