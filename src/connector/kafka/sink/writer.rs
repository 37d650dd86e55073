//! The writing half of the transactional sink: records into the open transaction, and its preparation at a barrier.

use super::KafkaSink;
use super::evidence::Evidence;
use super::outbox::{Lane, Outbox, lock, producer_failure};
use super::pool::{Pool, Prepared};
use crate::connector::kafka::options::raw_failure;
use crate::connector::kafka::raw::{Client, Deadline, ErrorKind, TransactionState};
use crate::connector::{self, SinkWriter};
use crate::host::clock;
use crate::model::{CheckpointId, Failure, Record};
use prometheus::IntCounter;
use std::time::Duration;

/// One wait for the coordinator; between two it is looked whether the attempt is over.
const TURN: Duration = Duration::from_secs(1);

/// How long the abort of a transaction may hold up the end of an attempt.
const ABORT: Duration = Duration::from_secs(1);

/// The transaction that records go into.
struct Open {
    slot: usize,
    lane: Lane,
    begun_at_ms: i64,
}

/// Writes into one transaction after the other.
pub(super) struct Writer<T> {
    sink: KafkaSink<T>,
    pool: Pool,
    patience: Duration,
    outbox: Outbox<T>,
    aborted: IntCounter,
    open: Option<Open>,
    last_slot: usize,
    next_sequence: u64,
}

impl<T> Writer<T> {
    pub(super) fn new(
        sink: KafkaSink<T>,
        pool: Pool,
        patience: Duration,
        outbox: Outbox<T>,
        aborted: IntCounter,
    ) -> Self {
        let last_slot = pool.len() - 1;
        Self { sink, pool, patience, outbox, aborted, open: None, last_slot, next_sequence: 1 }
    }

    /// Begins the next transaction.
    fn begin(&mut self) -> Result<Open, Failure> {
        let begun = clock::now();
        let (slot, producer) = loop {
            match self.pool.open(self.last_slot, self.patience)? {
                Some(opened) => break opened,
                None => super::committer::warm_one(&self.sink, &self.pool)?,
            }
        };
        self.last_slot = slot;
        let waited = clock::now() - begun;
        tracing::debug!(slot, waited_ms = waited.as_millis() as u64, "a transaction is begun");
        producer.begin_transaction().map_err(|e| producer_failure("begin", &self.pool.id(slot), &e))?;
        Ok(Open { slot, lane: Lane::new(producer), begun_at_ms: clock::unix_millis() })
    }

    /// Hands what was collected to the open transaction, which is begun if need be.
    fn hand_over(&mut self) -> Result<(), Failure> {
        if self.outbox.is_empty() {
            return Ok(());
        }
        let mut open = match self.open.take() {
            Some(open) => open,
            None => self.begin()?,
        };
        let handed = self.outbox.hand_over(&mut open.lane);
        self.open = Some(open);
        handed
    }
}

impl<T: Send + 'static> SinkWriter<T> for Writer<T> {
    fn close(&mut self) -> Result<(), Failure> {
        // What was written is committed by then, and nothing was written since.
        Ok(())
    }

    fn write(&mut self, record: Record<T>) -> Result<(), Failure> {
        self.outbox.collect(&record.value)?;
        if self.outbox.is_full() { self.hand_over() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<(), Failure> {
        self.hand_over()?;
        match &mut self.open {
            Some(open) => open.lane.serve(self.outbox.names(), Duration::ZERO),
            None => Ok(()),
        }
    }

    fn prepare(&mut self, checkpoint: CheckpointId) -> Result<connector::Evidence, Failure> {
        self.hand_over()?;
        if let Some(open) = &mut self.open {
            let pool = &self.pool;
            open.lane.drain(self.outbox.names(), self.patience, || pool.is_cancelled())?;
        }
        crate::fault_point!("sink.after_drain");
        if self.pool.has_unrecorded() {
            crate::fault_point!("commit.before_recorded");
        }
        if let Some(Open { slot, lane: Lane { producer, tally, .. }, begun_at_ms }) = self.open.take() {
            let written = tally.written(self.outbox.names());
            assert!(
                !written.is_empty(),
                "a transaction is begun only for a record, and every record is delivered"
            );
            let sequence = self.next_sequence;
            self.next_sequence += 1;
            let deadline_ms = begun_at_ms + self.sink.transaction_timeout.as_millis() as i64;
            let prepared = Prepared { sequence, deadline_ms, written, evidence: None };
            self.pool.prepared(slot, producer, prepared);
        }
        let (pending, pool, client) = (self.pool.pending(), self.pool.clone(), self.outbox.client());
        let patience = self.patience;
        Ok(Box::new(move || {
            let mut client = lock(&client);
            let listed = pending
                .into_iter()
                .filter_map(|n| witness(&pool, &mut client, n, patience).transpose())
                .collect();
            crate::fault_point!("sink.after_describe");
            tracing::debug!(checkpoint = checkpoint.0, "evidence collected");
            listed
        }))
    }
}

/// An attempt that fails leaves at most this subtask's last transaction unprepared, and no manifest will ever list it.
/// If this was the last attempt, for example since another process owns the job now, nobody else would end it before
/// its timeout, and until then readers would wait behind it.
impl<T> Drop for Writer<T> {
    fn drop(&mut self) {
        let Some(Open { slot, lane, .. }) = self.open.take() else { return };
        match lane.abort(ABORT) {
            Ok(()) => self.aborted.inc(),
            // Fenced, or the brokers are away; whoever starts next aborts it.
            Err(e) => tracing::debug!(id = self.pool.id(slot), "a transaction is left open: {e}"),
        }
    }
}

/// The evidence of one prepared transaction: by the broker's own word it is open and this one. `None` if it was committed
/// and recorded since the barrier, which can be when the writing of a snapshot that was given up comes late.
fn witness(
    pool: &Pool,
    client: &mut Client,
    sequence: u64,
    patience: Duration,
) -> Result<Option<connector::Committable>, Failure> {
    let Some((slot, prepared)) = pool.find(sequence) else { return Ok(None) };
    if let Some(evidence) = prepared.evidence {
        return Ok(Some(evidence.into_committable(sequence, prepared.deadline_ms)));
    }
    let id = pool.id(slot);
    let deadline = Deadline::after(patience);
    let described = loop {
        match client.describe_transaction(&id, deadline.at_most(TURN)) {
            Err(e) if e.kind() == ErrorKind::Deadline && !deadline.passed() && !pool.is_cancelled() => {}
            other => break other.map_err(raw_failure)?,
        }
    };
    let Some(described) = described.filter(|d| d.state == TransactionState::Ongoing) else {
        return Err(Failure::restart(format!(
            "transaction {id} is not open at its coordinator when it is prepared: aborted by its timeout, or by another \
             process that uses this id"
        )));
    };
    let missing = prepared
        .written
        .iter()
        .find(|w| !described.partitions.iter().any(|p| p.topic == w.topic && p.partition == w.partition));
    if let Some(w) = missing {
        return Err(Failure::configuration(format!(
            "the coordinator does not show topic {} partition {} in transaction {id}, so recovery could not be sure of it; \
             allow Describe on the topic to this user",
            w.topic, w.partition
        )));
    }
    let evidence = Evidence {
        id,
        producer_id: described.producer_id,
        epoch: described.producer_epoch,
        start_ms: described.start_ms,
        timeout_ms: described.timeout_ms,
        written: prepared.written,
    };
    pool.describe(sequence, &evidence);
    Ok(Some(evidence.into_committable(sequence, prepared.deadline_ms)))
}
