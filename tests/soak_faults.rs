//! SIGKILL at every named point of the protocol, in every way in which it can be reached, with one subtask and with
//! two, at a Kafka with transaction version 2 and at one with transaction version 0.

mod support;

use support::{Cluster, Scene, bootstrap, in_parallel, occasions};

fn all_pass(bootstrap: &str, parallelism: u16) {
    all_pass_with(bootstrap, parallelism, "soak", |scene| scene);
}

fn all_pass_with(bootstrap: &str, parallelism: u16, title: &str, with: impl Fn(Scene) -> Scene + Sync) {
    let cases = occasions::all(parallelism).into_iter().enumerate().map(|(number, (occasion, fault))| {
        (format!("{number} {fault} with {parallelism}"), (number, occasion, fault))
    });
    in_parallel(3, cases.collect(), |(number, occasion, fault)| {
        occasion(with(Scene::at(bootstrap, &format!("{title}-{number}"), parallelism)), &fault);
    });
}

#[test]
fn at_transaction_version_2() {
    all_pass(&bootstrap(), 1);
    all_pass(&bootstrap(), 2);
}

#[test]
fn with_unaligned_checkpoints() {
    all_pass_with(&bootstrap(), 2, "soak-unaligned", |scene| scene.flag("unaligned", ""));
}

#[test]
fn at_transaction_version_0() {
    let cluster = Cluster::up("soak-version-0", &["--transaction-version", "0"]);
    all_pass(&cluster.bootstrap, 1);
    all_pass(&cluster.bootstrap, 2);
}
