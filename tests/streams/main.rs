//! The library's face on real topics: what each kind of stream does, and how user code fails.
//!
//! Needs `KAFKA_BOOTSTRAP`, which `make test` sets.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod harness;
mod routes;
mod sides;
mod user_code;
mod sinks;
mod ends;
