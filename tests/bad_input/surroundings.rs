//! Brokers, topics and settings that do not fit.

use crate::job::Job;

#[test]
fn brokers_that_do_not_answer() {
    let job = Job::new("broker");
    let at = |bootstrap: &str| Job { bootstrap: bootstrap.to_owned(), ..job.clone() }.start_to_end();
    // Both at once, for a broker that is only away for a moment is waited for.
    let (mut closed, mut unknown) = (at("127.0.0.1:1"), at("no-such-host.invalid:9092"));
    closed.must_fail(1, &["clicks", "127.0.0.1:1", "Connection refused", "up and reachable?"]);
    unknown.must_fail(1, &["clicks", "no-such-host.invalid:9092", "up and reachable?"]);
    job.must_finish();
}

#[test]
fn topics_that_do_not_exist() {
    let job = Job::new("topic");
    let mut wrong = job.clone();
    wrong.input = "no-such-topic".to_owned();
    wrong.must_refuse(&[
        "operator clicks",
        "topic no-such-topic does not exist",
        "create it, or correct its name",
    ]);
    let mut wrong = job.clone();
    wrong.output = "no-such-topic".to_owned();
    wrong.must_refuse(&[
        "operator counts",
        "topic no-such-topic does not exist",
        "create it, or correct its name",
    ]);
    job.must_finish();
}

#[test]
fn a_transaction_timeout_that_cannot_work() {
    let job = Job::new("timeout");
    job.with(&["--transaction-timeout", "60s"]).must_refuse(&[
        "operator counts",
        "transaction timeout of 60s is too short",
        "(2 tolerable failures + 1) × max(interval 200ms, checkpoint timeout 60s + minimum pause 0ns)",
        "+ checkpoint timeout 60s + restart budget 60s = 300s",
        "raise the sink's transaction timeout (the broker allows up to 900s), or lower one of the others",
    ]);
    job.with(&["--transaction-timeout", "16min"]).must_refuse(&[
        "transaction timeout of 960s is above the broker's transaction.max.timeout.ms of 900s",
        "lower the sink's transaction timeout, or raise the broker's maximum",
    ]);
    let fits = ["--transaction-timeout", "4s", "--checkpoint-timeout", "1s", "--tolerable-failures", "0"];
    job.with(&fits).with(&["--restart-budget", "1s"]).must_finish();
}

#[test]
fn settings_that_make_no_sense_are_named_all_at_once() {
    let job = Job::new("settings");
    let problems = [
        "checkpoint timeout must be 100 ms or more, found 1ms",
        "at least 1 checkpoint must be retained, found 0",
        "at most 100 failed checkpoints can be tolerated",
    ];
    let wrong = ["--checkpoint-timeout", "1ms", "--retained", "0", "--tolerable-failures", "101"];
    job.with(&wrong).start_to_end().must_fail(2, &problems);
    let unknown = job.with(&["--property", "no.such.property=1"]);
    unknown.must_refuse(&["no.such.property"]);
    job.must_finish();
}

#[test]
fn wrong_usage_has_an_exit_code_of_its_own() {
    let job = Job::empty("usage", &[]);
    let cases: [(&[&str], &str); 5] = [
        (&["--restart-budget", "soon"], "--restart-budget"),
        (&["--parallelism", "0"], "--parallelism"),
        (&["--delivery", "twice"], "expected exactly-once, at-least-once or none"),
        (&["--property", "security.protocol"], "expected NAME=VALUE"),
        (&["--client-properties", "/nonexistent/file"], "No such file"),
    ];
    for (flags, part) in cases {
        job.with(flags).start().must_fail(2, &[part]);
    }
    let mut nameless = job;
    nameless.group = String::new();
    nameless.start().must_fail(2, &["job.name is missing", "--group"]);
}
