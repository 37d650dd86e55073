//! Walking over a partition's log, batch by batch, at its leader.
//!
//! The end is asked for first, by the leader's epoch, and the walk goes up to it: an end that a
//! follower or a former leader names may lie before the record that is looked for. Fetches carry the
//! epoch too; when leadership has changed, the walk begins again.

use std::ops::ControlFlow;

use bytes::Bytes;
use kafka_protocol::messages::fetch_request::{FetchPartition, FetchTopic};
use kafka_protocol::messages::{BrokerId, FetchRequest, TopicName};
use kafka_protocol::protocol::StrBytes;

use super::batch::{Batch, Batches};
use super::client::{Answered, Client, refuse};
use super::metadata::Leader;
use super::{Code, Deadline, Error, OffsetSpec, Subject, TopicPartition, versions};

/// How much is fetched at a time, in bytes. A broker sends the first batch whole even if it is longer.
const PAGE: i32 = 4 << 20;
/// The longest page asked for after a batch that a broker cut off nevertheless, in bytes.
const LONGEST_PAGE: usize = 120 << 20;
/// How long a broker waits for the first byte, in milliseconds: there is one, unless the log ends in a
/// hole that compaction made.
const WAIT_MS: i32 = 200;
/// How many empty answers in a row are taken for such a hole.
const EMPTY_ANSWERS: u32 = 3;

/// How a walk ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Walked {
    /// The visitor had enough.
    Stopped,
    /// At this offset, the end of the log or of the range.
    ToEnd(i64),
    /// The log no longer holds the next offset: it starts at this one.
    StartsBeyond(i64),
}

/// A piece of a log.
struct Page {
    records: Bytes,
    high_watermark: i64,
}

impl Client {
    /// Shows every batch with an offset in `from..until` (`until`: `None` means the end of the log) to
    /// `visit`, which builds up an `S` and may stop. Begins again, with a new `S`, when the leader has
    /// moved.
    pub(super) fn walk<S: Default>(
        &mut self,
        at: &TopicPartition,
        from: i64,
        until: Option<i64>,
        deadline: Deadline,
        mut visit: impl FnMut(&mut S, &Batch) -> ControlFlow<()>,
    ) -> Result<(S, Walked), Error> {
        self.retry(
            || format!("reading topic {:?} partition {} from offset {from}", at.topic, at.partition),
            deadline,
            |client| {
                let mut state = S::default();
                let leader = client.leader(at, deadline)?;
                let end = client.end_of_log(at, leader, deadline)?;
                let end = until.map_or(end, |until| end.min(until));
                let visit = |batch: &Batch| visit(&mut state, batch);
                let walked = client.walk_once(at, leader, from, end, deadline, visit)?;
                Ok((state, walked))
            },
        )
    }

    fn walk_once(
        &mut self,
        at: &TopicPartition,
        leader: Leader,
        from: i64,
        end: i64,
        deadline: Deadline,
        mut visit: impl FnMut(&Batch) -> ControlFlow<()>,
    ) -> Result<Walked, Error> {
        let (mut next, mut page_size, mut empty) = (from, PAGE, 0);
        while next < end {
            let page = match self.fetch(at, leader, next, page_size, deadline) {
                Err(error) if error.code() == Some(Code::OFFSET_OUT_OF_RANGE) => {
                    let start = self.offset_at(at, leader, OffsetSpec::Earliest, deadline)?;
                    // Not before the start, so past the end: the log was cut. Look again.
                    return if start > next { Ok(Walked::StartsBeyond(start)) } else { Err(cut(at, next)) };
                }
                page => page?,
            };
            let before = next;
            let mut batches = Batches::new(&page.records);
            for batch in batches.by_ref() {
                let batch = batch.map_err(|problem| malformed(at, next, &problem))?;
                // A page begins with the batch that holds the offset, which may begin before it.
                if batch.last_offset < next {
                    continue;
                }
                if batch.base_offset >= end {
                    return Ok(Walked::ToEnd(end));
                }
                if visit(&batch).is_break() {
                    return Ok(Walked::Stopped);
                }
                next = batch.last_offset.saturating_add(1);
            }
            if next > before {
                empty = 0;
                continue;
            }
            empty += 1;
            if let Some(size) =
                batches.next_size().filter(|size| (PAGE as usize..LONGEST_PAGE).contains(size))
            {
                page_size = i32::try_from(size).unwrap_or(PAGE);
            }
            if empty == EMPTY_ANSWERS {
                return if page.high_watermark >= end && page.records.is_empty() {
                    Ok(Walked::ToEnd(end))
                } else {
                    Err(cut(at, next))
                };
            }
        }
        Ok(Walked::ToEnd(end))
    }

    /// Fetches the first bytes of a log, to see that it can be done.
    pub(super) fn try_fetch(&mut self, at: &TopicPartition, deadline: Deadline) -> Result<(), Error> {
        let leader = self.leader(at, deadline)?;
        let start = self.offset_at(at, leader, OffsetSpec::Earliest, deadline)?;
        self.fetch(at, leader, start, 1, deadline).map(drop)
    }

    fn leader(&mut self, at: &TopicPartition, deadline: Deadline) -> Result<Leader, Error> {
        let mut leaders = self.leaders([at], deadline)?;
        leaders.remove(at).expect("because it was asked for")
    }

    fn end_of_log(&mut self, at: &TopicPartition, leader: Leader, deadline: Deadline) -> Result<i64, Error> {
        self.offset_at(at, leader, OffsetSpec::Latest, deadline)
    }

    fn offset_at(
        &mut self,
        at: &TopicPartition,
        leader: Leader,
        spec: OffsetSpec,
        deadline: Deadline,
    ) -> Result<i64, Error> {
        let asked = [(at.clone(), leader)];
        let mut results = self.list_offsets_of(leader.node_id, &asked, spec, deadline)?;
        let (_, listed) = results.pop().expect("because one result is given for each partition");
        Ok(listed?.offset.unwrap_or(0))
    }

    fn fetch(
        &mut self,
        at: &TopicPartition,
        leader: Leader,
        from: i64,
        size: i32,
        deadline: Deadline,
    ) -> Result<Page, Error> {
        let partition = FetchPartition::default()
            .with_partition(at.partition)
            .with_current_leader_epoch(leader.epoch)
            .with_fetch_offset(from)
            .with_log_start_offset(-1)
            .with_partition_max_bytes(size);
        let topic = FetchTopic::default()
            .with_topic(TopicName(StrBytes::from_string(at.topic.clone())))
            .with_partitions(vec![partition]);
        // Read uncommitted, and without a fetch session.
        let request = FetchRequest::default()
            .with_replica_id(BrokerId(-1))
            .with_max_wait_ms(WAIT_MS)
            .with_min_bytes(1)
            .with_max_bytes(size)
            .with_isolation_level(0)
            .with_session_id(0)
            .with_session_epoch(-1)
            .with_topics(vec![topic]);
        let Answered { answer, broker } =
            self.call_broker(leader.node_id, &request, versions::FETCH, deadline)?;
        let subject = || Subject::Partition(at.clone());
        refuse::<FetchRequest>(&broker, subject, answer.error_code, None)?;
        let found = answer
            .responses
            .into_iter()
            .filter(|topic| **topic.topic == *at.topic)
            .flat_map(|topic| topic.partitions)
            .find(|partition| partition.partition_index == at.partition);
        let Some(found) = found else {
            return Err(Error::Malformed {
                broker,
                request: "Fetch",
                problem: format!("the answer does not mention {at}"),
            });
        };
        refuse::<FetchRequest>(&broker, subject, found.error_code, None)?;
        Ok(Page { records: found.records.unwrap_or_default(), high_watermark: found.high_watermark })
    }
}

/// The log ends before an offset that was there: the leader has changed and the new one still lags, or
/// records were lost. Asked again, the leader says which.
fn cut(at: &TopicPartition, next: i64) -> Error {
    Error::Answer {
        broker: "leading the partition".to_owned(),
        request: "Fetch",
        subject: Subject::Partition(at.clone()),
        code: Code::OFFSET_NOT_AVAILABLE,
        text: Some(format!("nothing at offset {next}, which lies before the end")),
    }
}

fn malformed(at: &TopicPartition, next: i64, problem: &str) -> Error {
    Error::Malformed {
        broker: "leading the partition".to_owned(),
        request: "Fetch",
        problem: format!("{at} from offset {next}: {problem}"),
    }
}
