//! What every store must do, whatever it is made of: one suite, run over each kind; and what each does when it is hurt.
//!
//! Needs `S3_ENDPOINT`, `S3_BUCKET` with keys in AWS's variables, and `HDFS_URI`, which `make test` sets.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::disallowed_methods, reason = "a test measures real time and starts threads")]

mod conformance;
mod s3_faults;
mod hdfs_faults;
mod disk_faults;

use tidegate::host::random;
use tidegate::storage::{self, Error, Options};

fn from_environment(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("{name} is not set: run `make test`, see docs/testing.md"))
}

fn options(properties: &[(&str, &str)]) -> Options {
    let mut options = Options::default();
    for (name, value) in properties {
        options.set(name, value).unwrap();
    }
    options
}

/// A location of a test's own in the bucket of the run: nobody else uses the prefix.
fn s3_location(title: &str) -> String {
    format!("s3://{}/tests/{title}-{}", from_environment("S3_BUCKET"), random::token())
}

/// As [`s3_location`], on the HDFS of the run.
fn hdfs_location(title: &str) -> String {
    format!("{}/tests/{title}-{}", from_environment("HDFS_URI"), random::token())
}

#[test]
fn a_bucket_is_a_store() {
    let options = options(&[("s3.endpoint", &from_environment("S3_ENDPOINT"))]);
    conformance::all(&s3_location("conformance"), &options);
}

/// The same with checksums, parts of the least size, and without batches.
#[test]
fn a_bucket_is_a_store_with_other_settings_too() {
    let endpoint = from_environment("S3_ENDPOINT");
    let options = options(&[
        ("s3.endpoint", &endpoint),
        ("s3.checksums", "when_supported"),
        ("s3.part_bytes", "5242880"),
        ("s3.delete_batch", "1"),
        ("parallelism", "4"),
    ]);
    conformance::all(&s3_location("conformance"), &options);
}

#[test]
fn an_hdfs_is_a_store() {
    conformance::all(&hdfs_location("conformance"), &options(&[("hdfs.replication", "1")]));
}

#[test]
fn a_local_folder_is_a_store() {
    let folder = tempfile::tempdir().unwrap();
    conformance::all(&format!("file://{}", folder.path().display()), &Options::default());
}

#[test]
fn memory_is_a_store() {
    conformance::all("memory://conformance", &Options::default());
}

#[test]
fn memory_has_its_limit() {
    let options = options(&[("memory.limit_bytes", "1000")]);
    let store = storage::open_with("memory://limited", "job", &options).unwrap();
    store.put("a", &[0; 600]).unwrap();
    let error = store.put("b", &[0; 600]).unwrap_err();
    assert!(matches!(error, Error::Full { .. }) && error.is_transient(), "{error}");
    store.delete("a").unwrap();
    store.put("b", &[0; 600]).unwrap();
}

#[test]
fn a_location_that_is_none_is_refused_with_what_is_expected() {
    let error = storage::open("gs://bucket/prefix", "job").err().unwrap();
    let text = error.to_string();
    assert!(text.contains("gs is no kind of store") && text.contains("file:///"), "{text}");
    assert!(!error.is_transient());
}
