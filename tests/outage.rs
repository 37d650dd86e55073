//! Outages that outlast something: the transaction timeout, an older sibling's timeout, the parallelism.

mod support;

use rdkafka::ClientConfig;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use std::fs;
use std::time::Duration;
use support::{Scene, transactions};
use tidegate::connector::kafka::raw::TransactionState;
use tidegate_tools::program::Job;

#[test]
fn an_outage_longer_than_the_transaction_timeout_ends_with_complete_output() {
    must_be_salvaged(Scene::new("long-outage", 2));
}

/// A salvage writes far faster than the job did, and librdkafka's own batches are far larger than this topic takes.
#[test]
fn a_salvage_into_a_topic_that_takes_small_batches_only() {
    must_be_salvaged(Scene::new("small-batches", 1).output_setting("max.message.bytes", "5000"));
}

/// The job is away until what it prepared has timed out; then it comes back.
fn must_be_salvaged(scene: Scene) {
    let mut scene = scene.short_transactions().feed(4000);
    scene.die_with_prepared();
    transactions::wait_for_timeouts(&scene.job.bootstrap, &scene.job.group);
    let program = scene.start();
    scene.drain(program);
    assert!(scene.has_logged("salvaging the records of aborted transactions"), "log {}", scene.log());
    scene.judge();
}

const AFTER_MANIFEST: &str = "checkpoint.after_manifest:2";

/// A checkpoint is declined after its prepare, for its state could not be stored; the next one lists both transactions.
/// The older one times out first, and then the job comes back: the younger one must not become visible before the
/// older one's records.
#[test]
fn an_older_sibling_timed_out_and_the_younger_not() {
    let mut scene = Scene::new("older-sibling", 1)
        .flag("transaction-timeout", "13s")
        .flag("checkpoint-timeout", "2s")
        .flag("tolerable-failures", "1")
        .flag("restart-budget", "1s")
        .feed(4000);
    scene.job.interval = Duration::from_secs(4);
    let mut program = scene.start_with_fault(AFTER_MANIFEST);
    scene.wait_for_progress();
    let declined = || scene.times_logged("checkpoint failed");
    let before = declined();
    let state = scene.job.folder.join("checkpoints").join(&scene.job.group).join("state");
    let aside = state.with_extension("aside");
    fs::rename(&state, &aside).unwrap();
    fs::write(&state, "no folder").unwrap();
    scene.until("a checkpoint to be declined", || declined() > before);
    fs::remove_file(&state).unwrap();
    fs::rename(&aside, &state).unwrap();
    program.wait(support::PATIENCE).unwrap();
    scene.must_have_happened(AFTER_MANIFEST, "kill");

    let states = || {
        let described = transactions::described(&scene.job.bootstrap, &scene.job.group);
        described.into_iter().map(|(_, d)| d.state).collect::<Vec<_>>()
    };
    scene.until("the older transaction to time out", || states().contains(&TransactionState::CompleteAbort));
    assert!(states().contains(&TransactionState::Ongoing), "the younger one is open: {:?}", states());
    let program = scene.start();
    scene.drain(program);
    assert!(scene.has_logged("transactions=2"), "both were salvaged, log {}", scene.log());
    scene.judge();
}

#[test]
fn a_downscale_resolves_and_aborts_what_a_larger_parallelism_left() {
    let mut scene = Scene::new("downscale", 4).feed(4000);
    // One subtask has prepared its second transaction; the others' are open, and no manifest lists any of them.
    scene.die_with_strays("sink.after_drain:5");
    scene.job.parallelism = 1;
    let mut program = scene.start();
    scene.wait_for_progress();
    assert!(scene.has_logged("aborting a transaction that no checkpoint lists"), "log {}", scene.log());
    program.kill().unwrap();

    scene.job.parallelism = 4;
    scene.die_with_prepared();
    scene.job.parallelism = 1;
    let program = scene.start();
    scene.drain(program);
    scene.judge();
}

#[test]
fn what_a_sink_that_is_gone_left_open_is_aborted_at_the_next_start() {
    let mut scene = Scene::new("sink-gone", 1).feed(4000);
    let mut program = scene.start();
    scene.wait_for_progress();
    program.kill().unwrap();
    let Job { bootstrap, group, output, .. } = scene.job.clone();
    let (bootstrap, group) = (&bootstrap, &group);
    let producer: BaseProducer = ClientConfig::new()
        .set("bootstrap.servers", bootstrap)
        .set("transactional.id", format!("tidegate:{group}:former-sink:0:0"))
        .create()
        .unwrap();
    producer.init_transactions(support::PATIENCE).unwrap();
    producer.begin_transaction().unwrap();
    producer.send(BaseRecord::<str, str>::to(&output).payload("never to be seen").key("k")).unwrap();
    producer.flush(support::PATIENCE).unwrap();
    let is_open = || {
        let open = transactions::open(bootstrap, group);
        open.iter().any(|l| l.transactional_id.contains("former-sink"))
    };
    assert!(is_open(), "the former sink's transaction waits for its timeout");
    let program = scene.start();
    scene.until("the first checkpoint", || {
        scene.has_logged("aborting a transaction that no checkpoint lists")
    });
    assert!(!is_open());
    scene.drain(program);
    scene.judge();
}
