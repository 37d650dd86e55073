//! The ways in which a fault point is reached: each is a whole story that ends with a verdict.
//!
//! A fault is written `point:visit`. While a job runs, two checkpoints shall be complete before the fault, so that
//! there is something to lose: with n subtasks a point that each of them visits once a checkpoint is first visited in
//! the second one at visit n + 1.

use super::{Scene, transactions};
use std::time::Duration;

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
    // With so long an interval none but the last is taken; the arithmetic at the start has to allow it.
    let mut scene = scene.until_end().flag("tolerable-failures", "0").fill(20_000);
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
