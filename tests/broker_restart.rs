//! The broker restarts in the middle of transactions: the job goes on or restarts by itself, and nothing is lost.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::thread;
use std::time::Duration;
use support::{Cluster, Scene};

/// So soon is a killed broker taken back.
const SESSION: &str = "broker.session.timeout.ms=3000";

fn over_a_restart(name: &str, restart: impl FnOnce(&Cluster)) {
    let cluster = Cluster::up(name, &["--transaction-version", "2", "--property", SESSION]);
    let mut scene = Scene::at(&cluster.bootstrap, name, 2).feed(2000);
    let mut program = scene.start();
    scene.wait_for_progress();
    restart(&cluster);
    scene.wait_for_progress();
    program.must_run().unwrap();
    scene.drain(program);
    scene.judge();
}

#[test]
fn the_broker_is_killed_and_comes_back() {
    over_a_restart("broker-killed", |cluster| {
        cluster.kill(1);
        thread::sleep(Duration::from_secs(1));
        cluster.start(1);
    });
}

#[test]
fn the_broker_is_restarted_in_good_order() {
    over_a_restart("broker-restarted", |cluster| {
        cluster.stop(1);
        cluster.start(1);
    });
}

/// The job dies with prepared transactions while the broker is away, and both come back.
#[test]
fn job_and_broker_are_killed_and_come_back() {
    let cluster = Cluster::up("both-killed", &["--transaction-version", "2", "--property", SESSION]);
    let mut scene = Scene::at(&cluster.bootstrap, "both-killed", 2).feed(2000);
    scene.die_with_prepared();
    cluster.kill(1);
    cluster.start(1);
    let program = scene.start();
    scene.drain(program);
    scene.judge();
}
