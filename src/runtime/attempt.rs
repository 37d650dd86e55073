//! One attempt: threads are started, the protocol's decisions are carried out, everything is joined at the end.

use super::assembly::{Assembly, assemble};
use super::committing::Committing;
use super::driver::Driver;
use super::events::{CAPACITY, Command, Events};
use super::job::{Outcome, Setup};
use super::progress::Phase;
use super::recovery::{self, Beginning};
use super::snapshot::Snapshots;
use super::task::{Surroundings, run_input, run_source};
use crate::checkpoint::Manifest;
use crate::graph::{Urgency, Waits};
use crate::host::{clock, thread};
use crate::model::{Attempt, Failure, OperatorUid, TaskId};
use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// How long the last offsets may take to reach the consumer group at an orderly end.
pub(super) const OFFSETS_PATIENCE: Duration = Duration::from_secs(10);

/// Runs one attempt to its end.
pub(super) fn run(setup: &Setup, attempt: Attempt) -> Result<Outcome, Failure> {
    let beginning = recovery::begin(setup)?;
    if beginning.manifest.finished {
        tracing::info!(checkpoint = beginning.manifest.checkpoint.0, "the job has come to its end before");
        let checkpoint = beginning.manifest.checkpoint.0;
        tell_last_offsets(setup, &beginning.manifest)?;
        return Ok(Outcome { finished: true, cancelled: false, checkpoint, restarts: 0 });
    }
    let mut assembly = assemble(setup, attempt, &beginning)?;
    let (to, from) = sync_channel(CAPACITY);
    let events = Events { attempt, to };
    let mut threads = Vec::new();
    let cancelled = assembly.cancelled.clone();
    let closers = std::mem::take(&mut assembly.closers);
    let started = start(setup, assembly, &beginning, &events, &mut threads);
    let result = started.and_then(|started| {
        let mut driver = Driver::new(setup, attempt, beginning, &started, events, from)?;
        let result = driver.drive();
        cancelled.store(true, Ordering::SeqCst);
        closers.iter().for_each(|close| close());
        setup.stop.desk().fail_running();
        if result.is_err() {
            // From here to the next start nothing is driven.
            setup.options.progress.enter(Phase::Restarting);
        }
        driver.close(result.is_ok());
        result
    });
    // Also when not everything could be started: what runs by then must not wait at a gate for ever.
    cancelled.store(true, Ordering::SeqCst);
    closers.iter().for_each(|close| close());
    for thread in threads {
        // A panic was caught within the thread and told as an event.
        let _ = thread.join();
    }
    result
}

/// A job that died between its last manifest and the commit of its offsets has left lag behind.
fn tell_last_offsets(setup: &Setup, manifest: &Manifest) -> Result<(), Failure> {
    for (id, control) in setup.sources() {
        let mut committer = control.offset_committer(&setup.options.metrics)?;
        committer.commit(splits_of(manifest, &setup.graph.uid(id)));
        committer.close(clock::now() + OFFSETS_PATIENCE);
    }
    Ok(())
}

/// All positions of a source in a manifest.
pub(super) fn splits_of(manifest: &Manifest, uid: &OperatorUid) -> Vec<Vec<u8>> {
    let of = manifest.operators.iter().find(|o| o.uid == *uid);
    of.iter().flat_map(|o| &o.subtasks).flat_map(|s| s.splits.clone()).collect()
}

/// What is running.
pub(super) struct Started {
    pub(super) tasks: BTreeSet<TaskId>,
    pub(super) sources: BTreeSet<TaskId>,
    pub(super) commands: Vec<(SyncSender<Command>, Urgency)>,
    /// What tells whom each gate waits for.
    pub(super) waits: Vec<Waits>,
    pub(super) committing: std::cell::RefCell<Vec<Committing>>,
}

fn start(
    setup: &Setup,
    assembly: Assembly,
    beginning: &Beginning,
    events: &Events,
    threads: &mut Vec<JoinHandle<()>>,
) -> Result<Started, Failure> {
    let no_thread = |e: std::io::Error| Failure::restart(format!("no thread for a task: {e}"));
    let count = assembly.sources.len() + assembly.inputs.len();
    let (store, generation) = (setup.sequence.store(), beginning.manifest.generation);
    let (snapshots, writers) =
        Snapshots::start(count, store, generation, &setup.options.checkpoint, events, &assembly.cancelled)?;
    threads.extend(writers);
    let mut committing = Vec::new();
    for (uid, subtask, committer) in assembly.committers.take() {
        let (handle, thread) = Committing::start(uid, subtask, committer, events.clone())?;
        committing.push(handle);
        threads.push(thread);
    }
    let here = |task| Surroundings {
        task,
        events: events.clone(),
        snapshots: snapshots.clone(),
        cancelled: assembly.cancelled.clone(),
    };
    let mut sources = BTreeSet::new();
    let mut tasks = BTreeSet::new();
    for (task, input) in assembly.inputs {
        let here = here(task);
        tasks.insert(task);
        let body = move || here.run(|here| run_input(here, input));
        threads.push(thread::spawn(format!("task-{task}"), body).map_err(no_thread)?);
    }
    for (task, source, inbox) in assembly.sources {
        let here = here(task);
        tasks.insert(task);
        sources.insert(task);
        let body = move || here.run(|here| run_source(here, source, &inbox));
        threads.push(thread::spawn(format!("source-{task}"), body).map_err(no_thread)?);
    }
    let committing = std::cell::RefCell::new(committing);
    Ok(Started { tasks, sources, commands: assembly.commands, waits: assembly.waits, committing })
}
