//! The Kafka source while brokers are away, and where it has no rights.
//!
//! It starts clusters of its own below `TIDEGATE_RUN_DIR`, which `make test` sets, and which is emptied of processes
//! when the run ends.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![expect(clippy::disallowed_methods, reason = "tests measure time by themselves")]

#[path = "../kafka_source/running.rs"]
#[expect(dead_code, reason = "the other test program uses the rest")]
mod running;
mod cluster;
mod outages;
mod rights;
