//! What this connection's user may do to a topic, by the broker's own word, before it is tried.
//!
//! librdkafka shows a missing right only when a record is refused, and then as one that was purged.

use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::{MetadataRequest, TopicName};
use kafka_protocol::protocol::StrBytes;

use super::client::Client;
use super::{Code, Deadline, Error, versions};

/// Something that may be done to a topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TopicRight {
    /// Read its records.
    Read,
    /// Write records to it.
    Write,
    /// Read its configuration.
    DescribeConfigs,
}

impl TopicRight {
    /// The name that Kafka's tools give to it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "Read",
            Self::Write => "Write",
            Self::DescribeConfigs => "DescribeConfigs",
        }
    }

    /// Its bit in an answer: Kafka's number of the operation.
    fn bit(self) -> i32 {
        1 << match self {
            Self::Read => 3,
            Self::Write => 4,
            Self::DescribeConfigs => 10,
        }
    }
}

/// What may be done to one topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TopicRights {
    /// Why nothing else is known: no such topic (3), no right to see it (29), ...
    pub error: Option<Code>,
    bits: i32,
}

impl TopicRights {
    /// Those of the wanted rights that this user does not have.
    pub fn lacking(&self, wanted: &[TopicRight]) -> Vec<TopicRight> {
        // The smallest number is a broker's way to say that it does not tell.
        let unknown = self.bits == i32::MIN;
        wanted.iter().copied().filter(|right| !unknown && self.bits & right.bit() == 0).collect()
    }
}

impl Client {
    /// Asks what this user may do to a topic.
    ///
    /// # Errors
    /// When no broker answers within the deadline, or for a reason that does not pass.
    pub fn topic_rights(&mut self, topic: &str, deadline: Deadline) -> Result<TopicRights, Error> {
        let name = TopicName(StrBytes::from_string(topic.to_owned()));
        let request = MetadataRequest::default()
            .with_topics(Some(vec![MetadataRequestTopic::default().with_name(Some(name))]))
            .with_allow_auto_topic_creation(false)
            .with_include_topic_authorized_operations(true);
        self.retry(
            || format!("Metadata of topic {topic:?}"),
            deadline,
            |client| {
                let answered = client.call_any(&request, versions::METADATA, deadline)?;
                let found = answered.answer.topics.into_iter().next().ok_or_else(|| Error::Malformed {
                    broker: answered.broker,
                    request: "Metadata",
                    problem: format!("the answer does not mention topic {topic:?}"),
                })?;
                Ok(TopicRights { error: Code::of(found.error_code), bits: found.topic_authorized_operations })
            },
        )
    }
}

#[cfg(test)]
mod tests {
    use super::TopicRight::{DescribeConfigs, Read, Write};
    use super::*;

    #[test]
    fn what_is_lacking_is_what_has_no_bit() {
        let lacking = |bits| TopicRights { error: None, bits }.lacking(&[Write, Read, DescribeConfigs]);
        assert_eq!(lacking(0b1_0000_1000), [Write, DescribeConfigs]);
        assert_eq!(lacking(0b101_0001_1000), []);
        assert_eq!(lacking(i32::MIN), [], "a broker that does not tell");
    }
}
