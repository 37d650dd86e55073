//! A thread for each sink subtask that commits what completed checkpoints list, since commits block.

use super::events::{Events, What};
use crate::connector::{Completed, SinkCommitter};
use crate::host::thread;
use crate::model::{Advice, CheckpointId, Failure, OperatorUid};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

/// Completions that may wait for one committer.
const WAITING: usize = 16;

/// The committing thread of one sink subtask.
pub(super) struct Committing {
    pub(super) uid: OperatorUid,
    pub(super) subtask: u32,
    to: SyncSender<Completed>,
}

impl Committing {
    /// Starts the thread; it ends when this handle is dropped.
    pub(super) fn start(
        uid: OperatorUid,
        subtask: u32,
        committer: Box<dyn SinkCommitter>,
        events: Events,
    ) -> Result<(Self, JoinHandle<()>), Failure> {
        let (to, from) = sync_channel(WAITING);
        let of = uid.clone();
        let handle =
            thread::spawn(format!("commit-{subtask}"), move || run(committer, &from, &of, subtask, &events))
                .map_err(|e| Failure::restart(format!("no thread for commits: {e}")))?;
        Ok((Self { uid, subtask, to }, handle))
    }

    /// Tells the committer what is complete.
    ///
    /// # Errors
    /// When it is too far behind, or gone.
    pub(super) fn complete(&self, completed: Completed) -> Result<(), Failure> {
        self.to.try_send(completed).map_err(|_| {
            Failure::restart(format!(
                "sink {} subtask {}: {WAITING} commits are waiting",
                self.uid, self.subtask
            ))
        })
    }
}

fn guarded(act: impl FnOnce() -> Result<(), Failure>) -> Result<(), Failure> {
    catch_unwind(AssertUnwindSafe(act)).unwrap_or_else(|panic| {
        Err(Failure::new(Advice::Restart, format!("a commit panicked: {}", thread::panic_text(&*panic))))
    })
}

fn run(
    mut committer: Box<dyn SinkCommitter>,
    completions: &Receiver<Completed>,
    uid: &OperatorUid,
    subtask: u32,
    events: &Events,
) {
    let tell = |checkpoint, result| {
        events.send(What::Committed { checkpoint, uid: uid.clone(), subtask, result });
    };
    if let Err(failure) = guarded(|| committer.warm_up()) {
        tell(CheckpointId(0), Err(failure));
    }
    while let Ok(completed) = completions.recv() {
        let checkpoint = completed.checkpoint;
        tell(checkpoint, guarded(|| committer.commit(&completed)));
    }
}
