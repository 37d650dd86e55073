//! A consumer group's offsets, committed and read without being a member.
//!
//! The job's truth about its position is the checkpoint; what the group holds is for people and lag
//! exporters. It is committed as "simple consumers" do: no member, generation -1, which a broker
//! refuses (25) while somebody subscribes with that group.

use std::collections::BTreeMap;

use kafka_protocol::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use kafka_protocol::messages::offset_fetch_request::OffsetFetchRequestTopic;
use kafka_protocol::messages::{GroupId, OffsetCommitRequest, OffsetFetchRequest, TopicName};
use kafka_protocol::protocol::StrBytes;

use super::client::{Answered, Client, refuse};
use super::coordinator::Coordinator;
use super::{Code, Deadline, Error, Subject, TopicPartition, versions};

/// A position of a group in a partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupOffset {
    /// The partition.
    pub at: TopicPartition,
    /// The next offset to read.
    pub offset: i64,
    /// Free text beside it; empty for none.
    pub metadata: String,
}

impl Client {
    /// Commits offsets of a group, all of them or an error that names those that were refused. An empty
    /// list sends nothing.
    ///
    /// # Errors
    /// [`Error::OffsetsRefused`] for what does not pass; a deadline otherwise.
    pub fn commit_offsets(
        &mut self,
        group: &str,
        offsets: &[GroupOffset],
        deadline: Deadline,
    ) -> Result<(), Error> {
        if offsets.is_empty() {
            return Ok(());
        }
        let mut topics: BTreeMap<&str, Vec<OffsetCommitRequestPartition>> = BTreeMap::new();
        for GroupOffset { at, offset, metadata } in offsets {
            topics.entry(&at.topic).or_default().push(
                OffsetCommitRequestPartition::default()
                    .with_partition_index(at.partition)
                    .with_committed_offset(*offset)
                    .with_committed_metadata(Some(StrBytes::from_string(metadata.clone()))),
            );
        }
        let topics = topics.into_iter().map(|(topic, partitions)| {
            OffsetCommitRequestTopic::default().with_name(name_of(topic)).with_partitions(partitions)
        });
        let request = OffsetCommitRequest::default()
            .with_group_id(group_of(group))
            .with_generation_id_or_member_epoch(-1)
            .with_topics(topics.collect());
        self.retry(
            || format!("OffsetCommit of consumer group {group:?}"),
            deadline,
            |client| {
                let versions = versions::OFFSET_COMMIT;
                let Answered { answer, .. } =
                    client.call_coordinator(Coordinator::Group, group, &request, versions, deadline)?;
                let mut failures = Vec::new();
                for topic in answer.topics {
                    for partition in topic.partitions {
                        if let Some(code) = Code::of(partition.error_code) {
                            let at = TopicPartition::new(&**topic.name, partition.partition_index);
                            failures.push((at, code));
                        }
                    }
                }
                if failures.is_empty() {
                    Ok(())
                } else {
                    Err(Error::OffsetsRefused { group: group.to_owned(), failures })
                }
            },
        )
    }

    /// The offsets that a group has committed in some partitions; those without one are left out.
    ///
    /// # Errors
    /// When the group's coordinator does not answer within the deadline, or for a reason that does not
    /// pass.
    pub fn fetch_offsets(
        &mut self,
        group: &str,
        partitions: &[TopicPartition],
        deadline: Deadline,
    ) -> Result<Vec<GroupOffset>, Error> {
        let mut topics: BTreeMap<&str, Vec<i32>> = BTreeMap::new();
        for at in partitions {
            topics.entry(&at.topic).or_default().push(at.partition);
        }
        let topics = topics.into_iter().map(|(topic, partitions)| {
            OffsetFetchRequestTopic::default().with_name(name_of(topic)).with_partition_indexes(partitions)
        });
        let request = OffsetFetchRequest::default()
            .with_group_id(group_of(group))
            .with_topics(Some(topics.collect()))
            .with_require_stable(true);
        self.retry(
            || format!("OffsetFetch of consumer group {group:?}"),
            deadline,
            |client| {
                let versions = versions::OFFSET_FETCH;
                let Answered { answer, broker } =
                    client.call_coordinator(Coordinator::Group, group, &request, versions, deadline)?;
                let subject = || Subject::Group(group.to_owned());
                refuse::<OffsetFetchRequest>(&broker, subject, answer.error_code, None)?;
                let mut found = Vec::new();
                for topic in answer.topics {
                    for partition in topic.partitions {
                        let at = TopicPartition::new(&**topic.name, partition.partition_index);
                        let subject = || Subject::Partition(at.clone());
                        refuse::<OffsetFetchRequest>(&broker, subject, partition.error_code, None)?;
                        if partition.committed_offset >= 0 {
                            let metadata = partition.metadata.as_deref().unwrap_or_default().to_owned();
                            found.push(GroupOffset { at, offset: partition.committed_offset, metadata });
                        }
                    }
                }
                Ok(found)
            },
        )
    }
}

fn group_of(group: &str) -> GroupId {
    GroupId(StrBytes::from_string(group.to_owned()))
}

fn name_of(topic: &str) -> TopicName {
    TopicName(StrBytes::from_string(topic.to_owned()))
}
