//! How far a reader is behind: its next offsets against the ends that the brokers name.
//!
//! The brokers are asked, and not librdkafka's memory of what it fetched last: a reader that is held up fetches nothing,
//! and then its lag is what somebody wants to know. Asked on a thread of its own, so that no reader waits for it.

use super::cluster;
use super::options::Settings;
use super::split::Split;
use crate::connector::kafka::raw::{self, Client, Deadline, OffsetSpec, TopicPartition};
use crate::host::metrics::Metrics;
use crate::host::thread;
use crate::model::Failure;
use prometheus::IntGauge;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// From one look to the next.
const INTERVAL: Duration = Duration::from_secs(5);

/// How long the brokers may take for one look.
const BUDGET: Duration = Duration::from_secs(10);

/// One partition that is read.
struct Watched {
    at: TopicPartition,
    /// The next offset to read.
    next: AtomicI64,
    /// Whether it is read no more.
    released: AtomicBool,
    stable: IntGauge,
    high_watermark: IntGauge,
}

type Shared = Arc<Mutex<Vec<Arc<Watched>>>>;

/// The reader's end; dropping it ends the thread.
pub(super) struct Lag {
    shared: Shared,
    /// By the number of the reader's slot.
    slots: Vec<Arc<Watched>>,
    _stop: SyncSender<()>,
}

impl Lag {
    pub(super) fn start(settings: &Settings) -> Result<Self, Failure> {
        let shared = Shared::default();
        let client = settings.connection.raw()?;
        let (stop, stopped) = sync_channel(0);
        let watcher = Watcher { shared: Arc::clone(&shared), client };
        thread::spawn("kafka-lag", move || watcher.run(&stopped))
            .map_err(|e| Failure::restart(format!("no thread for the lag of partitions: {e}")))?;
        Ok(Self { shared, slots: Vec::new(), _stop: stop })
    }

    /// Watches the partition of the next slot.
    pub(super) fn add(&mut self, metrics: &Metrics, group: &str, split: &Split) {
        let partition = split.partition.to_string();
        let labels = [("group", group), ("topic", split.topic.as_str()), ("partition", partition.as_str())];
        let watched = Arc::new(Watched {
            at: TopicPartition::new(&*split.topic, split.partition),
            next: AtomicI64::new(split.next),
            released: AtomicBool::new(false),
            stable: metrics.own_gauge(
                "tidegate_source_lag_records",
                "Offsets between what was read and the last stable offset: what could be read now.",
                &labels,
            ),
            high_watermark: metrics.own_gauge(
                "tidegate_source_high_watermark_lag_records",
                "Offsets between what was read and the high watermark: transactions that are still open count, too.",
                &labels,
            ),
        });
        self.slots.push(Arc::clone(&watched));
        self.shared.lock().unwrap_or_else(PoisonError::into_inner).push(watched);
    }

    /// The slot's next offset to read; not one of them when it is released.
    pub(super) fn reached(&self, slot: usize, next: Option<i64>) {
        let watched = &self.slots[slot];
        match next {
            Some(next) => watched.next.store(next, Ordering::Relaxed),
            None => watched.released.store(true, Ordering::Relaxed),
        }
    }
}

struct Watcher {
    shared: Shared,
    client: Client,
}

impl Watcher {
    fn run(mut self, stopped: &Receiver<()>) {
        // The first look waits until the reader has named its partitions.
        let mut wait = Duration::from_millis(100);
        while stopped.recv_timeout(wait) == Err(RecvTimeoutError::Timeout) {
            if let Err(error) = self.look() {
                tracing::debug!("asking for the ends of partitions: {error}");
            }
            wait = INTERVAL;
        }
    }

    fn look(&mut self) -> Result<(), raw::Error> {
        let watched = {
            let mut all = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
            all.retain(|watched| {
                let released = watched.released.load(Ordering::Relaxed);
                if released {
                    watched.stable.set(0);
                    watched.high_watermark.set(0);
                }
                !released
            });
            all.clone()
        };
        if watched.is_empty() {
            return Ok(());
        }
        let asked: Vec<TopicPartition> = watched.iter().map(|w| w.at.clone()).collect();
        let deadline = Deadline::after(BUDGET);
        let stable = cluster::offsets(&mut self.client, &asked, OffsetSpec::LastStable, deadline)?;
        let ends = cluster::offsets(&mut self.client, &asked, OffsetSpec::Latest, deadline)?;
        for watched in watched {
            let next = watched.next.load(Ordering::Relaxed);
            for (gauge, ends) in [(&watched.stable, &stable), (&watched.high_watermark, &ends)] {
                if let Some(Some(end)) = ends.get(&watched.at) {
                    gauge.set((end - next).max(0));
                }
            }
        }
        Ok(())
    }
}
