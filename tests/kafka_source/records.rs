//! What a record is after it was read.

use crate::harness::{bytes, connection, new_topic, write, write_whole};
use crate::running::Running;
use tidegate::connector::kafka::source::{KafkaSource, RawMessage};
use tidegate::model::Record;
use tidegate_tools::topics::token;

type Whole<'a> = (Option<&'a [u8]>, Option<&'a [u8]>, &'a [(&'a str, Option<&'a [u8]>)]);

#[test]
fn nulls_empties_and_headers_come_as_they_were_written() {
    let topic = new_topic(1);
    let written: &[Whole<'_>] = &[
        (Some(b"k"), None, &[]),
        (None, Some(b"v"), &[]),
        (Some(b""), Some(b""), &[]),
        (None, None, &[("a", Some(b"1")), ("a", None), ("b", Some(b"")), ("a", Some(b"\xff\x00"))]),
    ];
    for (at, (key, value, headers)) in written.iter().enumerate() {
        write_whole(&topic, *key, *value, headers, 1_700_000_000_000 + at as i64);
    }
    let mut running = Running::start(bytes(&topic).bounded(true));
    running.read_to_end();
    assert_eq!(running.output.records.len(), written.len());
    for (at, (record, (key, value, headers))) in running.output.records.iter().zip(written).enumerate() {
        let read = &record.value;
        assert_eq!((read.key.as_deref(), read.value.as_deref()), (*key, *value), "record {at}");
        let found: Vec<_> = read.headers.iter().map(|(n, v)| (n.as_str(), v.as_deref())).collect();
        assert_eq!(found, *headers, "record {at}");
        assert_eq!(read.timestamp, Some(1_700_000_000_000 + at as i64));
        assert_eq!(record.timestamp, 1_700_000_000_000 + at as i64);
        assert_eq!((read.topic.as_str(), read.partition, read.offset), (topic.as_str(), 0, at as i64));
        let place = format!("topic {topic} partition 0 offset {at}");
        assert_eq!(running.origins.describe(record.origin), place);
    }
    assert_eq!(running.counted("tidegate_source_records_total"), 4);
}

#[test]
fn json_reads_a_tombstone_as_none() {
    let topic = new_topic(1);
    write(&topic, 0, &[r#"{"n":1}"#]);
    write_whole(&topic, Some(b"k"), None, &[], 5);
    #[derive(serde::Deserialize, Debug, PartialEq)]
    struct Number {
        n: u32,
    }
    let group = format!("group-{}", token());
    let source = KafkaSource::json::<Option<Number>>(connection(), group).topics([&topic]).bounded(true);
    let mut running = Running::start(source);
    running.read_to_end();
    let values: Vec<_> = running.output.records.into_iter().map(|record| record.value).collect();
    assert_eq!(values, [Some(Number { n: 1 }), None]);
}

#[test]
fn text_and_decoders_of_ones_own() {
    let topic = new_topic(1);
    write(&topic, 0, &["a", "bb"]);
    let group = || format!("group-{}", token());
    let mut running =
        Running::start(KafkaSource::string(connection(), group()).topics([&topic]).bounded(true));
    running.read_to_end();
    let texts: Vec<_> = running.output.records.into_iter().map(|record| record.value).collect();
    assert_eq!(texts, ["a", "bb"]);

    // Each subtask has a clone of its own, so a decoder may remember things.
    let mut before = 0;
    let decoder = move |message: &RawMessage<'_>| {
        before += message.value().map_or(0, <[u8]>::len);
        Ok(before)
    };
    let source = KafkaSource::with_decoder(connection(), group(), decoder).topics([&topic]).bounded(true);
    let mut running = Running::start(source);
    running.read_to_end();
    let sums: Vec<usize> = running.output.records.into_iter().map(|record| record.value).collect();
    assert_eq!(sums, [1, 3]);
}

#[test]
fn subtasks_share_the_partitions_and_each_keeps_its_own_positions() {
    let topic = new_topic(7);
    for partition in 0..7 {
        write(&topic, partition, &["a", "b", "c"]);
    }
    let source = bytes(&topic).bounded(true);
    use tidegate::connector::SourceControl;
    let splits = source.resolve_start().unwrap();
    assert_eq!(splits.len(), 7);
    let mut running = Running::restore(source.clone(), splits, 3);
    running.read_to_end();
    let place = |record: &Record<tidegate::connector::kafka::source::KafkaRecord>| {
        (record.value.partition, record.value.offset)
    };
    let mut places: Vec<_> = running.output.records.iter().map(place).collect();
    places.sort_unstable();
    let expected: Vec<_> = (0..7).flat_map(|p| (0..3).map(move |o| (p, o))).collect();
    assert_eq!(places, expected);

    let frozen = running.freeze();
    assert_eq!(frozen.len(), 7, "each partition is in one subtask's state");
    // A rescaled job goes on with the same ones and has nothing left to read.
    let mut rescaled = Running::restore(source, frozen, 8);
    rescaled.read_to_end();
    assert!(rescaled.output.records.is_empty());
    assert_eq!(rescaled.freeze().len(), 7);
}
