//! What the consumer group is told.

use crate::harness::{bootstrap, commit, committed, connection, new_topic, write};
use crate::running::{PATIENCE, Running};
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use std::time::{Duration, Instant};
use tidegate::connector::SourceControl;
use tidegate::connector::kafka::source::KafkaSource;
use tidegate_tools::topics::token;

#[test]
fn the_group_gets_what_the_checkpoint_holds_and_nothing_before() {
    let (topic, group) = (new_topic(2), format!("group-{}", token()));
    write(&topic, 0, &["a", "b", "c"]);
    let source = KafkaSource::bytes(connection(), &group).topics([&topic]);
    let mut running = Running::start(source);
    running.poll_until("all records", |out| out.records.len() == 3);
    assert_eq!(committed(&group, &topic, 2), [-1, -1]);
    assert_eq!(commit(&mut running, &group, &topic, 2), [3, 0], "also of the partition that gave nothing");
}

#[test]
fn only_the_last_of_many_positions_matters() {
    let (topic, group) = (new_topic(1), format!("group-{}", token()));
    write(&topic, 0, &["a", "b", "c"]);
    let source = KafkaSource::bytes(connection(), &group).topics([&topic]);
    let mut running = Running::start(source.clone());
    let mut committer = source.offset_committer(&running.metrics).unwrap();
    for read in 0..=3 {
        running.poll_until("a record", |out| out.records.len() >= read);
        committer.commit(running.freeze());
    }
    committer.close(Instant::now() + PATIENCE);
    assert_eq!(committed(&group, &topic, 1), [3]);
    assert_eq!(running.counted("tidegate_offset_commit_failures_total"), 0);
}

#[test]
fn a_group_that_somebody_subscribes_with_is_a_counted_failure_and_no_more() {
    let (topic, group) = (new_topic(1), format!("group-{}", token()));
    write(&topic, 0, &["a"]);
    let member: BaseConsumer =
        ClientConfig::new().set("bootstrap.servers", bootstrap()).set("group.id", &group).create().unwrap();
    member.subscribe(&[&topic]).unwrap();
    let started = Instant::now();
    while member.assignment().unwrap().count() == 0 {
        let _ = member.poll(Duration::from_millis(100));
        assert!(started.elapsed() < PATIENCE, "the other consumer does not get its partition");
    }
    let mut running = Running::start(KafkaSource::bytes(connection(), &group).topics([&topic]));
    running.poll_until("the record", |out| out.records.len() == 1);
    commit(&mut running, &group, &topic, 1);
    assert_eq!(running.counted("tidegate_offset_commit_failures_total"), 1);
    write(&topic, 0, &["b"]);
    running.poll_until("the next record", |out| out.records.len() == 2);
}
