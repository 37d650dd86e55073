//! The sink without transactions: at least once (every record acknowledged before a checkpoint), or no promise.

use super::Delivery;
use super::outbox::{Lane, Outbox, over};
use crate::connector::{self, Completed, SinkCommitter, SinkWriter};
use crate::model::{CheckpointId, Failure, Record};
use std::time::Duration;

/// Writes with one producer all along.
pub(super) struct Plain<T> {
    outbox: Outbox<T>,
    lane: Lane,
    delivery: Delivery,
    patience: Duration,
}

impl<T> Plain<T> {
    pub(super) fn new(outbox: Outbox<T>, lane: Lane, delivery: Delivery, patience: Duration) -> Self {
        Self { outbox, lane, delivery, patience }
    }

    fn hand_over(&mut self) -> Result<(), Failure> {
        let handed = self.outbox.hand_over(&mut self.lane);
        let overlooked = self.overlook(handed);
        // What is left after a failure that is overlooked would fail again, for ever, and pile up.
        self.outbox.forget();
        overlooked
    }

    fn drain(&mut self) -> Result<(), Failure> {
        let outbox = &self.outbox;
        self.lane.drain(outbox.names(), self.patience, || outbox.is_cancelled())
    }

    /// Without a promise, an undelivered record is told and forgotten.
    fn overlook(&self, result: Result<(), Failure>) -> Result<(), Failure> {
        match result {
            Err(e) if self.delivery == Delivery::None && !self.outbox.is_cancelled() => {
                tracing::warn!("{e}");
                Ok(())
            }
            other => other,
        }
    }
}

impl<T: Send + 'static> SinkWriter<T> for Plain<T> {
    fn write(&mut self, record: Record<T>) -> Result<(), Failure> {
        self.outbox.collect(&record.value)?;
        if self.outbox.is_full() { self.hand_over() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<(), Failure> {
        self.hand_over()?;
        let served = self.lane.serve(self.outbox.names(), Duration::ZERO);
        self.overlook(served)
    }

    fn prepare(&mut self, _checkpoint: CheckpointId) -> Result<connector::Evidence, Failure> {
        self.hand_over()?;
        if self.outbox.is_cancelled() {
            return Err(over());
        }
        if self.delivery == Delivery::AtLeastOnce {
            self.drain()?;
        }
        Ok(Box::new(|| Ok(Vec::new())))
    }

    fn close(&mut self) -> Result<(), Failure> {
        let drained = self.drain();
        self.overlook(drained)
    }
}

/// Has nothing to commit.
pub(super) struct NothingToCommit;

impl SinkCommitter for NothingToCommit {
    fn warm_up(&mut self) -> Result<(), Failure> {
        Ok(())
    }

    fn commit(&mut self, _completed: &Completed) -> Result<(), Failure> {
        Ok(())
    }
}
