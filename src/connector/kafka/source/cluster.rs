//! What the cluster has now: topics with their ids and partitions, and where each log begins and ends.

use super::options::Settings;
use super::topics::Topics;
use crate::connector::kafka::options::raw_failure;
use crate::connector::kafka::raw::{self, Code, Deadline, OffsetSpec, TopicId, TopicPartition};
use crate::model::{Advice, Failure};
use std::collections::BTreeMap;

/// A topic of the source's choice that can be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Topic {
    pub(super) name: String,
    pub(super) id: TopicId,
    /// Each partition, and whether it has a leader now.
    pub(super) partitions: Vec<(i32, bool)>,
}

/// The source's topics, sorted by what the cluster says about them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Listing {
    pub(super) topics: Vec<Topic>,
    /// Named by the user, and unknown to the cluster.
    pub(super) missing: Vec<String>,
    /// With an error other than that: what is known of them stays as it was.
    pub(super) refused: Vec<(String, Code)>,
}

impl Listing {
    pub(super) fn topic(&self, name: &str) -> Option<&Topic> {
        self.topics.iter().find(|topic| topic.name == name)
    }

    /// Whether the cluster says for sure that there is no topic of this name.
    pub(super) fn lacks(&self, name: &str) -> bool {
        self.topic(name).is_none() && !self.refused.iter().any(|(refused, _)| refused == name)
    }
}

/// Where a partition's log begins and ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Bounds {
    /// The first offset that is held.
    pub(super) earliest: i64,
    /// How far can be read now: the last stable offset, or the high watermark if uncommitted records are read.
    pub(super) readable: i64,
    /// The high watermark.
    pub(super) latest: i64,
}

/// Asks for the source's topics.
pub(super) fn list(
    settings: &Settings,
    client: &mut raw::Client,
    deadline: Deadline,
) -> Result<Listing, raw::Error> {
    let named: Option<Vec<&str>> = match &settings.topics {
        Topics::Named(names) => Some(names.iter().map(String::as_str).collect()),
        Topics::Pattern { .. } => None,
    };
    let metadata = client.metadata(named.as_deref(), deadline)?;
    Ok(sort(&settings.topics, metadata))
}

fn sort(topics: &Topics, metadata: raw::Metadata) -> Listing {
    let mut listing = Listing::default();
    for topic in metadata.topics {
        if !topics.contain(&topic.name) {
            continue;
        }
        match topic.error {
            Some(Code::UNKNOWN_TOPIC_OR_PARTITION) => listing.missing.push(topic.name),
            Some(code) => listing.refused.push((topic.name, code)),
            None => {
                let partitions = topic.partitions.iter().map(|p| (p.partition, p.leader.is_some())).collect();
                listing.topics.push(Topic { name: topic.name, id: topic.id, partitions });
            }
        }
    }
    listing
}

/// Asks for the bounds of some partitions.
pub(super) fn bounds(
    settings: &Settings,
    client: &mut raw::Client,
    partitions: &[TopicPartition],
    deadline: Deadline,
) -> Result<BTreeMap<TopicPartition, Bounds>, raw::Error> {
    if partitions.is_empty() {
        return Ok(BTreeMap::new());
    }
    let earliest = offsets(client, partitions, OffsetSpec::Earliest, deadline)?;
    let readable = match settings.uncommitted {
        true => None,
        false => Some(offsets(client, partitions, OffsetSpec::LastStable, deadline)?),
    };
    let latest = offsets(client, partitions, OffsetSpec::Latest, deadline)?;
    let of = |all: &BTreeMap<TopicPartition, Option<i64>>, at| all.get(at).copied().flatten().unwrap_or(0);
    let bounds = partitions.iter().map(|at| {
        let latest = of(&latest, at);
        let readable = readable.as_ref().map_or(latest, |readable| of(readable, at));
        (at.clone(), Bounds { earliest: of(&earliest, at), readable, latest })
    });
    Ok(bounds.collect())
}

/// Asks for one kind of offset; `None` where no record is as late as the timestamp.
pub(super) fn offsets(
    client: &mut raw::Client,
    partitions: &[TopicPartition],
    spec: OffsetSpec,
    deadline: Deadline,
) -> Result<BTreeMap<TopicPartition, Option<i64>>, raw::Error> {
    let listed = client.list_offsets(partitions, spec, deadline)?;
    listed.into_iter().map(|(at, answer)| Ok((at, answer?.offset))).collect()
}

/// An error of the raw client with the way out, as far as there is one.
pub(super) fn explain(settings: &Settings, error: raw::Error) -> Failure {
    let user = || settings.connection.user();
    let way_out = match error.code().map(Code::number) {
        Some(29) => Some(format!("{} needs the right to read and describe the source's topics", user())),
        Some(30) => {
            Some(format!("{} needs the right to read the consumer group {:?}", user(), settings.group))
        }
        Some(31) => Some(format!("{} needs rights on the cluster", user())),
        _ if error.kind() == raw::ErrorKind::Deadline => {
            Some(format!("are the brokers at {} up and reachable?", settings.connection.bootstrap()))
        }
        _ => None,
    };
    let refused = matches!(error.code().map(Code::number), Some(29..=31));
    let mut failure = raw_failure(error);
    if refused {
        failure.advice = Advice::FixConfiguration;
    }
    if let Some(way_out) = way_out {
        failure.text = format!("{}; {way_out}", failure.text);
    }
    failure
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connector::kafka::raw::{Metadata, PartitionMetadata, TopicMetadata};

    fn topic(name: &str, error: Option<i16>) -> TopicMetadata {
        let partition = |partition, leader| PartitionMetadata {
            partition,
            leader,
            leader_epoch: 0,
            replicas: Vec::new(),
            in_sync: Vec::new(),
            error: None,
        };
        let partitions = vec![partition(0, Some(1)), partition(1, None)];
        TopicMetadata {
            name: name.into(),
            id: [1; 16],
            error: error.and_then(Code::of),
            internal: false,
            partitions,
        }
    }

    #[test]
    fn topics_are_there_missing_or_in_doubt() {
        let topics = vec![topic("a", None), topic("b", Some(3)), topic("c", Some(5)), topic("other", None)];
        let metadata = Metadata { cluster_id: None, brokers: Vec::new(), topics };
        let listing = sort(&Topics::pattern("[a-d]".to_owned()), metadata);
        assert_eq!(listing.topic("a").unwrap().partitions, [(0, true), (1, false)]);
        assert_eq!(listing.topics.len(), 1);
        assert_eq!(listing.missing, ["b"]);
        let table = [("a", false), ("b", true), ("c", false), ("d", true)];
        for (name, lacks) in table {
            assert_eq!(listing.lacks(name), lacks, "{name}");
        }
    }
}
