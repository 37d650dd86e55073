//! What the client makes of brokers that are silent, late, moved, old or damaged.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use kafka_protocol::messages::describe_transactions_response::TransactionState as StateAnswer;
use kafka_protocol::messages::fetch_response::{FetchableTopicResponse, PartitionData};
use kafka_protocol::messages::list_offsets_response::{
    ListOffsetsPartitionResponse, ListOffsetsTopicResponse,
};
use kafka_protocol::messages::{
    DescribeTransactionsRequest, DescribeTransactionsResponse, EndTxnRequest, EndTxnResponse, FetchRequest,
    FetchResponse, FindCoordinatorRequest, ListOffsetsRequest, ListOffsetsResponse, MetadataRequest,
    ProducerId, TopicName, TransactionalId,
};
use kafka_protocol::protocol::StrBytes;

use super::batch::tests::bytes_of;
use super::batch::{Batch, Control};
use super::fake_broker::{FakeBroker, Reply, Seen, coordinator, metadata};
use super::{
    Client, Code, Deadline, EndOutcome, Error, ErrorKind, Marker, OffsetSpec, Producer, Settings,
    TopicPartition,
};

/// What a script has seen, in order.
type Record<T> = Arc<Mutex<Vec<T>>>;
/// A script that answers everything alike.
type Always = fn(&Seen) -> Reply;

fn soon() -> Deadline {
    Deadline::after(Duration::from_secs(10))
}

fn hasty(settings: Settings) -> Settings {
    settings.request_timeout(Duration::from_millis(100))
}

fn described(seen: &Seen, code: i16, producer_id: i64) -> Reply {
    let state = StateAnswer::default()
        .with_error_code(code)
        .with_transactional_id(TransactionalId(StrBytes::from_static_str("x")))
        .with_transaction_state(StrBytes::from_static_str("Ongoing"))
        .with_producer_id(ProducerId(producer_id));
    seen.answer::<DescribeTransactionsRequest>(
        &DescribeTransactionsResponse::default().with_transaction_states(vec![state]),
    )
}

#[test]
fn a_client_may_be_moved_to_another_thread() {
    fn is_send<T: Send>() {}
    is_send::<Client>();
}

#[test]
fn a_server_that_swallows_everything_does_not_use_up_the_time_of_the_next() {
    let silent = FakeBroker::start(|_| Reply::Silence);
    let unstarted = FakeBroker::bind();
    let port = unstarted.port();
    let good = unstarted.run(move |seen| metadata(seen, &[port], &[]));
    let servers = format!("{},{}", silent.address(), good.address());
    let properties = [("bootstrap.servers".to_owned(), servers)];
    let mut client = Client::new(Settings::from_librdkafka(&properties.into()).unwrap());
    let found = client.metadata(Some(&[]), Deadline::after(Duration::from_secs(1))).unwrap();
    assert_eq!(found.brokers.len(), 1);
    assert_eq!(silent.connections(), 1, "it was asked first");
}

#[test]
fn a_request_without_an_answer_is_asked_again_on_a_new_connection() {
    let unstarted = FakeBroker::bind();
    let port = unstarted.port();
    let mut asked = 0;
    let broker = unstarted.run(move |seen| {
        if seen.is::<MetadataRequest>() {
            metadata(seen, &[port], &[])
        } else if seen.is::<FindCoordinatorRequest>() {
            coordinator(seen, 1)
        } else {
            asked += 1;
            if asked == 1 { Reply::Silence } else { described(seen, 0, 7) }
        }
    });
    let mut client = broker.client(hasty);
    let found = client.describe_transaction("x", soon()).unwrap().unwrap();
    assert_eq!(found.producer_id, 7);
    assert_eq!(broker.connections(), 2, "the silent connection is given up");
}

#[test]
fn a_coordinator_that_moved_is_found_again() {
    let [first, second] = [(); 2].map(|()| FakeBroker::bind());
    let ports = [first.port(), second.port()];
    let mut found = 0;
    let _second = second.run(|seen| described(seen, 0, 2));
    let first = first.run(move |seen| {
        if seen.is::<MetadataRequest>() {
            metadata(seen, &ports, &[])
        } else if seen.is::<FindCoordinatorRequest>() {
            found += 1;
            coordinator(seen, if found > 2 { 2 } else { 1 })
        } else {
            described(seen, 16, 1)
        }
    });
    let mut client = first.client(hasty);
    assert_eq!(client.describe_transaction("x", soon()).unwrap().unwrap().producer_id, 2);
}

/// A broker that is everything to everybody and answers EndTxn as the script says; the versions and
/// commit flags that it saw.
fn ender(mut script: impl FnMut(&Seen) -> Reply + Send + 'static) -> (FakeBroker, Record<(i16, bool)>) {
    let ended = Record::default();
    let record = Arc::clone(&ended);
    let unstarted = FakeBroker::bind();
    let port = unstarted.port();
    let broker = unstarted.run(move |seen| {
        if seen.is::<MetadataRequest>() {
            metadata(seen, &[port], &[])
        } else if seen.is::<FindCoordinatorRequest>() {
            coordinator(seen, 1)
        } else {
            let request: EndTxnRequest = seen.request();
            record.lock().unwrap().push((seen.version, request.committed));
            script(seen)
        }
    });
    (broker, ended)
}

const PRODUCER: Producer = Producer { id: 1, epoch: 2 };

#[test]
fn an_end_is_sent_once_and_never_in_version_5() {
    let mut codes = VecDeque::from([0, 51, 48, 90, 47, 49, 15, -1]);
    let (broker, ended) = ender(move |seen| {
        let code = codes.pop_front().unwrap();
        seen.answer::<EndTxnRequest>(&EndTxnResponse::default().with_error_code(code))
    });
    let mut client = broker.client(hasty);
    let mut end = |commit| client.end_transaction("x", PRODUCER, commit, soon()).unwrap();
    assert!(matches!(end(true), EndOutcome::Accepted));
    assert!(matches!(end(true), EndOutcome::UnderWay));
    assert!(matches!(end(true), EndOutcome::OtherState));
    assert!(matches!(end(true), EndOutcome::Fenced));
    assert!(matches!(end(true), EndOutcome::Fenced));
    assert!(matches!(end(true), EndOutcome::OtherProducer));
    assert!(matches!(end(true), EndOutcome::CoordinatorMoved(Code::COORDINATOR_NOT_AVAILABLE)));
    assert!(matches!(end(false), EndOutcome::Other(code) if code.number() == -1));
    let mut expected = vec![(4, true); 7];
    expected.push((4, false));
    assert_eq!(*ended.lock().unwrap(), expected);
}

#[test]
fn an_end_without_an_answer_is_no_verdict_and_no_error() {
    let mut replies = VecDeque::from([Reply::Silence, Reply::Close]);
    let (broker, ended) = ender(move |_| replies.pop_front().unwrap());
    let mut client = broker.client(hasty);
    let silent = client.end_transaction("x", PRODUCER, true, soon()).unwrap();
    assert!(matches!(silent, EndOutcome::NoAnswer(Error::NoAnswer { .. })), "{silent:?}");
    let closed = client.end_transaction("x", PRODUCER, true, soon()).unwrap();
    assert!(matches!(closed, EndOutcome::NoAnswer(Error::Network { .. })), "{closed:?}");
    assert_eq!(ended.lock().unwrap().len(), 2, "once each");
}

#[test]
fn a_missing_right_to_end_is_an_error() {
    let (broker, _) =
        ender(|seen| seen.answer::<EndTxnRequest>(&EndTxnResponse::default().with_error_code(53)));
    let error = broker.client(hasty).end_transaction("x", PRODUCER, true, soon()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Configuration);
}

#[test]
fn nonsense_on_the_wire_is_named() {
    let cases: [(Always, &str); 4] = [
        (
            |seen| seen.answer_as::<FindCoordinatorRequest>(seen.correlation_id + 1, &Default::default()),
            "correlation id",
        ),
        (|_| Reply::Raw(b"\x15\x03\x03\x00\x02\x02\x50"), "check security.protocol"),
        (|_| Reply::Raw(b"\0\0\0\x02hi"), "a frame of 2 bytes"),
        (|seen| Reply::Frame(Bytes::copy_from_slice(&seen.correlation_id.to_be_bytes())), "answered what"),
    ];
    for (reply, expected) in cases {
        let broker = FakeBroker::start(reply);
        let error = broker.client(hasty).find_transaction_coordinator("x", soon()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Fatal, "{error}");
        assert!(error.to_string().contains(expected), "{expected} in: {error}");
    }
}

/// What one Fetch is answered: an error code, the high watermark and bytes of the log.
type Page = (i16, i64, Vec<u8>);

/// The leader of t/0, whose log begins at `start` and ends at `end`, and which gives these pages. The
/// offsets and sizes that were asked for.
fn leader(start: i64, end: i64, pages: Vec<Page>) -> (FakeBroker, Record<(i64, i32)>) {
    let fetched = Record::default();
    let record = Arc::clone(&fetched);
    let mut pages = VecDeque::from(pages);
    let unstarted = FakeBroker::bind();
    let port = unstarted.port();
    let broker = unstarted.run(move |seen| {
        let topic = TopicName(StrBytes::from_static_str("t"));
        if seen.is::<MetadataRequest>() {
            metadata(seen, &[port], &[(1, 5)])
        } else if seen.is::<ListOffsetsRequest>() {
            let request: ListOffsetsRequest = seen.request();
            let earliest = request.topics[0].partitions[0].timestamp == -2;
            let offset = if earliest { start } else { end };
            let partition = ListOffsetsPartitionResponse::default().with_offset(offset);
            let topic = ListOffsetsTopicResponse::default().with_name(topic).with_partitions(vec![partition]);
            seen.answer::<ListOffsetsRequest>(&ListOffsetsResponse::default().with_topics(vec![topic]))
        } else {
            let request: FetchRequest = seen.request();
            let asked = &request.topics[0].partitions[0];
            assert_eq!((seen.version, asked.current_leader_epoch), (10, 5));
            record.lock().unwrap().push((asked.fetch_offset, asked.partition_max_bytes));
            let (code, high_watermark, bytes) = pages.pop_front().expect("no more fetches");
            let partition = PartitionData::default()
                .with_error_code(code)
                .with_high_watermark(high_watermark)
                .with_records(Some(Bytes::from(bytes)));
            let topic = FetchableTopicResponse::default().with_topic(topic).with_partitions(vec![partition]);
            seen.answer::<FetchRequest>(&FetchResponse::default().with_responses(vec![topic]))
        }
    });
    (broker, fetched)
}

fn batch(base_offset: i64, producer_id: i64, control: Option<Control>) -> Vec<u8> {
    let header =
        Batch { base_offset, last_offset: base_offset, producer_id, producer_epoch: 0, records: 1, control };
    bytes_of(&header, 30)
}

fn marker(start: i64, end: i64, pages: Vec<Page>) -> (Result<Marker, Error>, Vec<i64>) {
    let (broker, fetched) = leader(start, end, pages);
    let at = TopicPartition::new("t", 0);
    let found = broker.client(hasty).find_marker(&at, 9, 10, soon());
    let offsets = fetched.lock().unwrap().iter().map(|(offset, _)| *offset).collect();
    (found, offsets)
}

#[test]
fn a_page_that_ends_in_the_middle_of_a_batch_is_gone_on_from() {
    let [data, commit] = [batch(10, 3, None), batch(11, 9, Some(Control::Commit))];
    let cut = [&data, &commit[..20]].concat();
    let (found, offsets) = marker(0, 12, vec![(0, 12, cut), (0, 12, commit)]);
    assert_eq!(found.unwrap(), Marker::Committed { offset: 11 });
    assert_eq!(offsets, [10, 11]);
}

#[test]
fn a_batch_longer_than_the_page_is_asked_for_whole() {
    let header = Batch {
        base_offset: 10,
        last_offset: 10,
        producer_id: 3,
        producer_epoch: 0,
        records: 1,
        control: None,
    };
    let long = bytes_of(&header, 5 << 20);
    let abort = batch(11, 9, Some(Control::Abort));
    let pages = vec![(0, 12, long[..4 << 20].to_vec()), (0, 12, long.clone()), (0, 12, abort)];
    let (broker, fetched) = leader(0, 12, pages);
    let found = broker.client(|s| s).find_marker(&TopicPartition::new("t", 0), 9, 10, soon());
    assert_eq!(found.unwrap(), Marker::Aborted { offset: 11 });
    let fetched = fetched.lock().unwrap();
    assert!(usize::try_from(fetched[1].1).unwrap() >= long.len(), "{fetched:?}");
}

#[test]
fn when_the_leader_moved_the_search_begins_again() {
    let commit = batch(11, 9, Some(Control::Commit));
    let first = batch(10, 3, None);
    let pages =
        vec![(0, 12, first.clone()), (74, 0, vec![]), (6, 0, vec![]), (0, 12, [first, commit].concat())];
    let (found, offsets) = marker(0, 12, pages);
    assert_eq!(found.unwrap(), Marker::Committed { offset: 11 });
    assert_eq!(offsets, [10, 11, 10, 10]);
}

#[test]
fn markers_of_others_and_other_control_batches_are_passed_by() {
    let log = [
        batch(9, 9, Some(Control::Abort)),
        batch(10, 3, Some(Control::Abort)),
        batch(11, -1, Some(Control::Other)),
        batch(12, 9, Some(Control::Commit)),
        batch(13, 9, Some(Control::Abort)),
    ];
    let (found, _) = marker(0, 14, vec![(0, 14, log.concat())]);
    assert_eq!(found.unwrap(), Marker::Committed { offset: 12 }, "the first one from the offset on");
}

#[test]
fn where_there_is_nothing_it_is_said_what_was_there() {
    let out_of_range = vec![(1, -1, vec![])];
    assert_eq!(marker(40, 50, out_of_range).0.unwrap(), Marker::LogStartBeyond { log_start: 40 });
    let (found, offsets) = marker(0, 10, vec![]);
    assert_eq!((found.unwrap(), offsets.len()), (Marker::NotFound { end: 10 }, 0), "an end reads nothing");
    // Compaction took everything up to the end.
    let hole = vec![(0, 20, vec![]), (0, 20, vec![]), (0, 20, vec![])];
    assert_eq!(marker(0, 20, hole).0.unwrap(), Marker::NotFound { end: 20 });
    let erased = Batch {
        base_offset: 12,
        last_offset: 12,
        producer_id: 9,
        producer_epoch: 0,
        records: 0,
        control: Some(Control::Other),
    };
    let later = [bytes_of(&erased, 0), batch(13, 9, Some(Control::Commit))].concat();
    let found = marker(0, 14, vec![(0, 14, later)]).0.unwrap();
    assert_eq!(found, Marker::NotFound { end: 12 }, "a later marker may be of a later transaction");
}

#[test]
fn a_log_that_was_cut_under_the_search_is_looked_at_again() {
    let commit = batch(10, 9, Some(Control::Commit));
    let (found, offsets) = marker(0, 12, vec![(1, -1, vec![]), (0, 12, commit)]);
    assert_eq!(found.unwrap(), Marker::Committed { offset: 10 });
    assert_eq!(offsets, [10, 10]);
}

#[test]
fn a_damaged_log_is_an_error_that_names_the_place() {
    let mut damaged = batch(10, 3, None);
    damaged[16] = 9;
    let error = marker(0, 12, vec![(0, 12, damaged)]).0.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Fatal);
    assert!(error.to_string().contains("t/0 from offset 10: a batch of unknown format 9"), "{error}");
}

#[test]
fn only_partitions_whose_leader_moved_are_asked_again() {
    let asked = Record::<usize>::default();
    let record = Arc::clone(&asked);
    let unstarted = FakeBroker::bind();
    let port = unstarted.port();
    let broker = unstarted.run(move |seen| {
        if seen.is::<MetadataRequest>() {
            return metadata(seen, &[port], &[(1, 5), (1, 5), (1, 5)]);
        }
        let request: ListOffsetsRequest = seen.request();
        let partitions = &request.topics[0].partitions;
        let first = record.lock().unwrap().is_empty();
        record.lock().unwrap().push(partitions.len());
        let answers = partitions.iter().map(|partition| {
            let code = match partition.partition_index {
                1 if first => 6,
                2 => 29,
                _ => 0,
            };
            ListOffsetsPartitionResponse::default()
                .with_partition_index(partition.partition_index)
                .with_error_code(code)
                .with_offset(100)
        });
        let topic = ListOffsetsTopicResponse::default()
            .with_name(TopicName(StrBytes::from_static_str("t")))
            .with_partitions(answers.collect());
        seen.answer::<ListOffsetsRequest>(&ListOffsetsResponse::default().with_topics(vec![topic]))
    });
    let partitions = [0, 1, 2].map(|number| TopicPartition::new("t", number));
    let listed = broker.client(hasty).list_offsets(&partitions, OffsetSpec::Latest, soon()).unwrap();
    assert_eq!(*asked.lock().unwrap(), [3, 1]);
    assert_eq!(listed[&partitions[0]].as_ref().unwrap().offset, Some(100));
    assert_eq!(listed[&partitions[1]].as_ref().unwrap().offset, Some(100));
    assert_eq!(listed[&partitions[2]].as_ref().unwrap_err().kind(), ErrorKind::Configuration);
}
