//! Where reading begins, and what is wrong before it begins.

use crate::harness::{bootstrap, bytes, connection, new_topic, raw_client, soon, write, write_whole};
use crate::running::Running;
use std::collections::BTreeMap;
use tidegate::connector::SourceControl;
use tidegate::connector::kafka::Connection;
use tidegate::connector::kafka::raw::{GroupOffset, TopicPartition};
use tidegate::connector::kafka::source::{KafkaSource, Otherwise, OutOfRange, Start};
use tidegate::model::Advice;
use tidegate_tools::topics::token;

fn topic_of_five() -> String {
    let topic = new_topic(1);
    for (at, value) in ["0", "1", "2", "3", "4"].iter().enumerate() {
        write_whole(&topic, None, Some(value.as_bytes()), &[], 1_000 * (at as i64 + 1));
    }
    topic
}

#[test]
fn a_job_begins_where_it_is_told() {
    let topic = topic_of_five();
    let group = format!("group-{}", token());
    let offset = GroupOffset { at: TopicPartition::new(&*topic, 0), offset: 3, metadata: String::new() };
    raw_client().commit_offsets(&group, &[offset], soon()).unwrap();
    let given = |offset| Start::Given(BTreeMap::from([((topic.clone(), 0), offset)]));
    let table = [
        (Start::Earliest, 0),
        (Start::Latest, 5),
        (Start::Timestamp(0), 0),
        (Start::Timestamp(2_001), 2),
        (Start::Timestamp(3_000), 2),
        (Start::Timestamp(6_000), 5),
        (Start::Committed { otherwise: Otherwise::Fail }, 3),
        (given(4), 4),
        (given(5), 5),
    ];
    for (start, first) in table {
        let source =
            KafkaSource::bytes(connection(), &group).topics([&topic]).start(start.clone()).bounded(true);
        let mut running = Running::start(source);
        running.read_to_end();
        let expected: Vec<String> = (first..5).map(|value| value.to_string()).collect();
        assert_eq!(running.values(), expected, "{start:?}");
    }
}

#[test]
fn latest_is_decided_once() {
    let topic = topic_of_five();
    let source = bytes(&topic).start(Start::Latest);
    let splits = source.resolve_start().unwrap();
    // Written before the first record is read, and read all the same: also after a restart.
    write(&topic, 0, &["5"]);
    let mut running = Running::restore(source.clone(), splits, 1);
    running.poll_until("the record", |out| !out.records.is_empty());
    let frozen = running.freeze();
    write(&topic, 0, &["6"]);
    let mut again = Running::restore(source, frozen, 1);
    again.poll_until("the next record", |out| !out.records.is_empty());
    assert_eq!((running.values(), again.values()), (vec!["5".to_owned()], vec!["6".to_owned()]));
}

#[test]
fn a_start_that_cannot_be_is_refused_with_the_place() {
    let topic = topic_of_five();
    let given = |name: &str, partition, offset| {
        Start::Given(BTreeMap::from([((name.to_owned(), partition), offset)]))
    };
    let table = [
        (Start::Committed { otherwise: Otherwise::Fail }, "has committed no offset"),
        (given(&topic, 0, 9), "4 offsets were taken back"),
        (given(&topic, 1, 0), "partition 1, which does not exist"),
        (Start::Given(BTreeMap::new()), "no start offset is given"),
    ];
    for (start, part) in table {
        let failure = bytes(&topic).start(start.clone()).resolve_start().unwrap_err();
        assert_eq!(failure.advice, Advice::FixConfiguration, "{failure}");
        assert!(failure.text.contains(part) && failure.text.contains(&topic), "{start:?}: {failure}");
    }
    let moved = bytes(&topic).start(given(&topic, 0, 9)).on_out_of_range(OutOfRange::Earliest).bounded(true);
    let mut running = Running::start(moved);
    running.read_to_end();
    assert_eq!(running.values().len(), 5);
}

#[test]
fn what_is_wrong_is_told_by_the_check() {
    let missing = format!("missing-{}", token());
    let topic = new_topic(1);
    let group = || format!("group-{}", token());
    let nowhere = Connection::new("127.0.0.1:1").property("socket.connection.setup.timeout.ms", "1000");
    let table = [
        (bytes(&missing), vec![missing.as_str(), "does not exist", "create it"]),
        (bytes(&topic).topics::<String>([]), vec!["no topics"]),
        (bytes(&topic).topics([&topic, &topic]), vec!["named twice"]),
        (bytes(&topic).topic_pattern("("), vec!["no regular expression"]),
        (KafkaSource::bytes(connection(), "").topics([&topic]), vec!["consumer group is empty"]),
        (KafkaSource::bytes(nowhere, group()).topics([&topic]), vec!["127.0.0.1:1", "up and reachable"]),
    ];
    for (source, parts) in table {
        let failure = source.check().unwrap_err();
        for part in parts {
            assert!(failure.text.contains(part), "{part:?} is missing in: {failure}");
        }
    }
    bytes(&topic).check().unwrap();
    assert!(!bootstrap().is_empty());
}

#[test]
fn a_pattern_reads_all_topics_whose_whole_name_matches() {
    let stem = format!("pattern-{}", token());
    let names = ["a", "b", "ab"].map(|end| format!("{stem}-{end}"));
    let topics = crate::harness::topics();
    for name in &names {
        topics.create(name, 1).unwrap();
        write(name, 0, &[name]);
    }
    let source = KafkaSource::bytes(connection(), &stem).topic_pattern(format!("{stem}-[a-z]")).bounded(true);
    let mut running = Running::start(source);
    running.read_to_end();
    let mut values = running.values();
    values.sort();
    assert_eq!(values, names[..2]);
}
