//! Ends of a job with a savepoint, and beginnings with one: drained or not, as a fork, with other operators.

use crate::harness::Bench;
use std::time::{Duration, Instant};
use tidegate::api::SavepointStatus;
use tidegate::api::prelude::*;
use tidegate::model::Advice;

const PATIENCE: Duration = Duration::from_secs(60);

/// Emits numbers ten at a time.
#[derive(Clone, Default)]
struct Tens {
    kept: Option<ListState<u64>>,
}

impl Tens {
    fn give_out(&self, out: &mut Emitter<'_, String>) {
        let kept = self.kept.as_ref().expect("open has declared it");
        kept.entries().iter().for_each(|n| out.emit(n.to_string()));
        kept.clear();
    }
}

impl ProcessFunction<u64> for Tens {
    type Out = String;

    fn open(&mut self, context: &mut OpenContext<'_>) -> Result<(), UserError> {
        self.kept = Some(context.list_state("kept")?);
        Ok(())
    }

    fn process(&mut self, n: u64, _: &Context<'_>, out: &mut Emitter<'_, String>) -> Result<(), UserError> {
        let kept = self.kept.as_ref().expect("open has declared it");
        kept.add(n);
        if kept.len() == 10 {
            self.give_out(out);
        }
        Ok(())
    }

    fn end_of_input(&mut self, out: &mut Emitter<'_, String>) -> Result<(), UserError> {
        self.give_out(out);
        Ok(())
    }
}

fn tens(bench: &Bench, bounded: bool) -> Job {
    let job = Job::new();
    job.source("in", bench.numbers().bounded(bounded))
        .uid("in")
        .process("tens", Tens::default())
        .uid("tens")
        .sink("out", bench.lines())
        .uid("out");
    job
}

#[test]
fn at_the_end_of_its_input_an_operator_gives_out_what_it_kept_back() {
    let bench = Bench::new(1);
    bench.feed((0..25).map(|n| n.to_string()));
    assert!(tens(&bench, true).run(bench.options(1)).unwrap().finished);
    assert_eq!(bench.output_lines().len(), 25);
}

/// Runs an endless job until so many lines are in the output, then ends it.
#[expect(clippy::disallowed_methods, reason = "the job borrows the bench")]
fn end_after<T>(
    bench: &Bench,
    build: impl Fn() -> Job + Send,
    options: JobOptions,
    lines: usize,
    end: impl FnOnce(&StopHandle) -> T,
) -> (StopHandle, T) {
    let stop = StopHandle::default();
    let told = std::thread::scope(|scope| {
        let commanded = stop.clone();
        let job = scope.spawn(move || build().run_until(options, commanded));
        let began = Instant::now();
        while bench.output_lines().len() < lines && !job.is_finished() && began.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_millis(50));
        }
        let found = bench.output_lines().len();
        let told = end(&stop);
        assert!(!job.join().unwrap().unwrap().finished);
        assert!(found >= lines, "{lines} lines in the output, found {found}");
        told
    });
    (stop, told)
}

/// Runs the endless job until so many lines are in the output, then stops it with a savepoint.
fn stop_after(bench: &Bench, lines: usize, end: impl FnOnce(&StopHandle, &str) -> u64) {
    let target = bench.folder.path().join("savepoints");
    let (stop, number) = end_after(
        bench,
        || tens(bench, false),
        bench.options(1),
        lines,
        |stop| end(stop, target.to_str().unwrap()),
    );
    let status = stop.savepoint_status(number);
    assert!(matches!(status, Some(SavepointStatus::Done { .. })), "{status:?}");
}

#[test]
fn a_stop_keeps_back_what_an_operator_keeps_and_a_drain_gives_it_out() {
    let bench = Bench::new(1);
    bench.feed((0..25).map(|n| n.to_string()));
    stop_after(&bench, 20, StopHandle::stop_with_savepoint);
    assert_eq!(bench.output_lines().len(), 20);
    stop_after(&bench, 20, StopHandle::drain_with_savepoint);
    assert_eq!(bench.output_lines().len(), 25);
    bench.feed((25..35).map(|n| n.to_string()));
    stop_after(&bench, 35, StopHandle::stop_with_savepoint);
    let mut expected: Vec<String> = (0..35).map(|n| n.to_string()).collect();
    expected.sort();
    assert_eq!(bench.output_lines(), expected);
}

/// How often each key was seen.
#[derive(Clone, Default)]
struct Count {
    count: Option<ValueState<u64>>,
}

impl KeyedProcessFunction<u64> for Count {
    type Out = String;

    fn open(&mut self, context: &mut OpenContext<'_>) -> Result<(), UserError> {
        self.count = Some(context.value_state("count")?);
        Ok(())
    }

    fn process(
        &mut self,
        n: u64,
        context: &mut KeyedContext<'_>,
        out: &mut Emitter<'_, String>,
    ) -> Result<(), UserError> {
        let state = self.count.expect("open has declared it");
        let count = state.get(context)?.unwrap_or(0) + 1;
        state.set(context, count)?;
        out.emit(format!("{n} {count}"));
        Ok(())
    }
}

/// A job of three operators with state, in this order, by their uids; those that count write to the output.
fn chain(bench: &Bench, uids: &[&str]) -> Job {
    let job = Job::new();
    let numbers = job.source("in", bench.numbers().bounded(false)).uid("in");
    let mut counts = Vec::new();
    for uid in uids {
        let counted = numbers.map(|n| n % 5).key_by(|n: &u64| n).process(uid, Count::default());
        let uid = (*uid).to_owned();
        counts.push(counted.uid(&uid).map(move |text| format!("{uid} {text}")));
    }
    let all = counts.into_iter().reduce(|all, one| all.union(&one)).unwrap();
    all.sink("out", bench.lines()).uid("out");
    job
}

#[test]
fn operators_may_come_go_and_change_places_and_a_fork_has_the_state() {
    let bench = Bench::new(2);
    let run = |uids: &'static [&str], options: JobOptions, lines: usize| {
        end_after(&bench, || chain(&bench, uids), options, lines, StopHandle::stop);
        assert_eq!(bench.output_lines().len(), lines);
    };
    bench.feed((0..50).map(|n| n.to_string()));
    run(&["a", "b"], bench.options(2), 100);
    let mut lines = bench.output_lines();

    bench.feed((0..5).map(|n| n.to_string()));
    let mut fork = bench.options(3);
    fork.job = JobId::new(format!("{}-fork", bench.job)).unwrap();
    fork.from = Some(format!("{}/{}", bench.folder.path().display(), bench.job));
    let refused = chain(&bench, &["c", "b"]).run(fork.clone()).unwrap_err();
    assert_eq!(refused.advice, Advice::FixConfiguration, "{refused}");
    for part in ["\"a\"", "no operator of this job has that uid", "unclaimed"] {
        assert!(refused.text.contains(part), "{part} is not in: {refused}");
    }
    assert_eq!(bench.output_lines(), lines, "nothing was read");
    fork.allow_unclaimed_state = true;
    run(&["c", "b"], fork.clone(), 110);
    lines.extend((0..5).flat_map(|key| [format!("b {key} 11"), format!("c {key} 1")]));
    lines.sort();
    assert_eq!(bench.output_lines(), lines);

    // It has begun with the original's checkpoints once, and goes on from its own.
    bench.feed((0..5).map(|n| n.to_string()));
    run(&["b", "c"], fork, 120);
    lines.extend((0..5).flat_map(|key| [format!("b {key} 12"), format!("c {key} 2")]));
    lines.sort();
    assert_eq!(bench.output_lines(), lines);

    // The original goes on as if there were no fork.
    run(&["b", "a"], bench.options(1), 140);
    let counts = [11, 12];
    lines.extend((0..5).flat_map(|key| counts.map(|n| format!("a {key} {n}"))));
    lines.extend((0..5).flat_map(|key| counts.map(|n| format!("b {key} {n}"))));
    lines.sort();
    assert_eq!(bench.output_lines(), lines);
}
