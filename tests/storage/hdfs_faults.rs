//! An HDFS whose name node is behind a proxy that delays, breaks and refuses connections.

use super::{from_environment, hdfs_location, options};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tidegate::host::random;
use tidegate::storage::{self, Put, Storage};
use tidegate_tools::proxy::{Break, Tcp};

fn proxy() -> Tcp {
    Tcp::start(from_environment("HDFS_URI").strip_prefix("hdfs://").unwrap()).unwrap()
}

/// A store behind a proxy, with little patience.
fn behind(proxy: &Tcp, title: &str) -> Arc<dyn Storage> {
    let options =
        options(&[("hdfs.replication", "1"), ("timeout_ms", "5000"), ("attempt_timeout_ms", "2000")]);
    let location = format!("hdfs://{}/tests/{title}-{}", proxy.address(), random::token());
    storage::open_with(&location, "job", &options).unwrap()
}

#[test]
fn errors_have_one_line() {
    let store = storage::open_with(&hdfs_location("lines"), "job", &options(&[])).unwrap();
    store.put("a", b"1").unwrap();
    let error = store.put("a/b", b"1").unwrap_err();
    let text = error.to_string();
    assert_eq!(text.lines().count(), 1, "{text}");
    assert!(text.contains("a/b") && !text.contains("\tat "), "{text}");
}

#[test]
fn a_name_node_that_is_away_is_told_within_the_budget() {
    let options = options(&[("timeout_ms", "2000"), ("attempt_timeout_ms", "1000")]);
    let store = storage::open_with("hdfs://127.0.0.1:1/t", "job", &options).unwrap();
    let began = Instant::now();
    let error = store.get("a").unwrap_err();
    assert!(began.elapsed() < Duration::from_secs(4), "{:?}", began.elapsed());
    assert!(error.is_transient() && error.to_string().contains("hdfs://127.0.0.1:1/t/job"), "{error}");
}

#[test]
fn a_name_node_that_comes_back_is_found_again() {
    let proxy = proxy();
    let store = behind(&proxy, "back");
    store.put("state/a", b"1").unwrap();
    proxy.hurt(Break::Away, 3);
    store.put("state/b", b"2").unwrap();
    assert_eq!(proxy.hurts(), 3, "the faults have happened");
    assert_eq!(store.get("state/b").unwrap(), b"2");
    assert_eq!(store.list("state").unwrap(), ["a", "b"]);
}

#[test]
fn a_slow_name_node_is_waited_for() {
    let proxy = proxy();
    let store = behind(&proxy, "slow");
    proxy.hurt(Break::Slow(Duration::from_millis(150)), usize::MAX);
    store.put("a", b"1").unwrap();
    assert_eq!(store.get("a").unwrap(), b"1");
    assert!(proxy.hurts() > 2, "{}", proxy.hurts());
}

#[test]
fn a_publication_whose_answer_was_lost_is_recognised_by_its_file() {
    let proxy = proxy();
    let store = behind(&proxy, "lost");
    proxy.hurt(Break::LoseAnswerTo("rename2"), 1);
    assert_eq!(store.put_if_absent("m/1", b"mine").unwrap(), Put::Created);
    assert_eq!(proxy.hurts(), 1, "the fault has happened");
    proxy.hurt(Break::LoseAnswerTo("rename2"), 1);
    assert_eq!(store.put_if_absent("m/1", b"other").unwrap(), Put::Exists);
    assert_eq!(proxy.hurts(), 2, "the fault has happened");
    assert_eq!(store.get("m/1").unwrap(), b"mine");
    assert_eq!(store.list("m").unwrap(), ["1"]);
    assert_eq!(store.sweep(Duration::ZERO).unwrap(), 0, "nothing is left behind");
}

#[test]
fn what_a_broken_connection_has_left_is_swept() {
    let proxy = proxy();
    let store = behind(&proxy, "swept");
    // The file is there, the answer that says so is lost, and then the name node is away for as long as it is tried.
    store.put("state/a", b"1").unwrap();
    proxy.hurt(Break::LoseAnswerTo("complete"), 1);
    store.put("state/b", b"1").unwrap();
    assert_eq!(proxy.hurts(), 1, "the fault has happened");
    assert_eq!(store.list("state").unwrap(), ["a", "b"]);
    assert_eq!(store.sweep(Duration::ZERO).unwrap(), 0, "the first try's file is gone");
}
