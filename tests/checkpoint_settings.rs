//! Settings of checkpoints, each in a job where it changes what happens.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;
use support::{PATIENCE, Scene, http, transactions};
use tidegate_tools::oracle::{self, Promise};
use tidegate_tools::program::{Job, Program};

/// Clicks a second.
const RATE: u64 = 4000;

fn checkpoints(scene: &Scene) -> PathBuf {
    scene.job.folder.join("checkpoints").join(&scene.job.group)
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten();
    entries.map(|entry| entry.unwrap().path()).filter(|path| path.is_file()).collect()
}

fn cancel((mut program, address): (Program, String)) {
    let (status, body) = http::ask(&address, "POST", "/v1/cancel", "").unwrap();
    assert_eq!(status, 202, "{body}");
    let status = program.wait(PATIENCE).unwrap();
    assert!(status.success(), "{status}:\n{}", program.log_tail(20));
    assert!(program.log_tail(20).contains("cancelled with checkpoint"), "{}", program.log_tail(20));
}

/// Killed after some checkpoints, looked at, then started again and judged.
fn survives_a_kill(scene: Scene, look: impl FnOnce(&Scene)) {
    let mut scene = scene.feed(RATE);
    let mut program = scene.start();
    scene.wait_for_progress();
    program.kill().unwrap();
    look(&scene);
    let program = scene.start();
    scene.wait_for_progress();
    scene.drain(program);
    scene.judge();
}

#[test]
fn several_checkpoints_at_once_are_exactly_once() {
    survives_a_kill(Scene::new("concurrent", 2).flag("maximum-concurrent", "3"), |_| ());
}

#[test]
fn small_state_lies_in_the_manifest_and_makes_no_file() {
    survives_a_kill(Scene::new("inline", 2).flag("inline-below-bytes", "1048576"), |scene| {
        let files = files(&checkpoints(scene).join("state"));
        assert!(files.is_empty(), "{files:?}");
    });
}

#[test]
fn a_restart_takes_state_from_this_machine() {
    let copies = support::run_dir().join("copies");
    let scene = Scene::new("local-recovery", 2).flag("local-recovery", copies.to_str().unwrap());
    survives_a_kill(scene, |scene| {
        // What is not there cannot be fetched.
        let stored = files(&checkpoints(scene).join("state"));
        assert!(!stored.is_empty());
        stored.iter().for_each(|file| fs::remove_file(file).unwrap());
    });
}

#[test]
fn a_cancelled_job_goes_on_from_its_retained_checkpoints() {
    let mut scene = Scene::new("cancel-retain", 2).feed(RATE);
    let program = http::start(&scene);
    scene.wait_for_progress();
    cancel(program);
    let open = transactions::open(&scene.job.bootstrap, &scene.job.group);
    assert!(open.is_empty(), "{open:#?}");
    let program = scene.start();
    scene.drain(program);
    scene.judge();
}

#[test]
fn a_cancelled_job_deletes_its_checkpoints_after_its_commits() {
    let mut scene = Scene::new("cancel-delete", 2).flag("on-cancellation", "delete").feed(RATE);
    let program = http::start(&scene);
    scene.wait_for_progress();
    cancel(program);
    scene.stop_feed();
    let left = files(&checkpoints(&scene).join("state"));
    assert!(left.is_empty(), "{left:?}");
    assert_eq!(files(&checkpoints(&scene).join("manifest")).len(), 1, "the empty one");
    let open = transactions::open(&scene.job.bootstrap, &scene.job.group);
    assert!(open.is_empty(), "{open:#?}");
    let program = scene.start();
    scene.wait_for_progress();
    drop(program);
    assert!(scene.has_logged("the checkpoints of the cancelled job are deleted"), "log {}", scene.log());
}

#[test]
fn at_least_once_loses_nothing_over_a_kill() {
    let mut scene = Scene::new("at-least-once", 2).flag("checkpoint-mode", "at-least-once").feed(RATE);
    let mut program = scene.start();
    scene.wait_for_progress();
    program.kill().unwrap();
    let program = scene.start();
    scene.wait_for_progress();
    scene.drain(program);
    let Job { bootstrap, input, output, .. } = &scene.job;
    let report = oracle::judge_clicks(bootstrap, input, output, Promise::AtLeastOnce).unwrap();
    assert!(report.holds() && report.records_in > 0, "{report}, log {}", scene.log());
}

#[test]
fn many_checkpoints_leave_no_more_than_those_that_are_retained() {
    let mut scene = Scene::new("many", 2).feed(RATE);
    scene.job.interval = Duration::from_millis(10);
    let program = scene.start();
    scene.until("200 checkpoints", || scene.times_logged("checkpoint complete") >= 200);
    scene.drain(program);
    // Three are retained, of two subtasks each.
    let state = files(&checkpoints(&scene).join("state"));
    assert!(state.len() <= 6, "{state:?}");
    let manifests = files(&checkpoints(&scene).join("manifest"));
    assert!(manifests.len() <= 8, "with those of the start and of resolutions: {manifests:?}");
    scene.judge();
}
