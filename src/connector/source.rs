//! What a source is to the runtime.

use super::Origins;
use crate::host::metrics::Metrics;
use crate::model::{Failure, JobId, OperatorUid, Record};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// What a poll brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Polled {
    /// Records were handed out.
    Some,
    /// There was nothing to hand out.
    Idle,
    /// Every partition of this subtask is at the end that was fixed at the job's first start.
    AtEnd,
}

/// A record that could not be decoded: its raw bytes, where it stood, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeadLetter {
    /// Where it was read.
    pub topic: String,
    /// Where it was read.
    pub partition: i32,
    /// Where it was read.
    pub offset: i64,
    /// The raw key.
    pub key: Option<Vec<u8>>,
    /// The raw value.
    pub value: Option<Vec<u8>>,
    /// Names and raw values, in order, repeated ones included.
    pub headers: Vec<(String, Option<Vec<u8>>)>,
    /// What the decoder said.
    pub reason: String,
}

/// Where a reader puts what it reads.
pub trait SourceOutput<T> {
    /// Hands a record to the chain.
    ///
    /// # Errors
    /// Whatever an operator of the chain fails with.
    fn record(&mut self, record: Record<T>) -> Result<(), Failure>;

    /// Hands on what could not be decoded, if that is the source's policy.
    ///
    /// # Errors
    /// Whatever the sink of the dead letters fails with.
    fn dead_letter(&mut self, letter: Record<DeadLetter>) -> Result<(), Failure>;
}

/// What the reader of one subtask is made from.
#[derive(Clone)]
pub struct ReaderSeat {
    /// The job.
    pub job: JobId,
    /// The source.
    pub uid: OperatorUid,
    /// Which subtask, from 0.
    pub subtask: u32,
    /// How many subtasks the source has.
    pub parallelism: u32,
    /// The positions of *all* subtasks: each reader keeps its own, and knows from the others what is not new.
    pub splits: Vec<Vec<u8>>,
    /// To name a record's origin.
    pub origins: Origins,
    /// Where the reader counts.
    pub metrics: Metrics,
    /// Set when the attempt is over: whoever waits for something gives up.
    pub cancelled: Arc<AtomicBool>,
}

/// The reader of one subtask.
pub trait SourceReader<T>: Send {
    /// Hands out one batch of records; waits for the first at most `wait`.
    ///
    /// # Errors
    /// Anything that the source's policies do not cover.
    fn poll(&mut self, wait: Duration, out: &mut dyn SourceOutput<T>) -> Result<Polled, Failure>;

    /// The next positions of all partitions of this subtask, each with a concrete offset.
    ///
    /// # Errors
    /// When a position is not known.
    fn freeze(&mut self) -> Result<Vec<Vec<u8>>, Failure>;
}

/// What concerns a source as a whole.
pub trait SourceControl: Send + Sync {
    /// Checks settings, permissions and topics before anything else happens.
    ///
    /// # Errors
    /// What a person has to change.
    fn check(&self) -> Result<(), Failure>;

    /// Whether the source hands out dead letters: somebody must take them then, or they would be lost.
    fn has_dead_letters(&self) -> bool;

    /// Fixes where the job begins: the start and end of every partition known now.
    ///
    /// # Errors
    /// When the source cannot be asked.
    fn resolve_start(&self) -> Result<Vec<Vec<u8>>, Failure>;

    /// Compares restored positions with what the source has now (a topic that is another one, offsets that are
    /// gone), by the source's policies; what is skipped is counted.
    ///
    /// # Errors
    /// When a policy says to fail.
    fn reconcile(&self, splits: Vec<Vec<u8>>, metrics: &Metrics) -> Result<Vec<Vec<u8>>, Failure>;

    /// Starts what tells the outside world how far completed checkpoints are, and counts its failures.
    ///
    /// # Errors
    /// When it cannot be started.
    fn offset_committer(&self, metrics: &Metrics) -> Result<Box<dyn OffsetCommitter>, Failure>;
}

/// Tells lag tools the positions of completed checkpoints; its failures never fail the job.
pub trait OffsetCommitter: Send {
    /// Hands over all positions of a completed checkpoint; never blocks.
    fn commit(&mut self, splits: Vec<Vec<u8>>);

    /// Waits until the last positions are told, or the deadline.
    fn close(self: Box<Self>, deadline: Instant);
}
