//! Kafka as source and sink.
//!
//! librdkafka carries the data (`native` is the one place with unsafe code); [`raw`] speaks the few requests of
//! the Kafka protocol that recovery needs and librdkafka has not.

pub mod raw;
mod native;
mod options;
pub mod source;
pub mod sink;

pub use options::Connection;
