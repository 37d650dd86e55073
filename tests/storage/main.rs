//! What every store must do, whatever it is made of: one suite, run over each kind.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::disallowed_methods, reason = "a test measures real time and starts threads")]

mod conformance;

use tidegate::storage::{self, Error, Options};

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
    let mut options = Options::default();
    options.set("memory.limit_bytes", "1000").unwrap();
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
