//! Barriers that nobody waits for, as with at least once: when the last of a checkpoint has come. Pure.
//!
//! Problem: without waiting, a fast input brings barrier n + 1 while a slow one still owes n. So each checkpoint has a set
//! of channels of its own; the oldest that can never be complete any more is forgotten when a newer one is.

use crate::model::{Barrier, CheckpointId};
use std::collections::{BTreeMap, BTreeSet};

/// Checkpoints that may be incomplete at once; older ones are forgotten, the coordinator gives them up by time.
const TRACKED: usize = 64;

/// The barriers of one task.
#[derive(Debug)]
pub(super) struct Tracker {
    channels: usize,
    ended: BTreeSet<usize>,
    arrived: BTreeMap<CheckpointId, (Barrier, BTreeSet<usize>)>,
    done: Option<CheckpointId>,
}

impl Tracker {
    pub(super) fn new(channels: usize) -> Self {
        Self { channels, ended: BTreeSet::new(), arrived: BTreeMap::new(), done: None }
    }

    /// A barrier arrived; gives it back if it was the last of its checkpoint.
    pub(super) fn barrier(&mut self, channel: usize, barrier: Barrier) -> Option<Barrier> {
        if self.done.is_some_and(|done| barrier.checkpoint <= done) {
            return None;
        }
        let (_, from) = self.arrived.entry(barrier.checkpoint).or_insert((barrier, BTreeSet::new()));
        from.insert(channel);
        if self.arrived.len() > TRACKED {
            self.arrived.pop_first();
        }
        self.complete()
    }

    /// A channel ended: it owes no barrier any more.
    pub(super) fn end(&mut self, channel: usize) -> Option<Barrier> {
        self.ended.insert(channel);
        self.complete()
    }

    /// The newest checkpoint whose barriers are all there; what is older is over with it.
    fn complete(&mut self) -> Option<Barrier> {
        let all_there = |from: &BTreeSet<usize>| from.union(&self.ended).count() == self.channels;
        let newest = self.arrived.iter().rev().find(|(_, (_, from))| all_there(from))?;
        let (id, barrier) = (*newest.0, newest.1.0);
        self.arrived = self.arrived.split_off(&id.next());
        self.done = Some(id);
        Some(barrier)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Alignment, BarrierKind};

    fn b(n: u64) -> Barrier {
        Barrier {
            checkpoint: CheckpointId(n),
            kind: BarrierKind::Periodic,
            alignment: Alignment::AtLeastOnce,
        }
    }

    #[test]
    fn the_last_barrier_completes_whatever_came_between() {
        let mut t = Tracker::new(2);
        assert_eq!(t.barrier(0, b(1)), None);
        assert_eq!(t.barrier(0, b(2)), None, "a fast input is two checkpoints ahead");
        assert_eq!(t.barrier(1, b(1)), Some(b(1)));
        assert_eq!(t.barrier(1, b(2)), Some(b(2)));
    }

    #[test]
    fn an_older_one_is_over_with_a_newer_one() {
        let mut t = Tracker::new(2);
        t.barrier(0, b(1));
        t.barrier(0, b(2));
        assert_eq!(t.barrier(1, b(2)), Some(b(2)), "input 1 never brought the barrier of 1");
        assert_eq!(t.barrier(1, b(1)), None);
    }

    #[test]
    fn an_input_that_has_ended_owes_nothing() {
        let mut t = Tracker::new(2);
        t.barrier(0, b(1));
        assert_eq!(t.end(1), Some(b(1)));
        assert_eq!(t.barrier(0, b(2)), Some(b(2)));
    }
}
