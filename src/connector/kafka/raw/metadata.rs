//! Brokers, topics, partitions and leaders, as the cluster knows them now.

use std::collections::BTreeMap;
use std::fmt;

use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::metadata_response::{MetadataResponsePartition, MetadataResponseTopic};
use kafka_protocol::messages::{ApiVersionsRequest, MetadataRequest, TopicName};
use kafka_protocol::protocol::StrBytes;

use super::client::{Client, refuse};
use super::connection::versions_request;
use super::{Code, Deadline, Error, Subject, versions};

/// A partition of a topic.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TopicPartition {
    /// The topic's name.
    pub topic: String,
    /// The partition's number, from 0.
    pub partition: i32,
}

impl TopicPartition {
    /// The partition `partition` of `topic`.
    pub fn new(topic: impl Into<String>, partition: i32) -> Self {
        Self { topic: topic.into(), partition }
    }
}

impl fmt::Display for TopicPartition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.topic, self.partition)
    }
}

/// A topic's id: it tells a topic from one of the same name that was deleted and created again.
/// Brokers before 2.8 know none, which reads as all zeros.
pub type TopicId = [u8; 16];

/// What the cluster said about itself.
#[derive(Debug, Clone)]
pub struct Metadata {
    /// The cluster's id.
    pub cluster_id: Option<String>,
    /// Every broker that lives.
    pub brokers: Vec<Broker>,
    /// The topics asked for, each with its own error.
    pub topics: Vec<TopicMetadata>,
}

/// One broker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broker {
    /// Its node id.
    pub id: i32,
    /// `host:port` of the listener that serves us.
    pub address: String,
}

/// One topic.
#[derive(Debug, Clone)]
pub struct TopicMetadata {
    /// Its name.
    pub name: String,
    /// Its id.
    pub id: TopicId,
    /// Why the rest is empty: unknown (3), no right (29), ...
    pub error: Option<Code>,
    /// Whether it belongs to Kafka itself.
    pub internal: bool,
    /// Its partitions, by number.
    pub partitions: Vec<PartitionMetadata>,
}

/// One partition.
#[derive(Debug, Clone)]
pub struct PartitionMetadata {
    /// Its number.
    pub partition: i32,
    /// The broker that leads it, if there is one now.
    pub leader: Option<i32>,
    /// The number of the leader's term; -1 if unknown.
    pub leader_epoch: i32,
    /// The brokers that hold a copy.
    pub replicas: Vec<i32>,
    /// Those of them that are in sync.
    pub in_sync: Vec<i32>,
    /// Why it is not usable now.
    pub error: Option<Code>,
}

/// The leader of a partition and its term.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Leader {
    pub(super) node_id: i32,
    pub(super) epoch: i32,
}

impl Client {
    /// Asks for brokers and for some topics (`None`: all that we may see). A topic that does not exist
    /// or may not be seen is no error of the call, but of the topic.
    ///
    /// # Errors
    /// When no broker answers within the deadline, or for a reason that does not pass.
    pub fn metadata(&mut self, topics: Option<&[&str]>, deadline: Deadline) -> Result<Metadata, Error> {
        self.retry(|| "Metadata".to_owned(), deadline, |client| client.metadata_once(topics, deadline))
    }

    /// The levels of the cluster's finalized features, such as `transaction.version`. A feature of
    /// level 0 may be missing.
    ///
    /// # Errors
    /// As [`Client::metadata`].
    pub fn finalized_features(&mut self, deadline: Deadline) -> Result<BTreeMap<String, i16>, Error> {
        self.retry(
            || "ApiVersions".to_owned(),
            deadline,
            |client| {
                let answered = client.call_any(&versions_request(), versions::API_VERSIONS, deadline)?;
                refuse::<ApiVersionsRequest>(
                    &answered.broker,
                    || Subject::Cluster,
                    answered.answer.error_code,
                    None,
                )?;
                let features = answered.answer.finalized_features;
                Ok(features.into_iter().map(|f| (f.name.to_string(), f.max_version_level)).collect())
            },
        )
    }

    /// The level of `transaction.version`; 0 if the cluster does not have the feature.
    ///
    /// # Errors
    /// As [`Client::metadata`].
    pub fn transaction_version(&mut self, deadline: Deadline) -> Result<i16, Error> {
        Ok(self.finalized_features(deadline)?.get("transaction.version").copied().unwrap_or(0))
    }

    pub(super) fn refresh_brokers(&mut self, deadline: Deadline) -> Result<(), Error> {
        self.metadata_once(Some(&[]), deadline).map(drop)
    }

    /// The leaders of some partitions; a partition without one is an error of its own.
    pub(super) fn leaders<'a>(
        &mut self,
        partitions: impl IntoIterator<Item = &'a TopicPartition>,
        deadline: Deadline,
    ) -> Result<BTreeMap<TopicPartition, Result<Leader, Error>>, Error> {
        let wanted: Vec<&TopicPartition> = partitions.into_iter().collect();
        let mut topics: Vec<&str> = wanted.iter().map(|at| at.topic.as_str()).collect();
        topics.sort_unstable();
        topics.dedup();
        let metadata = self.metadata_once(Some(&topics), deadline)?;
        let leaders = wanted.into_iter().map(|at| (at.clone(), metadata.leader(at)));
        Ok(leaders.collect())
    }

    fn metadata_once(&mut self, topics: Option<&[&str]>, deadline: Deadline) -> Result<Metadata, Error> {
        let topic = |name: &&str| {
            let name = TopicName(StrBytes::from_string((*name).to_owned()));
            MetadataRequestTopic::default().with_name(Some(name))
        };
        let request = MetadataRequest::default()
            .with_topics(topics.map(|names| names.iter().map(topic).collect()))
            .with_allow_auto_topic_creation(false);
        let answer = self.call_any(&request, versions::METADATA, deadline)?.answer;
        let brokers = answer.brokers.iter().map(|broker| {
            let host = broker.host.as_str();
            // An IPv6 address needs its brackets before a port.
            let host = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
            Broker { id: broker.node_id.0, address: format!("{host}:{}", broker.port) }
        });
        let metadata = Metadata {
            cluster_id: answer.cluster_id.map(|id| id.to_string()),
            brokers: brokers.collect(),
            topics: answer.topics.into_iter().map(TopicMetadata::from_answer).collect(),
        };
        // A broker that has just started may not know any other one, not even itself.
        if !metadata.brokers.is_empty() {
            self.know_brokers(metadata.brokers.iter().map(|b| (b.id, b.address.clone())).collect());
        }
        Ok(metadata)
    }
}

impl Metadata {
    /// A topic of this answer.
    pub fn topic(&self, name: &str) -> Option<&TopicMetadata> {
        self.topics.iter().find(|topic| topic.name == name)
    }

    fn leader(&self, at: &TopicPartition) -> Result<Leader, Error> {
        let none = |code| Err(Error::NoLeader { at: at.clone(), code });
        let Some(topic) = self.topic(&at.topic) else {
            return none(Some(Code::UNKNOWN_TOPIC_OR_PARTITION));
        };
        if topic.error.is_some() {
            return none(topic.error);
        }
        match topic.partitions.iter().find(|p| p.partition == at.partition) {
            None => none(Some(Code::UNKNOWN_TOPIC_OR_PARTITION)),
            Some(partition) => match partition.leader {
                Some(node_id) => Ok(Leader { node_id, epoch: partition.leader_epoch }),
                None => none(partition.error.or(Some(Code::LEADER_NOT_AVAILABLE))),
            },
        }
    }
}

impl TopicMetadata {
    fn from_answer(topic: MetadataResponseTopic) -> Self {
        let mut partitions: Vec<_> =
            topic.partitions.into_iter().map(PartitionMetadata::from_answer).collect();
        partitions.sort_by_key(|p| p.partition);
        Self {
            name: topic.name.map(|name| name.0.to_string()).unwrap_or_default(),
            id: topic.topic_id.into_bytes(),
            error: Code::of(topic.error_code),
            internal: topic.is_internal,
            partitions,
        }
    }
}

impl PartitionMetadata {
    fn from_answer(partition: MetadataResponsePartition) -> Self {
        Self {
            partition: partition.partition_index,
            leader: (partition.leader_id.0 >= 0).then_some(partition.leader_id.0),
            leader_epoch: partition.leader_epoch,
            replicas: partition.replica_nodes.iter().map(|id| id.0).collect(),
            in_sync: partition.isr_nodes.iter().map(|id| id.0).collect(),
            error: Code::of(partition.error_code),
        }
    }
}
