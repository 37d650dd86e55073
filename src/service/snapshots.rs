//! `tidegate savepoint` and `tidegate checkpoint`: what a start could begin with, seen and checked from outside.

use super::output::{self, Format, Row};
use super::store::StoreArguments;
use super::{KafkaArguments, PerhapsKafka, contents, create, rescale};
use crate::checkpoint::savepoint::{self, Snapshot};
use crate::checkpoint::{Held, Sequence, orphans, state_files};
use crate::model::{Failure, JobId, MaxParallelism};
use crate::storage;
use serde::Serialize;
use std::collections::BTreeSet;
use std::time::Duration;

/// What to do about savepoints.
#[derive(Debug, clap::Subcommand)]
pub(super) enum SavepointCommand {
    /// Ask a running job for a savepoint, and wait for it
    Create(create::Create),
    /// Show what a savepoint holds
    Inspect(Place),
    /// Read every file of a savepoint and check it: checksums, key groups, positions, with --bootstrap transactions, too
    Verify(Check<Place>),
    /// Write a savepoint anew, under another maximum parallelism
    Rescale(Rescale),
    /// Delete a savepoint
    Dispose(Dispose),
}

/// What to do about a job's checkpoints.
#[derive(Debug, clap::Subcommand)]
pub(super) enum CheckpointCommand {
    /// Show every manifest of a job
    List(Job),
    /// Show what the newest checkpoint holds
    Inspect(Job),
    /// Read every file of the newest checkpoint and check it: checksums, key groups, positions, with --bootstrap
    /// transactions, too
    Verify(Check<Job>),
    /// Delete files that no manifest refers to and no owner of the job will
    Sweep(Sweep),
    /// What changes them
    #[command(flatten)]
    Change(rescale::Command),
}

/// Where a savepoint is.
#[derive(Debug, clap::Args)]
pub(super) struct Place {
    /// The savepoint's folder, a URI or an absolute path
    place: String,
    #[command(flatten)]
    store: StoreArguments,
    /// table or json
    #[arg(short, long, value_enum, default_value_t, hide_possible_values = true)]
    output: Format,
}

impl Place {
    fn open(&self) -> Result<Snapshot, Failure> {
        Ok(savepoint::open(&self.place, &self.store.options())?)
    }
}

/// Arguments of `savepoint dispose`.
#[derive(Debug, clap::Args)]
pub(super) struct Dispose {
    #[command(flatten)]
    what: Place,
    /// Delete what a process has left that died while it wrote a savepoint there; nobody must be writing it now
    #[arg(long)]
    unfinished: bool,
}

/// Arguments of `savepoint rescale`.
#[derive(Debug, clap::Args)]
pub(super) struct Rescale {
    #[command(flatten)]
    from: Place,
    /// The folder below which the new savepoint's own is made, a URI or an absolute path
    #[arg(long, value_name = "URI")]
    folder: String,
    /// The number of key groups of every keyed operator, 1 to 32768
    #[arg(long, value_parser = rescale::max)]
    max_parallelism: MaxParallelism,
}

/// What to check.
#[derive(Debug, clap::Args)]
pub(super) struct Check<T: clap::Args> {
    #[command(flatten)]
    what: T,
    #[command(flatten)]
    kafka: PerhapsKafka,
}

/// Whose checkpoints.
#[derive(Debug, clap::Args)]
pub(super) struct Job {
    /// The job
    #[arg(long, value_parser = |text: &str| JobId::new(text))]
    job: JobId,
    /// Where it keeps its checkpoints, such as file:///var/lib/tidegate
    #[arg(long, value_name = "URI")]
    checkpoints: String,
    #[command(flatten)]
    store: StoreArguments,
    /// table or json
    #[arg(short, long, value_enum, default_value_t, hide_possible_values = true)]
    output: Format,
}

/// Arguments of `sweep`.
#[derive(Debug, clap::Args)]
pub(super) struct Sweep {
    #[command(flatten)]
    job: Job,
    /// How old a file must be that the newest owner of the job, who may be writing still, could yet need
    #[arg(long, default_value = "1h", value_parser = age)]
    older_than: Duration,
}

fn age(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text).map_err(|e| format!("{e}; expected a duration such as 90s or 1h"))
}

/// One manifest of a job.
#[derive(Debug, Serialize)]
struct Entry {
    slot: u64,
    checkpoint: u64,
    generation: u64,
    cause: String,
    published_at_ms: i64,
    bytes: u64,
}

impl Row for Entry {
    const COLUMNS: &'static [&'static str] =
        &["SLOT", "CHECKPOINT", "GENERATION", "CAUSE", "PUBLISHED", "BYTES"];

    fn cells(&self) -> Vec<String> {
        vec![
            self.slot.to_string(),
            self.checkpoint.to_string(),
            self.generation.to_string(),
            self.cause.clone(),
            self.published_at_ms.to_string(),
            self.bytes.to_string(),
        ]
    }
}

/// Carries a command on savepoints out.
///
/// # Errors
/// When it cannot be read, or does not pass.
pub(super) fn run_savepoint(command: &SavepointCommand) -> Result<(), Failure> {
    match command {
        SavepointCommand::Create(create) => create::run(create),
        SavepointCommand::Inspect(place) => inspect(&place.open()?, place.output),
        SavepointCommand::Verify(check) => verify(&check.what.open()?, check.kafka.given().as_ref()),
        SavepointCommand::Rescale(Rescale { from, folder, max_parallelism }) => {
            let place = from.open()?.rescale(*max_parallelism, folder, &from.store.options())?;
            println!("{place}");
            Ok(())
        }
        SavepointCommand::Dispose(Dispose { what, unfinished: true }) => {
            Ok(savepoint::dispose_unfinished(&what.place, &what.store.options())?)
        }
        SavepointCommand::Dispose(Dispose { what, .. }) => Ok(what.open()?.dispose()?),
    }
}

/// Carries a command on checkpoints out.
///
/// # Errors
/// When they cannot be read, or do not pass.
pub(super) fn run_checkpoint(command: CheckpointCommand) -> Result<(), Failure> {
    match command {
        CheckpointCommand::List(job) => list(&job),
        CheckpointCommand::Inspect(job) => inspect(&newest(&job)?, job.output),
        CheckpointCommand::Verify(check) => verify(&newest(&check.what)?, check.kafka.given().as_ref()),
        CheckpointCommand::Sweep(command) => sweep(&command),
        CheckpointCommand::Change(command) => rescale::run(command),
    }
}

fn inspect(snapshot: &Snapshot, format: Format) -> Result<(), Failure> {
    eprintln!("{snapshot}");
    output::print(format, &contents::pieces(snapshot)?)
}

fn verify(snapshot: &Snapshot, kafka: Option<&KafkaArguments>) -> Result<(), Failure> {
    let mut problems = snapshot.problems();
    problems.extend(contents::twice_owned(snapshot));
    if let Some(kafka) = kafka {
        problems.extend(contents::lost(snapshot, kafka)?);
    }
    if problems.is_empty() {
        eprintln!("{snapshot}: everything is there and whole");
        return Ok(());
    }
    Err(Failure::configuration(format!("{snapshot}:\n{}", problems.join("\n"))))
}

fn sequence(job: &Job) -> Result<Sequence, Failure> {
    Sequence::existing(&job.checkpoints, &job.job, &job.store.options())?.ok_or_else(|| {
        Failure::configuration(format!("{}: there are no checkpoints of job {}", job.checkpoints, job.job))
    })
}

fn newest(job: &Job) -> Result<Snapshot, Failure> {
    let sequence = sequence(job)?;
    let manifest = sequence.newest()?.ok_or_else(|| {
        Failure::configuration(format!("{}: job {} has no manifest", sequence.store().location(), job.job))
    })?;
    Ok(Snapshot { store: sequence.store().clone(), manifest, is_savepoint: false })
}

fn list(job: &Job) -> Result<(), Failure> {
    let sequence = sequence(job)?;
    let mut entries = Vec::new();
    for slot in sequence.slots()? {
        let manifest = sequence.read(slot)?;
        entries.push(Entry {
            slot,
            checkpoint: manifest.checkpoint.0,
            generation: manifest.generation.0,
            cause: format!("{:?}", manifest.cause).to_lowercase(),
            published_at_ms: manifest.published_at_ms,
            bytes: manifest.bytes(),
        });
    }
    output::print(job.output, &entries)
}

/// What an owner of the newest generation has written is left alone while it is young: it may be about to be listed.
fn sweep(command: &Sweep) -> Result<(), Failure> {
    let sequence = sequence(&command.job)?;
    let mut held = Vec::new();
    let mut generation = None;
    for slot in sequence.slots()? {
        let manifest = sequence.read(slot)?;
        generation = Some(manifest.generation);
        held.push(Held::of(&manifest));
    }
    let store = sequence.store();
    let swept = || -> Result<(usize, usize), storage::Error> {
        let names = state_files(store.list("state")?);
        let old = state_files(store.list_older("state", command.older_than)?);
        let mut left = BTreeSet::new();
        match generation {
            Some(generation) => {
                left.extend(orphans(&names, &held, generation));
                // What is old enough belongs to no checkpoint that is under way, whoever has written it.
                left.extend(orphans(&old, &held, generation.next()));
            }
            // Nothing was ever published here: a rescale has died before it came to that.
            None => left.extend(old),
        }
        store.delete_all(&left.iter().cloned().collect::<Vec<_>>())?;
        Ok((left.len(), store.sweep(command.older_than)?))
    };
    let (files, unfinished) = swept().map_err(crate::checkpoint::Error::from)?;
    eprintln!(
        "{}: {files} files that nobody refers to and {unfinished} that were never completed are deleted",
        store.location()
    );
    Ok(())
}
