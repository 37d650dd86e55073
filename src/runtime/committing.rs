//! A thread for each sink subtask that commits what completed checkpoints list, since commits block.

use super::events::{Events, What};
use crate::connector::{Completed, SinkCommitter};
use crate::host::thread;
use crate::model::{Advice, CheckpointId, Failure, OperatorUid};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// What a committer is to do next: only the newest completion matters, since it lists everything that is not yet
/// committed.
#[derive(Default)]
struct Mailbox {
    newest: Option<Completed>,
    closed: bool,
}

#[derive(Default)]
struct Letters {
    mailbox: Mutex<Mailbox>,
    arrived: Condvar,
}

impl Letters {
    fn lock(&self) -> MutexGuard<'_, Mailbox> {
        self.mailbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The newest completion; `None` when there will be none any more.
    fn wait(&self) -> Option<Completed> {
        let mut mailbox = self.lock();
        loop {
            if let Some(completed) = mailbox.newest.take() {
                return Some(completed);
            }
            if mailbox.closed {
                return None;
            }
            mailbox = self.arrived.wait(mailbox).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// The committing thread of one sink subtask.
pub(super) struct Committing {
    pub(super) uid: OperatorUid,
    pub(super) subtask: u32,
    letters: Arc<Letters>,
}

impl Committing {
    /// Starts the thread; it ends when this handle is dropped.
    pub(super) fn start(
        uid: OperatorUid,
        subtask: u32,
        committer: Box<dyn SinkCommitter>,
        events: Events,
    ) -> Result<(Self, JoinHandle<()>), Failure> {
        let letters = Arc::new(Letters::default());
        let (of, from) = (uid.clone(), Arc::clone(&letters));
        let handle =
            thread::spawn(format!("commit-{subtask}"), move || run(committer, &from, &of, subtask, &events))
                .map_err(|e| Failure::restart(format!("no thread for commits: {e}")))?;
        Ok((Self { uid, subtask, letters }, handle))
    }

    /// Tells the committer what is complete; never waits.
    pub(super) fn complete(&self, completed: Completed) {
        self.letters.lock().newest = Some(completed);
        self.letters.arrived.notify_one();
    }
}

impl Drop for Committing {
    fn drop(&mut self) {
        self.letters.lock().closed = true;
        self.letters.arrived.notify_one();
    }
}

fn guarded(act: impl FnOnce() -> Result<(), Failure>) -> Result<(), Failure> {
    catch_unwind(AssertUnwindSafe(act)).unwrap_or_else(|panic| {
        Err(Failure::new(Advice::Restart, format!("a commit panicked: {}", thread::panic_text(&*panic))))
    })
}

fn run(
    mut committer: Box<dyn SinkCommitter>,
    letters: &Letters,
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
    while let Some(completed) = letters.wait() {
        let checkpoint = completed.checkpoint;
        tell(checkpoint, guarded(|| committer.commit(&completed)));
    }
}
