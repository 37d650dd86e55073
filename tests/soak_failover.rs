//! Three brokers of which some die, stop or stand still at the worst moments: the job goes on or restarts by itself,
//! or comes back after a SIGKILL of its own, and nothing is lost.

#![expect(clippy::disallowed_methods, reason = "a test measures real time")]

mod support;

use std::thread;
use std::time::{Duration, Instant};
use support::{Cluster, Scene, transactions};
use tidegate::connector::kafka::raw::Deadline;
use tidegate_tools::process;
use tidegate_tools::program::Program;

fn three(name: &str) -> Cluster {
    Cluster::up(name, &["--nodes", "3", "--transaction-version", "2"])
}

/// The broker that coordinates the first of the job's transactions that is open.
fn coordinator(scene: &Scene) -> i32 {
    let open = transactions::open(&scene.job.bootstrap, &scene.job.group);
    open.first().unwrap_or_else(|| panic!("no transaction is open, log {}", scene.log())).coordinator
}

/// The job is held at this fault, the coordinator of an open transaction is hurt, and the job goes on.
fn held_at(title: &str, fault: &str, hurt: impl FnOnce(&Cluster, &Scene, i32, &Program)) {
    let cluster = three(title);
    let mut scene = Scene::at(&cluster.bootstrap, title, 2).feed(1000);
    let program = scene.pause_at(fault);
    let node = coordinator(&scene);
    hurt(&cluster, &scene, node, &program);
    scene.drain(program);
    scene.judge();
}

#[test]
fn the_coordinator_dies_right_after_prepare() {
    held_at("dies-prepared", "checkpoint.before_manifest:3", |cluster, scene, node, program| {
        cluster.kill(node);
        process::resume(program.pid()).unwrap();
        scene.wait_for_progress();
        cluster.start(node);
    });
}

#[test]
fn the_coordinator_dies_when_the_manifest_is_published() {
    held_at("dies-published", "checkpoint.after_manifest:3", |cluster, scene, node, program| {
        cluster.kill(node);
        process::resume(program.pid()).unwrap();
        scene.wait_for_progress();
        cluster.start(node);
    });
}

#[test]
fn the_coordinator_stands_still_while_the_job_commits() {
    held_at("stands-still", "checkpoint.after_manifest:3", |cluster, scene, node, program| {
        cluster.pause(node);
        process::resume(program.pid()).unwrap();
        thread::sleep(Duration::from_secs(15));
        cluster.resume(node);
        scene.wait_for_progress();
    });
}

#[test]
fn the_coordinator_dies_soon_after_the_end_of_a_transaction_is_sent() {
    let cluster = three("dies-ending");
    for delay_ms in [0, 5, 20, 60] {
        let mut scene = Scene::at(&cluster.bootstrap, &format!("dies-ending-{delay_ms}"), 2).feed(1000);
        let program = scene.pause_at("checkpoint.after_manifest:3");
        let node = coordinator(&scene);
        process::resume(program.pid()).unwrap();
        thread::sleep(Duration::from_millis(delay_ms));
        cluster.kill_at_once(node);
        scene.wait_for_progress();
        cluster.start(node);
        scene.drain(program);
        scene.judge();
    }
}

/// Job and coordinator die together; the transactions are resolved at another broker.
#[test]
fn prepared_transactions_are_resolved_at_another_coordinator() {
    let cluster = three("resolved-elsewhere");
    let mut scene = Scene::at(&cluster.bootstrap, "resolved-elsewhere", 2).feed(1000);
    scene.die_with_prepared();
    let node = coordinator(&scene);
    cluster.kill(node);
    let program = scene.start();
    scene.wait_for_progress();
    cluster.start(node);
    scene.drain(program);
    scene.judge();
}

/// With two of three brokers away nothing can be decided. The job comes back before they do.
#[test]
fn two_of_three_brokers_die_before_the_end_of_a_transaction_is_sent() {
    let cluster = three("two-die");
    let mut scene = Scene::at(&cluster.bootstrap, "two-die", 2).feed(1000);
    let program = scene.pause_at("checkpoint.after_manifest:3");
    let node = coordinator(&scene);
    let other = node % 3 + 1;
    cluster.kill(node);
    cluster.kill(other);
    process::resume(program.pid()).unwrap();
    thread::sleep(Duration::from_secs(15));
    // Alone neither becomes ready: a controller needs a second one.
    cluster.start_without_waiting(node);
    cluster.start(other);
    scene.wait_for_progress();
    scene.drain(program);
    scene.judge();
}

/// Whatever happens to brokers and to the job, one thing after the other, at random.
#[test]
fn ten_minutes_of_random_failovers() {
    let seed =
        std::env::var("TIDEGATE_SEED").map_or_else(|_| fastrand::u64(..), |text| text.parse().unwrap());
    println!("TIDEGATE_SEED={seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let cluster = three("failovers");
    let mut scene = Scene::at(&cluster.bootstrap, "failovers", 2).feed(1000);
    let mut program = scene.start();
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(600) {
        scene.wait_for_progress();
        program.must_run().unwrap();
        let (node, away) = (random.i32(1..=3), Duration::from_millis(random.u64(0..12_000)));
        let kind = random.usize(..4);
        println!("{:.0} s: {kind} on {node} for {away:?}", began.elapsed().as_secs_f64());
        match kind {
            0 => cluster.kill(node),
            1 => cluster.stop(node),
            2 => cluster.pause(node),
            _ => {
                program.kill().unwrap();
                program = scene.start();
            }
        }
        thread::sleep(away);
        match kind {
            0 | 1 => cluster.start(node),
            2 => cluster.resume(node),
            _ => {}
        }
    }
    scene.wait_for_progress();
    scene.drain(program);
    scene.judge();
}

/// What each broker coordinates is looked at before the tests rely on it.
#[test]
fn every_broker_coordinates_some_of_the_transactional_ids() {
    let cluster = three("coordinators");
    let mut client = transactions::client(&cluster.bootstrap);
    let ids = (0..64).map(|n| format!("id-{n}"));
    let deadline = Deadline::after(Duration::from_secs(60));
    let mut nodes: Vec<i32> =
        ids.map(|id| client.find_transaction_coordinator(&id, deadline).unwrap()).collect();
    nodes.sort_unstable();
    nodes.dedup();
    assert_eq!(nodes, [1, 2, 3]);
}
