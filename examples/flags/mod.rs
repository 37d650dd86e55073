//! The command line that the examples share.

use clap::Parser;
use std::time::Duration;
use tidegate::api::{Connection, Delivery, Job, JobOptions, RestartPolicy, Start, StopHandle};
use tidegate::host::thread;
use tidegate::model::{Failure, JobId};
use tidegate::service::KafkaArguments;

fn duration(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text).map_err(|e| format!("{e}; expected a duration such as 1s or 250ms"))
}

/// Reads one topic, writes another, keeps its state in checkpoints.
#[derive(Debug, Parser)]
#[command(version)]
pub(crate) struct Flags {
    #[command(flatten)]
    pub(crate) kafka: KafkaArguments,
    /// Topic to read
    #[arg(long)]
    pub(crate) input: String,
    /// Topic to write
    #[arg(long)]
    pub(crate) output: String,
    /// Consumer group, and name of the job
    #[arg(long)]
    pub(crate) group: String,
    /// Where checkpoints are kept, such as file:///var/lib/tidegate
    #[arg(long)]
    pub(crate) checkpoints: String,
    /// Time between two checkpoints
    #[arg(long, default_value = "1s", value_parser = duration)]
    pub(crate) interval: Duration,
    /// Subtasks of every operator
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) parallelism: u32,
    /// exactly-once, at-least-once or none
    #[arg(long, default_value = "exactly-once")]
    pub(crate) delivery: Delivery,
    /// End at the end that the topic has when the job is first started with this, instead of at SIGTERM
    #[arg(long)]
    pub(crate) until_end: bool,
    /// Begin anew: drop the state of earlier runs, abort their pending transactions
    #[arg(long)]
    pub(crate) fresh: bool,
    /// Give a checkpoint up after this time
    #[arg(long, default_value = "60s", value_parser = duration)]
    pub(crate) checkpoint_timeout: Duration,
    /// Failed checkpoints in a row that are tolerated
    #[arg(long, default_value_t = 2)]
    pub(crate) tolerable_failures: u32,
    /// Complete checkpoints that are kept
    #[arg(long, default_value_t = 3)]
    pub(crate) retained: usize,
    /// After this time the broker aborts a transaction that was not committed
    #[arg(long, default_value = "10min", value_parser = duration)]
    pub(crate) transaction_timeout: Duration,
    /// How long a restart may take before prepared transactions are in danger
    #[arg(long, default_value = "60s", value_parser = duration)]
    pub(crate) restart_budget: Duration,
    /// Wait before the first restart after a failure; it doubles with each failure in a row
    #[arg(long, default_value = "1s", value_parser = duration)]
    pub(crate) restart_delay: Duration,
    /// Restarts in a row before the job gives up; without it, it never does
    #[arg(long)]
    pub(crate) restart_limit: Option<u32>,
}

impl Flags {
    /// How the cluster is reached.
    pub(crate) fn connection(&self) -> Connection {
        self.kafka.connection()
    }

    /// Where reading begins.
    pub(crate) fn start(&self) -> Start {
        Start::Earliest
    }

    /// How the job is run.
    pub(crate) fn options(&self) -> Result<JobOptions, Failure> {
        let job = JobId::new(&self.group).map_err(Failure::configuration)?;
        let mut options = JobOptions::new(job, &self.checkpoints);
        options.fresh = self.fresh;
        options.parallelism = self.parallelism;
        options.checkpoint.interval = self.interval;
        options.checkpoint.timeout = self.checkpoint_timeout;
        options.checkpoint.tolerable_failures = self.tolerable_failures;
        options.checkpoint.retained = self.retained;
        options.checkpoint.restart_budget = self.restart_budget;
        options.restart = RestartPolicy {
            initial_delay: self.restart_delay,
            limit: self.restart_limit,
            ..RestartPolicy::default()
        };
        Ok(options)
    }
}

/// Runs the job that `build` makes, until its end or SIGTERM; the exit code is 0 when done, 1 on failure, and 2 on wrong
/// usage.
pub(crate) fn main(build: impl FnOnce(&Flags, &Job)) -> std::process::ExitCode {
    let flags = Flags::parse();
    let filter =
        tracing_subscriber::EnvFilter::try_from_env("TIDEGATE_LOG").unwrap_or_else(|_| "info".into());
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(false).init();
    match run(&flags, build) {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("error: {failure}");
            std::process::ExitCode::FAILURE
        }
    }
}

fn run(flags: &Flags, build: impl FnOnce(&Flags, &Job)) -> Result<(), Failure> {
    let stop = StopHandle::default();
    let signalled = stop.clone();
    let mut signals =
        signal_hook::iterator::Signals::new([signal_hook::consts::SIGTERM, signal_hook::consts::SIGINT])
            .map_err(|e| Failure::configuration(format!("signals cannot be handled: {e}")))?;
    thread::spawn("signals", move || signals.forever().for_each(|_| signalled.stop()))
        .map_err(|e| Failure::configuration(format!("no thread for signals: {e}")))?;
    let job = Job::new();
    build(flags, &job);
    let outcome = job.run_until(flags.options()?, stop)?;
    let how = if outcome.finished { "finished" } else { "stopped" };
    eprintln!("{how} with checkpoint {} after {} restarts", outcome.checkpoint, outcome.restarts);
    Ok(())
}
