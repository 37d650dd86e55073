//! `tidegate txn` on the transactions of a job that is gone: what its newest checkpoint lists can be committed by hand,
//! what it does not list can be aborted, and a restart of the job goes on exactly.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use serde_json::Value;
use std::process::{Command, Output};
use support::{PATIENCE, Scene, bin_dir};
use tidegate_tools::offsets::Isolation;
use tidegate_tools::oracle::{self, Fault, Promise};
use tidegate_tools::reader::read_all;

/// Dies with transactions that are prepared, and not listed by any manifest.
const NOT_LISTED: &str = "checkpoint.before_manifest:4";

/// Runs `tidegate` with these arguments.
fn tidegate(arguments: &[&str]) -> Output {
    Command::new(bin_dir().join("tidegate")).args(arguments).output().unwrap()
}

/// Runs `tidegate txn` on the scene's job; gives exit code, rows, and the words for people.
fn txn(scene: &Scene, command: &str, more: &[&str]) -> (i32, Vec<Value>, String) {
    let checkpoints = checkpoints(scene);
    let base = ["txn", command, "--bootstrap", &scene.job.bootstrap, "--job", &scene.job.group];
    let base = [&base[..], &["--checkpoints", &checkpoints, "-o", "json"], more].concat();
    let output = tidegate(&base);
    let words = String::from_utf8(output.stderr).unwrap();
    println!("txn {command} {more:?}: {}\n{words}", output.status);
    let rows = match output.stdout.as_slice() {
        [] => Vec::new(),
        text => serde_json::from_slice(text).unwrap(),
    };
    (output.status.code().unwrap(), rows, words)
}

fn checkpoints(scene: &Scene) -> String {
    format!("file://{}", scene.job.folder.join("checkpoints").display())
}

/// The open transactions, those that the newest checkpoint lists and the others.
fn open(scene: &Scene) -> (Vec<Value>, Vec<Value>) {
    let (code, rows, _) = txn(scene, "list", &[]);
    assert_eq!(code, 0);
    let open = rows.into_iter().filter(|row| row["state"] == "Ongoing");
    open.partition(|row| row["listed"] == true)
}

/// The rows without what changes from second to second.
fn lasting((mut listed, mut strays): (Vec<Value>, Vec<Value>)) -> (Vec<Value>, Vec<Value>) {
    for row in listed.iter_mut().chain(&mut strays) {
        row.as_object_mut().unwrap().remove("seconds_left");
    }
    (listed, strays)
}

fn sum_of_records(rows: &[Value]) -> u64 {
    rows.iter().map(|row| row["records"].as_u64().unwrap()).sum()
}

/// How many records a committed reader sees.
fn visible(scene: &Scene) -> u64 {
    read_all(&scene.job.bootstrap, &scene.job.output, Isolation::Committed).unwrap().len() as u64
}

/// The job goes on, everything that was fed is counted, and the verdict is perfect.
fn must_go_on_exactly(mut scene: Scene) {
    let program = scene.start();
    scene.wait_for_progress();
    scene.drain(program);
    scene.judge();
}

#[test]
fn what_the_newest_checkpoint_lists_is_committed_by_hand() {
    let mut scene = Scene::new("txn-commit", 2).feed(4000);
    scene.die_with_prepared();
    let (listed, _) = open(&scene);
    assert!(!listed.is_empty(), "log {}", scene.log());
    let sample = &listed[0];
    assert_eq!((&sample["job"], &sample["sink"]), (&scene.job.group.clone().into(), &"counts".into()));
    let left = sample["seconds_left"].as_i64().unwrap();
    assert!((500..600).contains(&left), "the timeout is 10 min: {sample}");

    let (code, rows, words) = txn(&scene, "commit", &[]);
    assert_eq!(code, 0);
    assert!(rows.iter().all(|row| row["listed"] == true), "{rows:#?}");
    assert!(
        words.contains("claimed job") && words.contains("its newest manifest lists none any more"),
        "{words}"
    );
    let committed: Vec<_> = rows.into_iter().filter(|row| row["action"] == "committed").collect();
    assert_eq!(committed.len(), listed.len(), "{committed:#?}");
    let (code, nothing, words) = txn(&scene, "commit", &[]);
    assert_eq!((code, nothing.len()), (0, 0));
    assert!(words.contains("nothing to commit"), "{words}");

    // What holds readers back now is not listed.
    let (code, _, _) = txn(&scene, "abort", &[]);
    assert_eq!(code, 0);
    assert_eq!(open(&scene), (vec![], vec![]));
    assert!(visible(&scene) >= sum_of_records(&listed));
    must_go_on_exactly(scene);
}

#[test]
fn what_no_checkpoint_lists_is_aborted_by_hand_and_the_rest_is_left_alone() {
    let mut scene = Scene::new("txn-abort", 2).feed(4000);
    scene.die_with_strays(NOT_LISTED);
    let (listed, strays) = open(&scene);
    assert!(!strays.is_empty(), "log {}", scene.log());
    let (code, rows, words) = txn(&scene, "abort", &[]);
    assert_eq!(code, 0);
    let aborted = rows.iter().filter(|row| row["action"] == "aborted").count();
    assert_eq!((aborted, rows.len()), (strays.len(), strays.len() + listed.len()), "{rows:#?}");
    assert!(words.contains(&format!("aborted {aborted} open transactions")), "{words}");
    assert_eq!(lasting(open(&scene)), lasting((listed, vec![])));
    let (code, _, words) = txn(&scene, "abort", &[]);
    assert_eq!(code, 0);
    assert!(words.contains("nothing to abort"), "{words}");
    must_go_on_exactly(scene);
}

#[test]
fn what_timed_out_is_salvaged_by_hand() {
    let mut scene = Scene::new("txn-salvage", 1).short_transactions().feed(4000);
    scene.die_with_prepared();
    scene.until("the transactions to time out", || open(&scene) == (vec![], vec![]));
    let (code, rows, _) = txn(&scene, "commit", &[]);
    assert_eq!(code, 0);
    assert!(rows.iter().any(|row| row["action"] == "salvaged"), "{rows:#?}");
    assert!(rows.iter().all(|row| row["state"] != "open"), "{rows:#?}");
    assert!(visible(&scene) >= sum_of_records(&rows));
    must_go_on_exactly(scene);
}

#[test]
fn listed_records_are_lost_only_when_told_twice() {
    let mut scene = Scene::new("txn-lose", 1).feed(4000);
    scene.die_with_prepared();
    let (listed, _) = open(&scene);
    let (code, rows, _) = txn(&scene, "abort", &[]);
    assert_eq!(code, 0);
    assert!(rows.iter().all(|row| row["listed"] != true), "{rows:#?}");
    assert_eq!(lasting(open(&scene)), lasting((listed.clone(), vec![])));
    let (code, ..) = txn(&scene, "abort", &["--listed"]);
    assert_eq!(code, 2);
    let (code, rows, _) = txn(&scene, "abort", &["--listed", "--yes-lose-records"]);
    assert_eq!((code, rows.len()), (0, listed.len()));
    assert_eq!(open(&scene), (vec![], vec![]));

    // The sources are past those records: exactly these are missing in the end.
    let program = scene.start();
    scene.wait_for_progress();
    scene.drain(program);
    let job = &scene.job;
    let report = oracle::judge_clicks(&job.bootstrap, &job.input, &job.output, Promise::ExactlyOnce).unwrap();
    assert_eq!(report.number(Fault::LeftOut), sum_of_records(&listed), "{report}");
    assert_eq!(report.faults.len(), 1, "{report}");
}

#[test]
fn a_running_job_is_left_alone_unless_it_is_forced() {
    let scene = Scene::new("txn-alive", 1).feed(4000);
    let mut program = scene.start();
    scene.wait_for_progress();
    // Between two transactions there is nothing to abort.
    let abort = |more: &[&str]| loop {
        let (code, rows, words) = txn(&scene, "abort", more);
        if !words.contains("nothing to abort") {
            return (code, rows, words);
        }
    };
    let (code, rows, words) = abort(&[]);
    assert_eq!((code, rows.len()), (1, 0));
    assert!(words.contains("is running: it") && words.contains("--force"), "{words}");
    program.must_run().unwrap();
    scene.wait_for_progress();

    let (code, ..) = abort(&["--force"]);
    assert_eq!(code, 0);
    let status = program.wait(PATIENCE).unwrap();
    assert_eq!(status.code(), Some(1), "log {}", scene.log());
    assert!(
        scene.has_logged("was claimed by another process (generation 2, ours is 1)"),
        "log {}",
        scene.log()
    );
    must_go_on_exactly(scene);
}

#[test]
fn wrong_usage_and_what_is_not_there_are_told_apart_by_the_exit_code() {
    let bootstrap = support::bootstrap();
    let at = ["--bootstrap", &bootstrap];
    let job = ["--job", "nobody", "--checkpoints", "file:///nonexistent/tidegate"];
    let lose = ["--listed", "--yes-lose-records"];
    let cases: &[(&[&[&str]], i32, &str)] = &[
        (&[&["--version"]], 0, ""),
        (&[], 2, "Usage: tidegate"),
        (&[&["txn", "list"]], 2, "--bootstrap"),
        (&[&["txn", "list"], &at, &["-o", "xml"]], 2, "xml"),
        (&[&["txn", "commit"], &at], 2, "--checkpoints"),
        (&[&["txn", "list"], &at, &["--job", "nobody"]], 0, "0 transactional ids"),
        (
            &[&["txn", "commit"], &at, &job],
            1,
            "no checkpoint of job nobody below file:///nonexistent/tidegate",
        ),
        (
            &[&["txn", "abort"], &at, &job],
            1,
            "no checkpoint of job nobody below file:///nonexistent/tidegate",
        ),
        (&[&["txn", "abort"], &at, &job, &lose], 0, "aborted 0 open transactions"),
        (&[&["txn", "list", "--bootstrap", "127.0.0.1:1"]], 1, "127.0.0.1:1"),
        (&[&["txn", "list"], &at, &["--property", "security.protocol=tls"]], 1, "\"tls\" is not one of"),
    ];
    for (arguments, code, words) in cases {
        let output = tidegate(&arguments.concat());
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(*code), "{arguments:?}: {said}");
        assert!(said.contains(words), "{arguments:?}: {said}");
    }
}
