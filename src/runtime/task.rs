//! The two loops that threads run: a source with its chain, and a task that is fed by others.

use super::assembly::Inbox;
use super::events::{Command, Events, Snapshot, SnapshotProblem, What};
use super::snapshot::Snapshots;
use crate::connector::Polled;
use crate::graph::{InputTask, Step, Urgency};
use crate::host::thread;
use crate::model::{Advice, Alignment, Barrier, BarrierKind, CheckpointId, Failure, TaskId};
use crate::operator::{Frozen, Signal, SourceTask};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, TryRecvError};
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
            self.decline(barrier.checkpoint, reason);
        }
    }

    fn decline(&self, checkpoint: CheckpointId, reason: String) {
        let result = Err::<Snapshot, _>(SnapshotProblem::Declined(reason));
        self.events.send(What::Snapshot { checkpoint, task: self.task, result });
    }
}

/// A source subtask: polls, and serves commands between two polls.
pub(super) fn run_source(
    here: &Surroundings,
    mut source: Box<dyn SourceTask>,
    inbox: &Inbox,
) -> Result<(), Failure> {
    source.open()?;
    let Inbox { commands, urgency, backlog } = inbox;
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
                let set = urgency.set_now();
                // What is still being replayed is before an aligned barrier; one that may overtake leaves it in flight.
                while !backlog.is_empty() && !may_overtake(barrier, urgency) && !here.is_cancelled() {
                    source.idle()?;
                }
                if barrier.kind == BarrierKind::Drain {
                    source.drain()?;
                }
                let mut frozen = Frozen::new();
                source.freeze(barrier, &mut frozen)?;
                let alignment = match barrier.alignment {
                    Alignment::AlignedFor(_) => Alignment::AlignedFor(urgency.remaining()),
                    other => other,
                };
                source.forward(Signal::Barrier(Barrier { alignment, ..barrier }))?;
                urgency.clear_if(set);
                here.submit(barrier, frozen);
                paused = barrier.kind.is_last();
            }
            Some(Command::Resume) => paused = false,
            Some(Command::Finish) => {
                source.forward(Signal::End)?;
                return source.close();
            }
            None if paused => {}
            None if !backlog.is_empty() => source.idle()?,
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

fn may_overtake(barrier: Barrier, urgency: &Urgency) -> bool {
    match barrier.alignment {
        Alignment::Unaligned => true,
        Alignment::AlignedFor(_) => urgency.remaining().is_zero(),
        _ => false,
    }
}

/// A task that is fed by others.
pub(super) fn run_input(here: &Surroundings, mut task: Box<dyn InputTask>) -> Result<(), Failure> {
    task.open()?;
    // Frozen for a barrier that has overtaken, until what it overtook is captured.
    let mut overtaken: Option<(Barrier, Frozen)> = None;
    while !here.is_cancelled() {
        match task.step(IDLE)? {
            Step::Goes => {}
            Step::Aligned(barrier) => {
                if barrier.kind == BarrierKind::Drain {
                    task.drain()?;
                }
                let mut frozen = Frozen::new();
                task.freeze(barrier, &mut frozen)?;
                task.forward(Signal::Barrier(barrier))?;
                here.submit(barrier, frozen);
            }
            Step::Overtaken(barrier) => {
                let mut frozen = Frozen::new();
                task.freeze(barrier, &mut frozen)?;
                task.forward(Signal::Barrier(barrier))?;
                overtaken = Some((barrier, frozen));
            }
            Step::Captured(checkpoint) => {
                let (barrier, mut frozen) =
                    overtaken.take().expect("a capture is complete after its barrier has overtaken");
                assert_eq!(
                    barrier.checkpoint, checkpoint,
                    "the capture is of the barrier that has overtaken last"
                );
                task.captured(&mut frozen);
                here.submit(barrier, frozen);
            }
            Step::PassedOver(checkpoint, reason) => {
                tracing::warn!(checkpoint = checkpoint.0, task = %here.task, "checkpoint passed over: {reason}");
                overtaken = overtaken.filter(|(barrier, _)| barrier.checkpoint != checkpoint);
                here.decline(checkpoint, reason.to_owned());
            }
            Step::Ended => {
                task.forward(Signal::End)?;
                return task.close();
            }
        }
    }
    Ok(())
}
