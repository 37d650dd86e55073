//! Brokers go away and come back.

use std::time::{Duration, Instant};

use tidegate::connector::kafka::Connection;
use tidegate::connector::kafka::source::KafkaSource;
use tidegate::connector::{Polled, SourceControl};

use crate::cluster::Cluster;
use crate::running::{PATIENCE, Running};

#[test]
fn a_partition_without_a_leader_does_not_keep_the_others_waiting() {
    let cluster = Cluster::start("kafka-source-outage", &["--nodes", "3"]);
    // One copy each: when a broker is away, its partitions have no leader.
    cluster.create("input", 3, 1);
    for partition in 0..3 {
        cluster.write("input", partition, &["before"]);
    }
    let source = KafkaSource::bytes(Connection::new(cluster.at("bootstrap")), "job")
        .topics(["input"])
        .discovery_interval(Some(Duration::from_millis(500)));
    source.check().unwrap();
    let splits = source.resolve_start().unwrap();
    let mut running = Running::restore(source.clone(), splits, 1);
    running.poll_until("the first records", |out| out.records.len() == 3);

    let away = cluster.leader("input", 0);
    cluster.node("stop-node", away, &["--kill"]);
    let others: Vec<i32> = (1..3).filter(|p| cluster.leader("input", *p) != away).collect();
    for partition in &others {
        cluster.write("input", *partition, &["meanwhile"]);
    }
    running.poll_until("the records of the living", |out| out.records.len() == 3 + others.len());
    // Long enough for the discovery to look several times at a topic with a partition in trouble.
    let started = Instant::now();
    while started.elapsed() < Duration::from_secs(3) {
        assert_ne!(running.poll().unwrap(), [Polled::AtEnd]);
    }
    let frozen = running.freeze();
    assert_eq!(frozen.len(), 3, "the partition without a leader is still in the state");
    assert_eq!(running.counted("tidegate_source_released_partitions_total"), 0);

    // A restart in the middle of the outage: the position that cannot be compared is kept.
    let mut restarted = Running::restore(source, frozen, 1);
    cluster.node("start-node", away, &[]);
    cluster.write("input", 0, &["after"]);
    for running in [&mut running, &mut restarted] {
        running.poll_until("the record after the outage", |out| {
            out.records.iter().any(|r| r.value.value.as_deref() == Some(b"after"))
        });
    }
    assert_eq!(running.output.records.len(), 4 + others.len());
    assert_eq!(restarted.output.records.len(), 1, "nothing is read twice");
}

#[test]
fn a_source_outlives_an_outage_of_all_brokers() {
    let cluster = Cluster::start("kafka-source-blackout", &[]);
    cluster.create("input", 1, 1);
    cluster.write("input", 0, &["before"]);
    let source = KafkaSource::bytes(Connection::new(cluster.at("bootstrap")), "job").topics(["input"]);
    let mut running = Running::start(source);
    running.poll_until("the first record", |out| out.records.len() == 1);
    let splits = running.freeze();
    let mut committer = running.source.offset_committer(&running.metrics).unwrap();
    cluster.node("stop-node", 1, &["--kill"]);
    committer.commit(splits);
    let started = Instant::now();
    while started.elapsed() < Duration::from_secs(5) {
        assert_eq!(running.poll().unwrap(), [Polled::Idle]);
    }
    cluster.node("start-node", 1, &[]);
    cluster.write("input", 0, &["after"]);
    running.poll_until("the record after the outage", |out| out.records.len() == 2);
    committer.commit(running.freeze());
    committer.close(Instant::now() + PATIENCE);
    let lag = cluster.committed("job", "input");
    assert_eq!(lag, Some(2), "the group's offsets are committed again");
}
