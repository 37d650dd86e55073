//! What a sink writes, and what it promises.

use crate::harness::Bench;
use tidegate::api::OnOversized;
use tidegate::api::prelude::*;

#[test]
fn topic_partition_key_headers_and_time_are_chosen_for_each_record() {
    let bench = Bench::new(3);
    bench.feed((0..30).map(|n| n.to_string()));
    let other = bench.topic("other", &[]);
    let elsewhere = other.clone();
    let sink = KafkaSink::new(bench.kafka(), &bench.output, move |n: &u64, record| {
        if n.is_multiple_of(3) {
            record.topic(&elsewhere);
        }
        if n.is_multiple_of(2) {
            record.partition(1);
        }
        if !n.is_multiple_of(5) {
            record.key(format!("k{n}").as_bytes());
            record.value(n.to_string().as_bytes());
        }
        record.header("n", Some(n.to_string().as_bytes()));
        record.header("n", None);
        record.timestamp(1_700_000_000_000 + *n as i64);
        Ok(())
    });
    let job = Job::new();
    job.source("in", bench.numbers()).uid("in").sink("out", sink).uid("out");
    job.run(bench.options(2)).unwrap();
    let mut seen = 0;
    for (topic, is_other) in [(&bench.output, false), (&other, true)] {
        for record in bench.read(topic) {
            let n: u64 = String::from_utf8(record.headers[0].1.clone().unwrap()).unwrap().parse().unwrap();
            assert_eq!(n.is_multiple_of(3), is_other, "{n}");
            assert!(n % 2 == 1 || record.partition == 1, "{n} in {}", record.partition);
            let value = (!n.is_multiple_of(5)).then(|| n.to_string().into_bytes());
            assert_eq!(record.value, value, "{n}");
            assert_eq!(record.key.is_some(), !n.is_multiple_of(5));
            assert_eq!(record.headers[1], ("n".to_owned(), None));
            assert_eq!(record.timestamp_ms, 1_700_000_000_000 + n as i64);
            seen += 1;
        }
    }
    assert_eq!(seen, 30);
}

#[test]
fn every_delivery_brings_everything_when_nothing_fails() {
    for delivery in [Delivery::ExactlyOnce, Delivery::AtLeastOnce, Delivery::None] {
        let bench = Bench::new(2);
        bench.feed((0..500).map(|n| n.to_string()));
        let job = Job::new();
        job.source("in", bench.numbers())
            .uid("in")
            .map(|n| n.to_string())
            .sink("out", bench.lines().delivery(delivery))
            .uid("out");
        job.run(bench.options(2)).unwrap();
        assert_eq!(bench.output_lines().len(), 500, "{delivery:?}");
    }
}

#[test]
fn a_finished_job_started_again_reads_nothing_and_writes_nothing() {
    let bench = Bench::new(2);
    bench.feed((0..50).map(|n| n.to_string()));
    for round in 0..2 {
        let job = Job::new();
        job.source("in", bench.numbers())
            .uid("in")
            .map(|n| n.to_string())
            .sink("out", bench.lines())
            .uid("out");
        let outcome = job.run(bench.options(1)).unwrap();
        assert!(outcome.finished);
        assert_eq!(bench.output_lines().len(), 50, "round {round}");
        bench.feed(["1000"]);
    }
}

#[test]
fn a_record_that_is_too_large_fails_the_job_or_is_dropped_before_the_transaction() {
    let bench = Bench::new(1);
    bench.feed((0..20).map(|n| n.to_string()));
    let small = bench.topic("small", &[("max.message.bytes", "1000")]);
    let sink = |policy| {
        KafkaSink::new(bench.kafka(), &small, |n: &u64, record| {
            record.value(&vec![b'x'; if *n == 7 { 5000 } else { 10 }]);
            Ok(())
        })
        .on_oversized(policy)
    };
    for (policy, works) in [(OnOversized::Fail, false), (OnOversized::Drop, true)] {
        let job = Job::new();
        job.source("in", bench.numbers()).uid("in").sink("out", sink(policy)).uid("out");
        match job.run(bench.options(1)) {
            Ok(_) => assert!(works),
            Err(failure) => {
                assert!(!works, "{failure}");
                for part in [small.as_str(), "max.message.bytes=1000", "offset 7", bench.input.as_str()] {
                    assert!(failure.text.contains(part), "{part} is not in: {failure}");
                }
            }
        }
    }
    assert_eq!(bench.read(&small).len(), 19);
}

#[test]
fn batches_are_no_larger_than_the_topic_takes() {
    let bench = Bench::new(1);
    bench.feed((0..5000).map(|n| n.to_string()));
    let narrow = bench.topic("narrow", &[("max.message.bytes", "20000")]);
    let sink = KafkaSink::new(bench.kafka(), &narrow, |n: &u64, record| {
        record.value(format!("{n:0>500}").as_bytes());
        Ok(())
    });
    let mut options = bench.options(1);
    options.restart.limit = Some(0);
    let job = Job::new();
    job.source("in", bench.numbers()).uid("in").sink("out", sink).uid("out");
    job.run(options).unwrap();
    assert_eq!(bench.read(&narrow).len(), 5000);
}
