//! The example `order_life_cycle` on a real topic: every event has exactly one output in its order's place, also over a
//! SIGKILL, and an order that has ended is new again.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![expect(clippy::disallowed_methods, reason = "tests measure time and start threads by themselves")]

use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tidegate_tools::feed::{Feeder, Stream};
use tidegate_tools::offsets::Isolation;
use tidegate_tools::oracle::orders::judge_orders;
use tidegate_tools::orders::{Options, Orders};
use tidegate_tools::program::{Job, Program, System, run_folder};
use tidegate_tools::reader::read_all;
use tidegate_tools::rest;
use tidegate_tools::topics::{Topics, token};

const PATIENCE: Duration = Duration::from_secs(60);

fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("{name} is not set: run `make test`, see docs/testing.md"))
}

fn job(parallelism: u16) -> Job {
    let name = format!("orders-{}", token());
    let job = Job {
        system: System::OrderLifeCycle,
        bin_dir: variable("TIDEGATE_BIN_DIR").into(),
        bootstrap: variable("KAFKA_BOOTSTRAP"),
        input: format!("{name}-in"),
        output: format!("{name}-out"),
        group: name.clone(),
        interval: Duration::from_millis(200),
        parallelism,
        folder: run_folder(None, &name),
    };
    let topics = Topics::new(&job.bootstrap).unwrap();
    topics.create(&job.input, 4).unwrap();
    topics.create(&job.output, 4).unwrap();
    job
}

/// Runs the job to the end that its input has now.
fn finish(job: &Job) {
    let mut program = job.start_with(|command| _ = command.arg("--until-end")).unwrap();
    let status = program.wait(PATIENCE).unwrap();
    assert!(status.success(), "{status}:\n{}", program.log_tail(20));
}

fn remove(job: &Job) {
    let topics = Topics::new(&job.bootstrap).unwrap();
    topics.delete(&job.input).unwrap();
    topics.delete(&job.output).unwrap();
}

/// Records that are given as they are.
struct Given(std::vec::IntoIter<(&'static str, &'static str)>);

impl Stream for Given {
    fn next_into(&mut self, key: &mut Vec<u8>, value: &mut Vec<u8>) {
        let (order, event) = self.0.next().unwrap();
        key.extend_from_slice(order.as_bytes());
        let record = json!({ "order": order, "event": event, "ts": 1 });
        value.extend_from_slice(record.to_string().as_bytes());
    }
}

#[test]
fn legal_steps_move_an_order_on_illegal_ones_alert_and_an_end_clears_it() {
    let job = job(1);
    let events = [
        ("a", "created"),
        ("a", "shipped"),
        ("a", "paid"),
        ("a", "shipped"),
        ("a", "cancelled"),
        ("a", "delivered"),
        ("a", "paid"),
        ("a", "created"),
        ("a", "cancelled"),
        ("a", "cancelled"),
        ("b", "delivered"),
    ];
    let mut feeder = Feeder::new(&job.bootstrap, &job.input).unwrap();
    feeder.fill(&mut Given(Vec::from(events).into_iter()), events.len() as u64).unwrap();
    finish(&job);

    let transition =
        |from: &str, to: &str| json!({ "kind": "transition", "order": "a", "from": from, "to": to, "ts": 1 });
    let alert = |order: &str, state: &str, event: &str| json!({ "kind": "alert", "order": order, "state": state, "event": event, "ts": 1 });
    let expected = [
        transition("new", "created"),
        alert("a", "created", "shipped"),
        transition("created", "paid"),
        transition("paid", "shipped"),
        alert("a", "shipped", "cancelled"),
        transition("shipped", "delivered"),
        alert("a", "new", "paid"),
        transition("new", "created"),
        transition("created", "cancelled"),
        alert("a", "new", "cancelled"),
    ];
    let records = read_all(&job.bootstrap, &job.output, Isolation::Committed).unwrap();
    let of = |order: &str| -> Vec<Value> {
        let own = records.iter().filter(|record| record.key.as_deref() == Some(order.as_bytes()));
        own.map(|record| serde_json::from_slice(record.value.as_deref().unwrap()).unwrap()).collect()
    };
    assert_eq!(of("a"), expected);
    assert_eq!(of("b"), [alert("b", "new", "delivered")]);
    assert_eq!(records.len(), events.len());
    remove(&job);
}

#[test]
fn every_event_has_one_output_also_over_a_sigkill_in_the_middle() {
    let job = job(2);
    let feed = {
        let mut feeder = Feeder::new(&job.bootstrap, &job.input).unwrap();
        let mut orders = Orders::new(Options { open: 200, ..Options::default() });
        thread::spawn(move || feeder.steady(&mut orders, 5000, 20_000, |_| true).unwrap())
    };
    let mut program = job.start().unwrap();
    let committed = wait_for_output(&job, &mut program, 2000);
    program.kill().unwrap();
    assert!(!feed.is_finished(), "the kill comes while orders are under way");
    let mut program = job.start().unwrap();
    assert_eq!(feed.join().unwrap().records, 20_000);
    wait_for_output(&job, &mut program, 20_000);
    program.stop(PATIENCE).unwrap();

    let report = judge_orders(&job.bootstrap, &job.input, &job.output).unwrap();
    assert!(report.holds(), "{report}\nlog {}", job.log().display());
    assert_eq!((report.records_in, report.records_out), (20_000, 20_000));
    assert!(report.alerts > 100 && committed < 20_000, "{report}");
    let (inputs, outputs) = ([job.input.as_str()], [job.output.as_str()]);
    let rest = rest::wait(&job.bootstrap, Some(&job.group), &inputs, &outputs, PATIENCE).unwrap();
    assert!(rest.holds(), "{rest}");
    remove(&job);
}

/// Waits until readers see so many outputs; gives how many they see.
fn wait_for_output(job: &Job, program: &mut Program, least: usize) -> usize {
    let started = Instant::now();
    loop {
        program.must_run().unwrap();
        let seen = read_all(&job.bootstrap, &job.output, Isolation::Committed).unwrap().len();
        if seen >= least {
            return seen;
        }
        assert!(started.elapsed() < PATIENCE, "{seen} of {least} outputs:\n{}", program.log_tail(20));
        thread::sleep(Duration::from_millis(100));
    }
}
