//! Checkpoints that cannot be written, or read back.

use crate::job::Job;
use std::fs;
use std::path::PathBuf;
use tidegate_tools::disk::Disk;

/// A job that was stopped in good order, with more to read, and the newest of its manifests.
fn stopped(title: &str) -> (Job, PathBuf) {
    let job = Job::new(title);
    let mut running = job.start();
    running.until_said("checkpoint complete checkpoint=3 ");
    running.stop();
    job.feed(1000);
    let manifests = fs::read_dir(job.store().join("manifest")).unwrap();
    let newest = manifests.map(|entry| entry.unwrap().path()).max().unwrap();
    (job, newest)
}

fn state_files(job: &Job) -> Vec<PathBuf> {
    fs::read_dir(job.store().join("state")).unwrap().map(|entry| entry.unwrap().path()).collect()
}

#[test]
fn a_location_of_no_known_kind() {
    let job = Job::new("scheme");
    for (location, problem) in [
        ("ftp://host/checkpoints", "ftp is no kind of store that this program knows"),
        ("/var/lib/tidegate", "it has no scheme"),
        ("file://relative/folder", "the folder is not absolute"),
    ] {
        let mut wrong = job.clone();
        wrong.checkpoints = location.to_owned();
        wrong.must_refuse(&[&format!("{location:?}"), problem, "expected file:///an/absolute/folder"]);
    }
    job.must_finish();
}

#[test]
fn a_folder_that_cannot_be_written() {
    let job = Job::new("unwritable");
    let file = job.folder.join("file");
    fs::write(&file, "no folder").unwrap();
    let mut below = job.clone();
    below.checkpoints = format!("file://{}/checkpoints", file.display());
    let way_out = "choose one that this user can make and write";
    below.must_refuse(&[&below.checkpoints, "the folder cannot be made: Not a directory", way_out]);

    let disk = Disk::mount(&job.folder, "size=8m").unwrap();
    let mut elsewhere = job.clone();
    elsewhere.checkpoints = disk.location();
    disk.remount("ro").unwrap();
    elsewhere.must_refuse(&[
        &elsewhere.checkpoints,
        "the folder cannot be made: Read-only file system",
        way_out,
    ]);
    disk.remount("rw").unwrap();
    fs::create_dir(disk.path().join(&job.group)).unwrap();
    disk.remount("ro").unwrap();
    elsewhere.must_refuse(&[
        &elsewhere.checkpoints,
        "is not permitted; let this user read, write and delete there",
    ]);
    disk.remount("rw").unwrap();
    elsewhere.must_finish();
}

/// A job whose state needs more than is there.
fn too_big_for(disk: &Disk, title: &str) -> Job {
    let mut job = Job::empty(title, &[]);
    job.feed(30_000);
    job.checkpoints = disk.location();
    job
}

#[test]
fn a_folder_that_is_full() {
    let scene = Job::empty("full-disk", &[]);
    let disk = Disk::mount(&scene.folder, "size=64k").unwrap();
    let job = too_big_for(&disk, "full");
    let fill = disk.fill().unwrap();
    let way_out = "free some space or lower the number of retained checkpoints";
    job.must_refuse(&[&job.checkpoints, "no space left while writing probe/", way_out]);
    fs::remove_file(&fill).unwrap();

    // Small things fit in now, and the state does not.
    let limited = job.with(&["--restart-limit", "1"]);
    limited.must_refuse(&[
        "given up after 1 restarts in a row",
        "no space left while writing state/",
        way_out,
    ]);
    job.must_hold_nobody_back();
    assert!(job.visible() < 30_000, "at most a first, small checkpoint is complete");
    disk.remount("size=8m").unwrap();
    job.must_finish();
}

#[test]
fn a_folder_that_is_full_for_a_while() {
    let scene = Job::empty("filled-disk", &[]);
    let disk = Disk::mount(&scene.folder, "size=64k").unwrap();
    let job = too_big_for(&disk, "filled");
    let mut running = job.start_to_end();
    running.until_said("no space left while writing state/");
    disk.remount("size=8m").unwrap();
    running.must_end_well();
    job.must_be_exact();
}

#[test]
fn a_manifest_that_is_damaged() {
    let (job, newest) = stopped("manifest");
    let good = fs::read(&newest).unwrap();
    let flipped = |at: usize| {
        let mut bytes = good.clone();
        bytes[at] ^= 1;
        bytes
    };
    let name = format!("the newest manifest manifest/{}", newest.file_name().unwrap().display());
    let folder = format!("file://{}", job.store().display());
    for (damaged, problem) in [
        (flipped(40), "its checksum is"),
        (good[..20].to_vec(), "it has 20 bytes, expected"),
        (Vec::new(), "it begins with []"),
        (b"something else".to_vec(), "it begins with [73, 6f, 6d, 65]"),
        (flipped(5), "its format is version 3, this program reads version 2"),
    ] {
        fs::write(&newest, damaged).unwrap();
        job.must_refuse(&[
            &folder,
            &name,
            problem,
            "Starting from an older one would repeat output that is already committed, so this is refused",
            "restore the file, or start with --fresh",
        ]);
    }
    fs::write(&newest, &good).unwrap();
    job.must_finish();
}

#[test]
fn a_state_file_that_is_damaged_or_gone() {
    let (job, _) = stopped("state");
    let good: Vec<_> = state_files(&job).into_iter().map(|file| (fs::read(&file).unwrap(), file)).collect();
    let way_out = "so this is refused; restore the file, or start with --fresh";
    for (bytes, file) in &good {
        let mut damaged = bytes.clone();
        damaged[bytes.len() / 2] ^= 1;
        fs::write(file, damaged).unwrap();
    }
    job.must_refuse(&["operator count", "state/", "is damaged: expected", "CRC-32", "found", way_out]);
    for (_, file) in &good {
        fs::remove_file(file).unwrap();
    }
    job.must_refuse(&["operator count", "there is no state/", way_out]);
    for (bytes, file) in &good {
        fs::write(file, bytes).unwrap();
    }
    job.must_finish();
}

#[test]
fn checkpoints_that_are_lost_while_the_brokers_remember_the_job() {
    let (job, _) = stopped("lost");
    let aside = job.folder.join("aside");
    fs::rename(job.store(), &aside).unwrap();
    job.must_refuse(&[
        &format!("has no checkpoint of job {}, but the broker knows 9 transactional ids of it", job.group),
        &format!("tidegate:{}:counts:0:", job.group),
        "Point --checkpoints at the folder that it used, or start with --fresh",
    ]);
    fs::remove_dir_all(job.store()).unwrap();
    fs::rename(&aside, job.store()).unwrap();
    job.must_finish();

    // Told so, the job begins anew: everything is counted once more.
    let before = job.visible();
    fs::remove_dir_all(job.store()).unwrap();
    job.with(&["--fresh"]).start_to_end().must_end_well();
    assert_eq!(job.visible(), 2 * before);
}
