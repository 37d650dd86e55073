//! SIGKILL at every named point of the protocol, with two subtasks: whatever the moment, the next start goes on as if
//! nothing had happened.
//!
//! Each test proves by the fault log that the process died at its point.

mod support;

use support::{Scene, occasions};
use tidegate::host::fault::POINTS;

/// One test for each line: its name, how the point is reached, and `point:visit`.
macro_rules! killed {
    ($($name:ident: $occasion:ident($fault:literal);)*) => {
        $(
            #[test]
            fn $name() {
                occasions::$occasion(Scene::new(&stringify!($name).replace('_', "-"), 2), $fault);
            }
        )*
        const KILLED_AT: &[&str] = &[$($fault),*];
    };
}

killed! {
    after_the_first_claim: running("start.after_claim:1");
    after_a_claim_with_prepared_transactions: restarting("start.after_claim:1");
    after_the_first_manifest: running("start.after_first_manifest:1");
    before_a_prepared_transaction_is_resolved: restarting("resolve.before_end_transaction:1");
    between_two_resolutions: restarting("resolve.before_end_transaction:2");
    after_a_prepared_transaction_is_resolved: restarting("resolve.after_end_transaction:1");
    before_ids_are_initialised_first: running("init.before:1");
    before_ids_are_initialised_again: restarting("init.before:1");
    while_ids_are_initialised_first: running("init.during:4");
    while_ids_are_initialised_again: restarting("init.during:4");
    at_the_begin_of_a_salvage: salvaging("salvage.begin:1");
    after_a_salvage_has_produced: salvaging("salvage.after_produce:1");
    after_a_salvage_is_prepared: salvaging("salvage.after_prepare:1");
    after_a_salvage_is_listed: salvaging("salvage.after_manifest:1");
    after_a_salvage_is_committed: salvaging("salvage.after_commit:1");
    after_the_drain: running("sink.after_drain:3");
    after_the_description: running("sink.after_describe:3");
    after_the_upload: running("state.after_upload:3");
    after_an_acknowledgement: running("checkpoint.after_acknowledgement:6");
    after_the_last_acknowledgement: running("checkpoint.after_acknowledgement:8");
    before_the_manifest: running("checkpoint.before_manifest:2");
    after_the_manifest: running("checkpoint.after_manifest:2");
    after_the_manifest_of_the_end: ending("checkpoint.after_manifest:1");
    before_a_commit: running("commit.before_end_transaction:3");
    while_a_commit_is_on_its_way: running("commit.during_end_transaction:3");
    after_a_commit: running("commit.after_end_transaction:3");
    after_the_first_commit_of_the_end: ending("commit.after_end_transaction:1");
    before_a_commit_is_recorded: running("commit.before_recorded:2");
    before_the_last_manifest_of_a_stop: stopping("stop.before_last_manifest:1");
    before_the_last_manifest_of_the_end: ending("stop.before_last_manifest:1");
    after_the_last_manifest_of_a_stop: stopping("stop.after_last_manifest:1");
    after_the_last_manifest_of_the_end: ending("stop.after_last_manifest:1");
}

#[test]
fn every_point_has_its_test() {
    let left_out: Vec<_> = POINTS
        .iter()
        // These are reached with savepoints alone: see `savepoints.rs`.
        .filter(|point| !["savepoint", "restore", "rescale"].contains(&point.split('.').next().unwrap()))
        .filter(|point| !KILLED_AT.iter().any(|fault| fault.split(':').next() == Some(point)))
        .collect();
    assert!(left_out.is_empty(), "{left_out:?}");
}
