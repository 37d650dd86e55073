//! Records that cannot be read or written.

use crate::job::{Job, PATIENCE};
use rdkafka::config::ClientConfig;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use tidegate_tools::topics::Topics;

/// Writes these values into partition 0 of the job's input.
fn write(job: &Job, values: &[&str]) {
    let producer: BaseProducer =
        ClientConfig::new().set("bootstrap.servers", &job.bootstrap).create().unwrap();
    for value in values {
        let record = BaseRecord::<str, str>::to(&job.input).partition(0).key("u").payload(value);
        producer.send(record).map_err(|(error, _)| error).unwrap();
    }
    producer.flush(PATIENCE).unwrap();
}

#[test]
fn a_record_that_cannot_be_decoded() {
    let job = Job::empty("undecodable", &[]);
    write(&job, &[r#"{"url":"/a"}"#, r#"{"url":"/a"}"#, r#"{"user":"u1"}"#]);
    for _ in 0..2 {
        job.must_refuse(&[
            &format!("topic {} partition 0 offset 2 cannot be decoded", job.input),
            "missing field `url`",
            "Correct the decoder, or choose with on_undecodable what becomes of such records",
        ]);
        job.must_hold_nobody_back();
    }
    // Nothing of what came before it is skipped: a topic without it, a corrected one, is counted whole.
    let mut corrected = Job::empty("decodable", &[]);
    write(&corrected, &[r#"{"url":"/a"}"#, r#"{"url":"/a"}"#, r#"{"url":"/b"}"#]);
    corrected.output.clone_from(&job.output);
    corrected.must_finish();
}

#[test]
fn a_record_that_is_too_large_for_the_output_topic() {
    let job = Job::empty("oversized", &[("max.message.bytes", "2000")]);
    let long = format!(r#"{{"url":"/{}"}}"#, "x".repeat(3000));
    write(&job, &[r#"{"url":"/a"}"#, r#"{"url":"/b"}"#, &long, r#"{"url":"/a"}"#]);
    job.must_refuse(&[
        &format!("operator counts (counts) subtask 0 of 1 at topic {} partition 0 offset 2", job.input),
        &format!("is larger than topic {} takes (max.message.bytes=2000)", job.output),
        "raise the topic's max.message.bytes, or let the sink drop such records (OnOversized::Drop)",
    ]);
    job.must_hold_nobody_back();
    Topics::new(&job.bootstrap).unwrap().delete(&job.output).unwrap();
    Topics::new(&job.bootstrap).unwrap().create(&job.output, 2).unwrap();
    job.must_finish();
}
