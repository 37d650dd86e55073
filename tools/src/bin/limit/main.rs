//! The limits that `clicks_per_url` is measured against: what plain librdkafka costs without an engine around it.
//!
//! - `--work none` consumes a topic and produces one small record per input record, in transactions together with the
//!   input offsets. It parses nothing and keeps no state.
//! - `--work clicks` does the job's whole work by hand on one thread: cuts out the url, counts it in a hash map, writes
//!   the output. That is what a program without checkpoints, exchange and recovery costs; its counts start at zero
//!   with each process.
//!
//! Both run until SIGTERM, commit what is open and exit 0. 1 means a failure, 2 wrong usage.

mod worker;

use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use clap::{CommandFactory, Parser, ValueEnum, error::ErrorKind};
use tidegate_tools::{interval, process};

/// What plain librdkafka costs, without an engine
#[derive(Parser)]
#[command(name = "limit")]
struct Options {
    /// Broker addresses, host:port separated by commas
    #[arg(long)]
    bootstrap: String,
    /// The topic to read
    #[arg(long)]
    input: String,
    /// The topic to write
    #[arg(long)]
    output: String,
    /// Consumer group, and prefix of the transactional ids
    #[arg(long)]
    group: String,
    /// Time between two commits
    #[arg(long, default_value = "1s", value_parser = interval::parse)]
    interval: Duration,
    /// Threads, each with its share of the partitions, a consumer and a producer
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..))]
    parallelism: u16,
    /// What is done to a record
    #[arg(long, value_enum)]
    work: Work,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Work {
    /// Nothing: a constant goes out
    None,
    /// Clicks are counted per url
    Clicks,
}

fn main() -> ExitCode {
    let options = Options::parse();
    if options.work == Work::Clicks && options.parallelism > 1 {
        let problem = "--work clicks counts on one thread: --parallelism must be 1";
        Options::command().error(ErrorKind::ArgumentConflict, problem).exit();
    }
    process::watch_for_stop();
    let workers = usize::from(options.parallelism);
    let done = thread::scope(|scope| {
        let started: Vec<_> = (0..workers)
            .map(|index| {
                scope.spawn({
                    let options = &options;
                    move || worker::run(index, workers, options)
                })
            })
            .collect();
        started
            .into_iter()
            .map(|worker| worker.join().expect("because a worker returns its errors"))
            .collect::<Vec<_>>()
    });
    let mut code = ExitCode::SUCCESS;
    for (index, outcome) in done.into_iter().enumerate() {
        match outcome {
            Ok(done) => eprintln!("worker {index}: {done}"),
            Err(error) => {
                eprintln!("limit: worker {index}: {error}");
                code = ExitCode::FAILURE;
            }
        }
    }
    code
}
