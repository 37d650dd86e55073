//! The protocol as a pure step function: events in, actions out, no clock, no I/O.
//!
//! Problem: acknowledgements, declines, time-outs, failures and publications arrive in any order, also from
//! checkpoints and attempts that are over. The naive coordinator (a counter of acknowledgements) completes a
//! checkpoint twice, or one that was given up, or commits before it knows that the manifest is there.
//!
//! Each pending checkpoint is one [`Phase`], and every variant says what it waits for:
//!
//! ```text
//!            trigger               all acknowledged            manifest published
//!   (none) ----------> Waiting ------------------> Publishing -------------------> complete
//!                         | declined, timed out        | refused by the store
//!                         v                            v
//!                      failed: tolerated so many times in a row, then the attempt fails
//! ```
//!
//! While a publication is under way nothing newer is published and none of its files is deleted. After a *last*
//! checkpoint nothing is triggered any more.

use crate::model::{Attempt, BarrierKind, CheckpointId, TaskId};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use super::Settings;

/// What happened.
#[derive(Debug, Clone)]
pub enum Event {
    /// Time has passed.
    Tick,
    /// A task's state for the checkpoint is durable.
    Acknowledged {
        /// Of which attempt.
        attempt: Attempt,
        /// Which checkpoint.
        checkpoint: CheckpointId,
        /// By whom.
        task: TaskId,
    },
    /// A task could not make its state durable, though the task itself is well.
    Declined {
        /// Of which attempt.
        attempt: Attempt,
        /// Which checkpoint.
        checkpoint: CheckpointId,
        /// By whom.
        task: TaskId,
        /// Why.
        reason: String,
    },
    /// The manifest is in the sequence.
    Published {
        /// Which checkpoint.
        checkpoint: CheckpointId,
    },
    /// The store refused the manifest; it is certain that nothing was written.
    NotPublished {
        /// Which checkpoint.
        checkpoint: CheckpointId,
        /// Why.
        reason: String,
    },
    /// The job shall end with a checkpoint: it was told to, or every source is at its end.
    EndRequested,
}

/// What to do about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Tell the sources to send the barrier.
    Trigger {
        /// Which checkpoint.
        checkpoint: CheckpointId,
        /// What follows the barrier.
        kind: BarrierKind,
    },
    /// Publish the manifest.
    Publish {
        /// Which checkpoint.
        checkpoint: CheckpointId,
    },
    /// Tell everybody that the checkpoint is complete.
    Complete {
        /// Which checkpoint.
        checkpoint: CheckpointId,
        /// Whether it was the last.
        kind: BarrierKind,
    },
    /// The checkpoint has failed; its files may be deleted.
    GiveUp {
        /// Which checkpoint.
        checkpoint: CheckpointId,
        /// What followed its barrier.
        kind: BarrierKind,
        /// Why.
        reason: String,
    },
    /// A message of another attempt or of a checkpoint that is over: count it, delete its files.
    Refuse {
        /// Which checkpoint.
        checkpoint: CheckpointId,
        /// Who sent it.
        task: TaskId,
    },
    /// Too many checkpoints failed in a row: go back to the last complete one.
    FailAttempt {
        /// Why.
        reason: String,
    },
}

/// What the pending checkpoint waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Phase {
    /// Acknowledgements of these tasks, until the deadline.
    Waiting { missing: BTreeSet<TaskId>, deadline: Instant },
    /// The store's word on the manifest.
    Publishing,
}

#[derive(Debug, Clone)]
struct Pending {
    checkpoint: CheckpointId,
    kind: BarrierKind,
    phase: Phase,
}

/// The coordinator of one attempt.
#[derive(Debug, Clone)]
pub struct Protocol {
    settings: Settings,
    attempt: Attempt,
    tasks: BTreeSet<TaskId>,
    next_id: CheckpointId,
    /// Ids from here on are not reserved.
    reserved: CheckpointId,
    next_trigger: Instant,
    pending: Option<Pending>,
    failures_in_a_row: u32,
    end_requested: bool,
    ended: bool,
}

impl Protocol {
    /// For an attempt whose checkpoints begin at `first_id`; the first is triggered one interval after `now`.
    pub fn new(
        settings: Settings,
        attempt: Attempt,
        tasks: BTreeSet<TaskId>,
        first_id: CheckpointId,
        reserved: CheckpointId,
        now: Instant,
    ) -> Self {
        assert!(!tasks.is_empty(), "a job without tasks has no checkpoints");
        let next_trigger = now + settings.interval;
        Self {
            settings,
            attempt,
            tasks,
            next_id: first_id,
            reserved,
            next_trigger,
            pending: None,
            failures_in_a_row: 0,
            end_requested: false,
            ended: false,
        }
    }

    /// The next id that would be given.
    pub fn next_id(&self) -> CheckpointId {
        self.next_id
    }

    /// When the next [`Event::Tick`] can change anything, seen from `now`.
    pub fn next_wake(&self, now: Instant) -> Duration {
        let at = match &self.pending {
            Some(Pending { phase: Phase::Waiting { deadline, .. }, .. }) => *deadline,
            Some(_) => now + self.settings.timeout,
            None if self.ended => now + self.settings.timeout,
            None => self.next_trigger,
        };
        at.saturating_duration_since(now)
    }

    /// The tasks that the pending checkpoint waits for.
    pub fn missing(&self) -> Vec<TaskId> {
        match &self.pending {
            Some(Pending { phase: Phase::Waiting { missing, .. }, .. }) => missing.iter().copied().collect(),
            _ => Vec::new(),
        }
    }

    /// Takes an event at a moment, returns what is to be done, in this order.
    pub fn step(&mut self, event: Event, now: Instant) -> Vec<Action> {
        let mut actions = Vec::new();
        match event {
            Event::Tick => {}
            Event::EndRequested => {
                self.end_requested = true;
                self.next_trigger = now;
            }
            Event::Acknowledged { attempt, checkpoint, task } => {
                if !self.concerns(attempt, checkpoint, task) {
                    actions.push(Action::Refuse { checkpoint, task });
                } else if let Some(Pending { phase, .. }) = &mut self.pending
                    && let Phase::Waiting { missing, .. } = phase
                {
                    missing.remove(&task);
                    if missing.is_empty() {
                        *phase = Phase::Publishing;
                        actions.push(Action::Publish { checkpoint });
                    }
                }
            }
            Event::Declined { attempt, checkpoint, task, reason } => {
                if self.concerns(attempt, checkpoint, task) {
                    self.fail(format!("task {task}: {reason}"), now, &mut actions);
                } else {
                    actions.push(Action::Refuse { checkpoint, task });
                }
            }
            Event::Published { checkpoint } => {
                let pending = self.take_publishing(checkpoint);
                self.failures_in_a_row = 0;
                self.reserved = CheckpointId(self.reserved.0.max(checkpoint.0 + 1 + 100));
                self.next_trigger = self.next_trigger.max(now + self.settings.minimum_pause);
                if pending.kind == BarrierKind::Last {
                    self.ended = true;
                }
                actions.push(Action::Complete { checkpoint, kind: pending.kind });
            }
            Event::NotPublished { checkpoint, reason } => {
                let pending = self.take_publishing(checkpoint);
                self.pending = Some(pending);
                self.fail(reason, now, &mut actions);
            }
        }
        self.expire(now, &mut actions);
        self.trigger(now, &mut actions);
        actions
    }

    fn concerns(&self, attempt: Attempt, checkpoint: CheckpointId, task: TaskId) -> bool {
        attempt == self.attempt
            && matches!(&self.pending, Some(Pending { checkpoint: c, phase: Phase::Waiting { missing, .. }, .. })
                if *c == checkpoint && missing.contains(&task))
    }

    /// # Panics
    /// If that checkpoint is not being published: only the driver sends these events, once for each `Publish`.
    fn take_publishing(&mut self, checkpoint: CheckpointId) -> Pending {
        match self.pending.take() {
            Some(p) if p.checkpoint == checkpoint && p.phase == Phase::Publishing => p,
            other => panic!("checkpoint {checkpoint} was published, but pending is {other:?}"),
        }
    }

    fn fail(&mut self, reason: String, now: Instant, actions: &mut Vec<Action>) {
        let Some(pending) = self.pending.take() else { return };
        self.failures_in_a_row += 1;
        self.next_trigger = self.next_trigger.max(now + self.settings.minimum_pause);
        let (checkpoint, kind) = (pending.checkpoint, pending.kind);
        actions.push(Action::GiveUp { checkpoint, kind, reason: reason.clone() });
        if self.failures_in_a_row > self.settings.tolerable_failures {
            self.ended = true;
            let reason = format!(
                "{} checkpoints in a row have failed and {} are tolerated; the last was {checkpoint}: {reason}",
                self.failures_in_a_row, self.settings.tolerable_failures
            );
            actions.push(Action::FailAttempt { reason });
        }
    }

    fn expire(&mut self, now: Instant, actions: &mut Vec<Action>) {
        if let Some(Pending { phase: Phase::Waiting { missing, deadline }, .. }) = &self.pending
            && now >= *deadline
        {
            let waits: Vec<String> = missing.iter().map(ToString::to_string).collect();
            let reason =
                format!("not acknowledged within {:?} by task {}", self.settings.timeout, waits.join(", "));
            self.fail(reason, now, actions);
        }
    }

    fn trigger(&mut self, now: Instant, actions: &mut Vec<Action>) {
        if self.ended || self.pending.is_some() || now < self.next_trigger {
            return;
        }
        let checkpoint = self.next_id;
        if checkpoint >= self.reserved {
            self.ended = true;
            let reason = format!("checkpoint ids up to {checkpoint} are used up without a publication");
            actions.push(Action::FailAttempt { reason });
            return;
        }
        self.next_id = checkpoint.next();
        // Counted from the trigger itself: a late one is not followed by a burst.
        self.next_trigger = now + self.settings.interval;
        let kind = if self.end_requested { BarrierKind::Last } else { BarrierKind::Periodic };
        let phase = Phase::Waiting { missing: self.tasks.clone(), deadline: now + self.settings.timeout };
        self.pending = Some(Pending { checkpoint, kind, phase });
        actions.push(Action::Trigger { checkpoint, kind });
    }
}

#[cfg(test)]
#[path = "protocol_tests.rs"]
mod tests;
