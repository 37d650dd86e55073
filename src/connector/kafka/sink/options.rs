//! What a user says about a sink.

use super::record::RecordWriter;
use crate::connector::kafka::Connection;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// librdkafka's own `batch.size`.
const LIBRDKAFKA_BATCH_BYTES: usize = 1_000_000;

/// What the sink promises.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Delivery {
    /// Every record once, for readers with `isolation.level=read_committed`; visible after the next checkpoint.
    #[default]
    ExactlyOnce,
    /// Every record, some of them again after a failure; visible at once.
    AtLeastOnce,
    /// Records may be lost and repeated.
    None,
}

impl std::str::FromStr for Delivery {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "exactly-once" => Ok(Self::ExactlyOnce),
            "at-least-once" => Ok(Self::AtLeastOnce),
            "none" => Ok(Self::None),
            _ => Err(format!("{text:?} is no delivery; expected exactly-once, at-least-once or none")),
        }
    }
}

/// What to do when a transaction of a complete checkpoint is aborted and its records are gone from the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnLost {
    /// Stop, naming topics, partitions and offsets.
    #[default]
    Fail,
    /// Go on without them; counted and logged.
    Accept,
}

/// What to do with a record that the topic does not take for its size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnOversized {
    /// Fail the job, naming the record.
    #[default]
    Fail,
    /// Leave it out; counted and logged.
    Drop,
}

/// Writes a value's record: key, value, headers and, if not the sink's own, topic and partition.
pub type Serialize<T> = Arc<dyn Fn(&T, &mut RecordWriter<'_>) -> Result<(), String> + Send + Sync>;

/// A sink that writes values of `T` to Kafka.
pub struct KafkaSink<T> {
    pub(super) connection: Connection,
    pub(super) topic: String,
    pub(super) serialize: Serialize<T>,
    pub(super) delivery: Delivery,
    pub(super) transaction_timeout: Duration,
    pub(super) on_lost: OnLost,
    pub(super) on_oversized: OnOversized,
    pub(super) properties: BTreeMap<String, String>,
    pub(super) resolve_budget: Duration,
}

impl<T> Clone for KafkaSink<T> {
    fn clone(&self) -> Self {
        Self {
            connection: self.connection.clone(),
            topic: self.topic.clone(),
            serialize: Arc::clone(&self.serialize),
            delivery: self.delivery,
            transaction_timeout: self.transaction_timeout,
            on_lost: self.on_lost,
            on_oversized: self.on_oversized,
            properties: self.properties.clone(),
            resolve_budget: self.resolve_budget,
        }
    }
}

impl<T> KafkaSink<T> {
    /// Writes to a topic; `serialize` fills in each value's record, and its error fails the task.
    pub fn new(
        connection: Connection,
        topic: impl Into<String>,
        serialize: impl Fn(&T, &mut RecordWriter<'_>) -> Result<(), String> + Send + Sync + 'static,
    ) -> Self {
        Self {
            connection,
            topic: topic.into(),
            serialize: Arc::new(serialize),
            delivery: Delivery::default(),
            transaction_timeout: Duration::from_secs(600),
            on_lost: OnLost::default(),
            on_oversized: OnOversized::default(),
            properties: BTreeMap::new(),
            resolve_budget: Duration::from_secs(120),
        }
    }

    /// What the sink promises; exactly once by default.
    #[must_use]
    pub fn delivery(mut self, delivery: Delivery) -> Self {
        self.delivery = delivery;
        self
    }

    /// After this the broker aborts a transaction that nobody committed: 10 min by default, at most the broker's
    /// `transaction.max.timeout.ms`. An outage of the job that is longer costs a salvage at the next start.
    #[must_use]
    pub fn transaction_timeout(mut self, timeout: Duration) -> Self {
        self.transaction_timeout = timeout;
        self
    }

    /// What to do when committed-to records are proven lost; to fail by default.
    #[must_use]
    pub fn on_lost(mut self, policy: OnLost) -> Self {
        self.on_lost = policy;
        self
    }

    /// What to do with a record that is too large for its topic; to fail by default.
    #[must_use]
    pub fn on_oversized(mut self, policy: OnOversized) -> Self {
        self.on_oversized = policy;
        self
    }

    /// How long the resolution of one transaction may take at a start; 2 min by default, since a failing broker may
    /// need most of that.
    #[must_use]
    pub fn resolve_budget(mut self, budget: Duration) -> Self {
        self.resolve_budget = budget;
        self
    }

    /// Sets a librdkafka property of the producers, such as `compression.type`. Those that the promise depends on
    /// cannot be changed.
    #[must_use]
    pub fn property(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.properties.insert(name.into(), value.into());
        self
    }

    /// The same sink with batches that its topic takes: librdkafka fills a batch up to `batch.size`, whatever the topic's
    /// limit is, and the broker then refuses all of it.
    #[must_use]
    pub(super) fn with_batches_within(mut self, max_bytes: usize) -> Self {
        if self.batch_bytes() > max_bytes {
            self.properties.insert("batch.size".to_owned(), max_bytes.max(1).to_string());
        }
        self
    }

    /// How large librdkafka lets batches of several records grow.
    pub(super) fn batch_bytes(&self) -> usize {
        let set =
            self.properties.get("batch.size").or_else(|| self.connection.properties().get("batch.size"));
        set.and_then(|text| text.parse().ok()).unwrap_or(LIBRDKAFKA_BATCH_BYTES)
    }

    /// The properties of a producer, with or without a transactional id.
    pub(super) fn producer_properties(&self, transactional_id: Option<&str>) -> BTreeMap<String, String> {
        let mut all: BTreeMap<String, String> = [
            ("linger.ms", "20"),
            ("queue.buffering.max.messages", "100000"),
            ("queue.buffering.max.kbytes", "65536"),
            // As Java's producer, so that equal keys meet in one partition whoever wrote them.
            ("partitioner", "murmur2_random"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into();
        all.extend(self.connection.properties().clone());
        all.extend(self.properties.clone());
        let mut set = |name: &str, value: String| all.insert(name.to_owned(), value);
        match (self.delivery, transactional_id) {
            (_, Some(id)) => {
                set("transactional.id", id.to_owned());
                set("transaction.timeout.ms", self.transaction_timeout.as_millis().to_string());
                set("enable.idempotence", "true".to_owned());
            }
            (Delivery::None, None) => {}
            (_, None) => {
                set("enable.idempotence", "true".to_owned());
            }
        }
        set("delivery.report.only.error", "false".to_owned());
        // The topic's own limit is checked before a record is given to the client.
        set("message.max.bytes", "1000000000".to_owned());
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_are_no_larger_than_the_topic_takes() {
        let sink = || KafkaSink::<()>::new(Connection::new("127.0.0.1:1"), "t", |(), _| Ok(()));
        let table = [
            (sink(), 1_048_588, None),
            (sink(), 50_000, Some("50000")),
            (sink().property("batch.size", "20000"), 50_000, Some("20000")),
            (sink().property("batch.size", "90000"), 50_000, Some("50000")),
        ];
        for (sink, max_bytes, expected) in table {
            let properties = sink.with_batches_within(max_bytes).producer_properties(Some("id"));
            assert_eq!(properties.get("batch.size").map(String::as_str), expected, "{max_bytes}");
        }
    }
}
