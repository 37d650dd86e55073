//! A job's name is used twice.

use crate::job::{Job, PATIENCE};
use std::fs;
use std::time::Instant;

#[test]
fn a_folder_of_another_job() {
    let job = Job::new("folder");
    job.must_finish();
    let mut other = Job::new("other");
    other.checkpoints.clone_from(&job.checkpoints);
    fs::rename(job.store(), other.store()).unwrap();
    other.must_refuse(&[
        &format!("of job {:?}, this is job {:?}", job.group, other.group),
        "use another folder",
    ]);
    fs::rename(other.store(), job.store()).unwrap();
    other.must_finish();
}

#[test]
fn two_jobs_of_one_name_with_different_folders() {
    let job = Job::new("twins");
    let mut twin = job.clone();
    twin.checkpoints = format!("file://{}/twin", job.folder.display());
    let mut first = job.start();
    first.until_said("checkpoint complete checkpoint=2 ");
    twin.must_refuse(&["has no checkpoint of job", "transactional ids of it", "--fresh"]);
    assert!(first.still_runs(), "a refusal harms nobody: {}", first.said());

    // Forced to, it takes the ids, and the first takes them back, until one gives up and says why.
    let mut second = twin.with(&["--fresh"]).start();
    let started = Instant::now();
    while first.still_runs() && second.still_runs() {
        job.feed(10);
        assert!(started.elapsed() < PATIENCE, "{}", first.said());
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    let (loser, location) =
        if second.still_runs() { (&mut first, &job.checkpoints) } else { (&mut second, &twin.checkpoints) };
    loser.must_fail(
        1,
        &[
            &format!("somebody takes over the transactional ids of job {}", job.group),
            location,
            "runs a job of the same name with other checkpoints",
            "give one of the two another name",
        ],
    );
}
