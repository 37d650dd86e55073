//! Two processes believe that they own the job: the one that claimed it last goes on, the other one finds out at its
//! next step, names the newer owner and ends without having committed anything.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::time::Duration;
use support::{PATIENCE, Scene};
use tidegate_tools::process;
use tidegate_tools::program::Program;

/// It has ended by itself, as a failure, and the log names the newer generation, which is 2 or, if the old process has
/// cost the new one an attempt, a higher one.
fn must_be_fenced(scene: &Scene, program: &mut Program) {
    let status = program.wait(PATIENCE).unwrap();
    assert_eq!(status.code(), Some(1), "{status}, log {}", scene.log());
    let log = std::fs::read_to_string(scene.job.log()).unwrap();
    let named = log.lines().find_map(|line| line.split_once("was claimed by another process (generation "));
    let (_, rest) = named.unwrap_or_else(|| panic!("no newer owner is named, log {}", scene.log()));
    // Of two that claim at once, the one that is passed by claims again: any two generations may meet.
    let (theirs, rest) = rest.split_once(", ours is ").unwrap_or_else(|| panic!("{rest}"));
    let (ours, _) = rest.split_once(')').unwrap_or_else(|| panic!("{rest}"));
    assert!(theirs.parse::<u64>().unwrap() > ours.parse::<u64>().unwrap(), "{theirs} and {rest}");
}

#[test]
fn of_two_started_at_once_one_goes_on() {
    let scene = Scene::new("two-at-once", 2).feed(4000);
    let mut both = [scene.start(), scene.start()];
    let mut ended = None;
    scene.until("one of them to end", || {
        ended = both.iter_mut().position(|program| program.must_run().is_err());
        ended.is_some()
    });
    let [first, second] = both;
    let (mut fenced, survivor) = if ended == Some(0) { (first, second) } else { (second, first) };
    must_be_fenced(&scene, &mut fenced);
    let mut scene = scene;
    scene.drain(survivor);
    scene.judge();
}

/// The old process is held at the fault, goes on when a new one has taken over and written, and must find out. The
/// new one may have fewer subtasks, which leaves the old one ids that the new one does not use.
fn held_at(title: &str, fault: &str, old: u16, new: u16) {
    let mut scene = Scene::new(title, old).feed(4000);
    let mut held = scene.pause_at(fault);
    scene.job.parallelism = new;
    let owner = scene.start();
    scene.wait_for_progress();
    process::resume(held.pid()).unwrap();
    must_be_fenced(&scene, &mut held);
    scene.wait_for_progress();
    scene.drain(owner);
    scene.judge();
}

#[test]
fn held_with_records_in_open_transactions() {
    held_at("held-open", "sink.after_drain:3", 2, 2);
}

#[test]
fn held_with_every_acknowledgement_in_hand() {
    held_at("held-acknowledged", "checkpoint.before_manifest:2", 2, 2);
}

#[test]
fn held_before_it_commits_what_the_new_owner_committed_too() {
    held_at("held-published", "checkpoint.after_manifest:2", 2, 2);
}

#[test]
fn held_in_the_middle_of_a_commit() {
    held_at("held-committing", "commit.during_end_transaction:3", 2, 2);
}

#[test]
fn held_between_its_claim_and_its_initialisation() {
    held_at("held-claimed", "init.before:1", 2, 2);
}

#[test]
fn held_while_the_job_is_scaled_down() {
    held_at("held-downscale", "checkpoint.after_manifest:2", 4, 1);
}

/// One subtask has no transaction open, and begins one on an id that the new owner has no use for.
#[test]
fn held_between_two_transactions_while_the_job_is_scaled_down() {
    held_at("held-downscale-open", "sink.after_drain:5", 4, 1);
}

#[test]
fn held_when_it_was_about_to_end() {
    // With nothing tolerated the last checkpoint follows at once, and has all that the job has written.
    let mut scene = Scene::new("held-ending", 2).flag("tolerable-failures", "0").until_end().fill(20_000);
    let mut held = scene.pause_at("stop.before_last_manifest:1");
    scene.finish();
    process::resume(held.pid()).unwrap();
    must_be_fenced(&scene, &mut held);
    std::thread::sleep(Duration::from_millis(100));
    scene.judge();
}
