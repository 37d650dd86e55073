//! The Kafka source against a real broker, driven as the runtime drives it: start, reconcile, read, freeze, commit.
//!
//! Needs `KAFKA_BOOTSTRAP`, which `make test` sets.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![expect(clippy::disallowed_methods, reason = "tests measure time by themselves")]

mod running;
mod harness;
mod records;
mod beginnings;
mod ends;
mod changes;
mod refusals;
mod offsets;
