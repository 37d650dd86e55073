//! Offsets of a partition's log: where it starts, where it ends, what a timestamp means.

use std::collections::BTreeMap;

use kafka_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use kafka_protocol::messages::{BrokerId, ListOffsetsRequest, TopicName};
use kafka_protocol::protocol::StrBytes;

use super::client::{Answered, Client, refuse};
use super::metadata::Leader;
use super::{Deadline, Error, Subject, TopicPartition, versions};

/// Which offset of a partition is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OffsetSpec {
    /// The first offset that the log still holds.
    Earliest,
    /// The high watermark: one past the last record that is replicated.
    Latest,
    /// The last stable offset: before the first record of the oldest open transaction.
    LastStable,
    /// The first offset whose record has this timestamp or a later one, in milliseconds since 1970.
    Timestamp(i64),
}

/// An offset as the partition's leader said it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListedOffset {
    /// The offset; `None` if no record is as late as the timestamp asked for.
    pub offset: Option<i64>,
    /// The timestamp of the record there; -1 unless asked by timestamp.
    pub timestamp: i64,
    /// The leader's term in which the record was written; -1 if unknown.
    pub leader_epoch: i32,
}

/// What one partition's leader answered.
type OfPartition = (TopicPartition, Result<ListedOffset, Error>);

impl Client {
    /// Asks the leaders of some partitions for an offset. Leaders that moved are asked again until the
    /// deadline; a partition that cannot be answered for another reason has its own error.
    ///
    /// # Errors
    /// When the cluster cannot be reached within the deadline, or for a reason that does not pass and
    /// concerns all.
    pub fn list_offsets(
        &mut self,
        partitions: &[TopicPartition],
        spec: OffsetSpec,
        deadline: Deadline,
    ) -> Result<BTreeMap<TopicPartition, Result<ListedOffset, Error>>, Error> {
        let mut results = BTreeMap::new();
        let mut open: Vec<TopicPartition> = partitions.to_vec();
        let outcome = self.retry(
            || "ListOffsets".to_owned(),
            deadline,
            |client| {
                let mut passing = None;
                for (at, result) in client.list_offsets_once(&open, spec, deadline)? {
                    match result {
                        Err(error) if error.passes() => passing = Some(error),
                        settled => {
                            open.retain(|other| *other != at);
                            results.insert(at, settled);
                        }
                    }
                }
                passing.map_or(Ok(()), Err)
            },
        );
        outcome.map(|()| results)
    }

    fn list_offsets_once(
        &mut self,
        partitions: &[TopicPartition],
        spec: OffsetSpec,
        deadline: Deadline,
    ) -> Result<Vec<OfPartition>, Error> {
        let mut results = Vec::with_capacity(partitions.len());
        let mut by_leader: BTreeMap<i32, Vec<(TopicPartition, Leader)>> = BTreeMap::new();
        for (at, leader) in self.leaders(partitions, deadline)? {
            match leader {
                Ok(leader) => by_leader.entry(leader.node_id).or_default().push((at, leader)),
                Err(error) => results.push((at, Err(error))),
            }
        }
        for (node_id, asked) in by_leader {
            results.extend(self.list_offsets_of(node_id, &asked, spec, deadline)?);
        }
        Ok(results)
    }

    /// Asks one leader. Version 5 with the leader's term: a broker that has just become leader then
    /// says "not available yet" (78) instead of an end that still lags.
    pub(super) fn list_offsets_of(
        &mut self,
        node_id: i32,
        asked: &[(TopicPartition, Leader)],
        spec: OffsetSpec,
        deadline: Deadline,
    ) -> Result<Vec<OfPartition>, Error> {
        let (timestamp, isolation_level) = match spec {
            OffsetSpec::Earliest => (-2, 0),
            OffsetSpec::Latest => (-1, 0),
            OffsetSpec::LastStable => (-1, 1),
            OffsetSpec::Timestamp(ms) => (ms, 0),
        };
        let mut topics: BTreeMap<&str, Vec<ListOffsetsPartition>> = BTreeMap::new();
        for (at, leader) in asked {
            topics.entry(&at.topic).or_default().push(
                ListOffsetsPartition::default()
                    .with_partition_index(at.partition)
                    .with_current_leader_epoch(leader.epoch)
                    .with_timestamp(timestamp),
            );
        }
        let topics = topics.into_iter().map(|(topic, partitions)| {
            ListOffsetsTopic::default()
                .with_name(TopicName(StrBytes::from_string(topic.to_owned())))
                .with_partitions(partitions)
        });
        let request = ListOffsetsRequest::default()
            .with_replica_id(BrokerId(-1))
            .with_isolation_level(isolation_level)
            .with_topics(topics.collect());
        let Answered { answer, broker } =
            self.call_broker(node_id, &request, versions::LIST_OFFSETS, deadline)?;
        let mut results = Vec::with_capacity(asked.len());
        for topic in answer.topics {
            for found in topic.partitions {
                let at = TopicPartition::new(&**topic.name, found.partition_index);
                let subject = || Subject::Partition(at.clone());
                let result = refuse::<ListOffsetsRequest>(&broker, subject, found.error_code, None);
                let listed = result.map(|()| ListedOffset {
                    offset: (found.offset >= 0).then_some(found.offset),
                    timestamp: found.timestamp,
                    leader_epoch: found.leader_epoch,
                });
                results.push((at, listed));
            }
        }
        if results.len() == asked.len() {
            Ok(results)
        } else {
            Err(Error::Malformed {
                broker,
                request: "ListOffsets",
                problem: format!("{} partitions instead of {}", results.len(), asked.len()),
            })
        }
    }
}
