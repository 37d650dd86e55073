//! The broker, topics, and a producer to feed them.

use std::collections::BTreeMap;
use std::time::Instant;

use crate::running::{PATIENCE, Running};
use rdkafka::config::ClientConfig;
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use tidegate::connector::SourceControl;
use tidegate::connector::kafka::Connection;
use tidegate::connector::kafka::raw::{Client, Deadline, Settings};
use tidegate::connector::kafka::source::{KafkaRecord, KafkaSource};
use tidegate_tools::topics::{Topics, token};

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

/// Hands positions to the group, waits for them, and gives what the broker then holds.
pub(crate) fn commit<T>(running: &mut Running<T>, group: &str, topic: &str, partitions: i32) -> Vec<i64> {
    let splits = running.freeze();
    let mut committer = running.source.offset_committer(&running.metrics).unwrap();
    committer.commit(splits);
    committer.close(Instant::now() + PATIENCE);
    committed(group, topic, partitions)
}

/// What a group has committed, by partition; -1 for nothing.
pub(crate) fn committed(group: &str, topic: &str, partitions: i32) -> Vec<i64> {
    use tidegate::connector::kafka::raw::TopicPartition;
    let at: Vec<_> = (0..partitions).map(|partition| TopicPartition::new(topic, partition)).collect();
    let found = raw_client().fetch_offsets(group, &at, soon()).unwrap();
    at.iter().map(|at| found.iter().find(|o| o.at == *at).map_or(-1, |o| o.offset)).collect()
}
