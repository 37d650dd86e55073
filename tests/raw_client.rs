//! The raw client against a real broker: transactions of a librdkafka producer that died, seen and
//! ended from outside.
//!
//! Needs `KAFKA_BOOTSTRAP`, which `make test` sets.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::time::Duration;

use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer as _};
use tidegate::connector::kafka::raw::{
    Client, Code, ConfigResource, Deadline, Described, EndOutcome, Error, ErrorKind, GroupOffset, Marker,
    OffsetSpec, Producer, Settings, TopicPartition, TransactionState,
};
use tidegate_tools::topics::{Topics, token};

fn bootstrap() -> String {
    std::env::var("KAFKA_BOOTSTRAP")
        .expect("KAFKA_BOOTSTRAP is not set: these tests need a real broker; run `make test`")
}

fn client() -> Client {
    let properties = BTreeMap::from([("bootstrap.servers".to_owned(), bootstrap())]);
    Client::new(Settings::from_librdkafka(&properties).unwrap())
}

fn soon() -> Deadline {
    Deadline::after(Duration::from_secs(30))
}

fn new_topic(partitions: i32) -> String {
    let name = format!("raw-{}", token());
    Topics::new(&bootstrap()).unwrap().create(&name, partitions).unwrap();
    name
}

/// A producer with an initialised transactional id.
fn producer(id: &str) -> BaseProducer {
    let producer: BaseProducer = ClientConfig::new()
        .set("bootstrap.servers", bootstrap())
        .set("transactional.id", id)
        .set("transaction.timeout.ms", "60000")
        .create()
        .unwrap();
    producer.init_transactions(Duration::from_secs(30)).unwrap();
    producer
}

fn send(producer: &BaseProducer, topic: &str, partition: i32, values: &[&str]) {
    for value in values {
        let record = BaseRecord::<[u8], str>::to(topic).partition(partition).payload(value);
        producer.send(record).map_err(|(error, _)| error).unwrap();
    }
    producer.flush(Duration::from_secs(30)).unwrap();
    assert_eq!(producer.in_flight_count(), 0, "every record is acknowledged");
}

/// A transaction left open by a producer that is gone.
fn abandon(id: &str, topic: &str, values: &[&str]) -> Described {
    let producer = producer(id);
    producer.begin_transaction().unwrap();
    send(&producer, topic, 0, values);
    let described = client().describe_transaction(id, soon()).unwrap().expect("it has records");
    assert_eq!(described.state, TransactionState::Ongoing);
    drop(producer);
    described
}

fn producer_of(described: &Described) -> Producer {
    Producer { id: described.producer_id, epoch: described.producer_epoch }
}

fn settled(client: &mut Client, id: &str, expected: TransactionState) -> Described {
    let deadline = soon();
    loop {
        let now = client.describe_transaction(id, deadline).unwrap().expect("the id exists");
        if now.state == expected {
            return now;
        }
        assert!(!deadline.passed(), "{id} is still {}", now.state);
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn offset(client: &mut Client, at: &TopicPartition, spec: OffsetSpec) -> Option<i64> {
    let mut listed = client.list_offsets(std::slice::from_ref(at), spec, soon()).unwrap();
    listed.remove(at).expect("it was asked for").unwrap().offset
}

#[test]
fn a_transaction_of_a_dead_producer_is_described_and_committed() {
    let (topic, id) = (new_topic(2), format!("tx-{}", token()));
    let mut client = client();
    assert_eq!(client.describe_transaction(&id, soon()).unwrap(), None, "nobody used the id yet");

    let open = abandon(&id, &topic, &["a", "b", "c"]);
    let at = TopicPartition::new(&*topic, 0);
    assert_eq!(open.partitions, std::slice::from_ref(&at));
    assert_eq!(open.timeout_ms, 60_000);
    assert!(open.start_ms > 0);
    assert_eq!(offset(&mut client, &at, OffsetSpec::LastStable), Some(0));
    assert_eq!(offset(&mut client, &at, OffsetSpec::Latest), Some(3));

    let outcome = client.end_transaction(&id, producer_of(&open), true, soon()).unwrap();
    assert!(matches!(outcome, EndOutcome::Accepted), "{outcome:?}");
    let done = settled(&mut client, &id, TransactionState::CompleteCommit);
    assert_eq!((done.producer_id, done.producer_epoch), (open.producer_id, open.producer_epoch));
    assert_eq!(done.start_ms, open.start_ms, "the start names the transaction also after its end");
    assert_eq!(offset(&mut client, &at, OffsetSpec::LastStable), Some(4), "three records and a marker");

    let again = client.end_transaction(&id, producer_of(&open), true, soon()).unwrap();
    assert!(matches!(again, EndOutcome::Accepted), "a commit may be repeated: {again:?}");
    let opposite = client.end_transaction(&id, producer_of(&open), false, soon()).unwrap();
    assert!(matches!(opposite, EndOutcome::OtherState), "{opposite:?}");
}

#[test]
fn taking_an_id_over_aborts_its_transaction_and_fences_its_producer() {
    let (topic, id) = (new_topic(1), format!("tx-{}", token()));
    let open = abandon(&id, &topic, &["a"]);
    let mut client = client();
    let new = client.init_producer_id(&id, Duration::from_secs(60), soon()).unwrap();
    assert!(new != producer_of(&open), "{new:?}");
    let now = settled(&mut client, &id, TransactionState::Empty);
    assert_eq!(now.start_ms, -1);

    let late = client.end_transaction(&id, producer_of(&open), true, soon()).unwrap();
    assert!(matches!(late, EndOutcome::Fenced | EndOutcome::OtherProducer), "{late:?}");
    let unknown = client.end_transaction(&format!("tx-{}", token()), new, true, soon()).unwrap();
    assert!(matches!(unknown, EndOutcome::OtherProducer), "{unknown:?}");
}

#[test]
fn a_timeout_above_the_brokers_maximum_is_a_matter_of_configuration() {
    let id = format!("tx-{}", token());
    let day = Duration::from_secs(24 * 60 * 60);
    let error = client().init_producer_id(&id, day, soon()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Configuration);
    assert!(error.to_string().contains("error 50 (InvalidTransactionTimeout)"), "{error}");
}

#[test]
fn open_transactions_are_listed_and_others_are_not() {
    let (topic, id) = (new_topic(1), format!("tx-{}", token()));
    let open = abandon(&id, &topic, &["a"]);
    let mut client = client();
    let ongoing = [TransactionState::Ongoing, TransactionState::PrepareEpochFence];
    let listed = client.list_transactions(&ongoing, soon()).unwrap();
    let ours = listed.iter().find(|l| l.transactional_id == id).expect("the open one is listed");
    assert_eq!((ours.producer_id, &ours.state), (open.producer_id, &TransactionState::Ongoing));
    assert!(listed.iter().all(|l| ongoing.contains(&l.state)));

    client.end_transaction(&id, producer_of(&open), false, soon()).unwrap();
    settled(&mut client, &id, TransactionState::CompleteAbort);
    let listed = client.list_transactions(&ongoing, soon()).unwrap();
    assert!(!listed.iter().any(|l| l.transactional_id == id));
    let all = client.list_transactions(&[], soon()).unwrap();
    assert!(all.iter().any(|l| l.transactional_id == id && l.state == TransactionState::CompleteAbort));
}

#[test]
fn metadata_tells_topic_ids_and_leaders_and_names_what_is_missing() {
    let (topic, missing) = (new_topic(3), format!("missing-{}", token()));
    let mut client = client();
    let metadata = client.metadata(Some(&[&topic, &missing]), soon()).unwrap();
    assert!(!metadata.brokers.is_empty());
    let found = metadata.topic(&topic).unwrap();
    assert_ne!(found.id, [0; 16]);
    let numbers: Vec<i32> = found.partitions.iter().map(|p| p.partition).collect();
    assert_eq!(numbers, [0, 1, 2]);
    assert!(found.partitions.iter().all(|p| p.leader.is_some() && p.leader_epoch >= 0));
    assert_eq!(metadata.topic(&missing).unwrap().error, Some(Code::UNKNOWN_TOPIC_OR_PARTITION));
    let everything = client.metadata(None, soon()).unwrap();
    assert!(everything.topic(&topic).is_some());
    assert!(client.transaction_version(soon()).unwrap() >= 0);
}

#[test]
fn offsets_are_found_by_place_and_by_time() {
    let (topic, id) = (new_topic(2), format!("tx-{}", token()));
    let producer = producer(&id);
    producer.begin_transaction().unwrap();
    send(&producer, &topic, 1, &["a", "b"]);
    producer.commit_transaction(Duration::from_secs(30)).unwrap();
    let mut client = client();
    settled(&mut client, &id, TransactionState::CompleteCommit);
    let at = TopicPartition::new(&*topic, 1);
    assert_eq!(offset(&mut client, &at, OffsetSpec::Earliest), Some(0));
    assert_eq!(offset(&mut client, &at, OffsetSpec::Latest), Some(3));
    assert_eq!(offset(&mut client, &at, OffsetSpec::Timestamp(0)), Some(0));
    assert_eq!(offset(&mut client, &at, OffsetSpec::Timestamp(i64::MAX / 2)), None);
    let both = [at.clone(), TopicPartition::new(&*topic, 0)];
    assert_eq!(client.list_offsets(&both, OffsetSpec::Latest, soon()).unwrap().len(), 2);

    let nowhere = [TopicPartition::new(&*topic, 7)];
    let short = Deadline::after(Duration::from_millis(300));
    let error = client.list_offsets(&nowhere, OffsetSpec::Latest, short).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Deadline);
    assert_eq!(error.code(), Some(Code::UNKNOWN_TOPIC_OR_PARTITION), "{error}");
}

#[test]
fn the_marker_of_a_transaction_is_found_between_those_of_others() {
    let topic = new_topic(1);
    let at = TopicPartition::new(&*topic, 0);
    let ids = ["aborted", "committed", "timed-out", "open"].map(|name| format!("{name}-{}", token()));
    let mut client = client();
    // Offsets 0 to 3: one record of each transaction.
    let open = ids.clone().map(|id| abandon(&id, &topic, &["a"]));
    let next = |offset| offset + 1;
    for (described, offset) in open.iter().zip(0..) {
        let marker = client.find_marker(&at, described.producer_id, next(offset), soon()).unwrap();
        assert_eq!(marker, Marker::NotFound { end: 4 }, "nothing is decided yet");
    }
    client.end_transaction(&ids[0], producer_of(&open[0]), false, soon()).unwrap();
    settled(&mut client, &ids[0], TransactionState::CompleteAbort);
    client.end_transaction(&ids[1], producer_of(&open[1]), true, soon()).unwrap();
    settled(&mut client, &ids[1], TransactionState::CompleteCommit);
    // Fencing writes the marker with the next epoch.
    client.init_producer_id(&ids[2], Duration::from_secs(60), soon()).unwrap();

    let mut marker_of = |n: usize| {
        let from = next(i64::try_from(n).unwrap());
        client.find_marker(&at, open[n].producer_id, from, soon()).unwrap()
    };
    assert_eq!(marker_of(0), Marker::Aborted { offset: 4 });
    assert_eq!(marker_of(1), Marker::Committed { offset: 5 });
    assert_eq!(marker_of(2), Marker::Aborted { offset: 6 });
    assert_eq!(marker_of(3), Marker::NotFound { end: 7 }, "the open transaction blocks nothing");
    assert_eq!(client.find_marker(&at, 1, 900, soon()).unwrap(), Marker::NotFound { end: 7 });
}

#[test]
fn a_marker_is_found_behind_batches_longer_than_a_page() {
    let topic = format!("raw-{}", token());
    let big = [("max.message.bytes", "20000000"), ("segment.bytes", "16000000")];
    Topics::new(&bootstrap()).unwrap().create_with(&topic, 1, &big).unwrap();
    let at = TopicPartition::new(&*topic, 0);
    let (first, id) = (format!("tx-{}", token()), format!("tx-{}", token()));
    let open = abandon(&first, &topic, &["a"]);
    let filler: BaseProducer = ClientConfig::new()
        .set("bootstrap.servers", bootstrap())
        .set("transactional.id", &id)
        .set("message.max.bytes", "20000000")
        .create()
        .unwrap();
    filler.init_transactions(Duration::from_secs(30)).unwrap();
    filler.begin_transaction().unwrap();
    let large = "x".repeat(9 << 20);
    for _ in 0..3 {
        send(&filler, &topic, 0, &[&large]);
    }
    filler.commit_transaction(Duration::from_secs(30)).unwrap();
    let mut client = client();
    client.end_transaction(&first, producer_of(&open), true, soon()).unwrap();
    let done = settled(&mut client, &first, TransactionState::CompleteCommit);
    let marker = client.find_marker(&at, done.producer_id, 1, soon()).unwrap();
    assert_eq!(marker, Marker::Committed { offset: 5 });
}

#[test]
fn batches_of_a_producer_are_told_from_those_of_others() {
    let (topic, id) = (new_topic(1), format!("tx-{}", token()));
    let at = TopicPartition::new(&*topic, 0);
    let (ours, other) = (producer(&id), producer(&format!("tx-{}", token())));
    ours.begin_transaction().unwrap();
    other.begin_transaction().unwrap();
    send(&ours, &topic, 0, &["a", "b"]);
    send(&other, &topic, 0, &["x"]);
    send(&ours, &topic, 0, &["c"]);
    let mut client = client();
    let described = client.describe_transaction(&id, soon()).unwrap().unwrap();
    other.commit_transaction(Duration::from_secs(30)).unwrap();
    ours.commit_transaction(Duration::from_secs(30)).unwrap();
    settled(&mut client, &id, TransactionState::CompleteCommit);

    let found = client.producer_batches(&at, described.producer_id, 0, 3, soon()).unwrap();
    assert_eq!(found.log_start, 0);
    assert_eq!(found.count(), 3);
    let offsets: Vec<i64> = found.batches.iter().flat_map(|batch| batch.base..=batch.last).collect();
    assert_eq!(offsets, [0, 1, 3]);
    assert!(found.batches.iter().all(|batch| batch.epoch == described.producer_epoch));
    let part = client.producer_batches(&at, described.producer_id, 2, 3, soon()).unwrap();
    assert_eq!(part.count(), 1);
}

#[test]
fn configuration_is_read_by_name() {
    let topic = new_topic(1);
    let mut client = client();
    let of_topic = client.describe_configs(&ConfigResource::Topic(topic), soon()).unwrap();
    assert_eq!(of_topic["retention.ms"], "-1", "as it was created");
    assert_eq!(of_topic["message.timestamp.type"], "CreateTime");
    assert!(of_topic.contains_key("max.message.bytes"));
    let broker = client.metadata(Some(&[]), soon()).unwrap().brokers[0].id;
    let of_broker = client.describe_configs(&ConfigResource::Broker(broker), soon()).unwrap();
    assert!(of_broker["transaction.max.timeout.ms"].parse::<u64>().unwrap() > 0);
}

#[test]
fn offsets_of_a_group_are_committed_and_read_back() {
    let (topic, group) = (new_topic(3), format!("group-{}", token()));
    let mut client = client();
    let at = |partition| TopicPartition::new(&*topic, partition);
    let all = [at(0), at(1), at(2)];
    assert_eq!(client.fetch_offsets(&group, &all, soon()).unwrap(), []);
    let commit = |partition, offset, metadata: &str| GroupOffset {
        at: at(partition),
        offset,
        metadata: metadata.to_owned(),
    };
    let offsets = [commit(0, 7, "checkpoint 3"), commit(2, 0, "")];
    client.commit_offsets(&group, &offsets, soon()).unwrap();
    assert_eq!(client.fetch_offsets(&group, &all, soon()).unwrap(), offsets);
    client.commit_offsets(&group, &[], soon()).unwrap();
}

#[test]
fn offsets_of_a_group_that_somebody_subscribes_with_are_refused() {
    let (topic, group) = (new_topic(1), format!("group-{}", token()));
    let consumer: BaseConsumer =
        ClientConfig::new().set("bootstrap.servers", bootstrap()).set("group.id", &group).create().unwrap();
    consumer.subscribe(&[&topic]).unwrap();
    let joined = soon();
    while consumer.assignment().unwrap().count() == 0 {
        let _ = consumer.poll(Duration::from_millis(100));
        assert!(!joined.passed(), "the consumer does not get its partition");
    }
    let at = TopicPartition::new(&*topic, 0);
    let offset = GroupOffset { at: at.clone(), offset: 1, metadata: String::new() };
    let error = client().commit_offsets(&group, &[offset], soon()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Configuration, "{error}");
    assert!(matches!(&error, Error::OffsetsRefused { failures, .. } if failures[0].0 == at), "{error:?}");
}

#[test]
fn the_check_connects_to_every_broker_and_reads_a_log() {
    let topic = new_topic(1);
    let checked = client().check(&[TopicPartition::new(&*topic, 0)], soon()).unwrap();
    assert!(!checked.brokers.is_empty());
    let short = Deadline::after(Duration::from_millis(500));
    let missing = TopicPartition::new(format!("missing-{}", token()), 0);
    let error = client().check(&[missing], short).unwrap_err();
    assert_eq!(error.code(), Some(Code::UNKNOWN_TOPIC_OR_PARTITION), "{error}");
}

#[test]
fn nobody_there_is_an_error_within_the_deadline() {
    let properties = BTreeMap::from([("bootstrap.servers".to_owned(), "127.0.0.1:1".to_owned())]);
    let mut client = Client::new(Settings::from_librdkafka(&properties).unwrap());
    let error = client.metadata(None, Deadline::after(Duration::from_millis(200))).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Deadline);
    assert!(error.to_string().contains("connecting to Kafka broker 127.0.0.1:1"), "{error}");
}
