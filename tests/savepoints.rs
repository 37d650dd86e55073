//! Savepoints of a running job: taken, moved, begun with, and the process killed at every point of that.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::Command;
use support::{PATIENCE, Scene, http, transactions};
use tidegate_tools::offsets::Isolation;
use tidegate_tools::reader::read_all;

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

fn create(address: &str) -> Command {
    let mut command = Command::new(support::bin_dir().join("tidegate"));
    command.args(["savepoint", "create", "--address", address]);
    command
}

/// The savepoint's place, as the program prints it.
fn created(command: &mut Command) -> PathBuf {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let printed = String::from_utf8(output.stdout).unwrap();
    PathBuf::from(printed.trim().strip_prefix("file://").unwrap())
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
    let (mut program, address) = http::start(&scene);
    scene.wait_for_progress();
    let place = created(&mut create(&address));
    assert_eq!(place, the_savepoint(&scene));
    scene.wait_for_progress();
    program.kill().unwrap();
    assert!(verify(&place));
    let moved = scene.job.folder.join("moved");
    fs::rename(&place, &moved).unwrap();
    assert!(verify(&moved));
    let file = fs::read_dir(moved.join("state")).unwrap().next().unwrap().unwrap().path();
    let mut bytes = fs::read(&file).unwrap();
    bytes[9] ^= 1;
    fs::write(&file, bytes).unwrap();
    assert!(!verify(&moved), "a flipped byte is found");
    let refused = Scene::new("savepoint-flipped", 2).flag("from", moved.to_str().unwrap());
    let status = refused.start().wait(PATIENCE).unwrap();
    let name = file.file_name().unwrap().to_str().unwrap();
    assert!(!status.success() && refused.has_logged(name), "log {}", refused.log());
    let program = scene.start();
    scene.drain(program);
    scene.judge();
}

#[test]
fn a_job_stops_with_a_savepoint_and_begins_with_it_without_its_checkpoints() {
    let scene = with_savepoints("stop-savepoint");
    let (mut program, address) = http::start(&scene);
    scene.wait_for_progress();
    created(create(&address).arg("--stop"));
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
    let address = http::address(&scene, 0);
    scene.wait_for_progress();
    let output = create(&address).arg("--stop").output().unwrap();
    assert!(!output.status.success(), "it was killed before it could tell");
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
    let (mut program, address) = http::start(&scene);
    scene.wait_for_progress();
    created(create(&address).arg("--stop"));
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

#[test]
fn a_fork_takes_nothing_from_its_original() {
    let mut scene = with_savepoints("original");
    let mut program = scene.start_with_fault("checkpoint.after_manifest:9");
    let address = http::address(&scene, 0);
    scene.wait_for_progress();
    let place = created(&mut create(&address));
    program.wait(PATIENCE).unwrap();
    scene.must_have_happened("checkpoint.after_manifest:9", "kill");
    let before = transactions::open(&scene.job.bootstrap, &scene.job.group);
    assert!(!before.is_empty(), "there are transactions that a fork could take");

    let mut fork = Scene::new("fork", 2).flag("from", place.to_str().unwrap());
    fork.job.input.clone_from(&scene.job.input);
    let mut program = fork.start();
    fork.wait_for_progress();
    program.stop(PATIENCE).unwrap();
    assert_eq!(transactions::open(&scene.job.bootstrap, &scene.job.group), before);
    for (url, counts) in counts_by_url(&fork) {
        let first = counts[0];
        let expected: Vec<u64> = (first..).take(counts.len()).collect();
        assert_eq!(counts, expected, "{url} goes on from the savepoint");
    }
    let program = scene.start();
    scene.drain(program);
    scene.judge();
}

#[test]
fn a_job_that_runs_is_not_begun_with_its_savepoint_elsewhere() {
    let mut scene = with_savepoints("twice");
    let (mut program, address) = http::start(&scene);
    scene.wait_for_progress();
    let place = created(&mut create(&address));
    scene.wait_for_progress();
    let mut other = Scene::new("twice-elsewhere", 2).flag("from", place.to_str().unwrap());
    other.job.group.clone_from(&scene.job.group);
    other.job.input.clone_from(&scene.job.input);
    other.job.output.clone_from(&scene.job.output);
    // Its ids take turns, also the one that the savepoint lists.
    for _ in 0..5 {
        let status = other.start().wait(PATIENCE).unwrap();
        assert!(!status.success(), "log {}", other.log());
        scene.wait_for_progress();
    }
    let refused = other.times_logged("runs with its checkpoints elsewhere");
    assert_eq!(refused, 5, "log {}", other.log());
    assert_eq!(scene.times_logged("claimed the job"), 1, "nobody disturbed it, log {}", scene.log());
    program.must_run().unwrap();
    scene.drain(program);
    scene.judge();
}

fn counts_by_url(scene: &Scene) -> BTreeMap<String, Vec<u64>> {
    let mut by_url: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for record in read_all(&scene.job.bootstrap, &scene.job.output, Isolation::Committed).unwrap() {
        let counted: serde_json::Value = serde_json::from_slice(&record.value.unwrap()).unwrap();
        let url = counted["url"].as_str().unwrap().to_owned();
        by_url.entry(url).or_default().push(counted["count"].as_u64().unwrap());
    }
    assert!(by_url.values().any(|counts| counts[0] > 1), "counts go on from the savepoint");
    by_url
}

#[test]
fn a_savepoint_is_rescaled_and_a_rescale_that_dies_leaves_it_whole() {
    let scene = with_savepoints("savepoint-rescale");
    let (mut program, address) = http::start(&scene);
    scene.wait_for_progress();
    let place = created(create(&address).arg("--stop"));
    assert!(program.wait(PATIENCE).unwrap().success(), "log {}", scene.log());
    let target = scene.job.folder.join("rescaled");
    let rescale = |bin: PathBuf| {
        let mut command = Command::new(bin.join("tidegate"));
        command.args(["savepoint", "rescale", "--max-parallelism", "300"]).arg(&place);
        command.arg("--folder").arg(&target);
        command
    };
    for fault in ["rescale.after_files:1", "rescale.after_manifest:1"] {
        let log = scene.job.folder.join("rescale-fault");
        let mut dying = rescale(support::bin_dir().join("faults"));
        dying.env("TIDEGATE_FAULT", fault).env("TIDEGATE_FAULT_LOG", &log);
        assert_eq!(dying.status().unwrap().signal(), Some(9));
        assert!(fs::read_to_string(log).unwrap().contains(fault.split(':').next().unwrap()));
        assert!(verify(&place), "{fault}");
    }
    let died: Vec<PathBuf> = fs::read_dir(&target).unwrap().map(|e| e.unwrap().path()).collect();
    for folder in died.iter().filter(|folder| !folder.join("savepoint").exists()) {
        let mut dispose = Command::new(support::bin_dir().join("tidegate"));
        assert!(
            dispose.args(["savepoint", "dispose", "--unfinished"]).arg(folder).status().unwrap().success()
        );
        assert_eq!(fs::read_dir(folder.join("state")).unwrap().count(), 0);
    }
    assert_eq!(died.len(), 2, "one of them had nothing but its files: {died:?}");
    let rescaled = created(&mut rescale(support::bin_dir()));
    assert!(verify(&rescaled));
    let output = Command::new(support::bin_dir().join("tidegate"))
        .args(["savepoint", "inspect"])
        .arg(&rescaled)
        .output()
        .unwrap();
    let shown = String::from_utf8(output.stdout).unwrap();
    assert!(shown.contains("of 300"), "{shown}");
    fs::remove_dir_all(scene.job.folder.join("checkpoints")).unwrap();
    let mut scene = scene.flag("from", rescaled.to_str().unwrap());
    scene.job.parallelism = 3;
    let program = scene.start();
    scene.drain(program);
    scene.judge();
}

#[test]
fn a_start_that_could_not_begin_with_its_savepoint_is_not_mistaken_for_the_first() {
    let scene = with_savepoints("savepoint-missing");
    let (mut program, address) = http::start(&scene);
    scene.wait_for_progress();
    let place = created(create(&address).arg("--stop"));
    assert!(program.wait(PATIENCE).unwrap().success(), "log {}", scene.log());
    fs::remove_dir_all(scene.job.folder.join("checkpoints")).unwrap();
    let aside = scene.job.folder.join("aside");
    fs::rename(place.join("state"), &aside).unwrap();
    let must_fail = |from: bool, text: &str| {
        let job = tidegate_tools::program::Job::clone(&scene.job);
        let mut program = job
            .start_with(|command| {
                if from {
                    command.arg("--from").arg(&place);
                }
            })
            .unwrap();
        assert!(!program.wait(PATIENCE).unwrap().success(), "{text}");
        assert!(scene.has_logged(text), "log {}", scene.log());
    };
    must_fail(false, "has no checkpoint of job");
    must_fail(true, "state/");
    must_fail(false, "was about to begin with");
    fs::rename(&aside, place.join("state")).unwrap();
    let mut scene = scene.flag("from", place.to_str().unwrap());
    let program = scene.start();
    scene.drain(program);
    scene.judge();
}
