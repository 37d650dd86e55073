//! Reads topics outside any group: to their end, or on and on.

use std::time::{Duration, Instant};

use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::{Offset, TopicPartitionList};

use crate::Error;
use crate::native::BatchConsumer;
use crate::offsets::{Isolation, Offsets};

pub use crate::native::{Batch, Record};

/// Reads one topic from its start.
pub struct Reader {
    topic: String,
    consumer: BatchConsumer,
    partitions: i32,
}

/// No end and no record for so long is an error.
const PATIENCE: Duration = Duration::from_secs(60);

impl Reader {
    /// Starts to read all partitions of a topic from their first records.
    ///
    /// # Errors
    /// [`Error::NoTopic`], or when the broker cannot be reached.
    pub fn open(bootstrap: &str, topic: &str, isolation: Isolation) -> Result<Self, Error> {
        let partitions = Offsets::new(bootstrap)?.partitions(topic)?;
        let doing = || Error::kafka(format!("reading topic {topic}"));
        let consumer: BaseConsumer = ClientConfig::new()
            .set("bootstrap.servers", bootstrap)
            // librdkafka wants a group even where it is not used.
            .set("group.id", "tidegate-tools-reader")
            .set("enable.auto.commit", "false")
            .set("enable.auto.offset.store", "false")
            .set("enable.partition.eof", "true")
            .set("isolation.level", isolation.setting())
            // The defaults of 0.5 to 1 s leave a reader idle most of the time.
            .set("fetch.queue.backoff.ms", "2")
            .set("fetch.wait.max.ms", "50")
            .set("fetch.error.backoff.ms", "20")
            .create()
            .map_err(doing())?;
        let mut assigned = TopicPartitionList::new();
        for partition in 0..partitions {
            assigned.add_partition_offset(topic, partition, Offset::Beginning).map_err(doing())?;
        }
        consumer.assign(&assigned).map_err(doing())?;
        Ok(Self { topic: topic.to_owned(), consumer: BatchConsumer::new(consumer), partitions })
    }

    /// How many partitions the topic had at the start.
    pub fn partitions(&self) -> i32 {
        self.partitions
    }

    /// What has come, waiting up to `timeout` for something.
    ///
    /// # Errors
    /// When the broker refuses to serve a partition.
    pub fn poll(&mut self, timeout: Duration) -> Result<Batch<'_>, Error> {
        self.consumer.poll(timeout).map_err(Error::kafka(format!("reading topic {}", self.topic)))
    }

    /// Hands every record up to the present end to `each`; per partition in the order of the offsets.
    ///
    /// # Errors
    /// When the broker refuses, nothing comes for 60 s, or `each` refuses a record.
    pub fn to_end(mut self, mut each: impl FnMut(Record<'_>) -> Result<(), Error>) -> Result<(), Error> {
        let mut reached = vec![false; self.partitions as usize];
        let mut moved = Instant::now();
        while reached.contains(&false) {
            let batch = self.poll(Duration::from_millis(500))?;
            for record in batch.records() {
                each(record)?;
                moved = Instant::now();
            }
            for partition in batch.ended() {
                reached[partition as usize] = true;
            }
            if moved.elapsed() > PATIENCE {
                let waiting_for = format!("the end of topic {}", self.topic);
                return Err(Error::Stalled { waiting_for, patience: PATIENCE });
            }
        }
        Ok(())
    }
}

/// A record by value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnedRecord {
    /// Its partition.
    pub partition: i32,
    /// Its offset.
    pub offset: i64,
    /// Milliseconds since 1970, or -1.
    pub timestamp_ms: i64,
    /// Its key, or `None` for null.
    pub key: Option<Vec<u8>>,
    /// Its value, or `None` for null.
    pub value: Option<Vec<u8>>,
    /// Its headers in order; a name may repeat, a value may be null.
    pub headers: Vec<(String, Option<Vec<u8>>)>,
}

impl From<Record<'_>> for OwnedRecord {
    fn from(record: Record<'_>) -> Self {
        Self {
            partition: record.partition(),
            offset: record.offset(),
            timestamp_ms: record.timestamp_ms(),
            key: record.key().map(<[u8]>::to_vec),
            value: record.value().map(<[u8]>::to_vec),
            headers: record.headers(),
        }
    }
}

/// All records of a topic up to its present end, per partition in the order of the offsets.
///
/// # Errors
/// As [`Reader::open`] and [`Reader::to_end`].
pub fn read_all(bootstrap: &str, topic: &str, isolation: Isolation) -> Result<Vec<OwnedRecord>, Error> {
    let mut records = Vec::new();
    Reader::open(bootstrap, topic, isolation)?.to_end(|record| {
        records.push(record.into());
        Ok(())
    })?;
    Ok(records)
}
