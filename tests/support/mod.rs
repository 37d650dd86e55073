//! What the tests of faults share: a job on topics of its own, ways to hurt it, and a verdict in the end.
//!
//! - [`Scene`]: topics, a feed, the example `clicks_per_url` started and killed on them, and the judge.
//! - [`Cluster`]: brokers of a test's own, which may be stopped and killed.
//! - [`http`]: what a running job answers.
//! - [`occasions`]: the ways in which a fault point is reached.
//! - [`kills`]: SIGKILL again and again.
//! - [`transactions`]: what the brokers say about a job's transactional ids.
//!
//! Every failure is a panic that names the scene's log.

#![allow(dead_code, reason = "each test program uses its own part of this")]
#![allow(unused_imports, reason = "each test program uses its own part of this")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::disallowed_methods, reason = "a test measures real time")]

mod scene;
mod cluster;
pub(crate) mod http;
pub(crate) mod kills;
pub(crate) mod occasions;
pub(crate) mod transactions;

pub(crate) use cluster::Cluster;
pub(crate) use scene::{INTERVAL, PATIENCE, Scene};

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::Instant;

/// The shared Kafka.
pub(crate) fn bootstrap() -> String {
    from_environment("KAFKA_BOOTSTRAP")
}

/// The folder of the run.
pub(crate) fn run_dir() -> PathBuf {
    from_environment("TIDEGATE_RUN_DIR").into()
}

/// The programs under test.
pub(crate) fn bin_dir() -> PathBuf {
    from_environment("TIDEGATE_BIN_DIR").into()
}

pub(crate) fn from_environment(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("{name} is not set: run `make test`, see docs/testing.md"))
}

/// Runs independent cases, so many at a time, all to their ends; panics with the names of those that failed.
pub(crate) fn in_parallel<T: Send>(at_once: usize, cases: Vec<(String, T)>, run: impl Fn(T) + Sync) {
    let waiting = Mutex::new(cases.into_iter());
    let failed = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..at_once {
            scope.spawn(|| {
                loop {
                    let Some((name, case)) = waiting.lock().unwrap().next() else { return };
                    let began = Instant::now();
                    let result = catch_unwind(AssertUnwindSafe(|| run(case)));
                    let verdict = if result.is_ok() { "passed" } else { "FAILED" };
                    println!("{name}: {verdict} in {:.1} s", began.elapsed().as_secs_f64());
                    if result.is_err() {
                        failed.lock().unwrap().push(name);
                    }
                }
            });
        }
    });
    let failed = failed.into_inner().unwrap();
    assert!(failed.is_empty(), "failed: {}", failed.join(", "));
}
