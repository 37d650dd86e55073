//! Counts records between two stages; the counter that others read is touched once a batch.

use super::{Frozen, Signal, Stage};
use crate::model::{Barrier, Failure, Record};
use prometheus::IntCounter;

/// A stage, and how much has gone into it.
pub(super) struct Counting<T> {
    stage: Box<dyn Stage<T>>,
    counters: Vec<IntCounter>,
    /// Not yet told.
    records: u64,
}

impl<T> Counting<T> {
    pub(super) fn new(stage: Box<dyn Stage<T>>, counters: Vec<IntCounter>) -> Self {
        Self { stage, counters, records: 0 }
    }

    fn tell(&mut self) {
        let records = std::mem::take(&mut self.records);
        if records > 0 {
            self.counters.iter().for_each(|counter| counter.inc_by(records));
        }
    }
}

impl<T> Stage<T> for Counting<T> {
    fn open(&mut self) -> Result<(), Failure> {
        self.stage.open()
    }

    #[inline]
    fn process(&mut self, record: Record<T>) -> Result<(), Failure> {
        self.records += 1;
        self.stage.process(record)
    }

    fn end_of_batch(&mut self) -> Result<(), Failure> {
        self.tell();
        self.stage.end_of_batch()
    }

    fn drain(&mut self) -> Result<(), Failure> {
        self.stage.drain()
    }

    fn freeze(&mut self, barrier: Barrier, frozen: &mut Frozen) -> Result<(), Failure> {
        self.tell();
        self.stage.freeze(barrier, frozen)
    }

    fn forward(&mut self, signal: Signal) -> Result<(), Failure> {
        self.stage.forward(signal)
    }

    fn close(&mut self) -> Result<(), Failure> {
        self.tell();
        self.stage.close()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::metrics::Metrics;
    use crate::model::Origin;

    #[test]
    fn records_are_counted_when_their_batch_ends() {
        let counter = Metrics::default().own_counter("records_total", "Records.", &[]);
        let mut stage = Counting::new(crate::operator::combine::<i32>(Vec::new()), vec![counter.clone()]);
        for value in 0..3 {
            stage.process(Record { value, timestamp: 0, origin: Origin::NONE }).unwrap();
        }
        assert_eq!(counter.get(), 0);
        stage.end_of_batch().unwrap();
        stage.end_of_batch().unwrap();
        assert_eq!(counter.get(), 3);
    }
}
