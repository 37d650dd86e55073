//! What a sink is to the runtime.
//!
//! A writer writes into an open transaction; at a barrier it *prepares* it (drained, nothing is sent on its id any
//! more) and opens the next. The evidence of the prepared transaction travels into the checkpoint; only when that is
//! complete does the committer commit. After a crash the control resolves what the newest manifest lists.

use crate::host::metrics::Metrics;
use crate::model::{Attempt, CheckpointId, Failure, JobId, OperatorUid, Record};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// A transaction that was prepared and is not known to be committed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Committable {
    /// The order of preparation within the subtask.
    pub sequence: u64,
    /// Unix time in milliseconds before which it must be committed, lest the broker aborts it.
    pub deadline_ms: i64,
    /// What the sink needs to resolve it, opaque elsewhere.
    pub evidence: Vec<u8>,
}

/// Collects the committables of one barrier, on a thread other than the task's.
pub type Evidence = Box<dyn FnOnce() -> Result<Vec<Committable>, Failure> + Send>;

/// The writer of one subtask.
pub trait SinkWriter<T>: Send {
    /// Writes a record into the open transaction.
    ///
    /// # Errors
    /// When the record or the transaction cannot be written.
    fn write(&mut self, record: Record<T>) -> Result<(), Failure>;

    /// Passes on what was collected, and serves the answers of the broker.
    ///
    /// # Errors
    /// When an earlier write has failed.
    fn flush(&mut self) -> Result<(), Failure>;

    /// Ends the open transaction's writing: every record is acknowledged by the broker when this returns, and what
    /// is written next goes into another transaction.
    ///
    /// # Errors
    /// When any write has failed: the attempt must go back, for the next checkpoint is already past that record.
    fn prepare(&mut self, checkpoint: CheckpointId) -> Result<Evidence, Failure>;

    /// Called once at an orderly end, after the last preparation.
    ///
    /// # Errors
    /// When something that was promised is not done.
    fn close(&mut self) -> Result<(), Failure>;
}

/// The right to commit: a published manifest lists these.
#[derive(Debug, Clone)]
pub struct Completed {
    /// Of which attempt.
    pub attempt: Attempt,
    /// The complete checkpoint.
    pub checkpoint: CheckpointId,
    /// The sequence numbers that it lists for this subtask, in order.
    pub listed: Vec<u64>,
}

/// Commits for one subtask, on a thread of its own, since commits block.
pub trait SinkCommitter: Send {
    /// Makes ready what writing needs; called once, before the first completion.
    ///
    /// # Errors
    /// When the sink cannot write.
    fn warm_up(&mut self) -> Result<(), Failure>;

    /// Commits what is listed and not yet committed, in order, and sets free what no manifest lists any more.
    ///
    /// # Errors
    /// When a commit's outcome is not known: the attempt must go back and resolve.
    fn commit(&mut self, completed: &Completed) -> Result<(), Failure>;
}

/// Writer and committer of one subtask; they share its transactions.
pub struct SinkParts<T> {
    /// For the task.
    pub writer: Box<dyn SinkWriter<T>>,
    /// For the committing thread.
    pub committer: Box<dyn SinkCommitter>,
}

/// Which subtask of a sink the parts are for.
pub struct SinkSeat {
    /// The job.
    pub job: JobId,
    /// The sink.
    pub uid: OperatorUid,
    /// The subtask, from 0.
    pub subtask: u32,
    /// How many transactions can be prepared, open or waiting at once.
    pub transactions: u32,
    /// How long anything may hold up a checkpoint before the attempt fails.
    pub patience: Duration,
    /// Set when the attempt is over.
    pub cancelled: Arc<AtomicBool>,
    /// Where metrics are kept.
    pub metrics: Metrics,
}

/// Whose transactions are meant.
#[derive(Debug, Clone)]
pub struct CommitScope {
    /// The job.
    pub job: JobId,
    /// The sink.
    pub uid: OperatorUid,
    /// The subtask that prepared them.
    pub subtask: u32,
}

/// What a sink must know of the job to check itself.
#[derive(Debug, Clone)]
pub struct SinkFacts {
    /// The job.
    pub job: JobId,
    /// The sink.
    pub uid: OperatorUid,
    /// All sinks of the job: what others have left is nobody's any more.
    pub sinks: Vec<OperatorUid>,
    /// How many subtasks it has.
    pub parallelism: u32,
    /// How many transactions of one subtask can be prepared, open or waiting at once.
    pub transactions: u32,
    /// The shortest transaction timeout that can work.
    pub least_timeout: Duration,
    /// How that was computed.
    pub arithmetic: String,
}

/// How the resolution of a subtask's committables ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Resolution {
    /// All are committed, or accepted as lost by an explicit policy.
    Resolved,
    /// They were aborted, and their records now stand in this prepared transaction: publish a manifest that lists it
    /// in their place, then resolve it.
    Replaced(Committable),
}

/// What concerns a sink as a whole.
pub trait SinkControl: Send + Sync {
    /// Checks settings, permissions and topics, and that everything which recovery needs can be done.
    ///
    /// # Errors
    /// What a person has to change.
    fn check(&self, facts: &SinkFacts) -> Result<(), Failure>;

    /// The transactional ids of this job that the broker knows; empty for a sink without transactions.
    ///
    /// # Errors
    /// When the brokers cannot be asked.
    fn known_ids(&self, job: &JobId) -> Result<Vec<String>, Failure>;

    /// The transactional ids of this job with an open transaction that is none of these: somebody writes, or wrote until he
    /// died. Empty for a sink without transactions.
    ///
    /// # Errors
    /// When the brokers cannot be asked, or a committable cannot be read.
    fn open_beside(&self, job: &JobId, committables: &[Committable]) -> Result<Vec<String>, Failure>;

    /// Resolves committables of one subtask, in order of preparation.
    ///
    /// # Errors
    /// When the outcome cannot be determined, or records are proven lost and the policy is to fail.
    fn resolve(&self, scope: &CommitScope, committables: &[Committable]) -> Result<Resolution, Failure>;

    /// Fences every former owner of this sink's ids and aborts what no manifest lists, of larger parallelisms too.
    ///
    /// # Errors
    /// When the brokers do not do it.
    fn initialise(&self, facts: &SinkFacts) -> Result<(), Failure>;
}
