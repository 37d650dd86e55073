//! What the threads of an attempt tell the one that drives it, and what it tells the sources.

use crate::checkpoint::{Publication, SubtaskSnapshot};
use crate::model::{Attempt, Barrier, CheckpointId, Failure, OperatorUid, TaskId};
use std::sync::mpsc::SyncSender;

/// Events that may wait for the driver; a thread that finds no room waits.
pub(super) const CAPACITY: usize = 1024;

/// Something that the driver must know. All carry their attempt; the driver refuses those of another.
pub(super) struct Event {
    pub(super) attempt: Attempt,
    pub(super) what: What,
}

pub(super) enum What {
    /// The task's thread is done: at an orderly end, or not.
    TaskEnded { task: TaskId, result: Result<(), Failure> },
    /// A source subtask has nothing more to read, ever.
    AtEnd { task: TaskId },
    /// The task's part of a checkpoint is durable, or cannot be made so.
    Snapshot { checkpoint: CheckpointId, task: TaskId, result: Result<Snapshot, SnapshotProblem> },
    /// A savepoint is written; whether it counts says the publication that follows.
    Saved { location: String },
    /// How the publication of a manifest ended.
    Published { checkpoint: CheckpointId, publication: Publication },
    /// The publishing thread panicked.
    PublisherFailed(Failure),
    /// A sink subtask has committed what the checkpoint lists, or does not know.
    Committed { checkpoint: CheckpointId, uid: OperatorUid, subtask: u32, result: Result<(), Failure> },
}

/// What the operators of one task put into a checkpoint.
pub(super) type Snapshot = Vec<(OperatorUid, SubtaskSnapshot)>;

/// Why a task has no snapshot.
#[derive(Debug)]
pub(super) enum SnapshotProblem {
    /// The task is well; only its state could not be stored.
    Declined(String),
    /// An effect is lost: only going back helps.
    Failed(Failure),
}

/// Sends events of one attempt.
#[derive(Clone)]
pub(super) struct Events {
    pub(super) attempt: Attempt,
    pub(super) to: SyncSender<Event>,
}

impl Events {
    /// Tells the driver; nobody listens any more once the attempt is over, and then nobody needs to know.
    pub(super) fn send(&self, what: What) {
        let _ = self.to.send(Event { attempt: self.attempt, what });
    }
}

/// What a source subtask is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Command {
    /// Freeze, and send the barrier.
    Barrier(Barrier),
    /// The last checkpoint has failed: read on.
    Resume,
    /// The last checkpoint is committed: end.
    Finish,
}
