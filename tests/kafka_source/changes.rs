//! The cluster changes: while the job runs, and while it does not.

use crate::harness::{bytes, connection, new_topic, topics, write};
use crate::running::Running;
use std::time::{Duration, Instant};
use tidegate::connector::SourceControl;
use tidegate::connector::kafka::source::{KafkaRecord, KafkaSource, OutOfRange, Recreated};
use tidegate::host::metrics::Metrics;
use tidegate::model::Advice;
use tidegate_tools::topics::token;

const OFTEN: Option<Duration> = Some(Duration::from_millis(200));

/// A topic of six records whose first four are gone, and positions from before that.
fn overtaken(
    source: impl Fn(&str) -> KafkaSource<KafkaRecord>,
) -> (String, KafkaSource<KafkaRecord>, Vec<Vec<u8>>) {
    let topic = new_topic(1);
    write(&topic, 0, &["0", "1", "2", "3", "4", "5"]);
    let source = source(&topic);
    let splits = source.resolve_start().unwrap();
    topics().truncate(&topic, 0, 4).unwrap();
    (topic, source, splits)
}

#[test]
fn an_added_partition_is_found_and_read_from_its_beginning() {
    let topic = new_topic(1);
    write(&topic, 0, &["a"]);
    let source = bytes(&topic).discovery_interval(OFTEN);
    let splits = source.resolve_start().unwrap();
    let mut running = Running::restore(source.clone(), splits, 2);
    running.poll_until("the first partition", |out| out.records.len() == 1);
    topics().grow(&topic, 3).unwrap();
    write(&topic, 1, &["b"]);
    write(&topic, 2, &["c"]);
    running.poll_until("the new partitions", |out| out.records.len() == 3);
    // An empty one gets into the state as well.
    topics().grow(&topic, 4).unwrap();
    let started = Instant::now();
    let mut frozen = running.freeze();
    while frozen.len() < 4 {
        assert!(started.elapsed() < crate::running::PATIENCE, "the fourth partition is not in the state");
        running.poll().unwrap();
        frozen = running.freeze();
    }
    assert_eq!(frozen.len(), 4);
    // They are not new again after a restart.
    let mut again = Running::restore(source, frozen, 1);
    write(&topic, 3, &["d"]);
    again.poll_until("the fourth partition", |out| !out.records.is_empty());
    std::thread::sleep(Duration::from_millis(500));
    again.poll().unwrap();
    assert_eq!(again.values(), ["d"]);
}

#[test]
fn a_partition_added_while_the_job_was_down_is_read_from_its_beginning() {
    let topic = new_topic(1);
    let source =
        bytes(&topic).start(tidegate::connector::kafka::source::Start::Latest).discovery_interval(OFTEN);
    let splits = source.resolve_start().unwrap();
    topics().grow(&topic, 2).unwrap();
    write(&topic, 1, &["a"]);
    let mut running = Running::restore(source, splits, 1);
    running.poll_until("the new partition", |out| !out.records.is_empty());
    assert_eq!(running.values(), ["a"]);
}

#[test]
fn a_topic_that_a_pattern_reads_may_come_and_go() {
    let stem = format!("pattern-{}", token());
    let (first, second) = (format!("{stem}-1"), format!("{stem}-2"));
    topics().create(&first, 1).unwrap();
    let source =
        KafkaSource::bytes(connection(), &stem).topic_pattern(format!("{stem}-.*")).discovery_interval(OFTEN);
    let splits = source.resolve_start().unwrap();
    let mut running = Running::restore(source.clone(), splits, 1);
    topics().create(&second, 1).unwrap();
    write(&second, 0, &["a"]);
    running.poll_until("the new topic", |out| !out.records.is_empty());
    let both = running.freeze();
    assert_eq!(both.len(), 2);
    topics().delete(&first).unwrap();
    let started = Instant::now();
    while running.freeze().len() != 1 {
        assert!(started.elapsed() < crate::running::PATIENCE, "the deleted topic is still in the state");
        running.poll().unwrap();
    }
    assert_eq!(running.counted("tidegate_source_released_partitions_total"), 1);
    // Also when it went while the job was down.
    let restored = Running::restore(source, both, 1);
    assert_eq!(restored.counted("tidegate_source_released_partitions_total"), 1);
}

#[test]
fn a_position_that_retention_has_overtaken_fails_a_restore_or_moves_it() {
    let (topic, source, splits) = overtaken(|topic| bytes(topic).bounded(true));
    let failure = source.reconcile(splits.clone(), &Metrics::default()).unwrap_err();
    assert_eq!(failure.advice, Advice::FixConfiguration);
    for part in [topic.as_str(), "partition 0", "4 offsets are gone", "on_out_of_range"] {
        assert!(failure.text.contains(part), "{part}: {failure}");
    }
    let table = [(OutOfRange::Earliest, vec!["4", "5"], 4), (OutOfRange::Latest, vec![], 6)];
    for (policy, values, skipped) in table {
        let mut running = Running::restore(source.clone().on_out_of_range(policy), splits.clone(), 1);
        running.read_to_end();
        assert_eq!(running.values(), values, "{policy:?}");
        assert_eq!(running.counted("tidegate_source_skipped_offsets_total"), skipped, "{policy:?}");
    }
}

#[test]
fn a_position_that_is_overtaken_while_reading_fails_the_job_or_moves() {
    let (topic, source, splits) = overtaken(|topic| bytes(topic).bounded(true));
    let begin =
        |source: KafkaSource<KafkaRecord>| Running::begin(source, splits.clone(), 1, Metrics::default());
    let failure = begin(source.clone()).failure();
    assert_eq!(failure.advice, Advice::DataIsCorrupt);
    assert!(failure.text.contains(&topic) && failure.text.contains("4 offsets are gone"), "{failure}");

    let mut running = begin(source.clone().on_out_of_range(OutOfRange::Earliest));
    running.read_to_end();
    assert_eq!(running.values(), ["4", "5"]);
    assert_eq!(running.counted("tidegate_source_skipped_offsets_total"), 4);

    let mut running = begin(source.on_out_of_range(OutOfRange::Latest));
    running.read_to_end();
    assert!(running.values().is_empty());
}

#[test]
fn a_position_beyond_the_end_is_out_of_range_too() {
    let topic = new_topic(1);
    write(&topic, 0, &["0", "1", "2", "3"]);
    let mut running = Running::start(bytes(&topic));
    running.poll_until("all", |out| out.records.len() == 4);
    let frozen = running.freeze();
    // The same topic id, and a shorter log, as after the loss of records: the position is put there by hand.
    let shifted: Vec<Vec<u8>> = frozen
        .iter()
        .map(|split| {
            let mut split = split.clone();
            // The next offset is a zigzag varint before the missing end: 4 becomes 9.
            let at = split.len() - 2;
            assert_eq!(split[at], 8, "the encoding has changed");
            split[at] = 18;
            split
        })
        .collect();
    let source = bytes(&topic);
    let failure = source.reconcile(shifted.clone(), &Metrics::default()).unwrap_err();
    assert!(failure.text.contains("5 offsets were taken back"), "{failure}");
    let metrics = Metrics::default();
    let earliest = source.on_out_of_range(OutOfRange::Earliest);
    let mut running = Running::begin(earliest, shifted, 1, metrics);
    running.poll_until("all again", |out| out.records.len() == 4);
    let next = running.freeze();
    assert_eq!(next[0][next[0].len() - 2], 8, "the position is the log's, not the old one");
}

#[test]
fn a_recreated_topic_is_another_one() {
    let topic = new_topic(2);
    write(&topic, 0, &["old", "older"]);
    let source = bytes(&topic).bounded(true);
    let mut running = Running::start(source.clone());
    running.read_to_end();
    let frozen = running.freeze();
    topics().delete(&topic).unwrap();
    topics().create(&topic, 1).unwrap();
    write(&topic, 0, &["new"]);

    let failure = source.reconcile(frozen.clone(), &Metrics::default()).unwrap_err();
    assert_eq!(failure.advice, Advice::FixConfiguration);
    for part in [topic.as_str(), "created again", "partition 0 at offset 2", "Recreated::Earliest"] {
        assert!(failure.text.contains(part), "{part}: {failure}");
    }
    let mut running = Running::restore(source.on_recreated_topic(Recreated::Earliest), frozen, 1);
    running.read_to_end();
    assert_eq!(running.values(), ["new"]);
    assert_eq!(running.freeze().len(), 1);
}

#[test]
fn a_topic_that_is_recreated_while_it_is_read_restarts_the_job_or_fails_it() {
    let topic = new_topic(1);
    write(&topic, 0, &["a"]);
    let source = bytes(&topic).discovery_interval(OFTEN);
    let splits = source.resolve_start().unwrap();
    let mut failing = Running::restore(source.clone(), splits.clone(), 1);
    let mut restarting = Running::restore(source.on_recreated_topic(Recreated::Earliest), splits, 1);
    for running in [&mut failing, &mut restarting] {
        running.poll_until("the record", |out| !out.records.is_empty());
    }
    topics().delete(&topic).unwrap();
    topics().create(&topic, 1).unwrap();
    let advice = [failing.failure(), restarting.failure()].map(|failure| {
        assert!(failure.text.contains("created again"), "{failure}");
        failure.advice
    });
    assert_eq!(advice, [Advice::FixConfiguration, Advice::Restart]);
}
