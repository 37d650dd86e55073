//! The driver of an attempt: hears what the threads say, asks the protocol, carries its decisions out.

use super::attempt::{OFFSETS_PATIENCE, Started, splits_of};
use super::cleaner::Cleaner;
use super::events::{Command, Event, Events, Snapshot, SnapshotProblem, What};
use super::input::report;
use super::inventory::Inventory;
use super::job::{Outcome, Setup};
use super::meters::{Meters, Reason};
use super::progress::Phase;
use super::recovery::Beginning;
use super::savepoints;
use crate::checkpoint::{
    self, Action, Cause, Held, Manifest, OperatorSnapshot, Protocol, Publication, SavepointRequest,
    SubtaskSnapshot, savepoint, superseded,
};
use crate::connector::{Completed, OffsetCommitter};
use crate::graph::NodeId;
use crate::host::{clock, thread};
use crate::model::{Alignment, Attempt, Barrier, BarrierKind, CheckpointId, Failure, OperatorUid, TaskId};
use crate::operator::KeyGroups;
use crate::storage::FileRef;
use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How often the driver looks whether it shall stop.
const LOOK: Duration = Duration::from_millis(50);

/// How long after a checkpoint with records in flight the next is triggered, once every source is at its end.
const AGAIN: Duration = Duration::from_secs(1);

/// How far the attempt is on its way to an orderly end.
enum Ending {
    /// Not yet.
    No,
    /// The last checkpoint is complete, and its commits are not all answered.
    Committing,
    /// All is committed and recorded; the tasks are ending.
    Draining,
}

/// A checkpoint whose acknowledgements come in.
struct Parts {
    triggered_at: Instant,
    /// Whether every source was at its end when it was triggered.
    after_the_end: bool,
    /// Whether it was so, and nothing follows it.
    finishing: bool,
    savepoint: Option<SavepointRequest>,
    by_task: BTreeMap<TaskId, Snapshot>,
}

/// The sink subtasks that have not yet answered the commit of a checkpoint, and when it was complete.
struct Uncommitted {
    since: Instant,
    missing: BTreeSet<(OperatorUid, u32)>,
}

/// A manifest on its way into the sequence, or into a savepoint.
struct Publishing {
    manifest: Manifest,
    triggered_at: Instant,
    after_the_end: bool,
    in_sequence: bool,
}

/// What the publishing thread does.
struct Order {
    manifest: Manifest,
    /// The folder below which a savepoint is written first.
    savepoint: Option<String>,
    in_sequence: bool,
}

pub(super) struct Driver<'a> {
    setup: &'a Setup,
    attempt: Attempt,
    started: &'a Started,
    protocol: Protocol,
    events: Receiver<Event>,
    publisher: Option<(SyncSender<Order>, JoinHandle<()>)>,
    cleaner: Option<Cleaner>,
    offsets: Vec<(OperatorUid, Box<dyn OffsetCommitter>)>,
    /// The newest manifest that is published.
    manifest: Manifest,
    /// The manifest that is being published.
    publishing: Option<Publishing>,
    held: Vec<Held>,
    parts: BTreeMap<CheckpointId, Parts>,
    running: BTreeSet<TaskId>,
    at_end: BTreeSet<TaskId>,
    /// When a checkpoint shall be triggered before its time.
    hurry_at: Option<Instant>,
    stopping: bool,
    ending: Ending,
    /// The checkpoint before which every operator has given out what it kept back.
    drained: Option<CheckpointId>,
    /// The savepoint that is asked for or under way, and where it shall be.
    savepoint: Option<savepoints::Order>,
    /// Where the savepoint is that the publishing thread has written.
    saved: Option<String>,
    /// When the checkpoint that was published last was triggered.
    triggered_at: Instant,
    /// When the newest publication began.
    published_at: Instant,
    /// Complete checkpoints whose commits are not all answered, with when they were complete.
    uncommitted: BTreeMap<CheckpointId, Uncommitted>,
    /// Why a checkpoint fails, if one does in the current step.
    cause: Reason,
    meters: Meters,
    /// Who waited for whom when the last checkpoint failed.
    waits: String,
}

impl<'a> Driver<'a> {
    pub(super) fn new(
        setup: &'a Setup,
        attempt: Attempt,
        beginning: Beginning,
        started: &'a Started,
        events: Events,
        from: Receiver<Event>,
    ) -> Result<Self, Failure> {
        let Beginning { manifest, first_id, .. } = beginning;
        let now = clock::now();
        let settings = setup.options.checkpoint.clone();
        let protocol =
            Protocol::new(settings, attempt, started.tasks.clone(), first_id, manifest.reserved, now);
        let mut offsets = Vec::new();
        for (id, control) in setup.sources() {
            offsets.push((setup.graph.uid(id), control.offset_committer(&setup.options.metrics)?));
        }
        let cleaner =
            Cleaner::start(setup.sequence.store().clone(), setup.options.storage.deletions_per_second)?;
        let Inventory { held, left } = Inventory::of(&setup.sequence, &manifest)?;
        if !left.is_empty() {
            tracing::info!(
                files = left.len(),
                "deleting what incomplete checkpoints of former owners left behind"
            );
            cleaner.delete(left);
        }
        Ok(Self {
            setup,
            attempt,
            started,
            protocol,
            events: from,
            publisher: Some(start_publisher(setup, events)?),
            cleaner: Some(cleaner),
            offsets,
            held,
            manifest,
            publishing: None,
            parts: BTreeMap::new(),
            running: started.tasks.clone(),
            at_end: BTreeSet::new(),
            hurry_at: None,
            stopping: false,
            ending: Ending::No,
            drained: None,
            savepoint: None,
            saved: None,
            triggered_at: now,
            published_at: now,
            uncommitted: BTreeMap::new(),
            cause: Reason::Timeout,
            meters: Meters::new(&setup.options.metrics, &setup.options.job),
            waits: String::new(),
        })
    }

    pub(super) fn drive(&mut self) -> Result<Outcome, Failure> {
        self.setup.options.progress.enter(Phase::Running);
        loop {
            self.setup.options.progress.turned();
            if self.setup.stop.is_cancelled() && matches!(self.ending, Ending::No) {
                return Err(Failure::restart("the job is cancelled"));
            }
            if self.setup.stop.is_requested() && !self.stopping {
                self.stopping = true;
                self.setup.options.progress.enter(Phase::Stopping);
                tracing::info!("stopping with a checkpoint");
                self.step(checkpoint::Event::EndRequested)?;
            }
            if self.hurry_at.take_if(|at| clock::until(*at).is_zero()).is_some() && !self.stopping {
                self.step(checkpoint::Event::Hurry)?;
            }
            if self.savepoint.is_none()
                && let Some(order) = self.setup.stop.desk().take()
            {
                let (request, kind) = (order.request, order.kind);
                self.savepoint = Some(order);
                self.step(checkpoint::Event::SavepointRequested { request, kind })?;
            }
            match self.events.recv_timeout(self.protocol.next_wake(clock::now()).min(LOOK)) {
                Ok(event) if event.attempt != self.attempt => self.meters.refused.inc(),
                Ok(event) => self.handle(event.what)?,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(Failure::restart("every thread of the attempt has gone without a word"));
                }
            }
            self.step(checkpoint::Event::Tick)?;
            if matches!(self.ending, Ending::Draining) && self.running.is_empty() {
                let (finished, checkpoint) = (self.manifest.finished, self.manifest.checkpoint.0);
                return Ok(Outcome { finished, cancelled: false, checkpoint, restarts: 0 });
            }
        }
    }

    fn handle(&mut self, what: What) -> Result<(), Failure> {
        match what {
            What::TaskEnded { task, result } => {
                self.running.remove(&task);
                result?;
                if !matches!(self.ending, Ending::Draining) {
                    return Err(Failure::restart(format!("task {task} ended before the job")));
                }
            }
            What::AtEnd { task } => {
                self.at_end.insert(task);
                if self.at_end == self.started.sources && !self.stopping {
                    tracing::info!("every source is at its end");
                    let settings = &self.setup.options.checkpoint;
                    if settings.unaligned || settings.tolerable_failures > 0 {
                        // The last barrier never overtakes, and if its checkpoint fails the job goes back. So what is in
                        // flight is waited for with checkpoints that may overtake, or fail.
                        self.hurry_at = Some(clock::now());
                    } else {
                        self.finish()?;
                    }
                }
            }
            What::Snapshot { checkpoint, task, result } => self.snapshot(checkpoint, task, result)?,
            What::Saved { location } => self.saved = Some(location),
            What::Published { checkpoint, publication } => self.published(checkpoint, publication)?,
            What::PublisherFailed(failure) => return Err(failure),
            What::Committed { checkpoint, uid, subtask, result } => {
                result.map_err(|e| e.at(format!("sink {uid} subtask {subtask}")))?;
                self.committed(checkpoint, &(uid, subtask))?;
            }
        }
        Ok(())
    }

    /// Every source is at its end, and what follows is the last checkpoint.
    fn finish(&mut self) -> Result<(), Failure> {
        self.stopping = true;
        self.step(checkpoint::Event::EndRequested)
    }

    /// What a sink subtask has committed holds for older checkpoints too: each lists what the one before has left.
    fn committed(&mut self, checkpoint: CheckpointId, by: &(OperatorUid, u32)) -> Result<(), Failure> {
        let now = clock::now();
        let meters = &self.meters;
        self.uncommitted.retain(|of, Uncommitted { since, missing }| {
            let is_last = *of <= checkpoint && missing.remove(by) && missing.is_empty();
            if is_last {
                meters.committed(now - *since);
            }
            !is_last
        });
        self.finish_if_committed()
    }

    fn snapshot(
        &mut self,
        checkpoint: CheckpointId,
        task: TaskId,
        result: Result<Snapshot, SnapshotProblem>,
    ) -> Result<(), Failure> {
        let attempt = self.attempt;
        match result {
            Ok(snapshot) => {
                crate::fault_point!("checkpoint.after_acknowledgement");
                match self.parts.get_mut(&checkpoint) {
                    Some(parts) if self.protocol.waits_for(checkpoint, task) => {
                        parts.by_task.insert(task, snapshot);
                    }
                    _ => self.delete_files(&snapshot),
                }
                self.step(checkpoint::Event::Acknowledged { attempt, checkpoint, task })
            }
            Err(SnapshotProblem::Declined(reason)) => {
                self.cause = Reason::Snapshot;
                self.step(checkpoint::Event::Declined { attempt, checkpoint, task, reason })
            }
            Err(SnapshotProblem::Failed(failure)) => {
                Err(failure.at(format!("task {task}, checkpoint {checkpoint}")))
            }
        }
    }

    fn published(&mut self, checkpoint: CheckpointId, publication: Publication) -> Result<(), Failure> {
        let Publishing { manifest, triggered_at, after_the_end, in_sequence } =
            self.publishing.take().expect("only a manifest that is being published is published");
        match publication {
            Publication::Mine if !in_sequence => {
                // The savepoint has copies of its own.
                self.delete_listed(&manifest);
                self.step(checkpoint::Event::Published { checkpoint })
            }
            Publication::Mine => {
                crate::fault_point!("checkpoint.after_manifest");
                self.manifest = manifest;
                self.triggered_at = triggered_at;
                self.step(checkpoint::Event::Published { checkpoint })?;
                match after_the_end && !self.stopping {
                    false => Ok(()),
                    true if self.manifest.records_in_flight() == 0 => self.finish(),
                    true => {
                        self.hurry_at = Some(clock::now() + AGAIN);
                        Ok(())
                    }
                }
            }
            Publication::Fenced { by } => {
                Err(self.setup.sequence.fenced(self.manifest.generation, by).into())
            }
            Publication::Refused(e) => {
                // It lists every part of the checkpoint, which nothing else refers to.
                self.delete_listed(&manifest);
                self.cause = Reason::Publication;
                self.step(checkpoint::Event::NotPublished { checkpoint, reason: e.to_string() })
            }
            Publication::Unknown(e) => Err(Failure::restart(format!(
                "whether checkpoint {checkpoint} was published is unknown: {e}"
            ))),
        }
    }

    fn step(&mut self, event: checkpoint::Event) -> Result<(), Failure> {
        for action in self.protocol.step(event, clock::now()) {
            self.carry_out(action)?;
        }
        self.cause = Reason::Timeout;
        Ok(())
    }

    fn carry_out(&mut self, action: Action) -> Result<(), Failure> {
        match action {
            Action::Trigger { checkpoint, kind, savepoint } => {
                let after_the_end = self.at_end == self.started.sources;
                let finishing = kind.is_last() && after_the_end;
                let kind = if finishing { BarrierKind::Drain } else { kind };
                if kind == BarrierKind::Drain {
                    self.drained = Some(checkpoint);
                }
                let (triggered_at, by_task) = (clock::now(), BTreeMap::new());
                self.parts
                    .insert(checkpoint, Parts { triggered_at, after_the_end, finishing, savepoint, by_task });
                let alignment = match savepoint {
                    // A savepoint has nothing in flight, so that it can be read by another graph.
                    Some(_) => Alignment::Aligned,
                    None => self.setup.options.checkpoint.alignment(kind),
                };
                self.hurry(alignment);
                self.command(Command::Barrier(Barrier { checkpoint, kind, alignment }))?;
            }
            Action::Publish { checkpoint } => {
                let parts = self.parts.remove(&checkpoint).expect("what was triggered has its parts");
                let (triggered_at, after_the_end) = (parts.triggered_at, parts.after_the_end);
                let order = self.savepoint.as_ref().filter(|order| Some(order.request) == parts.savepoint);
                let in_sequence = order.is_none_or(|order| order.kind.is_last());
                let savepoint = order.map(|order| order.target.clone());
                let manifest = self.assemble_manifest(checkpoint, parts);
                let left = check_deadlines(&manifest, self.setup.options.checkpoint.restart_budget)?;
                self.setup.options.progress.deadline_in(left);
                self.published_at = clock::now();
                crate::fault_point!("checkpoint.before_manifest");
                let copy = manifest.clone();
                self.publishing =
                    Some(Publishing { manifest: copy, triggered_at, after_the_end, in_sequence });
                let (to, _) =
                    self.publisher.as_ref().expect("the publisher lives as long as the driver drives");
                to.send(Order { manifest, savepoint, in_sequence })
                    .map_err(|_| Failure::restart("the publishing thread is gone"))?;
            }
            Action::Complete { kind: BarrierKind::Periodic, savepoint: Some(request), .. } => {
                self.savepoint = None;
                self.tell_saved(request);
            }
            Action::Complete { checkpoint, kind, .. } => self.complete(checkpoint, kind)?,
            Action::Subsume { checkpoint } => {
                self.meters.subsumed.inc();
                tracing::info!(checkpoint = checkpoint.0, "a newer checkpoint was complete before this one");
                self.drop_parts(checkpoint);
            }
            Action::GiveUp { checkpoint, kind, savepoint, reason } => {
                self.drop_parts(checkpoint);
                match savepoint {
                    Some(request) => self.savepoint_failed(request, reason.clone()),
                    None => {
                        self.meters.failed(self.cause);
                        self.waits = report(&self.started.waits, checkpoint);
                        tracing::warn!(
                            checkpoint = checkpoint.0,
                            "checkpoint failed: {reason}. {}",
                            self.waits
                        );
                    }
                }
                if self.drained == Some(checkpoint) {
                    return Err(Failure::restart(format!(
                        "checkpoint {checkpoint} failed after every operator had given out what it kept back, so the job goes \
                         back to the one before: {reason}"
                    )));
                }
                if kind.is_last() {
                    self.command(Command::Resume)?;
                }
            }
            Action::Refuse { checkpoint, task } => {
                self.meters.refused.inc();
                tracing::debug!(checkpoint = checkpoint.0, %task, "stale message refused");
            }
            Action::RefuseSavepoint { request, reason } => self.savepoint_failed(request, reason.to_owned()),
            Action::FailAttempt { reason } => {
                return Err(Failure::restart(format!("{reason}. {}", self.waits)));
            }
        }
        Ok(())
    }

    /// Never waits: a source that is held up by what follows it must not hold up the driver, which alone can end that.
    fn command(&self, command: Command) -> Result<(), Failure> {
        for (source, _) in &self.started.commands {
            // A source that has gone tells so by its own event.
            if let Err(TrySendError::Full(_)) = source.try_send(command) {
                return Err(Failure::restart(
                    "a source has been held up for so many checkpoints that it can be told of no more",
                ));
            }
        }
        Ok(())
    }

    /// Deletes what was acknowledged for a checkpoint that no manifest will list.
    fn drop_parts(&mut self, checkpoint: CheckpointId) {
        for snapshot in
            self.parts.remove(&checkpoint).into_iter().flat_map(|parts| parts.by_task.into_values())
        {
            self.delete_files(&snapshot);
        }
    }

    fn savepoint_failed(&mut self, request: SavepointRequest, reason: String) {
        self.savepoint = None;
        self.saved = None;
        self.setup.stop.desk().failed(request, reason);
    }

    fn tell_saved(&mut self, request: SavepointRequest) {
        let location =
            self.saved.take().expect("the publishing thread tells the place before the publication");
        tracing::info!(savepoint = request.0, location, "savepoint complete");
        self.setup.stop.desk().done(request, location);
    }

    /// Deletes the files of a manifest that nothing else refers to.
    fn delete_listed(&self, manifest: &Manifest) {
        self.delete(manifest.files());
    }

    /// A source that is held up by what follows it lets go of that when the barrier may overtake. Comes before the
    /// command, for the source that has taken it needs to hurry no more.
    fn hurry(&self, alignment: Alignment) {
        let aligned_for = match alignment {
            Alignment::Unaligned => Duration::ZERO,
            Alignment::AlignedFor(time) => time,
            _ => return,
        };
        let at = clock::now() + aligned_for;
        self.started.commands.iter().for_each(|(_, urgency)| urgency.set(at));
    }

    fn delete_files(&self, snapshot: &Snapshot) {
        self.delete(snapshot.iter().flat_map(|(_, s)| s.files()));
    }

    fn delete<'f>(&self, files: impl Iterator<Item = &'f FileRef>) {
        if let Some(cleaner) = &self.cleaner {
            cleaner.delete(files.map(|file| file.name.clone()).collect());
        }
    }

    /// The next manifest of the sequence, from what all tasks acknowledged.
    fn assemble_manifest(&self, checkpoint: CheckpointId, parts: Parts) -> Manifest {
        let mut next = self.setup.sequence.next(&self.manifest, Cause::Checkpoint, checkpoint);
        next.finished = parts.finishing;
        next.operators.clear();
        let mut by_uid: BTreeMap<OperatorUid, BTreeMap<u32, SubtaskSnapshot>> = BTreeMap::new();
        for (task, snapshot) in parts.by_task {
            for (uid, subtask) in snapshot {
                by_uid.entry(uid).or_default().insert(task.subtask.0, subtask);
            }
        }
        for at in 0..self.setup.graph.nodes.len() {
            let (id, node) = (NodeId(at), &self.setup.graph.nodes[at]);
            let uid = self.setup.graph.uid(id);
            let Some(subtasks) = by_uid.remove(&uid) else { continue };
            assert_eq!(
                subtasks.len(),
                self.setup.plan.parallelism(id) as usize,
                "checkpoint {checkpoint}: every subtask of {uid} has its part"
            );
            next.operators.push(OperatorSnapshot {
                uid,
                name: node.name.clone(),
                max_parallelism: node.key_groups.as_ref().map(KeyGroups::get),
                subtasks: subtasks.into_values().collect(),
            });
        }
        assert!(by_uid.is_empty(), "checkpoint {checkpoint}: every part belongs to an operator of the job");
        next
    }

    fn complete(&mut self, checkpoint: CheckpointId, kind: BarrierKind) -> Result<(), Failure> {
        let now = clock::now();
        let (took, publishing) = (now - self.triggered_at, now - self.published_at);
        let bytes = self.manifest.bytes();
        self.meters.completed(checkpoint.0, took, publishing, bytes);
        self.setup.options.progress.completed(checkpoint.0);
        tracing::info!(
            checkpoint = checkpoint.0,
            checkpoint_duration_ms = took.as_secs_f64() * 1000.0,
            state_bytes = bytes,
            records_in_flight = self.manifest.records_in_flight(),
            "checkpoint complete"
        );
        let mut missing = BTreeSet::new();
        for committing in self.started.committing.borrow().iter() {
            let listed = self.listed(&committing.uid, committing.subtask);
            missing.insert((committing.uid.clone(), committing.subtask));
            committing.complete(Completed { attempt: self.attempt, checkpoint, listed });
        }
        if !missing.is_empty() {
            self.uncommitted.insert(checkpoint, Uncommitted { since: now, missing });
        }
        for (uid, committer) in &mut self.offsets {
            committer.commit(splits_of(&self.manifest, uid));
        }
        self.held.push(Held::of(&self.manifest));
        let deletions = superseded(&mut self.held, self.setup.options.checkpoint.retained);
        if let Some(cleaner) = &self.cleaner {
            cleaner.superseded(deletions);
        }
        if kind.is_last() {
            self.ending = Ending::Committing;
            self.finish_if_committed()?;
        }
        Ok(())
    }

    fn listed(&self, uid: &OperatorUid, subtask: u32) -> Vec<u64> {
        let operator = self.manifest.operators.iter().find(|o| o.uid == *uid);
        let snapshot = operator.and_then(|o| o.subtasks.get(subtask as usize));
        snapshot.iter().flat_map(|s| &s.committables).map(|c| c.sequence).collect()
    }

    /// After the last checkpoint's commits: records that nothing is pending, then lets the tasks end.
    fn finish_if_committed(&mut self) -> Result<(), Failure> {
        if !matches!(self.ending, Ending::Committing) || !self.uncommitted.is_empty() {
            return Ok(());
        }
        if self.manifest.has_committables() {
            crate::fault_point!("stop.before_last_manifest");
            let checkpoint = self.manifest.checkpoint;
            let next = self
                .setup
                .sequence
                .next(&self.manifest, Cause::Resolution, checkpoint)
                .without_committables();
            self.setup.sequence.must_publish(&next)?;
            self.manifest = next;
            crate::fault_point!("stop.after_last_manifest");
        }
        if let Some(order) = self.savepoint.take() {
            self.tell_saved(order.request);
        }
        self.ending = Ending::Draining;
        self.command(Command::Finish)
    }

    /// Ends the driver's own threads. Dropping the receiver first lets nobody wait for it.
    pub(super) fn close(self, orderly: bool) {
        drop(self.events);
        self.started.committing.borrow_mut().clear();
        if let Some((to, thread)) = self.publisher {
            drop(to);
            let _ = thread.join();
        }
        let deadline = clock::now() + if orderly { OFFSETS_PATIENCE } else { Duration::ZERO };
        for (_, committer) in self.offsets {
            committer.close(deadline);
        }
        if let Some(cleaner) = self.cleaner {
            cleaner.close();
        }
    }
}

/// A prepared transaction that a restart could not save any more must not be covered by a checkpoint.
/// Returns the milliseconds that the oldest has left, if there is any.
fn check_deadlines(manifest: &Manifest, budget: Duration) -> Result<Option<i64>, Failure> {
    let mut least = None;
    let subtasks = manifest.operators.iter().flat_map(|o| o.subtasks.iter().map(move |s| (&o.uid, s)));
    for (uid, committable) in subtasks.flat_map(|(uid, s)| s.committables.iter().map(move |c| (uid, c))) {
        let left = committable.deadline_ms - clock::unix_millis();
        if left < budget.as_millis() as i64 {
            return Err(Failure::restart(format!(
                "checkpoint {} is not published: a transaction of sink {uid} has {left} ms left to its timeout, less than \
                 the restart budget of {budget:?}",
                manifest.checkpoint
            )));
        }
        least = Some(least.map_or(left, |l: i64| l.min(left)));
    }
    Ok(least)
}

/// Manifests are published one after the other on a thread of their own. One of a savepoint is written there before; a stop
/// with a savepoint is complete only with both.
fn start_publisher(setup: &Setup, events: Events) -> Result<(SyncSender<Order>, JoinHandle<()>), Failure> {
    let (sequence, storage) = (setup.sequence.clone(), setup.options.storage.clone());
    let (to, from) = sync_channel::<Order>(1);
    let told = events.clone();
    let publish = move |order: &Order| {
        let mut saved = None;
        if let Some(target) = &order.savepoint {
            match savepoint::write(&**sequence.store(), &order.manifest, target, &storage) {
                Ok(location) => {
                    saved = Some(location.clone());
                    told.send(What::Saved { location });
                }
                Err(checkpoint::Error::Storage(e)) => return Publication::Refused(e),
                Err(e) => unreachable!("a savepoint fails only by its storage: {e}"),
            }
        }
        let publication =
            if order.in_sequence { sequence.publish(&order.manifest) } else { Publication::Mine };
        if let (Publication::Refused(_), Some(location)) = (&publication, saved) {
            // The job runs on, and whoever asked is told that there is none.
            if let Err(e) = savepoint::open(&location, &storage).and_then(|s| s.dispose()) {
                tracing::warn!(location, error = %e, "a savepoint that nobody is told of stays behind");
            }
        }
        publication
    };
    let body = move || {
        for order in from {
            let checkpoint = order.manifest.checkpoint;
            match catch_unwind(AssertUnwindSafe(|| publish(&order))) {
                Ok(publication) => events.send(What::Published { checkpoint, publication }),
                Err(panic) => {
                    let text = format!(
                        "publishing checkpoint {checkpoint} panicked: {}",
                        thread::panic_text(&*panic)
                    );
                    events.send(What::PublisherFailed(Failure::restart(text)));
                }
            }
        }
    };
    let thread = thread::spawn("publisher", body)
        .map_err(|e| Failure::restart(format!("no thread for publications: {e}")))?;
    Ok((to, thread))
}
