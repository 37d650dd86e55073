//! What a topic takes: asked of the broker once, when the writer first meets the topic.

use super::{Delivery, KafkaSink};
use crate::connector::kafka::options::raw_failure;
use crate::connector::kafka::raw::{Client, Code, ConfigResource, Deadline, TopicRight};
use crate::host::clock;
use crate::model::Failure;
use std::collections::BTreeMap;
use std::time::Duration;

/// How long the broker may take to describe a topic.
const PATIENCE: Duration = Duration::from_secs(30);

/// How often the cluster must say that there is no such topic before that is believed, and the pause between.
const LOOKS: u32 = 3;
const PAUSE: Duration = Duration::from_millis(500);

/// The settings of a topic that decide over a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Limits {
    /// Largest batch in bytes.
    pub(super) max_bytes: usize,
    /// Records with a timestamp of the producer's that is older than this are deleted, even out of an open
    /// transaction; `None` if the topic keeps everything, or stamps records itself.
    pub(super) retention_ms: Option<i64>,
}

/// From a topic's configuration as the broker describes it.
pub(super) fn limits_of(config: &BTreeMap<String, String>) -> Limits {
    let number = |name: &str| config.get(name).and_then(|v| v.parse::<i64>().ok());
    let deletes = config.get("cleanup.policy").is_none_or(|p| p.contains("delete"));
    let stamps = config.get("message.timestamp.type").is_some_and(|t| t == "LogAppendTime");
    let retention = number("retention.ms").filter(|r| *r >= 0 && deletes && !stamps);
    let max_bytes = number("max.message.bytes").unwrap_or(1_048_588).max(0) as usize;
    Limits { max_bytes, retention_ms: retention }
}

/// Asks the broker, also whether this user may do to the topic what the sink will do.
pub(super) fn ask<T>(sink: &KafkaSink<T>, client: &mut Client, topic: &str) -> Result<Limits, Failure> {
    let deadline = Deadline::after(PATIENCE);
    let needed = needed(sink.delivery);
    let mut look = 1;
    loop {
        let rights = client.topic_rights(topic, deadline).map_err(raw_failure)?;
        let problem = match rights.error {
            None => match rights.lacking(needed).as_slice() {
                [] => break,
                lacking => Some(format!("has no right to {}", list(lacking))),
            },
            Some(Code::TOPIC_AUTHORIZATION_FAILED) => Some("may not even see it".to_owned()),
            Some(Code::UNKNOWN_TOPIC_OR_PARTITION) => None,
            Some(code) => return Err(Failure::restart(format!("topic {topic} cannot be used: {code}"))),
        };
        if let Some(problem) = problem {
            let user = sink.connection.user();
            return Err(Failure::configuration(format!(
                "topic {topic} cannot be written: {user} {problem}; it needs {} on the topic",
                list(needed)
            )));
        }
        // A broker that has just started may know less than the others.
        if look == LOOKS {
            return Err(Failure::configuration(format!(
                "topic {topic} does not exist: create it, or correct its name"
            )));
        }
        look += 1;
        std::thread::sleep(PAUSE);
    }
    let config =
        client.describe_configs(&ConfigResource::Topic(topic.to_owned()), deadline).map_err(raw_failure)?;
    Ok(limits_of(&config))
}

/// What a user must be allowed to do. Recovery reads the log: it looks for markers, and salvages.
fn needed(delivery: Delivery) -> &'static [TopicRight] {
    match delivery {
        Delivery::ExactlyOnce => &[TopicRight::Write, TopicRight::Read, TopicRight::DescribeConfigs],
        Delivery::AtLeastOnce | Delivery::None => &[TopicRight::Write, TopicRight::DescribeConfigs],
    }
}

fn list(rights: &[TopicRight]) -> String {
    let names: Vec<&str> = rights.iter().map(|right| right.name()).collect();
    match names.split_last() {
        Some((last, [])) => (*last).to_owned(),
        Some((last, rest)) => format!("{} and {last}", rest.join(", ")),
        None => String::new(),
    }
}

impl Limits {
    /// Why a record may not be written, if so.
    pub(super) fn refuses_time(&self, timestamp_ms: i64) -> Option<String> {
        let retention = self.retention_ms?;
        let age = clock::unix_millis() - timestamp_ms;
        (age >= retention).then(|| {
            format!(
                "its timestamp {timestamp_ms} is {age} ms old and the topic deletes records older than retention.ms={retention}, \
                 even out of a transaction that is still to be committed; raise retention.ms, set \
                 message.timestamp.type=LogAppendTime, or do not set the record's timestamp"
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retention_matters_only_where_the_producer_stamps_and_the_topic_deletes() {
        let table = [
            (vec![("retention.ms", "1000"), ("cleanup.policy", "delete")], Some(1000)),
            (vec![("retention.ms", "-1")], None),
            (vec![("retention.ms", "1000"), ("cleanup.policy", "compact")], None),
            (vec![("retention.ms", "1000"), ("message.timestamp.type", "LogAppendTime")], None),
        ];
        for (config, retention) in table {
            let config = config.into_iter().map(|(k, v)| (k.to_owned(), v.to_owned())).collect();
            assert_eq!(limits_of(&config).retention_ms, retention, "{config:?}");
        }
    }
}
