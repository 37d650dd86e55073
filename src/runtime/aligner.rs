//! Alignment: when a barrier has arrived on every input. Pure; the task holds and releases channels as told.
//!
//! Problem: inputs run at different speeds, checkpoints are given up and begun again, inputs end. A counter of
//! barriers mixes up two checkpoints. So each channel has a state, the newest barrier wins, and a barrier older than
//! the one being aligned is passed over.

use crate::model::{Barrier, CheckpointId};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Channel {
    /// The barrier is still to come.
    Open,
    /// The barrier has come; what follows it waits.
    Aligned,
    /// Nothing more comes.
    Ended,
}

/// What to do after a barrier or an end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Decision {
    /// Hold this channel back and go on with the others.
    Hold,
    /// A newer barrier came: release all channels, then hold this one. The older checkpoint cannot be aligned.
    Restart {
        /// The checkpoint that is passed over.
        passed_over: CheckpointId,
    },
    /// The barrier is on all inputs: freeze, forward, release.
    Freeze(Barrier),
    /// Nothing.
    GoOn,
}

/// The alignment of one task.
#[derive(Debug)]
pub(super) struct Aligner {
    channels: Vec<Channel>,
    current: Option<Barrier>,
    /// The last barrier that was frozen or passed over.
    done: Option<CheckpointId>,
}

impl Aligner {
    pub(super) fn new(channels: usize) -> Self {
        assert!(channels > 0, "a task without inputs has nothing to align");
        Self { channels: vec![Channel::Open; channels], current: None, done: None }
    }

    /// A barrier arrived.
    ///
    /// # Panics
    /// If the channel was held back or has ended: nothing may arrive on it.
    pub(super) fn barrier(&mut self, channel: usize, barrier: Barrier) -> Decision {
        assert_eq!(self.channels[channel], Channel::Open, "channel {channel} brought {barrier:?}");
        if self.done.is_some_and(|d| barrier.checkpoint <= d) {
            return Decision::GoOn;
        }
        let passed_over = match self.current {
            Some(current) if barrier.checkpoint < current.checkpoint => return Decision::GoOn,
            Some(current) if barrier.checkpoint > current.checkpoint => {
                self.release();
                Some(current.checkpoint)
            }
            _ => None,
        };
        self.current = Some(barrier);
        self.channels[channel] = Channel::Aligned;
        match (self.freeze_if_aligned(), passed_over) {
            (Some(barrier), _) => Decision::Freeze(barrier),
            (None, Some(passed_over)) => Decision::Restart { passed_over },
            (None, None) => Decision::Hold,
        }
    }

    /// A channel ended.
    pub(super) fn end(&mut self, channel: usize) -> Decision {
        assert_eq!(self.channels[channel], Channel::Open, "channel {channel} ended");
        self.channels[channel] = Channel::Ended;
        self.freeze_if_aligned().map_or(Decision::GoOn, Decision::Freeze)
    }

    /// Whether every channel has ended.
    pub(super) fn ended(&self) -> bool {
        self.channels.iter().all(|c| *c == Channel::Ended)
    }

    fn freeze_if_aligned(&mut self) -> Option<Barrier> {
        if self.channels.contains(&Channel::Open) {
            return None;
        }
        let barrier = self.current.take()?;
        self.done = Some(barrier.checkpoint);
        self.release();
        Some(barrier)
    }

    fn release(&mut self) {
        for channel in &mut self.channels {
            if *channel == Channel::Aligned {
                *channel = Channel::Open;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Alignment, BarrierKind};
    use proptest::prelude::*;

    fn b(n: u64) -> Barrier {
        Barrier { checkpoint: CheckpointId(n), kind: BarrierKind::Periodic, alignment: Alignment::Aligned }
    }

    #[test]
    fn one_input_is_always_aligned() {
        let mut a = Aligner::new(1);
        assert_eq!(a.barrier(0, b(1)), Decision::Freeze(b(1)));
        assert_eq!(a.barrier(0, b(3)), Decision::Freeze(b(3)));
    }

    #[test]
    fn the_slowest_input_decides() {
        let mut a = Aligner::new(3);
        assert_eq!(a.barrier(0, b(1)), Decision::Hold);
        assert_eq!(a.barrier(2, b(1)), Decision::Hold);
        assert_eq!(a.barrier(1, b(1)), Decision::Freeze(b(1)));
        assert_eq!(a.barrier(0, b(2)), Decision::Hold);
    }

    #[test]
    fn a_newer_barrier_passes_an_unaligned_one_over() {
        let mut a = Aligner::new(2);
        assert_eq!(a.barrier(0, b(1)), Decision::Hold);
        assert_eq!(a.barrier(1, b(2)), Decision::Restart { passed_over: CheckpointId(1) });
        assert_eq!(a.barrier(0, b(2)), Decision::Freeze(b(2)));
        // And an older one that comes late is ignored.
        assert_eq!(a.barrier(0, b(5)), Decision::Hold);
        assert_eq!(a.barrier(1, b(4)), Decision::GoOn);
        assert_eq!(a.barrier(1, b(5)), Decision::Freeze(b(5)));
    }

    #[test]
    fn an_input_that_has_ended_counts_as_aligned() {
        let mut a = Aligner::new(2);
        assert_eq!(a.barrier(0, b(1)), Decision::Hold);
        assert_eq!(a.end(1), Decision::Freeze(b(1)));
        assert_eq!(a.barrier(0, b(2)), Decision::Freeze(b(2)));
        assert_eq!(a.end(0), Decision::GoOn);
        assert!(a.ended());
    }

    proptest! {
        /// Whatever barriers each channel brings, in whatever interleaving: what is frozen only grows, and when
        /// n is frozen every channel that has not ended stands right behind a barrier n.
        #[test]
        fn random_histories_freeze_in_order_and_only_when_aligned(
            lanes in prop::collection::vec(prop::collection::btree_set(1u64..20, 0..10), 1..4),
            order in prop::collection::vec(any::<prop::sample::Index>(), 0..200),
        ) {
            let mut a = Aligner::new(lanes.len());
            let mut queues: Vec<std::collections::VecDeque<u64>> =
                lanes.iter().map(|l| l.iter().copied().collect()).collect();
            let mut held = vec![false; lanes.len()];
            let mut last = vec![0u64; lanes.len()];
            let mut frozen = 0u64;
            for pick in order {
                let ready: Vec<usize> = (0..lanes.len()).filter(|c| !held[*c] && !queues[*c].is_empty()).collect();
                if ready.is_empty() { break; }
                let channel = *pick.get(&ready);
                let n = queues[channel].pop_front().unwrap();
                last[channel] = n;
                match a.barrier(channel, b(n)) {
                    Decision::Hold => held[channel] = true,
                    Decision::Restart { .. } => { held.fill(false); held[channel] = true; }
                    Decision::Freeze(barrier) => {
                        prop_assert!(barrier.checkpoint.0 > frozen);
                        frozen = barrier.checkpoint.0;
                        prop_assert!(last.iter().all(|l| *l == frozen), "{:?} at {}", last, frozen);
                        held.fill(false);
                    }
                    Decision::GoOn => prop_assert!(n < last.iter().copied().max().unwrap_or(0)),
                }
            }
        }
    }
}
