//! Records that cannot be decoded.

use crate::harness::{connection, new_topic, write, write_whole};
use crate::running::Running;
use tidegate::connector::kafka::source::{Breaker, KafkaSource, Undecodable};
use tidegate::model::Advice;
use tidegate_tools::topics::token;

fn numbers(topic: &str) -> KafkaSource<u32> {
    KafkaSource::json(connection(), format!("group-{}", token())).topics([topic]).bounded(true)
}

fn topic_with_a_bad_one() -> String {
    let topic = new_topic(1);
    write(&topic, 0, &["1"]);
    write_whole(&topic, Some(b"key"), Some(b"{nonsense"), &[("h", Some(b"1")), ("h", None)], 77);
    write(&topic, 0, &["3"]);
    topic
}

#[test]
fn the_job_fails_at_it_and_says_where_it_stands() {
    let topic = topic_with_a_bad_one();
    let mut running = Running::start(numbers(&topic));
    let failure = running.failure();
    assert_eq!(failure.advice, Advice::FixConfiguration);
    for part in [topic.as_str(), "partition 0", "offset 1", "JSON", "on_undecodable"] {
        assert!(failure.text.contains(part), "{part}: {failure}");
    }
    let read: Vec<u32> = running.output.records.iter().map(|record| record.value).collect();
    assert_eq!(read, [1], "nothing behind it was handed out");
    assert_eq!(running.counted("tidegate_source_undecodable_total"), 1);
}

#[test]
fn it_is_skipped_and_counted_on_demand() {
    let mut running = Running::start(numbers(&topic_with_a_bad_one()).on_undecodable(Undecodable::Skip));
    running.read_to_end();
    let read: Vec<u32> = running.output.records.iter().map(|record| record.value).collect();
    assert_eq!(read, [1, 3]);
    assert!(running.output.letters.is_empty());
    assert_eq!(running.counted("tidegate_source_undecodable_total"), 1);
    assert_eq!(running.counted("tidegate_dead_letters_total"), 0);
}

#[test]
fn it_goes_to_the_dead_letters_as_it_was_read() {
    let topic = topic_with_a_bad_one();
    let mut running = Running::start(numbers(&topic).on_undecodable(Undecodable::DeadLetter));
    running.read_to_end();
    assert_eq!(running.output.records.len(), 2);
    let [record] = &running.output.letters[..] else { panic!("one letter is expected") };
    let letter = &record.value;
    assert_eq!((letter.topic.as_str(), letter.partition, letter.offset), (topic.as_str(), 0, 1));
    assert_eq!(letter.key.as_deref(), Some(&b"key"[..]));
    assert_eq!(letter.value.as_deref(), Some(&b"{nonsense"[..]));
    assert_eq!(letter.headers, [("h".to_owned(), Some(b"1".to_vec())), ("h".to_owned(), None)]);
    assert_eq!(record.timestamp, 77);
    assert!(letter.reason.contains("JSON"), "{}", letter.reason);
    assert_eq!(running.counted("tidegate_dead_letters_total"), 1);
}

#[test]
fn too_many_of_them_fail_the_job_whatever_the_policy_is() {
    let topic = new_topic(1);
    write(&topic, 0, &["1", "x", "2", "x", "x", "x", "3"]);
    for policy in [Undecodable::Skip, Undecodable::DeadLetter] {
        let breaker = Breaker { consecutive: 3, ..Breaker::default() };
        let mut running = Running::start(numbers(&topic).on_undecodable(policy).breaker(breaker));
        let failure = running.failure();
        assert!(failure.text.contains("3 records in a row"), "{failure}");
        assert!(failure.text.contains("offset 5"), "{failure}");
    }
}
