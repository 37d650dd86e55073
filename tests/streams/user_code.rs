//! User code that fails, panics, opens, closes and counts.

use crate::harness::Bench;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use tidegate::api::Undecodable;
use tidegate::api::prelude::*;

#[derive(Clone, Default)]
struct Lives {
    opened: Arc<AtomicU32>,
    closed: Arc<AtomicU32>,
    failures_left: Arc<AtomicU32>,
    panics: bool,
    seen: Option<prometheus::IntCounter>,
}

impl ProcessFunction<u64> for Lives {
    type Out = String;

    fn open(&mut self, context: &mut OpenContext<'_>) -> Result<(), UserError> {
        self.opened.fetch_add(1, Ordering::SeqCst);
        self.seen = Some(context.counter("seen_total", "Numbers seen.")?);
        Ok(())
    }

    fn process(
        &mut self,
        n: u64,
        context: &Context<'_>,
        out: &mut Emitter<'_, String>,
    ) -> Result<(), UserError> {
        if n == 77
            && self
                .failures_left
                .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |f| f.checked_sub(1))
                .is_ok()
        {
            assert!(!self.panics, "seventy-seven");
            return Err("seventy-seven".into());
        }
        assert!(context.timestamp().is_some() && context.origin().contains("partition"));
        if let Some(seen) = &self.seen {
            seen.inc();
        }
        out.emit(n.to_string());
        Ok(())
    }

    fn close(&mut self) -> Result<(), UserError> {
        self.closed.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }
}

fn run(bench: &Bench, function: &Lives) -> Result<(tidegate::api::Outcome, JobOptions), Failure> {
    let job = Job::new();
    job.source("in", bench.numbers())
        .uid("in")
        .chaining(false)
        .process("lives", function.clone())
        .sink("out", bench.lines())
        .uid("out");
    let options = bench.options(2);
    job.run(options.clone()).map(|outcome| (outcome, options))
}

#[test]
fn an_error_names_topic_partition_and_offset_and_the_job_starts_again_exactly() {
    for panics in [false, true] {
        let bench = Bench::new(2);
        bench.feed((0..200).map(|n| n.to_string()));
        let function = Lives { failures_left: Arc::new(AtomicU32::new(1)), panics, ..Lives::default() };
        let (outcome, options) = run(&bench, &function).unwrap();
        assert!(outcome.finished);
        assert_eq!(outcome.restarts, 1, "panics: {panics}");
        assert_eq!(function.opened.load(Ordering::SeqCst), 4, "two subtasks, two attempts");
        assert_eq!(function.closed.load(Ordering::SeqCst), 2, "closed at the orderly end only");
        let mut expected: Vec<String> = (0..200).map(|n| n.to_string()).collect();
        expected.sort();
        assert_eq!(bench.output_lines(), expected);
        let families = options.metrics.registry().gather();
        let seen = families.iter().find(|f| f.name() == "tidegate_user_seen_total").unwrap();
        assert_eq!(seen.get_metric().len(), 2, "one for each subtask");
    }
}

#[test]
fn an_error_that_stays_ends_the_job_after_its_restarts_and_loses_nothing() {
    let bench = Bench::new(1);
    bench.feed((0..100).map(|n| n.to_string()));
    let function = Lives { failures_left: Arc::new(AtomicU32::new(u32::MAX)), ..Lives::default() };
    let failure = run(&bench, &function).map(|_| ()).unwrap_err();
    for part in ["seventy-seven", "lives", bench.input.as_str(), "partition 0", "offset 77", "2 restarts"] {
        assert!(failure.text.contains(part), "{part} is not in: {failure}");
    }
    function.failures_left.store(0, Ordering::SeqCst);
    run(&bench, &function).unwrap();
    assert_eq!(bench.output_lines().len(), 100);
}

#[test]
fn dead_letters_keep_the_bytes_and_say_where_they_stood() {
    let bench = Bench::new(1);
    bench.feed((0..40).map(|n| if n % 10 == 3 { format!("rubbish {n}") } else { n.to_string() }));
    let letters = bench.topic("dead", &[]);
    let job = Job::new();
    let sink = KafkaSink::dead_letters(bench.kafka(), &letters);
    job.source_with_dead_letters("in", bench.numbers().on_undecodable(Undecodable::DeadLetter), sink)
        .uid("in")
        .map(|n| n.to_string())
        .sink("out", bench.lines())
        .uid("out");
    job.run(bench.options(1)).unwrap();
    assert_eq!(bench.output_lines().len(), 36);
    let mut dead = bench.read(&letters);
    dead.sort_by_key(|r| r.value.clone().map(|v| (v.len(), v)));
    assert_eq!(dead.len(), 4);
    for (record, n) in dead.iter().zip([3, 13, 23, 33]) {
        assert_eq!(record.value.as_deref(), Some(format!("rubbish {n}").as_bytes()));
        assert_eq!(record.key.as_deref(), Some(n.to_string().as_bytes()));
        let header = |name: &str| {
            let found = record.headers.iter().find(|(found, _)| found == name);
            String::from_utf8(found.unwrap_or_else(|| panic!("no header {name}")).1.clone().unwrap()).unwrap()
        };
        assert_eq!(header("tidegate.topic"), bench.input);
        assert_eq!(header("tidegate.partition"), "0");
        assert_eq!(header("tidegate.offset"), n.to_string());
        assert!(!header("tidegate.reason").is_empty());
    }
}
