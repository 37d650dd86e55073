//! The ways in which a fault point is reached: each is a whole story that ends with a verdict.
//!
//! A fault is written `point:visit`. While a job runs, two checkpoints shall be complete before the fault, so that
//! there is something to lose: with n subtasks a point that each of them visits once a checkpoint is first visited in
//! the second one at visit n + 1.

use super::{Scene, transactions};
use std::time::Duration;
use tidegate::host::fault::POINTS;

/// How a point is reached.
pub(crate) type Occasion = fn(Scene, &str);

/// Every point of the protocol in every way in which it can be reached with so many subtasks, as `point:visit`.
pub(crate) fn all(parallelism: u16) -> Vec<(Occasion, String)> {
    let second = parallelism + 1;
    let mut all: Vec<(Occasion, String)> = Vec::new();
    for point in POINTS {
        let mut add = |occasion: Occasion, visit: u16| all.push((occasion, format!("{point}:{visit}")));
        let (room, step) = point.split_once('.').unwrap();
        match (room, step) {
            // What the first start fixes is fixed.
            ("start", "after_first_manifest") => add(running, 1),
            ("start", _) | ("init", "before") => {
                add(running, 1);
                add(restarting, 1);
            }
            ("init", _) => {
                add(running, second);
                add(restarting, second);
            }
            ("resolve", _) => (1..=parallelism).for_each(|visit| add(restarting, visit)),
            ("salvage", _) => (1..=parallelism).for_each(|visit| add(salvaging, visit)),
            ("stop", _) => {
                add(stopping, 1);
                add(ending, 1);
            }
            ("checkpoint", "after_acknowledgement") => {
                // Alone a source shares its task with all that follows.
                let tasks = if parallelism == 1 { 1 } else { 2 * parallelism };
                (1..=tasks).for_each(|task| add(running, tasks + task));
                (1..=tasks).for_each(|task| add(ending, task));
            }
            ("checkpoint", _) => {
                add(running, 2);
                add(ending, 1);
            }
            // Nothing is recorded after the last checkpoint but by the last manifest.
            ("commit", "before_recorded") => add(running, second),
            ("sink" | "state" | "commit", _) => {
                (0..parallelism).for_each(|subtask| add(running, second + subtask));
                (1..=parallelism).for_each(|visit| add(ending, visit));
            }
            // With savepoints alone, in a test of their own.
            ("savepoint" | "restore" | "rescale", _) => {}
            _ => panic!("how is {point} reached?"),
        }
    }
    all
}

/// Clicks a second: a few hundred between two checkpoints.
const RATE: u64 = 4000;

/// At the first start, or while the job runs.
pub(crate) fn running(scene: Scene, fault: &str) {
    let mut scene = scene.feed(RATE);
    scene.die_at(fault);
    go_on(scene);
}

/// At a restart that finds prepared transactions.
pub(crate) fn restarting(scene: Scene, fault: &str) {
    let mut scene = scene.feed(RATE);
    scene.die_with_prepared();
    scene.die_at(fault);
    go_on(scene);
}

/// At a restart that finds its prepared transactions aborted by their timeout.
pub(crate) fn salvaging(scene: Scene, fault: &str) {
    let mut scene = scene.short_transactions().feed(RATE);
    scene.die_with_prepared();
    transactions::wait_for_timeouts(&scene.job.bootstrap, &scene.job.group);
    scene.die_at(fault);
    let program = scene.start();
    scene.drain(program);
    assert!(scene.has_logged("salvaging the records"), "log {}", scene.log());
    scene.judge();
}

/// While a running job stops at SIGTERM.
pub(crate) fn stopping(scene: Scene, fault: &str) {
    let mut scene = scene.feed(RATE);
    scene.die_stopping_at(fault);
    go_on(scene);
}

/// In the one and only checkpoint of a job that comes to the end of its input.
pub(crate) fn ending(scene: Scene, fault: &str) {
    // With so long an interval none but the last is taken, if nothing is tolerated and no barrier may overtake; the
    // arithmetic at the start has to allow it.
    let mut scene = scene.until_end().without("unaligned").flag("tolerable-failures", "0").fill(20_000);
    scene.job.interval = Duration::from_secs(300);
    scene.die_at(fault);
    scene.finish();
    scene.judge();
}

fn go_on(mut scene: Scene) {
    let program = scene.start();
    scene.drain(program);
    scene.judge();
}
