//! Transactions of a job seen and ended from outside of it, for people and tools.
//!
//! It decides nothing: whether a transaction may be ended is the newest manifest's word, and whoever calls
//! [`ByHand::take_over`] or resolves through [`ByHand::control`] has claimed the job before.

use super::evidence::Evidence;
use super::ids::{IdOwner, parse_id};
use super::resolve::{Pending, is_open, pending_of};
use super::{KafkaSink, OnLost};
use crate::connector::kafka::Connection;
use crate::connector::kafka::options::raw_failure;
use crate::connector::kafka::raw::{Client, Deadline, Described};
use crate::connector::{Committable, SinkControl};
use crate::model::{Failure, JobId};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

/// How long the brokers may take to answer one question.
const PATIENCE: Duration = Duration::from_secs(15);

/// The timeout of an id whose former one is not known; every broker allows it.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A transactional id of one of Tidegate's jobs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownId {
    /// The id.
    pub id: String,
    /// Whom it belongs to.
    pub owner: IdOwner,
    /// What its coordinator says.
    pub described: Described,
}

impl KnownId {
    /// Whether its transaction waits for somebody to end it.
    pub fn is_open(&self) -> bool {
        is_open(&self.described.state)
    }

    /// When the broker aborts its open transaction, in milliseconds since the Unix epoch by the coordinator's clock.
    pub fn deadline_ms(&self) -> Option<i64> {
        let Described { start_ms, timeout_ms, .. } = self.described;
        (self.is_open() && start_ms >= 0).then(|| start_ms + i64::from(timeout_ms))
    }
}

/// A view on the transactions of Tidegate's jobs at one cluster.
pub struct ByHand {
    connection: Connection,
    client: Client,
}

impl ByHand {
    /// Nothing is sent yet.
    ///
    /// # Errors
    /// When the connection's properties are not understood.
    pub fn new(connection: Connection) -> Result<Self, Failure> {
        let client = connection.raw()?;
        Ok(Self { connection, client })
    }

    /// The transactional ids of all jobs, or of one, sorted by job, sink, subtask and slot. What this user may not
    /// describe is left out by the brokers.
    ///
    /// # Errors
    /// When not every broker answers.
    pub fn ids(&mut self, job: Option<&JobId>) -> Result<Vec<KnownId>, Failure> {
        let deadline = Deadline::after(PATIENCE);
        let mut found = Vec::new();
        for listed in self.client.list_transactions(&[], deadline).map_err(raw_failure)? {
            let id = listed.transactional_id;
            let Some(owner) = parse_id(&id).filter(|o| job.is_none_or(|job| o.is_of_job(job))) else {
                continue;
            };
            // One that has expired meanwhile is no id any more.
            if let Some(described) = self.client.describe_transaction(&id, deadline).map_err(raw_failure)? {
                found.push(KnownId { id, owner, described });
            }
        }
        found.sort_by(|a, b| a.owner.cmp(&b.owner));
        Ok(found)
    }

    /// What a checkpoint's committable refers to, and how it stands now.
    ///
    /// # Errors
    /// See [`pending_of`].
    pub fn pending(&mut self, committable: &Committable) -> Result<Pending, Failure> {
        pending_of(&mut self.client, committable)
    }

    /// What resolves these committables exactly as the job's own recovery does. Records that are proven lost are an
    /// error.
    ///
    /// # Errors
    /// When their evidence cannot be read.
    pub fn control(&self, committables: &[Committable]) -> Result<Arc<dyn SinkControl>, Failure> {
        let evidences = committables.iter().map(Evidence::of).collect::<Result<Vec<_>, _>>()?;
        let topic = evidences.iter().flat_map(|e| &e.written).map(|w| w.topic.clone()).next();
        let timeout = evidences.iter().filter_map(|e| u64::try_from(e.timeout_ms).ok()).max();
        let nothing = |value: &Infallible, _: &mut super::RecordWriter<'_>| match *value {};
        let sink = KafkaSink::new(self.connection.clone(), topic.unwrap_or_default(), nothing)
            .transaction_timeout(timeout.map_or(TIMEOUT, Duration::from_millis))
            .on_lost(OnLost::Fail);
        Ok(Arc::new(sink))
    }

    /// Aborts what is open on an id, and fences whoever has its producer.
    ///
    /// # Errors
    /// When the coordinator does not do it.
    pub fn take_over(&mut self, id: &str) -> Result<(), Failure> {
        let deadline = Deadline::after(PATIENCE);
        let described = self.client.describe_transaction(id, deadline).map_err(raw_failure)?;
        let timeout = described.and_then(|d| u64::try_from(d.timeout_ms).ok()).filter(|ms| *ms > 0);
        let timeout = timeout.map_or(TIMEOUT, Duration::from_millis);
        self.client.init_producer_id(id, timeout, deadline).map(drop).map_err(raw_failure)
    }
}
