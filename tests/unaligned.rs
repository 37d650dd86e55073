//! Backpressure: an operator at a tenth of its speed, with full channels in front of it. Aligned checkpoints cannot be
//! complete in time then; unaligned ones are, and what they captured comes back after a kill, at any parallelism.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::Command;
use support::{PATIENCE, Scene};
use tidegate_tools::program::Program;

/// For each record. Channels of two batches hold some 8,000 records in front of two subtasks: some 8 s of work.
const SLOW_MS: &str = "2";

fn slow(title: &str, parallelism: u16) -> Scene {
    Scene::new(title, parallelism)
        .flag("channel-capacity", "2")
        .variable("CLICKS_SLOW_DOWN_MS", SLOW_MS)
        .fill(40_000)
}

/// The largest number of records in flight in a complete checkpoint that the log tells of.
fn most_in_flight(scene: &Scene) -> u64 {
    let log = fs::read_to_string(scene.job.log()).unwrap_or_default();
    let numbers = log
        .lines()
        .filter_map(|line| line.split_once("records_in_flight=")?.1.split(' ').next()?.parse().ok());
    numbers.max().unwrap_or(0)
}

/// What is in flight at the end of the input takes far longer than a checkpoint may.
#[test]
fn a_bounded_job_comes_to_its_end_although_its_last_records_take_long() {
    let scene = Scene::new("unaligned-end", 2)
        .flag("channel-capacity", "2")
        .flag("unaligned", "")
        .flag("checkpoint-timeout", "2s")
        .variable("CLICKS_SLOW_DOWN_MS", SLOW_MS)
        .fill(8_000)
        .until_end();
    scene.finish();
    assert!(most_in_flight(&scene) > 0, "log {}", scene.log());
    assert_eq!(scene.times_logged("claimed the job"), 1, "it never went back, log {}", scene.log());
    scene.judge();
}

fn kill(mut program: Program) {
    program.must_run().unwrap();
    program.kill().unwrap();
}

#[test]
fn aligned_checkpoints_exceed_their_timeout_and_the_report_names_who_waits_for_whom() {
    let scene = slow("unaligned-not", 2)
        .flag("checkpoint-timeout", "2s")
        .flag("tolerable-failures", "1")
        .flag("restart-limit", "0");
    let mut program = scene.start();
    let status = program.wait(PATIENCE).unwrap();
    assert!(!status.success(), "{status}");
    let log = fs::read_to_string(scene.job.log()).unwrap();
    let failed =
        log.lines().find(|line| line.contains("checkpoint failed")).expect("a checkpoint has failed");
    for part in [
        "not acknowledged within 2s",
        "operator count (count) subtask",
        "input 0 from clicks subtask",
        "batches",
    ] {
        assert!(failed.contains(part), "{part:?} is not in: {failed}");
    }
    let ends = log.lines().find(|line| line.starts_with("error: ")).expect("the job has ended with an error");
    assert!(ends.contains("waits for input 0 from clicks subtask"), "{ends}");
    assert!(!log.contains("checkpoint complete"), "log {}", scene.log());
}

/// Records are captured by a checkpoint that switches in time; killed, and restored with these numbers of subtasks.
fn captured_and_restored(title: &str, then: u16, now: u16, flags: &[(&str, &str)]) {
    let mut scene = slow(title, then).flag("checkpoint-timeout", "6s").flag("unaligned", "");
    for (flag, value) in flags {
        scene = scene.flag(flag, value);
    }
    let program = scene.start();
    scene.until("a checkpoint with many records in flight", || most_in_flight(&scene) > 1000);
    kill(program);
    assert_eq!(scene.times_logged("checkpoint failed"), 0, "log {}", scene.log());
    scene.job.parallelism = now;
    // Killed while it replays: what is left is captured again.
    let before = scene.times_logged("checkpoint complete");
    let program = scene.start();
    scene.until("a checkpoint during the replay", || scene.times_logged("checkpoint complete") > before + 1);
    kill(program);
    let mut scene = scene.variable("CLICKS_SLOW_DOWN_MS", "0");
    let program = scene.start();
    scene.drain(program);
    scene.judge();
}

#[test]
fn what_was_captured_at_once_comes_back_at_the_same_parallelism() {
    captured_and_restored("unaligned-2-2", 2, 2, &[]);
}

#[test]
fn what_was_captured_after_the_switch_comes_back_with_more_subtasks() {
    captured_and_restored("unaligned-2-3", 2, 3, &[("aligned-timeout", "300ms")]);
}

#[test]
fn what_was_captured_after_the_switch_comes_back_within_a_chain_of_one_subtask() {
    captured_and_restored("unaligned-3-1", 3, 1, &[("aligned-timeout", "300ms")]);
}

#[test]
fn records_in_flight_are_dealt_out_anew_at_every_kill_and_rescale() {
    let mut scene = slow("unaligned-chain", 1).flag("checkpoint-timeout", "6s").flag("unaligned", "");
    for parallelism in [1, 2, 3, 4, 2] {
        scene.job.parallelism = parallelism;
        let before = scene.times_logged("checkpoint complete");
        let program = scene.start();
        scene.until("two checkpoints", || scene.times_logged("checkpoint complete") > before + 1);
        kill(program);
    }
    assert!(most_in_flight(&scene) > 1000, "log {}", scene.log());
    let mut scene = scene.variable("CLICKS_SLOW_DOWN_MS", "0");
    let program = scene.start();
    scene.drain(program);
    scene.judge();
}

#[test]
fn records_in_flight_follow_their_keys_to_other_key_groups() {
    let scene = slow("unaligned-regrouped", 2).flag("checkpoint-timeout", "6s").flag("unaligned", "");
    let program = scene.start();
    scene.until("a checkpoint with many records in flight", || most_in_flight(&scene) > 1000);
    kill(program);
    let (old, new) = (scene.job.folder.join("checkpoints"), scene.job.folder.join("regrouped"));
    let rescale = |bin: PathBuf| {
        let mut command = Command::new(bin.join("tidegate"));
        command
            .args(["checkpoint", "rescale", "--max-parallelism", "300", "--job", &scene.job.group])
            .arg(format!("--checkpoints=file://{}", old.display()))
            .arg(format!("--to=file://{}", new.display()));
        command
    };
    // One that dies leaves files in a place without any manifest, and a sweep takes them away.
    let mut dying = rescale(support::bin_dir().join("faults"));
    assert_eq!(dying.env("TIDEGATE_FAULT", "rescale.after_files:1").status().unwrap().signal(), Some(9));
    let files = || fs::read_dir(new.join(&scene.job.group).join("state")).unwrap().count();
    assert!(files() > 0, "it died with its files written");
    let mut sweep = Command::new(support::bin_dir().join("tidegate"));
    sweep.args(["checkpoint", "sweep", "--older-than", "0s", "--job", &scene.job.group]);
    assert!(sweep.arg(format!("--checkpoints=file://{}", new.display())).status().unwrap().success());
    assert_eq!(files(), 0);
    assert!(rescale(support::bin_dir()).status().unwrap().success());
    fs::remove_dir_all(&old).unwrap();
    fs::rename(&new, &old).unwrap();
    let mut scene = scene.variable("CLICKS_SLOW_DOWN_MS", "0");
    let program = scene.start();
    scene.drain(program);
    scene.judge();
}

#[test]
fn the_switch_is_told_with_whom_it_waited_for() {
    let scene = slow("unaligned-switch", 2)
        .flag("unaligned", "")
        .flag("aligned-timeout", "500ms")
        .flag("checkpoint-timeout", "6s");
    let program = scene.start();
    scene.until("the switch", || scene.has_logged("the time to align is over, the barrier overtakes"));
    kill(program);
    let log = fs::read_to_string(scene.job.log()).unwrap();
    let told = log.lines().find(|line| line.contains("the barrier overtakes")).unwrap();
    for part in ["operator count (count) subtask", "from clicks subtask"] {
        assert!(told.contains(part), "{part:?} is not in: {told}");
    }
}
