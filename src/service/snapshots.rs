//! `tidegate savepoint` and `tidegate checkpoint`: what a start could begin with, seen and checked from outside.

use super::output::{self, Format, Row};
use super::store::StoreArguments;
use super::{create, rescale};
use crate::checkpoint::savepoint::{self, Snapshot};
use crate::checkpoint::{Held, Manifest, Sequence, orphans};
use crate::model::{Failure, JobId};
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
    /// Read every file of a savepoint and check it: checksums, key groups, positions
    Verify(Place),
    /// Delete a savepoint
    Dispose(Place),
}

/// What to do about a job's checkpoints.
#[derive(Debug, clap::Subcommand)]
pub(super) enum CheckpointCommand {
    /// Show every manifest of a job
    List(Job),
    /// Show what the newest checkpoint holds
    Inspect(Job),
    /// Read every file of the newest checkpoint and check it: checksums, key groups, positions
    Verify(Job),
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

/// What one operator put into it.
#[derive(Debug, Serialize)]
struct Operator {
    uid: String,
    name: String,
    subtasks: usize,
    max_parallelism: Option<u32>,
    files: usize,
    bytes: u64,
    positions: usize,
    pending_transactions: usize,
}

impl Row for Operator {
    const COLUMNS: &'static [&'static str] =
        &["UID", "NAME", "SUBTASKS", "KEY GROUPS", "FILES", "BYTES", "POSITIONS", "PENDING"];

    fn cells(&self) -> Vec<String> {
        vec![
            self.uid.clone(),
            self.name.clone(),
            self.subtasks.to_string(),
            self.max_parallelism.map_or(String::new(), |max| max.to_string()),
            self.files.to_string(),
            self.bytes.to_string(),
            self.positions.to_string(),
            self.pending_transactions.to_string(),
        ]
    }
}

fn operators(manifest: &Manifest) -> Vec<Operator> {
    let row = |operator: &crate::checkpoint::OperatorSnapshot| Operator {
        uid: operator.uid.to_string(),
        name: operator.name.clone(),
        subtasks: operator.subtasks.len(),
        max_parallelism: operator.max_parallelism.map(|max| max.get()),
        files: operator.subtasks.iter().flat_map(|s| s.files()).count(),
        bytes: operator.subtasks.iter().flat_map(|s| s.handles()).map(|h| h.bytes()).sum(),
        positions: operator.subtasks.iter().map(|s| s.splits.len()).sum(),
        pending_transactions: operator.subtasks.iter().map(|s| s.committables.len()).sum(),
    };
    manifest.operators.iter().map(row).collect()
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
        SavepointCommand::Verify(place) => verify(&place.open()?),
        SavepointCommand::Dispose(place) => Ok(place.open()?.dispose()?),
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
        CheckpointCommand::Verify(job) => verify(&newest(&job)?),
        CheckpointCommand::Sweep(command) => sweep(&command),
        CheckpointCommand::Change(command) => rescale::run(command),
    }
}

fn inspect(snapshot: &Snapshot, format: Format) -> Result<(), Failure> {
    eprintln!("{snapshot}");
    output::print(format, &operators(&snapshot.manifest))
}

fn verify(snapshot: &Snapshot) -> Result<(), Failure> {
    let problems = snapshot.problems();
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
            bytes: manifest
                .operators
                .iter()
                .flat_map(|o| &o.subtasks)
                .flat_map(|s| s.handles())
                .map(|h| h.bytes())
                .sum(),
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
    let Some(generation) = generation else { return Ok(()) };
    let store = sequence.store();
    let in_folder = |names: Vec<String>| names.into_iter().map(|name| format!("state/{name}")).collect();
    let swept = || -> Result<(usize, usize), storage::Error> {
        let (names, old): (Vec<String>, Vec<String>) =
            (in_folder(store.list("state")?), in_folder(store.list_older("state", command.older_than)?));
        let mut left: BTreeSet<String> = orphans(&names, &held, generation).into_iter().collect();
        // What is old enough belongs to no checkpoint that is under way, whoever has written it.
        left.extend(orphans(&old, &held, generation.next()));
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
