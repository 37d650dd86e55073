//! The end of a bounded source: fixed at the first start, reached whatever stands there.

use crate::harness::{bytes, commit as commit_positions, new_topic, send, transaction, write};
use crate::running::{PATIENCE, Running};
use rdkafka::producer::{BaseProducer, Producer};
use tidegate::connector::SourceControl;
use tidegate::host::metrics::Metrics;

fn commit(producer: &BaseProducer) {
    producer.commit_transaction(PATIENCE).unwrap();
}

fn abort(producer: &BaseProducer) {
    producer.abort_transaction(PATIENCE).unwrap();
}

#[test]
fn what_is_written_after_the_first_start_is_not_read() {
    let topic = new_topic(2);
    write(&topic, 0, &["a", "b"]);
    let source = bytes(&topic).bounded(true);
    let splits = source.resolve_start().unwrap();
    write(&topic, 0, &["c"]);
    write(&topic, 1, &["d"]);
    let mut running = Running::restore(source.clone(), splits, 1);
    running.read_to_end();
    assert_eq!(running.values(), ["a", "b"]);
    // And not after a restart either.
    let frozen = running.freeze();
    let mut again = Running::restore(source, frozen, 1);
    again.read_to_end();
    assert!(again.values().is_empty());
}

#[test]
fn a_source_that_ran_unbounded_before_ends_at_the_end_that_it_then_finds() {
    let topic = new_topic(2);
    write(&topic, 0, &["a"]);
    let unbounded = bytes(&topic);
    let splits = unbounded.resolve_start().unwrap();
    write(&topic, 1, &["b"]);
    let bounded = unbounded.bounded(true);
    let restored = bounded.reconcile(splits, &Metrics::default()).unwrap();
    write(&topic, 1, &["c"]);
    let mut running = Running::restore(bounded, restored, 1);
    running.read_to_end();
    // Nothing orders the partitions among each other.
    let mut values = running.values();
    values.sort();
    assert_eq!(values, ["a", "b"]);
}

#[test]
fn a_marker_at_the_end_is_passed_and_leaves_no_lag() {
    let topic = new_topic(1);
    let producer = transaction();
    send(&producer, &topic, 0, &["a", "b"]);
    commit(&producer);
    producer.begin_transaction().unwrap();
    send(&producer, &topic, 0, &["lost"]);
    abort(&producer);
    // Offsets: a, b, marker, lost, marker.
    let group = format!("group-{topic}");
    let source = tidegate::connector::kafka::source::KafkaSource::bytes(crate::harness::connection(), &group)
        .topics([&topic])
        .bounded(true);
    let mut running = Running::start(source);
    running.read_to_end();
    assert_eq!(running.values(), ["a", "b"]);
    assert_eq!(commit_positions(&mut running, &group, &topic, 1), [5]);
}

#[test]
fn an_open_transaction_is_not_waited_for() {
    let topic = new_topic(1);
    write(&topic, 0, &["a"]);
    let open = transaction();
    send(&open, &topic, 0, &["open"]);
    write(&topic, 0, &["behind"]);
    let source = bytes(&topic).bounded(true);
    // The last stable offset is 1.
    let splits = source.resolve_start().unwrap();
    let mut running = Running::restore(source.clone(), splits.clone(), 1);
    running.read_to_end();
    assert_eq!(running.values(), ["a"]);

    // Once it is committed the same positions still end there: the end was fixed.
    commit(&open);
    let mut later = Running::restore(source, splits, 1);
    later.read_to_end();
    assert_eq!(later.values(), ["a"]);
}

#[test]
fn uncommitted_records_are_read_on_demand_only() {
    let topic = new_topic(1);
    let producer = transaction();
    send(&producer, &topic, 0, &["a"]);
    abort(&producer);
    producer.begin_transaction().unwrap();
    send(&producer, &topic, 0, &["b"]);
    let mut running = Running::start(bytes(&topic).bounded(true).read_uncommitted());
    running.read_to_end();
    assert_eq!(running.values(), ["a", "b"]);
    let mut running = Running::start(bytes(&topic).bounded(true));
    running.read_to_end();
    assert!(running.values().is_empty());
    abort(&producer);
}

#[test]
fn an_end_that_lies_among_markers_only_is_reached() {
    let topic = new_topic(1);
    let producer = transaction();
    send(&producer, &topic, 0, &["lost"]);
    abort(&producer);
    let source = bytes(&topic).bounded(true);
    let splits = source.resolve_start().unwrap();
    producer.begin_transaction().unwrap();
    send(&producer, &topic, 0, &["later"]);
    commit(&producer);
    let mut running = Running::restore(source, splits, 1);
    running.read_to_end();
    assert!(running.values().is_empty());
}

#[test]
fn an_empty_topic_and_a_subtask_without_partitions_are_at_their_end_at_once() {
    let topic = new_topic(1);
    let source = bytes(&topic).bounded(true);
    let splits = source.resolve_start().unwrap();
    let mut running = Running::restore(source, splits, 4);
    running.read_to_end();
    assert_eq!(running.freeze().len(), 1, "the empty partition is in the state");
}

#[test]
fn an_unbounded_source_never_ends() {
    let topic = new_topic(1);
    write(&topic, 0, &["a"]);
    let source = bytes(&topic);
    let splits = source.resolve_start().unwrap();
    let mut running = Running::restore(source, splits, 2);
    running.poll_until("the record", |out| !out.records.is_empty());
    for _ in 0..20 {
        let polled = running.poll().unwrap();
        assert!(!polled.contains(&tidegate::connector::Polled::AtEnd), "{polled:?}");
    }
}

#[test]
fn a_restore_from_the_end_of_a_partition_misses_nothing() {
    let topic = new_topic(1);
    write(&topic, 0, &["a"]);
    let source = bytes(&topic);
    let mut running = Running::start(source.clone());
    running.poll_until("the record", |out| !out.records.is_empty());
    // Long enough for the event of the partition's end, which must not count as a record.
    for _ in 0..50 {
        running.poll().unwrap();
    }
    let frozen = running.freeze();
    write(&topic, 0, &["b"]);
    let mut again = Running::restore(source, frozen, 1);
    again.poll_until("the next record", |out| !out.records.is_empty());
    assert_eq!(again.values(), ["b"]);
}
