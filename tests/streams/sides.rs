//! Broadcast streams, side inputs, and operator state that does not fit.

use crate::harness::Bench;
use crate::routes::WhoTook;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tidegate::api::prelude::*;
use tidegate::host::thread;
use tidegate::model::Advice;

#[test]
fn a_broadcast_stream_gives_every_record_to_every_subtask() {
    let bench = Bench::new(2);
    bench.feed((0..100).map(|n| n.to_string()));
    let job = Job::new().verify_serializers();
    job.source("in", bench.numbers())
        .uid("in")
        .broadcast()
        .process("who", WhoTook)
        .parallelism(3)
        .sink("out", bench.lines())
        .uid("out");
    job.run(bench.options(2)).unwrap();
    let mut expected: Vec<String> = (0..3).flat_map(|s| (0..100).map(move |n| format!("{n} {s}"))).collect();
    expected.sort();
    assert_eq!(bench.output_lines(), expected);
}

/// Sums the numbers that are told to all, and says the sum that a subtask has come to with each number of its own.
#[derive(Clone, Default)]
struct Sums {
    sums: Option<BroadcastState<str, u64>>,
}

impl BroadcastProcessFunction<u64, String> for Sums {
    type Out = String;

    fn open(&mut self, context: &mut OpenContext<'_>) -> Result<(), UserError> {
        let sums = context.broadcast_state::<str, u64>("sums")?;
        sums.put(context, "sum", 0);
        self.sums = Some(sums);
        Ok(())
    }

    fn process(
        &mut self,
        n: u64,
        context: &Context<'_>,
        out: &mut Emitter<'_, String>,
    ) -> Result<(), UserError> {
        let sum = self.sums.as_ref().expect("open has declared it").get("sum");
        assert!(sum.is_some_and(|sum| sum <= 4950));
        out.emit(format!("main {n} on {}", context.info().subtask % 2));
        Ok(())
    }

    fn process_broadcast(
        &mut self,
        n: String,
        context: &BroadcastContext<'_>,
        out: &mut Emitter<'_, String>,
    ) -> Result<(), UserError> {
        let sums = self.sums.as_ref().expect("open has declared it");
        let sum = sums.get("sum").unwrap_or_default() + n.parse::<u64>()?;
        sums.put(context, "sum", sum);
        out.emit(format!("broadcast {}", context.info().subtask));
        if sum == 4950 {
            out.emit(format!("complete {}", context.info().subtask));
        }
        Ok(())
    }
}

#[test]
fn two_inputs_of_different_types_meet_in_one_operator() {
    for parallelism in [1, 3] {
        let bench = Bench::new(2);
        bench.feed((0..100).map(|n| n.to_string()));
        let job = Job::new().verify_serializers();
        let numbers = job.source("in", bench.numbers()).uid("in");
        let told = numbers.map(|n| n.to_string()).broadcast();
        numbers
            .connect(&told)
            .process("sums", Sums::default())
            .parallelism(parallelism)
            .uid("sums")
            .sink("out", bench.lines())
            .uid("out");
        job.run(bench.options(2)).unwrap();
        let mut kinds: BTreeMap<String, usize> = BTreeMap::new();
        for line in bench.output_lines() {
            *kinds.entry(line.split(' ').next().unwrap().to_owned()).or_default() += 1;
        }
        let p = parallelism as usize;
        let expected = [("main", 100), ("broadcast", 100 * p), ("complete", p)];
        assert_eq!(kinds, expected.map(|(kind, count)| (kind.to_owned(), count)).into());
    }
}

/// Remembers numbers under a name and in a mode of the test's choice.
#[derive(Clone)]
struct Remember {
    how: &'static str,
    seen: Arc<AtomicBool>,
    list: Option<ListState<u64>>,
}

impl ProcessFunction<u64> for Remember {
    type Out = String;

    fn open(&mut self, context: &mut OpenContext<'_>) -> Result<(), UserError> {
        match self.how {
            "list" => self.list = Some(context.list_state("numbers")?),
            "union" => drop(context.union_state::<u64>("numbers")?),
            "other type" => drop(context.list_state::<(String, String)>("numbers")?),
            _ => {}
        }
        Ok(())
    }

    fn process(&mut self, n: u64, _: &Context<'_>, out: &mut Emitter<'_, String>) -> Result<(), UserError> {
        if let Some(list) = &self.list {
            list.add(n);
        }
        out.emit(n.to_string());
        self.seen.store(true, Ordering::SeqCst);
        Ok(())
    }
}

#[test]
fn state_without_its_declaration_is_refused_by_name_before_anything_is_read() {
    let bench = Bench::new(1);
    bench.feed((0..300).map(|n| n.to_string()));
    let run = |how: &'static str, uid: &str| {
        let (job, stop, seen) = (Job::new(), StopHandle::default(), Arc::new(AtomicBool::new(false)));
        let function = Remember { how, seen: Arc::clone(&seen), list: None };
        job.source("in", bench.numbers().bounded(false))
            .uid("in")
            .process("remember", function)
            .uid(uid)
            .sink("out", bench.lines())
            .uid("out");
        let stopping = stop.clone();
        let _stopper = thread::spawn("stopper", move || {
            while !seen.load(Ordering::SeqCst) {
                std::thread::sleep(Duration::from_millis(20));
            }
            stopping.stop();
        })
        .unwrap();
        job.run_until(bench.options(1), stop)
    };
    run("list", "remember").unwrap();
    for (how, uid, parts) in [
        ("nothing", "remember", ["\"numbers\"", "list state", "declare it again"]),
        ("union", "remember", ["\"numbers\"", "is list state", "as union state"]),
        ("other type", "remember", ["\"numbers\"", "cannot be read", "remember"]),
        ("list", "another", ["\"remember\"", "no operator of this job has that uid", "--fresh"]),
    ] {
        let failure = run(how, uid).unwrap_err();
        assert_eq!(failure.advice, Advice::FixConfiguration, "{failure}");
        for part in parts {
            assert!(failure.text.contains(part), "{how}: {part} is not in: {failure}");
        }
    }
    bench.feed(["7"]);
    run("list", "remember").unwrap();
}
