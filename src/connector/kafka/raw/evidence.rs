//! What a partition's log tells about a transaction: its marker, and the batches that it wrote.
//!
//! The coordinator forgets a transaction when its id is initialised or expires; the log does not. The
//! first control batch of the producer after its last record decides, *whatever epoch it bears*:
//! timeouts and fencing write their markers with the next epoch. A marker may be written several times,
//! and other producers' records and open transactions stand in between.

use std::ops::ControlFlow;

use super::batch::{Batch, Control};
use super::client::Client;
use super::log::Walked;
use super::{Deadline, Error, OffsetSpec, TopicPartition};

/// What was found where a transaction's marker should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Marker {
    /// The transaction was committed.
    Committed {
        /// Where the marker stands.
        offset: i64,
    },
    /// The transaction was aborted.
    Aborted {
        /// Where the marker stands.
        offset: i64,
    },
    /// No marker that can be read stands there. This alone proves nothing: a new leader's end lags for
    /// seconds.
    NotFound {
        /// The end of the log up to which it was looked for.
        end: i64,
    },
    /// The log no longer holds the place where the search had to begin or go on.
    LogStartBeyond {
        /// The first offset that the log holds now.
        log_start: i64,
    },
}

/// Records that a producer wrote in one go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchRange {
    /// The first offset.
    pub base: i64,
    /// The last offset.
    pub last: i64,
    /// How many records there are now: compaction may have removed some.
    pub count: i32,
    /// The producer's epoch.
    pub epoch: i16,
}

/// What a producer wrote in a range of offsets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProducerBatches {
    /// The first offset that the log holds now. Beyond the range's first one, part or all of the
    /// records are gone, and `batches` is empty.
    pub log_start: i64,
    /// The producer's batches, in order; markers are left out.
    pub batches: Vec<BatchRange>,
}

impl ProducerBatches {
    /// How many records there are in all.
    pub fn count(&self) -> i64 {
        self.batches.iter().map(|batch| i64::from(batch.count)).sum()
    }
}

impl Client {
    /// Looks for the first marker of a producer at or after `from_offset`: one past the last record of
    /// the transaction in question.
    ///
    /// # Errors
    /// When the log cannot be read to its end within the deadline, or for a reason that does not pass.
    pub fn find_marker(
        &mut self,
        at: &TopicPartition,
        producer_id: i64,
        from_offset: i64,
        deadline: Deadline,
    ) -> Result<Marker, Error> {
        let visit = |found: &mut Option<Batch>, batch: &Batch| {
            if batch.control.is_some() && batch.producer_id == producer_id {
                *found = Some(*batch);
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        };
        let (found, walked) = self.walk(at, from_offset, None, deadline, visit)?;
        Ok(match (found, walked) {
            (Some(batch), _) => match batch.control {
                Some(Control::Commit) => Marker::Committed { offset: batch.base_offset },
                Some(Control::Abort) => Marker::Aborted { offset: batch.base_offset },
                // Compaction took what this marker said. A later one may be of another transaction.
                _ => Marker::NotFound { end: batch.base_offset },
            },
            (None, Walked::StartsBeyond(log_start)) => Marker::LogStartBeyond { log_start },
            (None, Walked::ToEnd(end)) => Marker::NotFound { end },
            (None, Walked::Stopped) => unreachable!("because the walk stops at a marker only"),
        })
    }

    /// The batches that a producer wrote with offsets in `first..=last`.
    ///
    /// # Errors
    /// As [`Client::find_marker`].
    pub fn producer_batches(
        &mut self,
        at: &TopicPartition,
        producer_id: i64,
        first: i64,
        last: i64,
        deadline: Deadline,
    ) -> Result<ProducerBatches, Error> {
        let visit = |batches: &mut Vec<BatchRange>, batch: &Batch| {
            if batch.control.is_none() && batch.producer_id == producer_id {
                batches.push(BatchRange {
                    base: batch.base_offset,
                    last: batch.last_offset,
                    count: batch.records,
                    epoch: batch.producer_epoch,
                });
            }
            ControlFlow::Continue(())
        };
        let (batches, walked) = self.walk(at, first, Some(last.saturating_add(1)), deadline, visit)?;
        if let Walked::StartsBeyond(log_start) = walked {
            return Ok(ProducerBatches { log_start, batches: Vec::new() });
        }
        let mut starts = self.list_offsets(std::slice::from_ref(at), OffsetSpec::Earliest, deadline)?;
        let start = starts.remove(at).expect("because it was asked for")?;
        Ok(ProducerBatches { log_start: start.offset.unwrap_or(0), batches })
    }
}
