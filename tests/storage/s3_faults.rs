//! An S3 server behind a proxy that refuses, delays, cuts, loses and resets requests.

use super::{from_environment, options, s3_location};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tidegate::storage::{self, Put, Storage};
use tidegate_tools::proxy::{Fault, Http};

/// As many requests as there will ever be.
const ALL: usize = usize::MAX;

fn proxy() -> Http {
    Http::start(from_environment("S3_ENDPOINT").strip_prefix("http://").unwrap()).unwrap()
}

/// A store behind a proxy, with little patience.
fn behind(proxy: &Http, title: &str) -> Arc<dyn Storage> {
    let options = options(&[
        ("s3.endpoint", &proxy.endpoint()),
        ("timeout_ms", "3000"),
        ("attempt_timeout_ms", "1000"),
    ]);
    storage::open_with(&s3_location(title), "job", &options).unwrap()
}

#[test]
fn a_server_that_is_busy_for_a_while_is_asked_again() {
    let proxy = proxy();
    let store = behind(&proxy, "busy");
    proxy.hurt(Fault::Busy, 3);
    store.put("a", b"1").unwrap();
    assert_eq!(proxy.hurts(), 3, "the faults have happened");
    proxy.hurt(Fault::Busy, 2);
    assert_eq!(store.put_if_absent("b", b"1").unwrap(), Put::Created);
    assert_eq!(proxy.hurts(), 5);
}

#[test]
fn a_server_that_stays_busy_is_given_up_within_the_budget() {
    let proxy = proxy();
    let store = behind(&proxy, "always-busy");
    proxy.hurt(Fault::Busy, ALL);
    let began = Instant::now();
    let error = store.put("a", b"1").unwrap_err();
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    let text = error.to_string();
    assert!(error.is_transient() && text.contains("503") && text.contains("writing a"), "{text}");
    assert!(text.contains(&store.location()) && text.contains(&proxy.endpoint()), "{text}");
    assert!(proxy.hurts() > 2, "it was asked again, {} times", proxy.hurts());
}

#[test]
fn an_answer_that_is_cut_is_read_again() {
    let proxy = proxy();
    let store = behind(&proxy, "cut-answer");
    let bytes = vec![7; 100_000];
    store.put("a", &bytes).unwrap();
    proxy.hurt(Fault::CutAnswer, 1);
    assert!(store.get("a").unwrap() == bytes);
    assert_eq!(proxy.hurts(), 1, "the fault has happened");
    let bytes: Vec<u8> = (0..20 << 20).map(|at| (at / 4099) as u8).collect();
    store.put("b", &bytes).unwrap();
    proxy.hurt(Fault::CutAnswer, 2);
    assert!(store.get("b").unwrap() == bytes);
    assert_eq!(proxy.hurts(), 3, "the faults have happened");
    assert!(proxy.seen("GET", "/b?") >= 5, "three pieces, two of them twice");
}

#[test]
fn a_request_that_is_cut_is_sent_again() {
    let proxy = proxy();
    let store = behind(&proxy, "cut-request");
    let bytes = vec![7; 100_000];
    proxy.hurt(Fault::CutRequest, 1);
    store.put("state/a", &bytes).unwrap();
    assert!(store.get("state/a").unwrap() == bytes);
    assert_eq!(proxy.hurts(), 1, "the fault has happened");
    proxy.hurt_only("partNumber=2", Fault::CutRequest, 1);
    let bytes = vec![8; 20 << 20];
    store.put("state/b", &bytes).unwrap();
    assert!(store.get("state/b").unwrap() == bytes);
    assert_eq!(proxy.hurts(), 2, "the fault has happened");
    assert_eq!(store.list("state").unwrap(), ["a", "b"]);
}

#[test]
fn a_connection_that_is_reset_is_made_again() {
    let proxy = proxy();
    let store = behind(&proxy, "reset");
    proxy.hurt(Fault::Reset, 2);
    store.put("a", &vec![7; 1_000_000]).unwrap();
    assert_eq!(proxy.hurts(), 2, "the faults have happened");
    proxy.hurt(Fault::Reset, 1);
    assert_eq!(store.list("nowhere").unwrap(), [""; 0]);
    assert_eq!(proxy.hurts(), 3);
}

#[test]
fn a_publication_whose_answer_was_lost_is_unknown() {
    let proxy = proxy();
    let store = behind(&proxy, "lost");
    proxy.hurt(Fault::Lost, 1);
    let error = store.put_if_absent("m/1", b"mine").unwrap_err();
    assert!(error.is_transient(), "neither success nor refusal: {error}");
    assert_eq!(store.get("m/1").unwrap(), b"mine", "it had happened");
    assert_eq!(proxy.hurts(), 1);
}

#[test]
fn a_slow_server_is_waited_for() {
    let proxy = proxy();
    let store = behind(&proxy, "slow");
    proxy.hurt(Fault::Slow(Duration::from_millis(500)), ALL);
    store.put("a", b"1").unwrap();
    assert_eq!(store.get("a").unwrap(), b"1");
    assert_eq!(proxy.hurts(), 2);
}

#[test]
fn an_upload_that_fails_leaves_no_part_behind() {
    let proxy = proxy();
    let store = behind(&proxy, "aborted");
    // Creating it passes, each of its parts is refused for as long as it is tried, aborting it passes.
    proxy.hurt_only("partNumber=", Fault::Busy, ALL);
    let error = store.put("state/big", &vec![1; 20 << 20]).unwrap_err();
    assert!(error.is_transient(), "{error}");
    let aborted = proxy.seen("DELETE", "uploadId=");
    assert!(proxy.hurts() > 3 && aborted == 1, "{} faults, {aborted} aborts", proxy.hurts());
    assert!(store.list("state").unwrap().is_empty());
    assert_eq!(store.sweep(Duration::ZERO).unwrap(), 0, "no upload is left");
}

#[test]
fn an_upload_that_nobody_could_abort_is_swept() {
    let proxy = proxy();
    let store = behind(&proxy, "swept");
    proxy.hurt_only("uploadId=", Fault::Busy, ALL);
    store.put("state/big", &vec![1; 9 << 20]).unwrap_err();
    proxy.heal();
    assert_eq!(store.sweep(storage::ABANDONED).unwrap(), 0, "it is young");
    assert_eq!(store.sweep(Duration::ZERO).unwrap(), 1);
    assert_eq!(store.sweep(Duration::ZERO).unwrap(), 0);
}

#[test]
fn a_batch_of_deletions_is_tried_again_and_what_stays_is_named() {
    let proxy = proxy();
    let store = behind(&proxy, "deleting");
    let names: Vec<String> = (0..20).map(|n| format!("state/{n}")).collect();
    names.iter().for_each(|name| store.put(name, b"x").unwrap());
    proxy.hurt_only("delete", Fault::Busy, ALL);
    let error = store.delete_all(&names).unwrap_err();
    assert!(error.is_transient() && error.to_string().contains("20 of 20 blobs"), "{error}");
    proxy.hurt_only("delete", Fault::Busy, 2);
    store.delete_all(&names).unwrap();
    assert!(store.list("state").unwrap().is_empty());
}

#[test]
fn deletions_one_by_one_end_soon_when_the_server_is_away() {
    let options = options(&[
        ("s3.endpoint", "http://127.0.0.1:1"),
        ("s3.delete_batch", "1"),
        ("timeout_ms", "1000"),
        ("parallelism", "2"),
    ]);
    let store = storage::open_with("s3://bucket/p", "job", &options).unwrap();
    let names: Vec<String> = (0..50).map(|n| format!("state/{n}")).collect();
    let began = Instant::now();
    let error = store.delete_all(&names).unwrap_err();
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    assert!(error.is_transient() && error.to_string().contains("50 of 50 blobs"), "{error}");
}

#[test]
fn a_bucket_that_is_not_there_is_named_with_the_way_out() {
    let options = options(&[("s3.endpoint", &from_environment("S3_ENDPOINT"))]);
    let store = storage::open_with("s3://no-such-bucket/p", "job", &options).unwrap();
    let error = store.put("a", b"1").unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains("s3://no-such-bucket/p/job at http://") && text.contains("make the bucket"),
        "{text}"
    );
    assert!(!error.is_transient(), "{text}");
}

#[test]
fn a_server_that_is_away_is_told_within_the_budget() {
    let options = options(&[
        ("s3.endpoint", "http://127.0.0.1:1"),
        ("timeout_ms", "1000"),
        ("attempt_timeout_ms", "1000"),
    ]);
    let store = storage::open_with("s3://bucket/p", "job", &options).unwrap();
    let began = Instant::now();
    let error = store.get("a").unwrap_err();
    assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
    let text = error.to_string();
    assert!(error.is_transient() && text.contains("127.0.0.1:1") && text.contains("refused"), "{text}");
}
