//! The command line that the examples share.

use clap::Parser;
use signal_hook::consts::{SIGINT, SIGQUIT, SIGTERM};
use std::time::Duration;
use tidegate::api::{Connection, Delivery, Job, JobOptions, Outcome, RestartPolicy, Start, StopHandle};
use tidegate::checkpoint::{Mode, OnCancellation, Settings};
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
    /// exactly-once, or at-least-once: no input waits for a barrier on another one
    #[arg(long, default_value = "exactly-once")]
    pub(crate) checkpoint_mode: Mode,
    /// At least this long from the end of one checkpoint to the next
    #[arg(long, default_value = "0s", value_parser = duration)]
    pub(crate) minimum_pause: Duration,
    /// Checkpoints that may be under way at once
    #[arg(long, default_value_t = 1)]
    pub(crate) maximum_concurrent: u32,
    /// Barriers may overtake records, which then become part of the checkpoint
    #[arg(long)]
    pub(crate) unaligned: bool,
    /// With --unaligned: barriers overtake only after this time
    #[arg(long, default_value = "0s", value_parser = duration)]
    pub(crate) aligned_timeout: Duration,
    /// retain or delete checkpoints when the job is cancelled
    #[arg(long, default_value = "retain")]
    pub(crate) on_cancellation: OnCancellation,
    /// State of fewer bytes than this is kept in the manifest
    #[arg(long, default_value_t = 0)]
    pub(crate) inline_below_bytes: u64,
    /// Folder of this machine for second copies of state files, to restore from
    #[arg(long, value_name = "FOLDER")]
    pub(crate) local_recovery: Option<std::path::PathBuf>,
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
        options.checkpoint = Settings {
            interval: self.interval,
            timeout: self.checkpoint_timeout,
            mode: self.checkpoint_mode,
            minimum_pause: self.minimum_pause,
            maximum_concurrent: self.maximum_concurrent,
            tolerable_failures: self.tolerable_failures,
            unaligned: self.unaligned,
            aligned_timeout: self.aligned_timeout,
            on_cancellation: self.on_cancellation,
            retained: self.retained,
            inline_below_bytes: self.inline_below_bytes,
            local_recovery: self.local_recovery.clone(),
            restart_budget: self.restart_budget,
        };
        options.restart = RestartPolicy {
            initial_delay: self.restart_delay,
            limit: self.restart_limit,
            ..RestartPolicy::default()
        };
        Ok(options)
    }
}

/// Runs the job that `build` makes, until its end, SIGTERM, or SIGQUIT, which cancels it; the exit code is 0 when done, 1 on failure, and 2 on wrong
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
    let mut signals = signal_hook::iterator::Signals::new([SIGTERM, SIGINT, SIGQUIT])
        .map_err(|e| Failure::configuration(format!("signals cannot be handled: {e}")))?;
    let obey = move |signal| if signal == SIGQUIT { signalled.cancel() } else { signalled.stop() };
    thread::spawn("signals", move || signals.forever().for_each(obey))
        .map_err(|e| Failure::configuration(format!("no thread for signals: {e}")))?;
    let job = Job::new();
    build(flags, &job);
    let outcome = job.run_until(flags.options()?, stop)?;
    let how = match outcome {
        Outcome { cancelled: true, .. } => "cancelled",
        Outcome { finished: true, .. } => "finished",
        _ => "stopped",
    };
    eprintln!("{how} with checkpoint {} after {} restarts", outcome.checkpoint, outcome.restarts);
    Ok(())
}
