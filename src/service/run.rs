//! The one way in which a program runs a job as a service: settings, log, HTTP, signals, the job, and how that ended.

use super::health::Health;
use super::http::{Server, Sources};
use super::operations::Operations;
use super::settings::{Log, LogFormat, Settings};
use crate::api::Job;
use crate::host::metrics::Metrics;
use crate::host::{clock, thread};
use crate::model::Failure;
use crate::runtime::{Outcome, Progress, StopHandle};
use std::process::ExitCode;
use std::time::Duration;
use tracing_subscriber::EnvFilter;

/// How long the end of an operation can be read after the job has ended.
const LINGER: Duration = Duration::from_secs(5);

/// Runs the job that `build` makes from the settings until its end, SIGTERM, SIGINT, or a command; the first two words
/// stop it with a checkpoint. The exit code is 0 when done, 1 on failure, and 2 on wrong settings.
///
/// ```no_run
/// use tidegate::api::prelude::*;
///
/// fn main() -> std::process::ExitCode {
///     tidegate::service::run(|settings| {
///         let kafka = settings.connection();
///         let job = Job::new();
///         let lines = KafkaSource::string(kafka.clone(), &settings.job.name).topics([&settings.source.topic]);
///         let copies = KafkaSink::new(kafka, &settings.sink.topic, |line: &String, record| {
///             record.value(line.as_bytes());
///             Ok(())
///         });
///         job.source("lines", lines).uid("lines").sink("copies", copies).uid("copies");
///         Ok(job)
///     })
/// }
/// ```
pub fn run(build: impl FnOnce(&Settings) -> Result<Job, Failure>) -> ExitCode {
    let settings = match Settings::load() {
        Ok(settings) => settings,
        Err(problems) => {
            for problem in problems {
                eprintln!("error: {problem}");
            }
            return ExitCode::from(2);
        }
    };
    start_log(&settings.log);
    match serve(&settings, build) {
        Ok(outcome) => {
            let how = match outcome {
                Outcome { cancelled: true, .. } => "cancelled",
                Outcome { finished: true, .. } => "finished",
                _ => "stopped",
            };
            let text =
                format!("{how} with checkpoint {} after {} restarts", outcome.checkpoint, outcome.restarts);
            match settings.log.format {
                LogFormat::Text => eprintln!("{text}"),
                LogFormat::Json => tracing::info!("{text}"),
            }
            ExitCode::SUCCESS
        }
        Err(failure) => {
            match settings.log.format {
                LogFormat::Text => eprintln!("error: {failure}"),
                LogFormat::Json => tracing::error!("{failure}"),
            }
            ExitCode::FAILURE
        }
    }
}

fn start_log(log: &Log) {
    let filter = EnvFilter::try_from_env("TIDEGATE_LOG").unwrap_or_else(|_| EnvFilter::new(&log.level));
    let builder =
        tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(false);
    match log.format {
        LogFormat::Text => builder.init(),
        LogFormat::Json => builder.json().flatten_event(true).init(),
    }
}

fn serve(
    settings: &Settings,
    build: impl FnOnce(&Settings) -> Result<Job, Failure>,
) -> Result<Outcome, Failure> {
    let stop = StopHandle::default();
    let signalled = stop.clone();
    let mut signals =
        signal_hook::iterator::Signals::new([signal_hook::consts::SIGTERM, signal_hook::consts::SIGINT])
            .map_err(|e| Failure::configuration(format!("signals cannot be handled: {e}")))?;
    thread::spawn("signals", move || signals.forever().for_each(|_| signalled.stop()))
        .map_err(|e| Failure::configuration(format!("no thread for signals: {e}")))?;
    let (metrics, progress) = (Metrics::default(), Progress::default());
    let operations = Operations::of(stop.clone());
    metrics.watch_process();
    let mut options = settings.options(metrics.clone())?;
    options.progress = progress.clone();
    let checkpoint = &settings.checkpoint;
    let allowed = checkpoint.interval.max(checkpoint.minimum_pause) + checkpoint.timeout;
    let health = Health::new(&settings.job.name, progress, metrics, allowed);
    let savepoints = settings.savepoint.folder.clone();
    let sources = Sources { health, operations: operations.clone(), savepoints };
    let server = Server::start(settings.http.address, sources)?;
    tracing::info!(address = %server.address, "metrics, health and commands over HTTP");
    let result = build(settings).and_then(|job| job.run_until(options, stop));
    operations.end(result.as_ref().map_err(ToString::to_string));
    let deadline = clock::now() + LINGER;
    while !operations.all_told() && clock::now() < deadline {
        std::thread::sleep(Duration::from_millis(20));
    }
    drop(server);
    result
}
