//! The two loops that threads run: a source with its chain, and a task that is fed by others.

use super::events::{Command, Events, Snapshot, SnapshotProblem, What};
use super::snapshot::Snapshots;
use crate::connector::Polled;
use crate::graph::{InputTask, Step};
use crate::host::thread;
use crate::model::{Advice, Barrier, BarrierKind, Failure, TaskId};
use crate::operator::{Frozen, Signal, SourceTask};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError};
use std::time::Duration;

/// How long an idle task sleeps before it looks for commands, and lets its sink serve the broker's answers.
const IDLE: Duration = Duration::from_millis(10);

/// What every task needs.
pub(super) struct Surroundings {
    pub(super) task: TaskId,
    pub(super) events: Events,
    pub(super) snapshots: Snapshots,
    pub(super) cancelled: Arc<AtomicBool>,
}

impl Surroundings {
    fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }

    /// Runs a loop to its end and tells the driver how it ended; a panic is a failure like any other.
    pub(super) fn run(self, body: impl FnOnce(&Self) -> Result<(), Failure>) {
        let result = catch_unwind(AssertUnwindSafe(|| body(&self))).unwrap_or_else(|panic| {
            let text = format!("task {} panicked: {}", self.task, thread::panic_text(&*panic));
            Err(Failure::new(Advice::Restart, text))
        });
        self.events.send(What::TaskEnded { task: self.task, result });
    }

    fn submit(&self, barrier: Barrier, frozen: Frozen) {
        if let Err(reason) = self.snapshots.submit(self.task, barrier.checkpoint, frozen) {
            let result = Err::<Snapshot, _>(SnapshotProblem::Declined(reason));
            self.events.send(What::Snapshot { checkpoint: barrier.checkpoint, task: self.task, result });
        }
    }
}

/// A source subtask: polls, and serves commands between two polls.
pub(super) fn run_source(
    here: &Surroundings,
    mut source: Box<dyn SourceTask>,
    commands: &Receiver<Command>,
) -> Result<(), Failure> {
    source.open()?;
    let mut paused = false;
    let mut at_end = false;
    while !here.is_cancelled() {
        let command = if paused || at_end {
            match commands.recv_timeout(IDLE) {
                Ok(command) => Some(command),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            }
        } else {
            match commands.try_recv() {
                Ok(command) => Some(command),
                Err(TryRecvError::Empty) => None,
                Err(TryRecvError::Disconnected) => return Ok(()),
            }
        };
        match command {
            Some(Command::Barrier(barrier)) => {
                let mut frozen = Frozen::new();
                source.freeze(barrier, &mut frozen)?;
                source.forward(Signal::Barrier(barrier))?;
                here.submit(barrier, frozen);
                paused = barrier.kind == BarrierKind::Last;
            }
            Some(Command::Resume) => paused = false,
            Some(Command::Finish) => {
                source.forward(Signal::End)?;
                return source.close();
            }
            None if paused => {}
            None => {
                // At its end a source stays for barriers, and its chain for the broker's answers.
                if source.poll(IDLE)? == Polled::AtEnd && !at_end {
                    at_end = true;
                    here.events.send(What::AtEnd { task: here.task });
                }
            }
        }
    }
    Ok(())
}

/// A task that is fed by others.
pub(super) fn run_input(here: &Surroundings, mut task: Box<dyn InputTask>) -> Result<(), Failure> {
    task.open()?;
    while !here.is_cancelled() {
        match task.step(IDLE)? {
            Step::Goes => {}
            Step::Aligned(barrier) => {
                let mut frozen = Frozen::new();
                task.freeze(barrier, &mut frozen)?;
                task.forward(Signal::Barrier(barrier))?;
                here.submit(barrier, frozen);
            }
            Step::Ended => {
                task.forward(Signal::End)?;
                return task.close();
            }
        }
    }
    Ok(())
}
