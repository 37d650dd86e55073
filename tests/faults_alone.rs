//! SIGKILL at the riskiest points of the protocol, with one subtask, at a Kafka with transaction version 2 and at one
//! with transaction version 0.

mod support;

use support::{Cluster, Scene, bootstrap, in_parallel, occasions};

type Occasion = fn(Scene, &str);

/// The moments around the promise to commit.
const RISKIEST: [(&str, Occasion); 7] = [
    ("checkpoint.after_acknowledgement:4", occasions::running),
    ("checkpoint.after_manifest:2", occasions::running),
    ("commit.during_end_transaction:2", occasions::running),
    ("commit.after_end_transaction:2", occasions::running),
    ("init.during:2", occasions::restarting),
    ("salvage.after_produce:1", occasions::salvaging),
    ("salvage.after_manifest:1", occasions::salvaging),
];

fn all_pass(bootstrap: &str) {
    let cases = RISKIEST.map(|(fault, occasion)| (fault.to_owned(), (fault, occasion)));
    in_parallel(3, cases.into(), |(fault, occasion)| {
        let title = fault.replace([':', '_', '.'], "-");
        occasion(Scene::at(bootstrap, &title, 1), fault);
    });
}

#[test]
fn one_subtask_at_transaction_version_2() {
    all_pass(&bootstrap());
}

#[test]
fn one_subtask_at_transaction_version_0() {
    let cluster = Cluster::up("version-0", &["--transaction-version", "0"]);
    all_pass(&cluster.bootstrap);
}
