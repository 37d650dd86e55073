//! Restored records in flight, processed before anything new.
//!
//! At the parallelism of the checkpoint a subtask replays what its own predecessor had captured. At another one every
//! record is routed again, as its sender would route it now: by key group, by the user's function, or dealt out in
//! turn. All records of a key come from the one subtask that owned it, in the order of its channels, and go before
//! anything that the sources read on, so that they stay in their order.
//!
//! The stage stands in front of its operator wherever that stands now: at the head of a task, or, after a rescale to one
//! subtask, in the middle of a source's chain. It replays piece by piece between two batches, and what is left at a
//! barrier is in flight once more: a slow replay holds up no checkpoint.

use super::in_flight;
use super::route::RouteBy;
use crate::graph::{ReplaySeat, Replayed};
use crate::model::{Advice, Barrier, Failure, Record, Serializer};
use crate::operator::{Captured, Frozen, FrozenPart, Signal, Stage};
use std::collections::VecDeque;
use std::sync::Arc;

/// Records that are replayed between two looks at what is urgent.
const PIECE: usize = 64;

/// What is left of one channel.
struct Left<T> {
    input: u32,
    from: u32,
    records: VecDeque<Record<T>>,
}

/// An operator that replays first.
pub(super) struct Replay<T> {
    next: Box<dyn Stage<T>>,
    seat: ReplaySeat,
    route: RouteBy<T>,
    serializer: Arc<dyn Serializer<T>>,
    left: VecDeque<Left<T>>,
}

impl<T: Clone + Send + 'static> Replay<T> {
    pub(super) fn new(
        next: Box<dyn Stage<T>>,
        seat: ReplaySeat,
        route: RouteBy<T>,
        serializer: Arc<dyn Serializer<T>>,
    ) -> Self {
        Self { next, seat, route, serializer, left: VecDeque::new() }
    }

    /// Reads what is this subtask's.
    fn load(&mut self) -> Result<(), Failure> {
        let mut deal = 0;
        for entry in std::mem::take(&mut self.seat.records) {
            let mut records = self.read(&entry).map_err(|e| e.at(self.seat.place.clone()))?;
            records.retain(|record| self.is_mine(&record.value, &mut deal));
            self.seat.backlog.add(records.len());
            self.left.push_back(Left { input: entry.input, from: entry.from, records: records.into() });
        }
        Ok(())
    }

    fn read(&self, entry: &Replayed) -> Result<Vec<Record<T>>, Failure> {
        let what = entry.handle.describe();
        let bytes = entry.handle.read(&*self.seat.store).map_err(|e| {
            let advice = if e.is_transient() { Advice::Restart } else { Advice::DataIsCorrupt };
            Failure::new(
                advice,
                format!(
                    "the records in flight of its checkpoint cannot be restored: {e}. Without them output would be \
                     lost, so this is refused; restore the file, or start with --fresh to begin anew without any state"
                ),
            )
        })?;
        in_flight::decode(&bytes, &entry.serializer, &*self.serializer).map_err(|problem| {
            Failure::new(
                Advice::FixConfiguration,
                format!(
                    "the records in flight in {what} cannot be read as what the operator takes now: {problem}. Go back \
                     to the former type, let a savepoint be taken there (it has no records in flight), and start from that"
                ),
            )
        })
    }

    /// Whether a record is this subtask's; `deal` counts those that are dealt out in turn.
    fn is_mine(&self, value: &T, deal: &mut u32) -> bool {
        if !self.seat.rescaled {
            return true;
        }
        let mut scratch = Vec::new();
        let owner = self.route.owner(value, self.seat.parallelism, &mut scratch).unwrap_or_else(|| {
            *deal += 1;
            (*deal - 1) % self.seat.parallelism
        });
        owner == self.seat.subtask
    }

    fn replay_all(&mut self) -> Result<(), Failure> {
        while !self.left.is_empty() {
            self.replay(PIECE)?;
        }
        Ok(())
    }

    /// Processes at most so many records.
    fn replay(&mut self, at_most: usize) -> Result<(), Failure> {
        for _ in 0..at_most {
            while self.left.front().is_some_and(|left| left.records.is_empty()) {
                self.left.pop_front();
            }
            let Some(record) = self.left.front_mut().and_then(|left| left.records.pop_front()) else {
                return Ok(());
            };
            self.next.process(record)?;
            self.seat.backlog.done(1);
            if self.seat.urgency.is_due() {
                return Ok(());
            }
        }
        Ok(())
    }
}

impl<T: Clone + Send + 'static> Stage<T> for Replay<T> {
    fn open(&mut self) -> Result<(), Failure> {
        self.next.open()?;
        self.load()
    }

    fn process(&mut self, record: Record<T>) -> Result<(), Failure> {
        // An operator before this one in the same task replays too: what it emits comes after what is here.
        self.replay_all()?;
        self.next.process(record)
    }

    fn end_of_batch(&mut self) -> Result<(), Failure> {
        if !self.left.is_empty() {
            self.replay(PIECE)?;
        }
        self.next.end_of_batch()
    }

    fn drain(&mut self) -> Result<(), Failure> {
        self.replay_all()?;
        self.next.drain()
    }

    fn freeze(&mut self, barrier: Barrier, frozen: &mut Frozen) -> Result<(), Failure> {
        let rest = self.left.iter().filter(|left| !left.records.is_empty()).map(|left| {
            let records: Vec<Record<T>> = left.records.iter().cloned().collect();
            Captured::new(left.input, left.from, vec![records], &self.serializer, in_flight::encode)
        });
        frozen.push((self.seat.uid.clone(), FrozenPart::InFlight(rest.collect())));
        self.next.freeze(barrier, frozen)
    }

    fn forward(&mut self, signal: Signal) -> Result<(), Failure> {
        self.next.forward(signal)
    }

    fn close(&mut self) -> Result<(), Failure> {
        self.next.close()
    }
}
