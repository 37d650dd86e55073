//! Tidegate: exactly-once stateful stream processing on Kafka.

pub mod host;
pub mod model;
pub mod storage;
pub mod state;
pub mod checkpoint;
