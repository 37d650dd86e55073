//! Checkpoints on S3, on HDFS and on a small disk: jobs that are killed there, and stores that are busy, slow, away or
//! full for a while. Checkpoints fail and are tolerated, the job goes on, every click counts once, and nothing stays
//! behind that nobody refers to.
//!
//! Needs `S3_ENDPOINT`, `S3_BUCKET` with keys in AWS's variables, and `HDFS_URI`, which `make test` sets.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::collections::BTreeSet;
use std::process::Command;
use std::time::Duration;
use support::{PATIENCE, Scene, from_environment, http};
use tidegate::checkpoint::Sequence;
use tidegate::model::JobId;
use tidegate::storage::{self, Options};
use tidegate_tools::disk::Disk;
use tidegate_tools::program::Program;
use tidegate_tools::proxy::{Break, Fault, Http, Tcp};

/// As many requests as there will ever be.
const ALL: usize = usize::MAX;

/// Clicks a second.
const RATE: u64 = 1000;

/// Where a job keeps its checkpoints, and how it reaches that.
struct Place {
    location: String,
    properties: Vec<(&'static str, String)>,
}

impl Place {
    fn s3(endpoint: &str) -> Self {
        let location = format!("s3://{}/jobs", from_environment("S3_BUCKET"));
        Self { location, properties: vec![("s3.endpoint", endpoint.to_owned())] }
    }

    fn hdfs(server: &str) -> Self {
        let location = format!("hdfs://{server}/jobs");
        Self { location, properties: vec![("hdfs.replication", "1".to_owned())] }
    }

    /// Gives up soon, so that checkpoints fail soon. A server that has just started takes longer for its first answers,
    /// and a job whose store does not answer does not start: so somebody patient asks before.
    fn impatient(mut self) -> Self {
        let store = storage::open_with(&self.location, "first-answers", &self.options()).unwrap();
        store.put("blob", b"x").unwrap();
        store.put_if_absent("other", b"x").unwrap();
        store.list("").unwrap();
        self.properties.push(("timeout_ms", "2000".to_owned()));
        self.properties.push(("attempt_timeout_ms", "1500".to_owned()));
        self
    }

    fn options(&self) -> Options {
        let mut options = Options::default();
        self.properties.iter().for_each(|(name, value)| options.set(name, value).unwrap());
        options
    }

    /// Location first, then properties.
    fn flags(&self) -> Vec<String> {
        let property =
            |(name, value): &(&str, String)| ["--storage-property".to_owned(), format!("{name}={value}")];
        let location = ["--checkpoints".to_owned(), self.location.clone()];
        location.into_iter().chain(self.properties.iter().flat_map(property)).collect()
    }

    /// A job that is fed and keeps its checkpoints here.
    fn scene(&self, title: &str) -> Scene {
        let mut scene =
            Scene::new(title, 2).flag("tolerable-failures", "50").flag("checkpoint-timeout", "5s");
        for pair in self.flags().chunks(2) {
            scene = scene.flag(pair[0].trim_start_matches("--"), &pair[1]);
        }
        scene.feed(RATE)
    }

    /// After `tidegate checkpoint sweep` every file is referred to, and nothing unfinished is left.
    fn must_be_clean(&self, scene: &Scene) {
        let mut sweep = tidegate(&["checkpoint", "sweep", "--older-than", "0s", "--job", &scene.job.group]);
        sweep.args(self.flags());
        let output = sweep.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{said}");
        println!("{said}");
        let job = JobId::new(&scene.job.group).unwrap();
        let sequence = Sequence::existing(&self.location, &job, &self.options()).unwrap().unwrap();
        let manifests = sequence.slots().unwrap().into_iter().map(|slot| sequence.read(slot).unwrap());
        let needed: BTreeSet<String> =
            manifests.flat_map(|m| m.files().map(|f| f.name.clone()).collect::<Vec<_>>()).collect();
        let found = sequence.store().list("state").unwrap().into_iter().map(|name| format!("state/{name}"));
        assert_eq!(found.collect::<BTreeSet<_>>(), needed, "every file is referred to, and there");
        assert_eq!(sequence.store().sweep(Duration::ZERO).unwrap(), 0, "nothing unfinished is left");
        assert!(sequence.store().list("probe").unwrap().is_empty(), "the probe leaves nothing behind");
    }
}

fn tidegate(arguments: &[&str]) -> Command {
    let mut command = Command::new(support::bin_dir().join("tidegate"));
    command.args(arguments);
    command
}

/// Stops the job when it has caught up, and judges it.
fn finish(mut scene: Scene, program: Program, place: &Place) {
    scene.drain(program);
    place.must_be_clean(&scene);
    scene.judge();
}

/// Kills between and within checkpoints, and restarts with another number of subtasks.
fn killed_and_restarted(title: &str, place: &Place) {
    let mut scene = place.scene(title);
    for parallelism in [2, 3, 1] {
        scene.job.parallelism = parallelism;
        let mut program = scene.start();
        scene.wait_for_progress();
        scene.wait_for_progress();
        program.kill().unwrap();
    }
    scene.die_at("checkpoint.after_manifest:2");
    let program = scene.start();
    scene.wait_for_progress();
    finish(scene, program, place);
}

#[test]
fn jobs_on_s3_are_exact_across_kills() {
    killed_and_restarted("on-s3", &Place::s3(&from_environment("S3_ENDPOINT")));
}

#[test]
fn jobs_on_hdfs_are_exact_across_kills() {
    killed_and_restarted(
        "on-hdfs",
        &Place::hdfs(from_environment("HDFS_URI").strip_prefix("hdfs://").unwrap()),
    );
}

/// Files of a savepoint from one store into another, as any tool would copy them.
fn copy(from: (&str, &Options), to: (&str, &Options)) {
    let (from, to) =
        (storage::open_with(from.0, "", from.1).unwrap(), storage::open_with(to.0, "", to.1).unwrap());
    let states = from.list("state").unwrap().into_iter().map(|name| format!("state/{name}"));
    for name in states.chain(["savepoint".to_owned()]) {
        to.put(&name, &from.get(&name).unwrap()).unwrap();
    }
}

#[test]
fn a_savepoint_on_s3_is_moved_to_hdfs_and_begun_with_there() {
    let here = Place::s3(&from_environment("S3_ENDPOINT"));
    let there = Place::hdfs(from_environment("HDFS_URI").strip_prefix("hdfs://").unwrap());
    let scene = here.scene("moved").flag("savepoints", &format!("{}/savepoints", here.location));
    let (mut program, address) = http::start(&scene);
    scene.wait_for_progress();
    let output = tidegate(&["savepoint", "create", "--stop", "--address", &address]).output().unwrap();
    let place = String::from_utf8(output.stdout).unwrap().trim().to_owned();
    assert!(place.starts_with(&here.location), "{place}, {}", String::from_utf8_lossy(&output.stderr));
    assert!(program.wait(PATIENCE).unwrap().success(), "log {}", scene.log());
    let moved = format!("{}/savepoints/{}", there.location, scene.job.group);
    copy((&place, &here.options()), (&moved, &there.options()));
    for (place, savepoint) in [(&here, &place), (&there, &moved)] {
        let mut verify = tidegate(&["savepoint", "verify", savepoint]);
        assert!(verify.args(&place.flags()[2..]).status().unwrap().success(), "{savepoint}");
    }
    let mut scene = scene.flag("from", &moved);
    for pair in there.flags().chunks(2) {
        scene = scene.flag(pair[0].trim_start_matches("--"), &pair[1]);
    }
    let program = scene.start();
    scene.wait_for_progress();
    finish(scene, program, &there);
}

fn of_environment<'a>(key: &'a str, secret: &'a str) -> [(&'a str, &'a str); 2] {
    [("AWS_ACCESS_KEY_ID", key), ("AWS_SECRET_ACCESS_KEY", secret)]
}

#[test]
fn keys_come_from_the_environment_or_a_profile_and_what_is_wrong_with_them_is_told() {
    let place = Place::s3(&from_environment("S3_ENDPOINT"));
    let (key, secret) = (from_environment("AWS_ACCESS_KEY_ID"), from_environment("AWS_SECRET_ACCESS_KEY"));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("credentials");
    let profile = format!("[here]\naws_access_key_id = {key}\naws_secret_access_key = {secret}\n");
    std::fs::write(&file, profile).unwrap();
    let said_with = |variables: &[(&str, &str)]| {
        let mut list = tidegate(&["checkpoint", "list", "--job", "nobody"]);
        list.args(place.flags()).env_remove("AWS_ACCESS_KEY_ID").env_remove("AWS_SECRET_ACCESS_KEY");
        list.env("AWS_EC2_METADATA_DISABLED", "true").env("AWS_SHARED_CREDENTIALS_FILE", &file);
        let output = list.envs(variables.iter().copied()).output().unwrap();
        assert!(!output.status.success());
        String::from_utf8(output.stderr).unwrap()
    };
    let reached = "there are no checkpoints of job nobody";
    let way_out = "give this process valid keys";
    for (variables, expected) in [
        (&[("AWS_PROFILE", "here")][..], [reached, &place.location]),
        (&of_environment(&key, &secret), [reached, &place.location]),
        (&[("AWS_PROFILE", "nowhere")], ["no credentials were found", way_out]),
        (&of_environment(&key, "wrong"), ["SignatureDoesNotMatch", way_out]),
        (&of_environment("wrong", &secret), ["access key", way_out]),
    ] {
        let said = said_with(variables);
        for text in expected {
            assert!(said.contains(text), "{text:?} is not in: {said}");
        }
        assert_eq!(said.trim().lines().count(), 1, "{said}");
    }
}

/// Waits for so many more failed checkpoints; the job goes on in spite of them.
fn await_failures(scene: &Scene, program: &mut Program, more: usize) {
    let before = scene.times_logged("checkpoint failed");
    scene.until("checkpoints to fail", || {
        program.must_run().unwrap();
        scene.times_logged("checkpoint failed") >= before + more
    });
}

#[test]
fn a_bucket_that_is_busy_and_slow_for_a_while_costs_checkpoints_and_nothing_else() {
    let proxy = Http::start(from_environment("S3_ENDPOINT").strip_prefix("http://").unwrap()).unwrap();
    let place = Place::s3(&proxy.endpoint()).impatient();
    let scene = place.scene("busy-s3");
    let mut program = scene.start();
    scene.wait_for_progress();
    // Files of state alone: whether a manifest was published is never in doubt, so nobody has a reason to restart.
    proxy.hurt_only("/state/", Fault::Busy, ALL);
    await_failures(&scene, &mut program, 2);
    proxy.hurt_only("/state/", Fault::CutRequest, ALL);
    await_failures(&scene, &mut program, 1);
    proxy.hurt(Fault::Slow(Duration::from_millis(200)), ALL);
    scene.wait_for_progress();
    proxy.heal();
    scene.wait_for_progress();
    assert_eq!(scene.times_logged("claimed the job"), 1, "it was never restarted, log {}", scene.log());
    assert!(scene.has_logged("503"), "log {}", scene.log());
    // All of it, so that publications stay unanswered: the job may restart, and finds out what was published.
    proxy.hurt(Fault::Busy, ALL);
    std::thread::sleep(Duration::from_secs(3));
    proxy.hurt(Fault::Lost, 4);
    scene.wait_for_progress();
    finish(scene, program, &place);
}

#[test]
fn a_name_node_that_is_away_for_a_while_costs_checkpoints_and_nothing_else() {
    let proxy = Tcp::start(from_environment("HDFS_URI").strip_prefix("hdfs://").unwrap()).unwrap();
    let place = Place::hdfs(&proxy.address().to_string()).impatient();
    let scene = place.scene("away-hdfs");
    let mut program = scene.start();
    scene.wait_for_progress();
    proxy.hurt(Break::Away, ALL);
    await_failures(&scene, &mut program, 1);
    proxy.hurt(Break::Slow(Duration::from_millis(30)), ALL);
    scene.wait_for_progress();
    proxy.hurt(Break::LoseAnswerTo("rename2"), 3);
    scene.wait_for_progress();
    scene.wait_for_progress();
    assert!(proxy.hurts() > 3, "the faults have happened");
    finish(scene, program, &place);
}

#[test]
fn a_disk_that_is_full_for_a_while_costs_checkpoints_and_nothing_else() {
    let folder = support::run_dir().join(format!("small-{}", tidegate_tools::topics::token()));
    let disk = match Disk::mount(&folder, "size=4m") {
        Ok(disk) => disk,
        Err(e) => {
            println!("skipped, since no file system can be mounted here: {e}");
            return;
        }
    };
    let place = Place { location: disk.location(), properties: Vec::new() };
    let scene = place.scene("full");
    let mut program = scene.start();
    scene.wait_for_progress();
    let fill = disk.fill().unwrap();
    await_failures(&scene, &mut program, 2);
    std::fs::remove_file(fill).unwrap();
    scene.wait_for_progress();
    assert!(scene.has_logged("no space left while writing state/"), "log {}", scene.log());
    assert_eq!(scene.times_logged("claimed the job"), 1, "it was never restarted, log {}", scene.log());
    finish(scene, program, &place);
    drop(disk);
    std::fs::remove_dir_all(folder).unwrap();
}
