//! Alignment: when a task freezes for a barrier, and which records it captures. Pure; the task does as it is told.
//!
//! Problem: inputs run at different speeds, checkpoints are given up and begun again, inputs end. A counter of
//! barriers mixes up two checkpoints. So of each channel it is known which barrier it has *brought* last, the newest
//! barrier wins, and one that is older than what is being done is passed over.
//!
//! A barrier comes in one of two ways. *In its order*, after all records before it: the channel is held back until
//! the barrier is on all, then the task freezes. *Ahead*, past records that still wait: the task freezes at the first
//! one, and what is before the barrier on each channel is captured, until all have brought it. That changes over
//! from the first way to the second when the time for alignment is over:
//!
//! ```text
//!            first, in order                    on all
//!   Idle --------------------> Aligning ---------------------> Idle     freeze, forward, complete
//!     |                          | ahead, or time is over
//!     | first, ahead             v                on all
//!     +--------------------> Capturing ----------------------> Idle     freeze, forward … then complete
//! ```

use crate::model::{Barrier, CheckpointId};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Channel {
    /// It is read.
    Open,
    /// It has brought the barrier that is being aligned; what follows it waits.
    Held,
    /// Nothing more comes.
    Ended,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// For a barrier.
    Idle,
    /// For this barrier on the channels that are open.
    Aligning(Barrier),
    /// For this barrier on the channels that have not brought it; the task is frozen for it already.
    Capturing(Barrier),
}

/// What to do after a barrier or an end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Decision {
    /// Nothing.
    GoOn,
    /// Hold this channel back and go on with the others.
    Hold,
    /// The barrier is on all inputs: freeze, forward, release.
    Freeze(Barrier),
    /// Freeze and forward at once, release; from now on [`Aligner::captures`] says what is captured. If a channel has
    /// brought it ahead, capture what waits there before it.
    Overtake(Barrier),
    /// Capture what waits in this channel before the barrier.
    Capture,
}

/// A decision, and the checkpoint that it puts an end to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Verdict {
    /// Its channels are released, what was captured for it is dropped, and that comes before the decision.
    pub(super) passed_over: Option<CheckpointId>,
    pub(super) decision: Decision,
}

impl From<Decision> for Verdict {
    fn from(decision: Decision) -> Self {
        Self { passed_over: None, decision }
    }
}

/// The alignment of one task.
#[derive(Debug)]
pub(super) struct Aligner {
    channels: Vec<Channel>,
    brought: Vec<Option<CheckpointId>>,
    state: State,
    /// The last barrier for which the task was frozen.
    frozen: Option<CheckpointId>,
}

impl Aligner {
    pub(super) fn new(channels: usize) -> Self {
        assert!(channels > 0, "a task without inputs has nothing to align");
        Self {
            channels: vec![Channel::Open; channels],
            brought: vec![None; channels],
            state: State::Idle,
            frozen: None,
        }
    }

    /// A barrier arrived in its order.
    ///
    /// # Panics
    /// If the channel was held back or has ended: nothing may arrive on it.
    pub(super) fn in_order(&mut self, channel: usize, barrier: Barrier) -> Verdict {
        assert_eq!(self.channels[channel], Channel::Open, "channel {channel} brought {barrier:?}");
        if !self.bring(channel, barrier.checkpoint) {
            return Decision::GoOn.into();
        }
        let passed_over = match self.passes_over(barrier.checkpoint) {
            Ok(passed_over) => passed_over,
            Err(decision) => return decision.into(),
        };
        self.state = State::Aligning(barrier);
        self.channels[channel] = Channel::Held;
        let decision = self.freeze_if_aligned().map_or(Decision::Hold, Decision::Freeze);
        Verdict { passed_over, decision }
    }

    /// A barrier came past the records before it.
    ///
    /// # Panics
    /// If the channel has ended.
    pub(super) fn ahead(&mut self, channel: usize, barrier: Barrier) -> Verdict {
        assert_ne!(self.channels[channel], Channel::Ended, "channel {channel} brought {barrier:?}");
        if !self.bring(channel, barrier.checkpoint) {
            return Decision::GoOn.into();
        }
        match self.state {
            State::Capturing(current) if current.checkpoint == barrier.checkpoint => {
                return Decision::Capture.into();
            }
            State::Aligning(current) if current.checkpoint == barrier.checkpoint => {
                return Decision::Overtake(self.overtake(barrier)).into();
            }
            _ => {}
        }
        match self.passes_over(barrier.checkpoint) {
            Ok(passed_over) => Verdict { passed_over, decision: Decision::Overtake(self.overtake(barrier)) },
            Err(decision) => decision.into(),
        }
    }

    /// The time for the alignment of this checkpoint is over.
    pub(super) fn due(&mut self, checkpoint: CheckpointId) -> Decision {
        match self.state {
            State::Aligning(current) if current.checkpoint == checkpoint => {
                Decision::Overtake(self.overtake(current))
            }
            _ => Decision::GoOn,
        }
    }

    /// A channel ended.
    ///
    /// # Panics
    /// If it was held back or has ended before.
    pub(super) fn end(&mut self, channel: usize) -> Decision {
        assert_eq!(self.channels[channel], Channel::Open, "channel {channel} ended");
        self.channels[channel] = Channel::Ended;
        self.freeze_if_aligned().map_or(Decision::GoOn, Decision::Freeze)
    }

    /// Whether what is taken from this channel is before the barrier that has overtaken.
    pub(super) fn captures(&self, channel: usize) -> bool {
        match self.state {
            State::Capturing(current) => {
                self.channels[channel] != Channel::Ended
                    && self.brought[channel].is_none_or(|b| b < current.checkpoint)
            }
            _ => false,
        }
    }

    /// The checkpoint whose records are all captured, once.
    pub(super) fn take_captured(&mut self) -> Option<CheckpointId> {
        let State::Capturing(current) = self.state else { return None };
        if (0..self.channels.len()).any(|c| self.captures(c)) {
            return None;
        }
        self.state = State::Idle;
        Some(current.checkpoint)
    }

    /// Ends a capture without its being complete.
    pub(super) fn give_up_capture(&mut self) -> Option<CheckpointId> {
        let State::Capturing(current) = self.state else { return None };
        self.state = State::Idle;
        Some(current.checkpoint)
    }

    /// Whether every channel has ended.
    pub(super) fn ended(&self) -> bool {
        self.channels.iter().all(|c| *c == Channel::Ended)
    }

    /// Whether this is the first time that the channel brings this barrier.
    fn bring(&mut self, channel: usize, checkpoint: CheckpointId) -> bool {
        let first = self.brought[channel].is_none_or(|b| b < checkpoint);
        if first {
            self.brought[channel] = Some(checkpoint);
        }
        first
    }

    /// What a barrier of this checkpoint puts an end to; an error if it comes too late for anything.
    fn passes_over(&mut self, checkpoint: CheckpointId) -> Result<Option<CheckpointId>, Decision> {
        if self.frozen.is_some_and(|f| checkpoint <= f) {
            return Err(Decision::GoOn);
        }
        match self.state {
            State::Aligning(current) if checkpoint < current.checkpoint => Err(Decision::GoOn),
            State::Aligning(current) if checkpoint == current.checkpoint => Ok(None),
            State::Aligning(current) | State::Capturing(current) => {
                self.release();
                self.state = State::Idle;
                Ok(Some(current.checkpoint))
            }
            State::Idle => Ok(None),
        }
    }

    fn overtake(&mut self, barrier: Barrier) -> Barrier {
        assert!(
            self.frozen.is_none_or(|f| f < barrier.checkpoint),
            "frozen for {:?}, then overtaken by {barrier:?}",
            self.frozen
        );
        self.release();
        self.frozen = Some(barrier.checkpoint);
        self.state = State::Capturing(barrier);
        barrier
    }

    fn freeze_if_aligned(&mut self) -> Option<Barrier> {
        let State::Aligning(barrier) = self.state else { return None };
        if self.channels.contains(&Channel::Open) {
            return None;
        }
        self.state = State::Idle;
        self.frozen = Some(barrier.checkpoint);
        self.release();
        Some(barrier)
    }

    fn release(&mut self) {
        for channel in &mut self.channels {
            if *channel == Channel::Held {
                *channel = Channel::Open;
            }
        }
    }
}

#[cfg(test)]
#[path = "aligner_tests.rs"]
mod tests;
