//! A job that fails and restarts inside one process a hundred times leaves nothing behind: threads, descriptors and
//! sockets are as many as after the first failures.
//!
//! One test and no other in this program, since it counts what its own process has.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![expect(clippy::disallowed_methods, reason = "tests measure time by themselves")]

mod support;

use std::fs;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use support::{INTERVAL, PATIENCE, Scene};
use tidegate::api::RestartPolicy;
use tidegate::api::prelude::*;

const FAILURES: u64 = 100;

/// From one failure to the next: enough for a checkpoint.
const BETWEEN: Duration = Duration::from_millis(350);

/// The pause between two attempts, in which only what lives longer than an attempt is there.
const PAUSE: Duration = Duration::from_millis(200);

#[derive(Clone, serde::Serialize, serde::Deserialize)]
struct Click {
    url: String,
}

#[derive(Clone, Default)]
struct Count {
    count: Option<ValueState<u64>>,
}

impl KeyedProcessFunction<Click> for Count {
    type Out = (String, u64);

    fn open(&mut self, context: &mut OpenContext<'_>) -> Result<(), UserError> {
        self.count = Some(context.value_state("count")?);
        Ok(())
    }

    fn process(
        &mut self,
        click: Click,
        context: &mut KeyedContext<'_>,
        out: &mut Emitter<'_, Self::Out>,
    ) -> Result<(), UserError> {
        let state = self.count.unwrap();
        let count = state.get(context)?.unwrap_or(0) + 1;
        state.set(context, count)?;
        out.emit((click.url, count));
        Ok(())
    }
}

/// Fails now and then.
#[derive(Clone)]
struct Failing {
    failures: Arc<AtomicU64>,
    last: Arc<Mutex<Instant>>,
}

impl Failing {
    fn new() -> Self {
        Self { failures: Arc::default(), last: Arc::new(Mutex::new(Instant::now())) }
    }

    fn failures(&self) -> u64 {
        self.failures.load(Ordering::SeqCst)
    }

    fn pass(&self, click: Click) -> Result<Click, UserError> {
        let mut last = self.last.lock().unwrap();
        if self.failures() < FAILURES && last.elapsed() > BETWEEN + PAUSE {
            *last = Instant::now();
            self.failures.fetch_add(1, Ordering::SeqCst);
            return Err("told to fail".into());
        }
        Ok(click)
    }
}

/// What this process has open.
#[derive(Debug, Clone, Copy)]
struct Held {
    threads: usize,
    descriptors: usize,
    sockets: usize,
}

impl Held {
    fn now() -> Self {
        let descriptors: Vec<_> = fs::read_dir("/proc/self/fd").unwrap().flatten().collect();
        let is_socket =
            |path| fs::read_link(path).is_ok_and(|to| to.to_string_lossy().starts_with("socket:"));
        Self {
            threads: fs::read_dir("/proc/self/task").unwrap().count(),
            descriptors: descriptors.len(),
            sockets: descriptors.iter().filter(|entry| is_socket(entry.path())).count(),
        }
    }

    fn least(self, other: Self) -> Self {
        Self {
            threads: self.threads.min(other.threads),
            descriptors: self.descriptors.min(other.descriptors),
            sockets: self.sockets.min(other.sockets),
        }
    }
}

/// The least that was held while these numbers of failures were reached: what no pause let go.
fn floor(failing: &Failing, from: u64, to: u64, mut must_go_on: impl FnMut()) -> Held {
    let mut least: Option<Held> = None;
    while failing.failures() < to {
        must_go_on();
        if failing.failures() >= from {
            let now = Held::now();
            least = Some(least.map_or(now, |least| least.least(now)));
        }
        thread::sleep(Duration::from_millis(5));
    }
    least.unwrap()
}

#[test]
fn a_hundred_failures_of_a_task_leave_threads_descriptors_and_sockets_flat() {
    let mut scene = Scene::new("flat", 2).feed(2000);
    let failing = Failing::new();
    let stop = StopHandle::default();
    let running = thread::spawn({
        let (name, input, output) =
            (scene.job.group.clone(), scene.job.input.clone(), scene.job.output.clone());
        let kafka = Connection::new(&scene.job.bootstrap);
        let checkpoints = format!("file://{}", scene.job.folder.display());
        let (failing, stop) = (failing.clone(), stop.clone());
        move || {
            let clicks =
                KafkaSource::json::<Click>(kafka.clone(), &name).topics([input]).start(Start::Earliest);
            let counts = KafkaSink::new(kafka, output, |(url, count): &(String, u64), record| {
                record.key(url.as_bytes());
                record.json(&serde_json::json!({ "url": url, "count": count }))
            });
            let job = Job::new();
            job.source("clicks", clicks)
                .uid("clicks")
                .try_map(move |click| failing.pass(click))
                .uid("fail")
                .key_by(|click: &Click| &click.url)
                .process("count", Count::default())
                .uid("count")
                .sink("counts", counts)
                .uid("counts");
            let mut options = JobOptions::new(JobId::new(name).unwrap(), checkpoints);
            options.parallelism = 2;
            options.checkpoint.interval = INTERVAL;
            options.restart =
                RestartPolicy { initial_delay: PAUSE, maximum_delay: PAUSE, ..RestartPolicy::default() };
            job.run_until(options, stop).unwrap()
        }
    });
    let must_run = || assert!(!running.is_finished(), "the job has ended");
    let early = floor(&failing, FAILURES / 5, 2 * FAILURES / 5, must_run);
    let late = floor(&failing, 4 * FAILURES / 5, FAILURES, must_run);
    println!("after {} failures {early:?}, after {} {late:?}", FAILURES / 5, 4 * FAILURES / 5);
    scene.catch_up();
    stop.stop();
    let ending = Instant::now();
    while !running.is_finished() {
        assert!(ending.elapsed() < PATIENCE, "the job stops when it is told to");
        thread::sleep(Duration::from_millis(20));
    }
    let outcome = running.join().unwrap();
    assert_eq!(outcome.restarts, FAILURES, "each failure was answered by one restart");
    scene.judge();
    assert!(late.threads <= early.threads, "threads: {early:?}, then {late:?}");
    assert!(late.descriptors <= early.descriptors, "descriptors: {early:?}, then {late:?}");
    assert!(late.sockets <= early.sockets, "sockets: {early:?}, then {late:?}");
}
