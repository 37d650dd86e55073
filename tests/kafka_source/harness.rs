//! A source with its subtasks, and a producer to feed it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use rdkafka::config::ClientConfig;
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use tidegate::connector::kafka::Connection;
use tidegate::connector::kafka::raw::{Client, Deadline, Settings};
use tidegate::connector::kafka::source::{KafkaRecord, KafkaSource};
use tidegate::connector::{
    DeadLetter, Origins, Polled, ReaderSeat, SourceControl, SourceOutput, SourceReader,
};
use tidegate::host::metrics::Metrics;
use tidegate::model::{Failure, JobId, OperatorUid, Record};
use tidegate_tools::topics::{Topics, token};

/// Nothing in these tests takes longer on a working machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) fn bootstrap() -> String {
    std::env::var("KAFKA_BOOTSTRAP")
        .expect("KAFKA_BOOTSTRAP is not set: these tests need a real broker; run `make test`")
}

pub(crate) fn connection() -> Connection {
    Connection::new(bootstrap())
}

pub(crate) fn topics() -> Topics {
    Topics::new(&bootstrap()).unwrap()
}

pub(crate) fn new_topic(partitions: i32) -> String {
    let name = format!("source-{}", token());
    topics().create(&name, partitions).unwrap();
    name
}

/// A source of whole records of this topic, in a group of its own.
pub(crate) fn bytes(topic: &str) -> KafkaSource<KafkaRecord> {
    KafkaSource::bytes(connection(), format!("group-{}", token())).topics([topic])
}

pub(crate) fn raw_client() -> Client {
    let properties = BTreeMap::from([("bootstrap.servers".to_owned(), bootstrap())]);
    Client::new(Settings::from_librdkafka(&properties).unwrap())
}

pub(crate) fn soon() -> Deadline {
    Deadline::after(PATIENCE)
}

/// Writes text values without keys, in one go.
pub(crate) fn write(topic: &str, partition: i32, values: &[&str]) {
    let producer: BaseProducer = ClientConfig::new().set("bootstrap.servers", bootstrap()).create().unwrap();
    send(&producer, topic, partition, values);
}

/// A producer with an open transaction.
pub(crate) fn transaction() -> BaseProducer {
    let producer: BaseProducer = ClientConfig::new()
        .set("bootstrap.servers", bootstrap())
        .set("transactional.id", format!("tx-{}", token()))
        .create()
        .unwrap();
    producer.init_transactions(PATIENCE).unwrap();
    producer.begin_transaction().unwrap();
    producer
}

pub(crate) fn send(producer: &BaseProducer, topic: &str, partition: i32, values: &[&str]) {
    for value in values {
        let record = BaseRecord::<[u8], str>::to(topic).partition(partition).payload(value);
        producer.send(record).map_err(|(error, _)| error).unwrap();
    }
    producer.flush(PATIENCE).unwrap();
    assert_eq!(producer.in_flight_count(), 0, "every record is acknowledged");
}

/// Writes one record with everything a record can have.
pub(crate) fn write_whole(
    topic: &str,
    key: Option<&[u8]>,
    value: Option<&[u8]>,
    headers: &[(&str, Option<&[u8]>)],
    timestamp: i64,
) {
    let producer: BaseProducer = ClientConfig::new().set("bootstrap.servers", bootstrap()).create().unwrap();
    let list = headers
        .iter()
        .fold(OwnedHeaders::new(), |list, (name, value)| list.insert(Header { key: name, value: *value }));
    let mut record = BaseRecord::<[u8], [u8]>::to(topic).partition(0).timestamp(timestamp).headers(list);
    (record.key, record.payload) = (key, value);
    producer.send(record).map_err(|(error, _)| error).unwrap();
    producer.flush(PATIENCE).unwrap();
    assert_eq!(producer.in_flight_count(), 0, "the record is acknowledged");
}

/// What the chain behind a reader was given.
#[derive(Default)]
pub(crate) struct Output<T> {
    pub(crate) records: Vec<Record<T>>,
    pub(crate) letters: Vec<Record<DeadLetter>>,
}

impl<T> SourceOutput<T> for Output<T> {
    fn record(&mut self, record: Record<T>) -> Result<(), Failure> {
        self.records.push(record);
        Ok(())
    }

    fn dead_letter(&mut self, letter: Record<DeadLetter>) -> Result<(), Failure> {
        self.letters.push(letter);
        Ok(())
    }
}

/// All subtasks of a source, with what they gave.
pub(crate) struct Running<T> {
    pub(crate) source: KafkaSource<T>,
    pub(crate) subtasks: Vec<Box<dyn SourceReader<T>>>,
    pub(crate) output: Output<T>,
    pub(crate) metrics: Metrics,
    pub(crate) origins: Origins,
}

impl<T> Running<T> {
    /// As the first start of a job: positions are resolved, then read from.
    pub(crate) fn start(source: KafkaSource<T>) -> Self {
        source.check().unwrap();
        let splits = source.resolve_start().unwrap();
        Self::restore(source, splits, 1)
    }

    /// As a later start.
    pub(crate) fn restore(source: KafkaSource<T>, splits: Vec<Vec<u8>>, parallelism: u32) -> Self {
        let metrics = Metrics::default();
        let splits = source.reconcile(splits, &metrics).unwrap();
        Self::begin(source, splits, parallelism, metrics)
    }

    /// Without reconciling.
    pub(crate) fn begin(
        source: KafkaSource<T>,
        splits: Vec<Vec<u8>>,
        parallelism: u32,
        metrics: Metrics,
    ) -> Self {
        let origins = Origins::default();
        let seat = |subtask| ReaderSeat {
            job: JobId::new("test").unwrap(),
            uid: OperatorUid("source".to_owned()),
            subtask,
            parallelism,
            splits: splits.clone(),
            origins: origins.clone(),
            metrics: metrics.clone(),
            cancelled: Arc::new(AtomicBool::new(false)),
        };
        let subtasks = (0..parallelism).map(|subtask| source.reader(seat(subtask)).unwrap()).collect();
        Self {
            source,
            subtasks,
            output: Output { records: Vec::new(), letters: Vec::new() },
            metrics,
            origins,
        }
    }

    /// Polls every subtask once.
    pub(crate) fn poll(&mut self) -> Result<Vec<Polled>, Failure> {
        let output = &mut self.output;
        self.subtasks.iter_mut().map(|s| s.poll(Duration::from_millis(20), output)).collect()
    }

    /// Polls until the condition holds.
    pub(crate) fn poll_until(&mut self, what: &str, mut holds: impl FnMut(&Output<T>) -> bool) {
        let started = Instant::now();
        while !holds(&self.output) {
            assert!(started.elapsed() < PATIENCE, "waited in vain for {what}");
            self.poll().unwrap();
        }
    }

    /// Polls until a subtask fails.
    pub(crate) fn failure(&mut self) -> Failure {
        let started = Instant::now();
        loop {
            assert!(started.elapsed() < PATIENCE, "waited in vain for a failure");
            if let Err(failure) = self.poll() {
                return failure;
            }
        }
    }

    /// Polls until every subtask says that it is at its end.
    pub(crate) fn read_to_end(&mut self) {
        let started = Instant::now();
        while !self.poll().unwrap().iter().all(|polled| *polled == Polled::AtEnd) {
            assert!(started.elapsed() < PATIENCE, "waited in vain for the end");
        }
    }

    /// The positions of all subtasks.
    pub(crate) fn freeze(&mut self) -> Vec<Vec<u8>> {
        self.subtasks.iter_mut().flat_map(|subtask| subtask.freeze().unwrap()).collect()
    }

    /// A counter's value, summed over topics.
    pub(crate) fn counted(&self, name: &str) -> u64 {
        let families = self.metrics.registry().gather();
        let of_name = families.iter().filter(|family| family.name() == name);
        of_name
            .flat_map(|family| family.get_metric())
            .map(|metric| metric.get_counter().get_value() as u64)
            .sum()
    }

    /// Hands positions to the group, waits for them, and gives what the broker then holds.
    pub(crate) fn commit(&mut self, group: &str, topic: &str, partitions: i32) -> Vec<i64> {
        let splits = self.freeze();
        let mut committer = self.source.offset_committer(&self.metrics).unwrap();
        committer.commit(splits);
        committer.close(Instant::now() + PATIENCE);
        committed(group, topic, partitions)
    }
}

impl Running<KafkaRecord> {
    /// The values in the order in which they came, as text; null as "null".
    pub(crate) fn values(&self) -> Vec<String> {
        let text = |value: &Option<Vec<u8>>| match value {
            Some(bytes) => String::from_utf8(bytes.clone()).unwrap(),
            None => "null".to_owned(),
        };
        self.output.records.iter().map(|record| text(&record.value.value)).collect()
    }
}

/// What a group has committed, by partition; -1 for nothing.
pub(crate) fn committed(group: &str, topic: &str, partitions: i32) -> Vec<i64> {
    use tidegate::connector::kafka::raw::TopicPartition;
    let at: Vec<_> = (0..partitions).map(|partition| TopicPartition::new(topic, partition)).collect();
    let found = raw_client().fetch_offsets(group, &at, soon()).unwrap();
    at.iter().map(|at| found.iter().find(|o| o.at == *at).map_or(-1, |o| o.offset)).collect()
}
