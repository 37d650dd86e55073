//! Tells the consumer group how far completed checkpoints are, for lag tools; the truth is in the checkpoints.
//!
//! A thread of its own, a mailbox in which the newest positions replace older ones, and failures that are logged and
//! counted but never reach the job.

use super::options::Settings;
use super::split::Split;
use crate::connector::OffsetCommitter;
use crate::connector::kafka::raw::{Client, Deadline, GroupOffset, TopicPartition};
use crate::host::metrics::Metrics;
use crate::host::{clock, thread};
use crate::model::Failure;
use prometheus::IntCounter;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long one commit is tried before its failure is told.
const BUDGET: Duration = Duration::from_secs(10);

#[derive(Default)]
struct Mailbox {
    newest: Option<Vec<GroupOffset>>,
    /// Nothing comes any more; what is there may take until then.
    closing: Option<Instant>,
    done: bool,
}

#[derive(Default)]
struct Shared {
    mailbox: Mutex<Mailbox>,
    changed: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Mailbox> {
        self.mailbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn close(&self, deadline: Instant) {
        self.lock().closing.get_or_insert(deadline);
        self.changed.notify_all();
    }
}

/// The handle; dropping it without closing lets the thread end after what it is doing.
pub(super) struct GroupCommitter {
    shared: Arc<Shared>,
    failures: IntCounter,
}

impl GroupCommitter {
    /// Starts the thread.
    pub(super) fn start(settings: &Settings, metrics: &Metrics) -> Result<Self, Failure> {
        let failures = metrics.own_counter(
            "tidegate_offset_commit_failures_total",
            "Offset commits to the consumer group that failed.",
            &[("group", &settings.group)],
        );
        let shared = Arc::new(Shared::default());
        let client = settings.connection.raw()?;
        let worker =
            Worker { shared: Arc::clone(&shared), group: settings.group.clone(), failures: failures.clone() };
        thread::spawn("kafka-offsets", move || worker.run(client))
            .map_err(|e| Failure::restart(format!("no thread for the group's offsets: {e}")))?;
        Ok(Self { shared, failures })
    }
}

impl OffsetCommitter for GroupCommitter {
    fn commit(&mut self, splits: Vec<Vec<u8>>) {
        match Split::decode_all(&splits) {
            Ok(splits) => {
                let offsets = splits.into_iter().map(|split| GroupOffset {
                    at: TopicPartition::new(split.topic, split.partition),
                    offset: split.next,
                    metadata: String::new(),
                });
                self.shared.lock().newest = Some(offsets.collect());
                self.shared.changed.notify_all();
            }
            Err(failure) => {
                self.failures.inc();
                tracing::error!("offsets are not committed to the group: {failure}");
            }
        }
    }

    fn close(self: Box<Self>, deadline: Instant) {
        self.shared.close(deadline);
        let mut mailbox = self.shared.lock();
        while !mailbox.done && !clock::until(deadline).is_zero() {
            let waited = self.shared.changed.wait_timeout(mailbox, clock::until(deadline));
            mailbox = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl Drop for GroupCommitter {
    fn drop(&mut self) {
        self.shared.close(clock::now());
    }
}

struct Worker {
    shared: Arc<Shared>,
    group: String,
    failures: IntCounter,
}

impl Worker {
    fn run(self, mut client: Client) {
        while let Some((offsets, budget)) = self.next() {
            if let Err(error) = client.commit_offsets(&self.group, &offsets, Deadline::after(budget)) {
                self.failures.inc();
                tracing::warn!(
                    group = self.group,
                    "offsets of a complete checkpoint are not committed: {error}"
                );
            }
        }
        self.shared.lock().done = true;
        self.shared.changed.notify_all();
    }

    /// The newest positions and the time there is for them; `None` when all is told or the time is over.
    fn next(&self) -> Option<(Vec<GroupOffset>, Duration)> {
        let mut mailbox = self.shared.lock();
        loop {
            let budget = mailbox.closing.map_or(BUDGET, |deadline| clock::until(deadline).min(BUDGET));
            if budget.is_zero() {
                return None;
            }
            if let Some(offsets) = mailbox.newest.take() {
                return Some((offsets, budget));
            }
            if mailbox.closing.is_some() {
                return None;
            }
            mailbox = self.shared.changed.wait(mailbox).unwrap_or_else(PoisonError::into_inner);
        }
    }
}
