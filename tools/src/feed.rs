//! Writes a generated stream to a topic, as fast as the broker takes it or at a steady rate.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rdkafka::client::ClientContext;
use rdkafka::config::ClientConfig;
use rdkafka::error::KafkaError;
use rdkafka::producer::{BaseProducer, DeliveryResult, Producer, ProducerContext};
use serde::Serialize;

use crate::Error;
use crate::native::{Outgoing, Topic};

/// An endless source of records.
pub trait Stream {
    /// Appends the next record's key and value to the emptied buffers.
    fn next_into(&mut self, key: &mut Vec<u8>, value: &mut Vec<u8>);
}

/// What was written.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Fed {
    /// Records that the broker has acknowledged.
    pub records: u64,
    /// How long it took.
    pub seconds: f64,
}

/// Keeps the first record that could not be delivered: what was not written must not be counted.
#[derive(Default)]
struct FirstFailure(Mutex<Option<KafkaError>>);

impl ClientContext for FirstFailure {}

impl ProducerContext for FirstFailure {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, (): ()) {
        if let Err((error, _)) = result {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error.clone());
        }
    }
}

/// Writes records to one topic with an idempotent producer, partitioned by key as Java clients do.
pub struct Feeder {
    producer: BaseProducer<FirstFailure>,
    topic: String,
    keys: Vec<Vec<u8>>,
    values: Vec<Vec<u8>>,
}

const FLUSH: Duration = Duration::from_secs(120);
const FULL_SPEED_CHUNK: usize = 1000;
/// Between two looks at what is due at a steady rate.
const TURN: Duration = Duration::from_millis(10);
/// At a steady rate this part of a second's records is written at once at most.
const PARTS_OF_SECOND: u64 = 5;

impl Feeder {
    /// A feeder for this topic.
    ///
    /// # Errors
    /// When librdkafka refuses the address.
    pub fn new(bootstrap: &str, topic: &str) -> Result<Self, Error> {
        let producer = ClientConfig::new()
            .set("bootstrap.servers", bootstrap)
            .set("enable.idempotence", "true")
            .set("partitioner", "murmur2_random")
            .set("delivery.report.only.error", "true")
            .set("queue.buffering.max.messages", "500000")
            .set("queue.buffering.max.kbytes", "262144")
            .set("batch.size", "262144")
            .set("linger.ms", "20")
            .create_with_context(FirstFailure::default())
            .map_err(Error::kafka(format!("feeding topic {topic}")))?;
        Ok(Self { producer, topic: topic.to_owned(), keys: Vec::new(), values: Vec::new() })
    }

    /// Writes the next `records` of the stream and waits until the broker has acknowledged them.
    ///
    /// # Errors
    /// When the broker refuses a record, or does not take them within two minutes.
    pub fn fill(&mut self, stream: &mut dyn Stream, records: u64) -> Result<Fed, Error> {
        let started = Instant::now();
        let mut made = 0;
        while made < records {
            let chunk = FULL_SPEED_CHUNK.min((records - made) as usize);
            self.write(stream, chunk)?;
            made += chunk as u64;
        }
        self.flush()?;
        Ok(Fed { records: made, seconds: started.elapsed().as_secs_f64() })
    }

    /// Writes up to `records` records, `rate` a second, 1 at least, for as long as `go_on`, which is given the number
    /// written so far and asked a hundred times a second.
    ///
    /// # Errors
    /// When the broker refuses a record, or does not take the last ones within two minutes.
    pub fn steady(
        &mut self,
        stream: &mut dyn Stream,
        rate: u64,
        records: u64,
        mut go_on: impl FnMut(u64) -> bool,
    ) -> Result<Fed, Error> {
        let started = Instant::now();
        let mut made = 0;
        while go_on(made) && made < records {
            let due = ((started.elapsed().as_secs_f64() * rate.max(1) as f64) as u64).min(records);
            // What waits behind requests in flight keeps librdkafka's thread spinning, and takes from a broker that is
            // slow the processor that it needs to catch up.
            if due > made && self.producer.in_flight_count() == 0 {
                let count = (due - made).min((rate / PARTS_OF_SECOND).max(1));
                self.write(stream, count as usize)?;
                made += count;
            }
            self.producer.poll(Duration::ZERO);
            std::thread::sleep(TURN);
        }
        self.flush()?;
        Ok(Fed { records: made, seconds: started.elapsed().as_secs_f64() })
    }

    fn write(&mut self, stream: &mut dyn Stream, records: usize) -> Result<(), Error> {
        let refused = || Error::kafka(format!("feeding topic {}", self.topic));
        self.keys.resize(self.keys.len().max(records), Vec::new());
        self.values.resize(self.values.len().max(records), Vec::new());
        for (key, value) in self.keys.iter_mut().zip(&mut self.values).take(records) {
            key.clear();
            value.clear();
            stream.next_into(key, value);
        }
        let pairs = self.keys.iter().zip(&self.values).take(records);
        let mut messages: Vec<_> = pairs.map(|(key, value)| Outgoing::new(key, value)).collect();
        let topic = Topic::new(&self.producer, &self.topic).map_err(refused())?;
        loop {
            topic.produce(&mut messages).map_err(refused())?;
            self.producer.poll(Duration::ZERO);
            self.delivered()?;
            if messages.is_empty() {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn flush(&self) -> Result<(), Error> {
        self.producer.flush(FLUSH).map_err(Error::kafka(format!("feeding topic {}", self.topic)))?;
        self.delivered()
    }

    fn delivered(&self) -> Result<(), Error> {
        let failure = self.producer.context().0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        match failure {
            Some(error) => Err(Error::kafka(format!("feeding topic {}", self.topic))(error)),
            None => Ok(()),
        }
    }
}
