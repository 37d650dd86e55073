//! Where topics end and how far a group has come, as the broker tells it now.

use std::time::Duration;

use rdkafka::admin::AdminClient;
use rdkafka::client::DefaultClientContext;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::{Offset, TopicPartitionList};

use crate::{Error, native};

/// What a reader is allowed to see.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Isolation {
    /// Only what is committed, up to the last stable offset.
    Committed,
    /// Everything up to the high watermark, aborted records included.
    Uncommitted,
}

impl Isolation {
    pub(crate) fn setting(self) -> &'static str {
        match self {
            Self::Committed => "read_committed",
            Self::Uncommitted => "read_uncommitted",
        }
    }
}

/// Asks a broker for offsets.
pub struct Offsets {
    bootstrap: String,
    admin: AdminClient<DefaultClientContext>,
}

const TIMEOUT: Duration = Duration::from_secs(60);

impl Offsets {
    /// Asks the broker at this `host:port` list. Nothing is sent yet.
    ///
    /// # Errors
    /// When the address is refused by librdkafka.
    pub fn new(bootstrap: &str) -> Result<Self, Error> {
        let admin = ClientConfig::new().set("bootstrap.servers", bootstrap).create();
        let admin = admin.map_err(Error::kafka(format!("making a client for {bootstrap}")))?;
        Ok(Self { bootstrap: bootstrap.to_owned(), admin })
    }

    /// How many partitions a topic has.
    ///
    /// # Errors
    /// [`Error::NoTopic`], or when the broker cannot be reached within 60 s.
    pub fn partitions(&self, topic: &str) -> Result<i32, Error> {
        let metadata = self.admin.inner().fetch_metadata(Some(topic), TIMEOUT);
        let metadata = metadata.map_err(Error::kafka(format!("asking for topic {topic}")))?;
        match metadata.topics().first().map(|found| found.partitions().len()) {
            None | Some(0) => Err(Error::NoTopic { topic: topic.to_owned() }),
            Some(partitions) => Ok(partitions as i32),
        }
    }

    /// The end offset of each partition, 0 first: the last stable offset for committed readers, the high watermark
    /// for the others.
    ///
    /// # Errors
    /// When a leader does not answer.
    pub fn ends(&self, topic: &str, isolation: Isolation) -> Result<Vec<i64>, Error> {
        let partitions = self.partitions(topic)?;
        self.ends_of(topic, partitions, isolation)
    }

    /// As [`ends`](Self::ends), for a caller that asks often and knows the number of partitions.
    ///
    /// # Errors
    /// When a leader does not answer.
    pub fn ends_of(&self, topic: &str, partitions: i32, isolation: Isolation) -> Result<Vec<i64>, Error> {
        let ask: Vec<_> = (0..partitions).map(|partition| (topic, partition)).collect();
        let committed = isolation == Isolation::Committed;
        native::end_offsets(self.admin.inner(), &ask, committed, TIMEOUT)
            .map_err(Error::kafka(format!("asking for the end of topic {topic}")))
    }

    /// The offset that a group has committed for each partition, `None` where it has none.
    ///
    /// # Errors
    /// When the group's coordinator does not answer.
    pub fn committed(&self, group: &str, topic: &str) -> Result<Vec<Option<i64>>, Error> {
        let partitions = self.partitions(topic)?;
        let doing = format!("asking for the offsets of group {group} on topic {topic}");
        let consumer: BaseConsumer = ClientConfig::new()
            .set("bootstrap.servers", &self.bootstrap)
            .set("group.id", group)
            .set("enable.auto.commit", "false")
            .create()
            .map_err(Error::kafka(doing.clone()))?;
        let mut ask = TopicPartitionList::new();
        for partition in 0..partitions {
            ask.add_partition(topic, partition);
        }
        let answer = consumer.committed_offsets(ask, TIMEOUT).map_err(Error::kafka(doing))?;
        let mut committed = vec![None; partitions as usize];
        for element in answer.elements() {
            if let Offset::Offset(offset) = element.offset() {
                committed[element.partition() as usize] = Some(offset);
            }
        }
        Ok(committed)
    }
}
