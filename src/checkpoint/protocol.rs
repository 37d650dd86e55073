//! The protocol as a pure step function: events in, actions out, no clock, no I/O.
//!
//! Problem: acknowledgements, declines, time-outs, failures and publications arrive in any order, also from
//! checkpoints and attempts that are over. The naive coordinator (a counter of acknowledgements) completes a
//! checkpoint twice, or one that was given up, or commits before it knows that the manifest is there.
//!
//! Each pending checkpoint is one [`Phase`], and every variant says what it waits for:
//!
//! ```text
//!            trigger               all acknowledged          its turn             manifest published
//!   (none) ----------> Waiting ------------------> Ready -------------> Publishing -----------------> complete
//!                         | declined, timed out      | a newer one          | refused by the store
//!                         |                          | is complete          |
//!                         v                          v                      v
//!                      failed: tolerated          subsumed            failed: as on the left
//!                      so many times in a row,
//!                      then the attempt fails
//! ```
//!
//! Several may be pending. One publication is under way at a time, of the newest that is ready, so that what is
//! published only grows; while it is under way none of its files is deleted. A complete checkpoint subsumes all older
//! ones: what they prepared is listed by the newer one too, since nobody has committed it.
//!
//! A *savepoint* goes the same way with a place of its own: it neither subsumes nor is subsumed, permits no commit
//! unless it is also the last checkpoint, and its failure counts for nothing. After a *last* checkpoint nothing is
//! triggered any more.

use crate::model::{Attempt, BarrierKind, CheckpointId, TaskId};
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use super::Settings;
use super::sequence::RESERVE;

/// Which savepoint that somebody has asked for, by the number that he polls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SavepointRequest(pub u64);

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
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
    /// The manifest is in the sequence, or in its savepoint.
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
    /// A checkpoint is wanted now, whatever the interval.
    Hurry,
    /// The job shall end with a checkpoint: it was told to, or every source is at its end.
    EndRequested,
    /// A savepoint shall be taken; one of a last kind is the job's last checkpoint too, unless it fails.
    SavepointRequested {
        /// Which.
        request: SavepointRequest,
        /// What shall follow it.
        kind: BarrierKind,
    },
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
        /// The savepoint that it is for.
        savepoint: Option<SavepointRequest>,
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
        /// The savepoint that it is for; unless it is the last checkpoint too, nothing may be committed for it.
        savepoint: Option<SavepointRequest>,
    },
    /// A newer checkpoint is complete: this one is not needed any more, its files may be deleted.
    Subsume {
        /// Which checkpoint.
        checkpoint: CheckpointId,
    },
    /// The checkpoint has failed; its files may be deleted.
    GiveUp {
        /// Which checkpoint.
        checkpoint: CheckpointId,
        /// What followed its barrier.
        kind: BarrierKind,
        /// The savepoint that it was for.
        savepoint: Option<SavepointRequest>,
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
    /// The savepoint is not taken.
    RefuseSavepoint {
        /// Which.
        request: SavepointRequest,
        /// Why.
        reason: &'static str,
    },
    /// Too many checkpoints failed in a row: go back to the last complete one.
    FailAttempt {
        /// Why.
        reason: String,
    },
}

/// What a pending checkpoint waits for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Phase {
    /// Acknowledgements of these tasks, until the deadline.
    Waiting { missing: BTreeSet<TaskId>, deadline: Instant },
    /// Another publication to end.
    Ready,
    /// The store's word on the manifest.
    Publishing,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Pending {
    kind: BarrierKind,
    savepoint: Option<SavepointRequest>,
    phase: Phase,
}

/// The coordinator of one attempt.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Protocol {
    settings: Settings,
    attempt: Attempt,
    tasks: BTreeSet<TaskId>,
    next_id: CheckpointId,
    /// Ids from here on are not reserved.
    reserved: CheckpointId,
    next_trigger: Instant,
    pending: BTreeMap<CheckpointId, Pending>,
    failures_in_a_row: u32,
    end_requested: bool,
    /// A savepoint that is not yet triggered, and what shall follow it.
    savepoint_requested: Option<(SavepointRequest, BarrierKind)>,
    /// Whether a savepoint was triggered since the last checkpoint was complete. The next one waits for a checkpoint, since
    /// each leaves a transaction that only a checkpoint commits.
    savepoint_taken: bool,
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
            pending: BTreeMap::new(),
            failures_in_a_row: 0,
            end_requested: false,
            savepoint_requested: None,
            savepoint_taken: false,
            ended: false,
        }
    }

    /// When the next [`Event::Tick`] can change anything, seen from `now`.
    pub fn next_wake(&self, now: Instant) -> Duration {
        let deadlines = self.pending.values().filter_map(|p| match p.phase {
            Phase::Waiting { deadline, .. } => Some(deadline),
            Phase::Ready | Phase::Publishing => None,
        });
        let trigger = self.has_room().then_some(self.next_trigger);
        let at = deadlines.chain(trigger).min().unwrap_or(now + self.settings.timeout);
        at.saturating_duration_since(now)
    }

    /// Whether the checkpoint is pending and waits for this task.
    pub fn waits_for(&self, checkpoint: CheckpointId, task: TaskId) -> bool {
        matches!(self.pending.get(&checkpoint), Some(Pending { phase: Phase::Waiting { missing, .. }, .. })
            if missing.contains(&task))
    }

    /// Takes an event at a moment, returns what is to be done, in this order.
    pub fn step(&mut self, event: Event, now: Instant) -> Vec<Action> {
        let mut actions = Vec::new();
        match event {
            Event::Tick => {}
            Event::Hurry => self.next_trigger = now,
            Event::EndRequested => {
                self.end_requested = true;
                self.next_trigger = now;
            }
            Event::SavepointRequested { request, kind } => {
                let busy = self.savepoint_requested.is_some()
                    || self.pending.values().any(|p| p.savepoint.is_some());
                let ending = self.ended || self.pending.values().any(|p| p.kind.is_last());
                match (busy, ending) {
                    (true, _) => {
                        let reason = "another savepoint is being taken; ask again when it is done";
                        actions.push(Action::RefuseSavepoint { request, reason });
                    }
                    (_, true) => {
                        let reason = "the job is ending";
                        actions.push(Action::RefuseSavepoint { request, reason });
                    }
                    _ => self.savepoint_requested = Some((request, kind)),
                }
            }
            Event::Acknowledged { attempt, checkpoint, task } => {
                self.acknowledged(attempt, checkpoint, task, &mut actions);
            }
            Event::Declined { attempt, checkpoint, task, reason } => {
                if attempt == self.attempt && self.waits_for(checkpoint, task) {
                    self.fail(checkpoint, format!("task {task}: {reason}"), now, &mut actions);
                } else {
                    actions.push(Action::Refuse { checkpoint, task });
                }
            }
            Event::Published { checkpoint } => self.published(checkpoint, now, &mut actions),
            Event::NotPublished { checkpoint, reason } => {
                self.must_be_publishing(checkpoint);
                self.fail(checkpoint, reason, now, &mut actions);
            }
        }
        self.expire(now, &mut actions);
        self.publish_next(&mut actions);
        self.trigger(now, &mut actions);
        actions
    }

    fn acknowledged(
        &mut self,
        attempt: Attempt,
        checkpoint: CheckpointId,
        task: TaskId,
        actions: &mut Vec<Action>,
    ) {
        if attempt == self.attempt
            && let Some(Pending { phase, .. }) = self.pending.get_mut(&checkpoint)
            && let Phase::Waiting { missing, .. } = phase
            && missing.remove(&task)
        {
            if missing.is_empty() {
                *phase = Phase::Ready;
            }
        } else {
            actions.push(Action::Refuse { checkpoint, task });
        }
    }

    fn published(&mut self, checkpoint: CheckpointId, now: Instant, actions: &mut Vec<Action>) {
        self.must_be_publishing(checkpoint);
        let pending = self.pending.remove(&checkpoint).expect("what is being published is pending");
        let Pending { kind, savepoint, .. } = pending;
        let is_checkpoint = savepoint.is_none() || kind.is_last();
        if is_checkpoint {
            self.failures_in_a_row = 0;
            self.savepoint_taken = false;
            self.reserved = CheckpointId(self.reserved.0.max(checkpoint.0 + 1 + RESERVE));
            self.next_trigger = self.next_trigger.max(now + self.settings.minimum_pause);
        } else {
            // What the savepoint left pending is committed soon.
            self.next_trigger = now;
        }
        actions.push(Action::Complete { checkpoint, kind, savepoint });
        if is_checkpoint {
            let (older, newer) = std::mem::take(&mut self.pending)
                .into_iter()
                .partition(|(id, p)| *id < checkpoint && p.savepoint.is_none());
            self.pending = newer;
            let subsumed: BTreeMap<CheckpointId, Pending> = older;
            actions.extend(subsumed.into_keys().map(|checkpoint| Action::Subsume { checkpoint }));
        }
        if kind.is_last() {
            self.ended = true;
            let late: Vec<CheckpointId> = self.pending.keys().copied().collect();
            for savepoint in late {
                self.fail(savepoint, "the job has ended before it".to_owned(), now, actions);
            }
        }
    }

    /// # Panics
    /// If that checkpoint is not being published: only the driver sends these events, once for each `Publish`.
    fn must_be_publishing(&self, checkpoint: CheckpointId) {
        let pending = self.pending.get(&checkpoint);
        assert!(
            pending.is_some_and(|p| p.phase == Phase::Publishing),
            "the publication of checkpoint {checkpoint} is answered, but it is {pending:?}"
        );
    }

    fn fail(&mut self, checkpoint: CheckpointId, reason: String, now: Instant, actions: &mut Vec<Action>) {
        let Some(Pending { kind, savepoint, .. }) = self.pending.remove(&checkpoint) else { return };
        actions.push(Action::GiveUp { checkpoint, kind, savepoint, reason: reason.clone() });
        if savepoint.is_some() {
            // What tasks have prepared for it is committed soon, and the next savepoint waits for that.
            self.next_trigger = now;
            return;
        }
        self.failures_in_a_row += 1;
        self.next_trigger = self.next_trigger.max(now + self.settings.minimum_pause);
        if self.failures_in_a_row > self.settings.tolerable_failures && !self.ended {
            self.ended = true;
            let reason = format!(
                "{} checkpoints in a row have failed and {} are tolerated; the last was {checkpoint}: {reason}",
                self.failures_in_a_row, self.settings.tolerable_failures
            );
            actions.push(Action::FailAttempt { reason });
        }
    }

    fn expire(&mut self, now: Instant, actions: &mut Vec<Action>) {
        let late = |(id, p): (&CheckpointId, &Pending)| match &p.phase {
            Phase::Waiting { missing, deadline } if now >= *deadline => {
                let waits: Vec<String> = missing.iter().map(ToString::to_string).collect();
                Some((*id, waits.join(", ")))
            }
            _ => None,
        };
        let late: Vec<(CheckpointId, String)> = self.pending.iter().filter_map(late).collect();
        for (checkpoint, waits) in late {
            let reason = format!("not acknowledged within {:?} by task {waits}", self.settings.timeout);
            self.fail(checkpoint, reason, now, actions);
        }
    }

    /// One publication at a time: a savepoint first, which nothing newer makes superfluous, else the newest.
    fn publish_next(&mut self, actions: &mut Vec<Action>) {
        if self.ended || self.pending.values().any(|p| p.phase == Phase::Publishing) {
            return;
        }
        let ready = self.pending.iter_mut().filter(|(_, p)| p.phase == Phase::Ready);
        let next = ready.max_by_key(|(id, p)| (p.savepoint.is_some(), **id));
        if let Some((checkpoint, pending)) = next {
            pending.phase = Phase::Publishing;
            actions.push(Action::Publish { checkpoint: *checkpoint });
        }
    }

    /// Whether one more checkpoint may be under way.
    fn has_room(&self) -> bool {
        !self.ended
            && self.pending.len() < self.settings.maximum_concurrent as usize
            && self.pending.values().all(|p| !p.kind.is_last())
    }

    fn trigger(&mut self, now: Instant, actions: &mut Vec<Action>) {
        while self.has_room() {
            // Somebody waits for a savepoint: it does not wait for the interval.
            let may =
                |(_, kind): &mut (SavepointRequest, BarrierKind)| kind.is_last() || !self.savepoint_taken;
            let (kind, savepoint) = match self.savepoint_requested.take_if(may) {
                Some((request, kind)) => (kind, Some(request)),
                None if now < self.next_trigger => return,
                None if self.end_requested => (BarrierKind::Last, None),
                None => (BarrierKind::Periodic, None),
            };
            let checkpoint = self.next_id;
            if checkpoint >= self.reserved {
                self.ended = true;
                let reason = format!("checkpoint ids up to {checkpoint} are used up without a publication");
                actions.push(Action::FailAttempt { reason });
                return;
            }
            self.next_id = checkpoint.next();
            if savepoint.is_none() {
                // Counted from the trigger itself: a late one is not followed by a burst.
                self.next_trigger = now + self.settings.interval;
            } else {
                self.savepoint_taken = true;
            }
            let phase = Phase::Waiting { missing: self.tasks.clone(), deadline: now + self.settings.timeout };
            self.pending.insert(checkpoint, Pending { kind, savepoint, phase });
            actions.push(Action::Trigger { checkpoint, kind, savepoint });
        }
    }
}

#[cfg(test)]
#[path = "protocol_tests.rs"]
mod tests;
