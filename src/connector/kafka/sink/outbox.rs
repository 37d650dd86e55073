//! What every Kafka writer does: serialize, check against the topic, collect, hand over in batches, count deliveries.

use super::evidence::Tally;
use super::limits::{self, Limits};
use super::record::{Buffer, Entry, RecordWriter};
use super::{KafkaSink, OnOversized};
use crate::connector::kafka::native::{self, Outgoing, Producer};
use crate::connector::kafka::raw::Client;
use crate::host::clock;
use crate::host::metrics::Metrics;
use crate::model::{Advice, Failure};
use prometheus::IntCounter;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The buffer goes to librdkafka when it holds this many records, or this many bytes (256 KiB).
const RECORDS: usize = 2048;
const BYTES: usize = 256 * 1024;

/// One wait for the broker; between two the writer looks whether the attempt is over.
const TURN: Duration = Duration::from_millis(1);

/// An error of a call on a producer.
pub(super) fn producer_failure(call: &str, on: &str, e: &native::Error) -> Failure {
    failed(e, format!("cannot {call} {on}: {e}"))
}

fn failed(e: &native::Error, text: String) -> Failure {
    Failure::new(if e.is_fenced() { Advice::Displaced } else { Advice::Restart }, text)
}

pub(super) fn over() -> Failure {
    Failure::restart("the attempt is over")
}

/// Serialized records that wait to be handed over, and what is known of their topics.
pub(super) struct Outbox<T> {
    sink: KafkaSink<T>,
    client: Arc<Mutex<Client>>,
    /// The sink's own topic first.
    topics: Vec<String>,
    limits: Vec<Limits>,
    buffer: Buffer,
    cancelled: Arc<AtomicBool>,
    written: IntCounter,
    oversized: IntCounter,
}

impl<T> Outbox<T> {
    pub(super) fn new(
        sink: KafkaSink<T>,
        client: Client,
        cancelled: Arc<AtomicBool>,
        metrics: &Metrics,
        uid: &str,
    ) -> Self {
        let labels = [("operator", uid)];
        Self {
            sink,
            client: Arc::new(Mutex::new(client)),
            topics: Vec::new(),
            limits: Vec::new(),
            buffer: Buffer::default(),
            cancelled,
            written: metrics.own_counter("tidegate_sink_records_total", "Records written.", &labels),
            oversized: metrics.own_counter(
                "tidegate_sink_oversized_records_total",
                "Records that were dropped since their topic does not take their size.",
                &labels,
            ),
        }
    }

    /// The raw client, shared with those that collect evidence.
    pub(super) fn client(&self) -> Arc<Mutex<Client>> {
        Arc::clone(&self.client)
    }

    /// The topics met so far, by number.
    pub(super) fn names(&self) -> &[String] {
        &self.topics
    }

    pub(super) fn is_empty(&self) -> bool {
        self.buffer.entries.is_empty()
    }

    pub(super) fn is_full(&self) -> bool {
        self.buffer.entries.len() >= RECORDS || self.buffer.len_bytes() >= BYTES
    }

    pub(super) fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }

    /// Serializes one value.
    pub(super) fn collect(&mut self, value: &T) -> Result<(), Failure> {
        if self.topics.is_empty() {
            let own = self.sink.topic.clone();
            self.number_of(&own)?;
        }
        let mut buffer = std::mem::take(&mut self.buffer);
        let mut record = RecordWriter::new(&mut buffer);
        let result = (self.sink.serialize)(value, &mut record)
            .map_err(|e| Failure::restart(format!("the record cannot be serialized: {e}")))
            .and_then(|()| record.finish(|topic| self.number_of(topic)));
        self.buffer = buffer;
        result?;
        self.check_last()
    }

    fn number_of(&mut self, topic: &str) -> Result<usize, Failure> {
        if let Some(at) = self.topics.iter().position(|t| t == topic) {
            return Ok(at);
        }
        let limits = limits::ask(&self.sink, &mut lock(&self.client), topic)?;
        let batch = self.sink.batch_bytes();
        if batch > limits.max_bytes {
            return Err(Failure::configuration(format!(
                "topic {topic} takes batches of up to max.message.bytes={}, and the producer's batch.size is {batch}: set \
                 batch.size on the sink to what the smallest of its topics takes",
                limits.max_bytes
            )));
        }
        self.topics.push(topic.to_owned());
        self.limits.push(limits);
        Ok(self.topics.len() - 1)
    }

    /// Applies the topic's limits to the record that was collected last, before it can enter a transaction.
    fn check_last(&mut self) -> Result<(), Failure> {
        let entry = self.buffer.entries.last().expect("a record was just collected");
        let (topic, limits) = (&self.topics[entry.topic], self.limits[entry.topic]);
        let size = self.buffer.size(entry);
        if size > limits.max_bytes {
            let text = format!(
                "a record of up to {size} bytes is larger than topic {topic} takes (max.message.bytes={})",
                limits.max_bytes
            );
            if self.sink.on_oversized == OnOversized::Fail {
                return Err(Failure::configuration(format!(
                    "{text}; raise the topic's max.message.bytes, or let the sink drop such records (OnOversized::Drop)"
                )));
            }
            tracing::warn!("{text}: dropped");
            self.oversized.inc();
            self.buffer.drop_last();
            return Ok(());
        }
        match entry.timestamp_ms.and_then(|t| limits.refuses_time(t)) {
            Some(problem) => {
                Err(Failure::configuration(format!("a record for topic {topic} is refused: {problem}")))
            }
            None => Ok(()),
        }
    }

    /// Drops what is collected and not handed over.
    pub(super) fn forget(&mut self) {
        self.buffer.clear();
    }

    /// Hands everything collected to librdkafka, waiting while its queue is full.
    pub(super) fn hand_over(&mut self, lane: &mut Lane) -> Result<(), Failure> {
        for name in &self.topics[lane.topics.len()..] {
            let number = lane.producer.topic(name).map_err(|e| producer_failure("use topic", name, &e))?;
            lane.topics.push(number);
        }
        let buffer = &self.buffer;
        let mut at = 0;
        while at < buffer.entries.len() {
            let first = &buffer.entries[at];
            let topic = lane.topics[first.topic];
            let sent = if first.is_plain() {
                let run = buffer.entries[at..].iter().take_while(|e| e.is_plain() && e.topic == first.topic);
                lane.producer.send_batch(topic, run.map(|e| outgoing(buffer, e)))
            } else {
                let (record, headers) = (outgoing(buffer, first), buffer.headers(first));
                lane.producer
                    .send_one(topic, first.partition, record, first.timestamp_ms, headers)
                    .map(usize::from)
            };
            let sent = sent.map_err(|e| producer_failure("write to", &self.topics[first.topic], &e))?;
            at += sent;
            // A full queue is the broker's backpressure: serve its answers until there is room.
            lane.serve(&self.topics, if sent == 0 { TURN } else { Duration::ZERO })?;
            if sent == 0 && self.is_cancelled() {
                return Err(over());
            }
        }
        self.written.inc_by(buffer.entries.len() as u64);
        self.buffer.clear();
        Ok(())
    }
}

pub(super) fn lock(client: &Mutex<Client>) -> MutexGuard<'_, Client> {
    client.lock().unwrap_or_else(PoisonError::into_inner)
}

fn outgoing<'a>(buffer: &'a Buffer, entry: &Entry) -> Outgoing<'a> {
    Outgoing {
        key: entry.key.as_ref().map(|r| buffer.slice(r)),
        value: entry.value.as_ref().map(|r| buffer.slice(r)),
    }
}

/// A producer, and what it has delivered.
pub(super) struct Lane {
    pub(super) producer: Producer,
    pub(super) tally: Tally,
    /// The producer's topic numbers, by the outbox's.
    topics: Vec<usize>,
}

impl Lane {
    pub(super) fn new(producer: Producer) -> Self {
        Self { producer, tally: Tally::default(), topics: Vec::new() }
    }

    /// The outbox's number of a topic that this lane alone knows, as in a salvage.
    pub(super) fn topic(&mut self, names: &mut Vec<String>, topic: &str) -> Result<usize, Failure> {
        if let Some(at) = names.iter().position(|n| n == topic) {
            return Ok(at);
        }
        let number = self.producer.topic(topic).map_err(|e| producer_failure("use topic", topic, &e))?;
        names.push(topic.to_owned());
        self.topics.push(number);
        Ok(names.len() - 1)
    }

    /// Sends one record to a partition; `false` if the queue is full.
    pub(super) fn send<'a>(
        &mut self,
        topic: usize,
        partition: i32,
        record: Outgoing<'_>,
        timestamp_ms: Option<i64>,
        headers: impl Iterator<Item = (&'a [u8], Option<&'a [u8]>)>,
    ) -> Result<bool, Failure> {
        self.producer
            .send_one(self.topics[topic], Some(partition), record, timestamp_ms, headers)
            .map_err(|e| producer_failure("write to", &format!("partition {partition}"), &e))
    }

    /// Takes delivery reports in; the first that is bad fails the attempt.
    pub(super) fn serve(&mut self, names: &[String], wait: Duration) -> Result<(), Failure> {
        let mut bad = None;
        let (tally, topics) = (&mut self.tally, &self.topics);
        let polled = self.producer.poll(wait, |delivery| {
            let topic = topics.iter().position(|t| *t == delivery.topic).unwrap_or(0);
            match delivery.error {
                None if delivery.offset >= 0 => tally.add(topic, delivery.partition, delivery.offset),
                // A record without its offset could not be found again.
                error if bad.is_none() => bad = Some((topic, delivery.partition, error)),
                _ => {}
            }
        });
        let Some((topic, partition, error)) = bad else {
            return polled.map_err(|e| failed(&e, format!("the producer failed: {e}")));
        };
        let record = format!("a record for topic {} partition {partition}", names[topic]);
        // What stops the producer purges its records: the purge is no reason.
        match self.producer.fatal().or(error) {
            Some(e) => Err(failed(&e, format!("{record} was not delivered: {e}"))),
            None => Err(Failure::restart(format!("{record} was delivered without an offset"))),
        }
    }

    /// Aborts the transaction, whatever became of its records.
    pub(super) fn abort(mut self, patience: Duration) -> Result<(), native::Error> {
        let deadline = clock::now() + patience;
        loop {
            match self.producer.abort_transaction(TURN) {
                Err(e) if e.name == "_TIMED_OUT" && clock::now() < deadline => {
                    // It waits for us to take the reports of what it has dropped.
                    self.producer.poll(Duration::ZERO, |_| {})?;
                }
                answer => return answer,
            }
        }
    }

    /// Waits until the brokers have acknowledged every record.
    pub(super) fn drain(
        &mut self,
        names: &[String],
        patience: Duration,
        is_over: impl Fn() -> bool,
    ) -> Result<(), Failure> {
        let deadline = clock::now() + patience;
        while self.producer.in_flight() > 0 {
            self.producer.push_out();
            self.serve(names, Duration::ZERO)?;
            if is_over() {
                return Err(over());
            }
            if clock::now() >= deadline {
                return Err(Failure::restart(format!(
                    "{} records were not acknowledged by the brokers within {patience:?}",
                    self.producer.in_flight(),
                )));
            }
        }
        Ok(())
    }
}
