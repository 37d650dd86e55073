//! A small blocking client for the Kafka protocol, for what librdkafka cannot do.
//!
//! librdkafka carries the data. It cannot resume a transaction of a process that died, though, and
//! "commit exactly this transaction" is what recovery needs; nor does it name a wrong password or say
//! what recovery must know about logs and coordinators. This client speaks the dozen requests for that:
//! describe, end, list and take over transactions, find their markers and records in a log, read
//! offsets and configuration, commit a group's offsets.
//!
//! Its laws: every wait ends at a [`Deadline`]; a connection that failed is never used again; no field
//! of an answer with an error is believed; what it cannot do is refused at start, since the path of
//! recovery must not run for the first time in an emergency.
//!
//! Called by the Kafka sink (prepare, resolve, cleanup), by the source (metadata, offsets, group
//! commits) and by the checks at start. It is no client for data: it never produces, and it fetches
//! only what a resolution needs.

mod settings;
mod client;
mod connection;
mod transport;
mod tls;
mod sasl;
mod scram;
mod metadata;
mod rights;
mod coordinator;
mod transactions;
mod log;
mod batch;
mod evidence;
mod offsets;
mod group;
mod configs;
mod check;
mod versions;
mod deadline;
mod error;
mod code;
#[cfg(test)]
mod fake_broker;
#[cfg(test)]
mod tests;

pub use check::Checked;
pub use client::Client;
pub use code::Code;
pub use configs::ConfigResource;
pub use deadline::Deadline;
pub use error::{Error, ErrorKind, Subject};
pub use evidence::{BatchRange, Marker, ProducerBatches};
pub use group::GroupOffset;
pub use metadata::{Broker, Metadata, PartitionMetadata, TopicId, TopicMetadata, TopicPartition};
pub use offsets::{ListedOffset, OffsetSpec};
pub use rights::{TopicRight, TopicRights};
pub use settings::Settings;
pub use transactions::{Described, EndOutcome, Listed, Producer, TransactionState};
