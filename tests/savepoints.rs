//! Savepoints of a running job: taken, moved, begun with, and the process killed at every point of that.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use support::{PATIENCE, Scene};
use tidegate_tools::program::Program;

/// Clicks a second.
const RATE: u64 = 4000;

fn folder(scene: &Scene) -> PathBuf {
    scene.job.folder.join("savepoints")
}

fn with_savepoints(title: &str) -> Scene {
    let scene = Scene::new(title, 2);
    let folder = folder(&scene).display().to_string();
    scene.flag("savepoints", &folder).feed(RATE)
}

fn signal(program: &Program, name: &str) {
    let pid = program.pid().to_string();
    assert!(Command::new("kill").args([name, &pid]).status().unwrap().success());
}

fn the_savepoint(scene: &Scene) -> PathBuf {
    let mut found: Vec<PathBuf> = fs::read_dir(folder(scene)).unwrap().map(|e| e.unwrap().path()).collect();
    assert_eq!(found.len(), 1, "{found:?}");
    found.remove(0)
}

fn verify(place: &std::path::Path) -> bool {
    let tidegate = support::bin_dir().join("tidegate");
    Command::new(tidegate).args(["savepoint", "verify"]).arg(place).status().unwrap().success()
}

#[test]
fn an_intermediate_savepoint_disturbs_nothing() {
    let mut scene = with_savepoints("savepoint");
    let mut program = scene.start();
    scene.wait_for_progress();
    signal(&program, "-USR1");
    scene.until("the savepoint", || scene.has_logged("savepoint complete"));
    program.kill().unwrap();
    let place = the_savepoint(&scene);
    assert!(verify(&place));
    let moved = scene.job.folder.join("moved");
    fs::rename(&place, &moved).unwrap();
    assert!(verify(&moved));
    let file = fs::read_dir(moved.join("state")).unwrap().next().unwrap().unwrap().path();
    let mut bytes = fs::read(&file).unwrap();
    bytes[9] ^= 1;
    fs::write(&file, bytes).unwrap();
    assert!(!verify(&moved), "a flipped byte is found");
    let program = scene.start();
    scene.drain(program);
    scene.judge();
}

#[test]
fn a_job_stops_with_a_savepoint_and_begins_with_it_without_its_checkpoints() {
    let scene = with_savepoints("stop-savepoint");
    let mut program = scene.start();
    scene.wait_for_progress();
    signal(&program, "-USR2");
    assert!(program.wait(PATIENCE).unwrap().success(), "log {}", scene.log());
    assert!(scene.has_logged("savepoint complete"));
    let place = the_savepoint(&scene);
    fs::remove_dir_all(scene.job.folder.join("checkpoints")).unwrap();
    let mut scene = scene.flag("from", place.to_str().unwrap()).flag("claim", "");
    let mut program = scene.start();
    scene.wait_for_progress();
    assert!(!place.join("savepoint").exists(), "it is claimed");
    program.kill().unwrap();
    let program = scene.start();
    scene.drain(program);
    scene.judge();
}

fn dies_taking_one(title: &str, fault: &str) {
    let mut scene = with_savepoints(title);
    let mut program = scene.start_with_fault(fault);
    scene.wait_for_progress();
    signal(&program, "-USR2");
    program.wait(PATIENCE).unwrap();
    scene.must_have_happened(fault, "kill");
    let program = scene.start();
    scene.drain(program);
    scene.judge();
}

#[test]
fn killed_before_the_savepoints_manifest() {
    dies_taking_one("savepoint-files", "savepoint.after_files:1");
}

#[test]
fn killed_between_the_savepoint_and_the_jobs_own_slot() {
    dies_taking_one("savepoint-manifest", "savepoint.after_manifest:1");
}

fn dies_beginning_with_one(title: &str, fault: &str) {
    let scene = with_savepoints(title);
    let mut program = scene.start();
    scene.wait_for_progress();
    signal(&program, "-USR2");
    assert!(program.wait(PATIENCE).unwrap().success(), "log {}", scene.log());
    let place = the_savepoint(&scene);
    let mut scene = scene.flag("from", place.to_str().unwrap());
    scene.die_at(fault);
    let program = scene.start();
    scene.drain(program);
    scene.judge();
}

#[test]
fn killed_when_the_files_are_copied() {
    dies_beginning_with_one("restore-copy", "restore.after_copy:1");
}

#[test]
fn killed_when_the_sequence_goes_on_from_the_savepoint() {
    dies_beginning_with_one("restore-manifest", "restore.after_manifest:1");
}
