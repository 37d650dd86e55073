//! Tidegate: exactly-once stateful stream processing on Kafka.

pub mod host;
pub mod model;
pub mod storage;
pub mod state;
pub mod connector;
pub mod operator;
pub mod graph;
pub mod checkpoint;
pub mod runtime;
pub mod api;
