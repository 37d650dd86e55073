//! Where undecodable records go: a sink like any other, with the raw bytes and headers that tell the rest.

use super::KafkaSink;
use crate::connector::DeadLetter;
use crate::connector::kafka::Connection;

impl KafkaSink<DeadLetter> {
    /// Writes dead letters to a topic: key, value and headers as they were read, and four headers more,
    /// `tidegate.topic`, `tidegate.partition`, `tidegate.offset` and `tidegate.reason`.
    pub fn dead_letters(connection: Connection, topic: impl Into<String>) -> Self {
        Self::new(connection, topic, |letter: &DeadLetter, record| {
            if let Some(key) = &letter.key {
                record.key(key);
            }
            if let Some(value) = &letter.value {
                record.value(value);
            }
            for (name, value) in &letter.headers {
                record.header(name, value.as_deref());
            }
            record.header("tidegate.topic", Some(letter.topic.as_bytes()));
            record.header("tidegate.partition", Some(letter.partition.to_string().as_bytes()));
            record.header("tidegate.offset", Some(letter.offset.to_string().as_bytes()));
            record.header("tidegate.reason", Some(letter.reason.as_bytes()));
            Ok(())
        })
    }
}
