//! The judge and the broker: what it must notice is made to happen on real topics.
//!
//! Needs what `scripts/test` provides: `KAFKA_BOOTSTRAP`, and the built programs in `TIDEGATE_BIN_DIR`.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on shall panic, also in its helpers")]

use std::collections::HashMap;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use rdkafka::{Offset, TopicPartitionList};
use tidegate_tools::clicks::{self, Clicks};
use tidegate_tools::feed::{Feeder, Stream};
use tidegate_tools::offsets::Isolation;
use tidegate_tools::program::{Job, System, run_folder};
use tidegate_tools::reader::read_all;
use tidegate_tools::topics::{Topics, token};
use tidegate_tools::{oracle, rest};

const TIMEOUT: Duration = Duration::from_secs(30);

fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("{name} is not set: run this by scripts/test"))
}

/// Topics of this test only, removed in the end.
struct World {
    bootstrap: String,
    topics: Topics,
    name: String,
    made: Vec<String>,
}

impl World {
    fn new(test: &str) -> Self {
        let bootstrap = variable("KAFKA_BOOTSTRAP");
        let topics = Topics::new(&bootstrap).unwrap();
        Self { bootstrap, topics, name: format!("{test}-{}", token()), made: Vec::new() }
    }

    fn topic(&mut self, name: &str, partitions: i32) -> String {
        let topic = format!("{}-{name}", self.name);
        self.topics.create(&topic, partitions).unwrap();
        self.made.push(topic.clone());
        topic
    }

    fn producer(&self, settings: &[(&str, &str)]) -> BaseProducer {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", &self.bootstrap);
        settings.iter().for_each(|(name, value)| {
            config.set(*name, *value);
        });
        config.create().unwrap()
    }

    fn look(&self, inputs: &[&str], outputs: &[&str]) -> rest::RestReport {
        rest::look(&self.bootstrap, Some(&self.name), inputs, outputs).unwrap()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        for topic in &self.made {
            // A failed test shall tell why it failed, not that the broker is gone.
            let _ = self.topics.delete(topic);
        }
        let _ = self.topics.delete_group(&self.name);
    }
}

#[test]
fn what_is_fed_is_read_back_in_the_order_of_each_key() {
    let mut world = World::new("fed");
    let topic = world.topic("clicks", 3);
    let options = clicks::Options { urls: 20, users: 7, ..clicks::Options::default() };
    Feeder::new(&world.bootstrap, &topic).unwrap().fill(&mut Clicks::new(options), 2500).unwrap();

    let mut expected = HashMap::<Vec<u8>, Vec<Vec<u8>>>::new();
    let mut again = Clicks::new(options);
    for _ in 0..2500 {
        let (mut key, mut value) = (Vec::new(), Vec::new());
        again.next_into(&mut key, &mut value);
        expected.entry(key).or_default().push(value);
    }
    let mut found = HashMap::<Vec<u8>, Vec<Vec<u8>>>::new();
    for record in read_all(&world.bootstrap, &topic, Isolation::Committed).unwrap() {
        found.entry(record.key.unwrap()).or_default().push(record.value.unwrap());
    }
    assert_eq!(found, expected);
}

#[test]
fn null_keys_null_values_and_repeated_headers_are_read_as_written() {
    let mut world = World::new("nulls");
    let topic = world.topic("records", 1);
    let producer = world.producer(&[]);
    let headers = OwnedHeaders::new()
        .insert(Header { key: "trace", value: Some("a") })
        .insert(Header { key: "trace", value: Some("b") })
        .insert(Header { key: "none", value: None::<&str> });
    producer
        .send(BaseRecord::<(), str>::to(&topic).payload("value").headers(headers))
        .map_err(|e| e.0)
        .unwrap();
    producer.send(BaseRecord::<str, ()>::to(&topic).key("key").timestamp(1234)).map_err(|e| e.0).unwrap();
    producer.flush(TIMEOUT).unwrap();

    let records = read_all(&world.bootstrap, &topic, Isolation::Committed).unwrap();
    assert_eq!((&records[0].key, records[0].value.as_deref()), (&None, Some(b"value".as_slice())));
    let bytes = |text: &str| Some(text.as_bytes().to_vec());
    let expected = [("trace", bytes("a")), ("trace", bytes("b")), ("none", None)];
    assert_eq!(records[0].headers, expected.map(|(name, value)| (name.to_owned(), value)));
    assert_eq!((records[1].key.as_deref(), &records[1].value), (Some(b"key".as_slice()), &None));
    assert_eq!((records[1].timestamp_ms, records[1].headers.len()), (1234, 0));
}

#[test]
fn an_open_transaction_holds_back_until_it_ends_and_what_it_aborted_stays_invisible() {
    let mut world = World::new("open");
    let topic = world.topic("counts", 2);
    let producer = world.producer(&[("transactional.id", &world.name)]);
    producer.init_transactions(TIMEOUT).unwrap();
    let send = |count: u64| {
        producer.begin_transaction().unwrap();
        let value = format!(r#"{{"url":"/a","count":{count}}}"#);
        let record = BaseRecord::to(&topic).key("/a").payload(&value).partition(1);
        producer.send(record).map_err(|e| e.0).unwrap();
        producer.flush(TIMEOUT).unwrap();
    };
    let visible = |isolation| read_all(&world.bootstrap, &topic, isolation).unwrap().len();

    send(1);
    let report = world.look(&[], &[&topic]);
    let held = &report.held_back[0];
    assert_eq!((held.partition, held.last_stable_offset, held.high_watermark), (1, 0, 1), "{report}");
    assert!(report.to_string().contains("NOT AT REST"), "{report}");
    assert_eq!((visible(Isolation::Committed), visible(Isolation::Uncommitted)), (0, 1));

    producer.abort_transaction(TIMEOUT).unwrap();
    let report = rest::wait(&world.bootstrap, None, &[], &[&topic], TIMEOUT).unwrap();
    assert!(report.holds(), "{report}");
    assert_eq!((visible(Isolation::Committed), visible(Isolation::Uncommitted)), (0, 1));

    send(2);
    producer.commit_transaction(TIMEOUT).unwrap();
    let report = rest::wait(&world.bootstrap, None, &[], &[&topic], TIMEOUT).unwrap();
    assert!(report.holds(), "{report}");
    assert_eq!((visible(Isolation::Committed), visible(Isolation::Uncommitted)), (1, 2));
}

#[test]
fn a_group_lags_until_it_has_committed_the_end_of_every_partition_with_records() {
    let mut world = World::new("lag");
    let topic = world.topic("clicks", 2);
    assert!(world.look(&[&topic], &[]).holds(), "an empty topic needs no commit");
    let producer = world.producer(&[]);
    for value in ["a", "b"] {
        producer.send(BaseRecord::to(&topic).key("k").payload(value).partition(0)).map_err(|e| e.0).unwrap();
    }
    producer.flush(TIMEOUT).unwrap();
    let consumer: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", &world.bootstrap)
        .set("group.id", &world.name)
        .create()
        .unwrap();
    for (committed, lags) in [(None, true), (Some(1), true), (Some(2), false)] {
        if let Some(offset) = committed {
            let mut offsets = TopicPartitionList::new();
            offsets.add_partition_offset(&topic, 0, Offset::Offset(offset)).unwrap();
            consumer.commit(&offsets, CommitMode::Sync).unwrap();
        }
        let report = world.look(&[&topic], &[]);
        assert_eq!(
            report.lagging.first().map(|lag| (lag.committed, lag.high_watermark)),
            lags.then_some((committed, 2))
        );
    }
}

#[test]
fn the_work_by_hand_is_exact_as_long_as_nobody_kills_it() {
    let mut world = World::new("hand");
    let (input, output) = (world.topic("clicks", 4), world.topic("counts", 4));
    let mut stream = Clicks::new(clicks::Options { urls: 300, ..clicks::Options::default() });
    Feeder::new(&world.bootstrap, &input).unwrap().fill(&mut stream, 20_000).unwrap();
    let job = Job {
        system: System::ByHand,
        bin_dir: variable("TIDEGATE_BIN_DIR").into(),
        bootstrap: world.bootstrap.clone(),
        input: input.clone(),
        output: output.clone(),
        group: world.name.clone(),
        interval: Duration::from_millis(200),
        parallelism: 1,
        folder: run_folder(None, &world.name),
    };
    let mut program = job.start().unwrap();
    let report = rest::wait(&world.bootstrap, Some(&world.name), &[&input], &[&output], TIMEOUT).unwrap();
    assert!(report.holds(), "{report}");
    program.stop(TIMEOUT).unwrap();
    let report =
        oracle::judge_clicks(&world.bootstrap, &input, &output, oracle::Promise::ExactlyOnce).unwrap();
    assert!(report.holds(), "{report}");
    assert_eq!((report.records_in, report.records_out), (20_000, 20_000));

    let verify = |output: &str| {
        run("clicks-verify", &["--bootstrap", &world.bootstrap, "--input", &input, "--output", output])
    };
    assert_eq!(verify(&output).status.code(), Some(0));
    // The clicks themselves are no counts of them.
    assert_eq!(verify(&input).status.code(), Some(1));
}

#[test]
fn the_demo_finds_what_a_kill_breaks_where_counts_are_not_checkpointed() {
    let started = Instant::now();
    let bootstrap = variable("KAFKA_BOOTSTRAP");
    let bin_dir = variable("TIDEGATE_BIN_DIR");
    let arguments =
        ["--bootstrap", &bootstrap, "--bin-dir", &bin_dir, "--without-checkpoints", "--records", "20000"];
    let shown = run("demo", &arguments);
    let text = String::from_utf8(shown.stdout).unwrap();
    assert_eq!(shown.status.code(), Some(1), "{text}");
    assert!(
        text.contains("NOT EXACTLY ONCE") && text.contains("is gone, in the middle of a transaction"),
        "{text}"
    );
    assert!(!text.contains('\u{1b}'), "colour in a pipe: {text:?}");
    assert!(started.elapsed() < 2 * TIMEOUT, "{text}");
}

fn run(program: &str, arguments: &[&str]) -> Output {
    let path = std::path::Path::new(&variable("TIDEGATE_BIN_DIR")).join(program);
    Command::new(&path).args(arguments).output().unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}
