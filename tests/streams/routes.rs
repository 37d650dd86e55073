//! Which subtask takes a record.

use crate::harness::Bench;
use std::collections::{BTreeMap, BTreeSet};
use tidegate::api::prelude::*;
use tidegate::model::MaxParallelism;

/// Writes down which subtask took which number.
#[derive(Clone)]
pub(crate) struct WhoTook;

impl ProcessFunction<u64> for WhoTook {
    type Out = String;

    fn process(
        &mut self,
        n: u64,
        context: &Context<'_>,
        out: &mut Emitter<'_, String>,
    ) -> Result<(), UserError> {
        out.emit(format!("{n} {}", context.info().subtask));
        Ok(())
    }
}

fn by_subtask(lines: &[String]) -> BTreeMap<u32, BTreeSet<u64>> {
    let mut taken: BTreeMap<u32, BTreeSet<u64>> = BTreeMap::new();
    for line in lines {
        let (n, subtask) = line.split_once(' ').unwrap();
        taken.entry(subtask.parse().unwrap()).or_default().insert(n.parse().unwrap());
    }
    taken
}

#[test]
fn rebalance_gives_every_subtask_its_share() {
    let bench = Bench::new(1);
    bench.feed((0..300).map(|n| n.to_string()));
    let job = Job::new().verify_serializers();
    job.source("in", bench.numbers())
        .uid("in")
        .parallelism(1)
        .rebalance()
        .process("who", WhoTook)
        .parallelism(3)
        .sink("out", bench.lines())
        .uid("out");
    job.run(bench.options(3)).unwrap();
    let taken = by_subtask(&bench.output_lines());
    let shares: Vec<usize> = taken.values().map(BTreeSet::len).collect();
    assert_eq!(shares, [100, 100, 100]);
}

#[test]
fn a_partitioner_of_the_users_decides() {
    let bench = Bench::new(2);
    bench.feed((0..100).map(|n| n.to_string()));
    let job = Job::new();
    job.source("in", bench.numbers())
        .uid("in")
        .partition_by(|n, subtasks| (n % u64::from(subtasks)) as u32)
        .process("who", WhoTook)
        .sink("out", bench.lines())
        .uid("out");
    job.run(bench.options(2)).unwrap();
    let taken = by_subtask(&bench.output_lines());
    assert_eq!(taken[&0], (0..100).filter(|n| n % 2 == 0).collect());
    assert_eq!(taken[&1], (0..100).filter(|n| n % 2 == 1).collect());
}

#[test]
fn a_union_has_the_records_of_both_and_map_filter_flat_map_do_as_they_say() {
    let bench = Bench::new(2);
    bench.feed((0..50).map(|n| n.to_string()));
    let job = Job::new().verify_serializers();
    let numbers = job.source("in", bench.numbers()).uid("in").chaining(false);
    let even = numbers.filter(|n| n % 2 == 0).map(|n| format!("even {n}"));
    let twice =
        numbers.flat_map(|n| (n < 5).then(|| [format!("low {n}"), format!("low {n}")]).into_iter().flatten());
    even.union(&twice).sink("out", bench.lines()).uid("out");
    job.run(bench.options(2)).unwrap();
    let mut expected: Vec<String> = (0..50).step_by(2).map(|n| format!("even {n}")).collect();
    expected.extend((0..5).flat_map(|n| [format!("low {n}"), format!("low {n}")]));
    expected.sort();
    assert_eq!(bench.output_lines(), expected);
}

/// Counts per key, and clears the state at the third.
#[derive(Clone, Default)]
struct Thirds {
    count: Option<ValueState<u32>>,
}

impl KeyedProcessFunction<u64> for Thirds {
    type Out = String;

    fn open(&mut self, context: &mut OpenContext<'_>) -> Result<(), UserError> {
        self.count = Some(context.value_state("count")?);
        Ok(())
    }

    fn process(
        &mut self,
        _: u64,
        context: &mut KeyedContext<'_>,
        out: &mut Emitter<'_, String>,
    ) -> Result<(), UserError> {
        let state = self.count.expect("open has declared it");
        let count = state.get(context)?.unwrap_or(0) + 1;
        if count == 3 {
            state.clear(context)?
        } else {
            state.set(context, count)?
        }
        out.emit(format!("{} {count}", context.key::<u64>().ok_or("another key type")?));
        Ok(())
    }
}

#[test]
fn state_belongs_to_the_key_at_any_parallelism() {
    let mut outputs = Vec::new();
    for parallelism in [1, 2, 4] {
        let bench = Bench::new(3);
        bench.feed((0..600).map(|n| n.to_string()));
        let job = Job::new();
        job.source("in", bench.numbers())
            .uid("in")
            .key_by_value(|n| n % 7)
            .max_parallelism(MaxParallelism::new(16).unwrap())
            .process("thirds", Thirds::default())
            .uid("thirds")
            .sink("out", bench.lines())
            .uid("out");
        let outcome = job.run(bench.options(parallelism)).unwrap();
        assert!(outcome.finished);
        outputs.push(bench.output_lines());
    }
    assert_eq!(outputs[0].len(), 600);
    assert_eq!(outputs[0], outputs[1]);
    assert_eq!(outputs[0], outputs[2]);
}
