//! Load generators, the oracle and the limits that Tidegate is measured against.
//!
//! Its law: nothing here knows how Tidegate works. What a job promises is judged from its topics alone, read with
//! plain librdkafka, so that a mistake in the engine cannot hide in the judge. The crate `tidegate` is not a
//! dependency; its tests and the programs in `src/bin` are the callers.
//!
//! - What goes in: [`clicks`], [`orders`], written to a topic by [`feed`], or by [`steady`] in the background.
//! - What came out: [`reader`] reads it, [`watcher`] follows it, [`oracle`] judges it, [`rest`] looks at what the broker holds afterwards.
//! - What hurts: [`proxy`] before a server, a small [`disk`].
//! - Around it: [`topics`], [`offsets`], [`process`] for the `/proc` side of a measurement, [`program`] for the programs
//!   under test.

mod error;
mod random;
mod zipf;

pub mod clicks;
pub mod orders;
pub mod feed;
pub mod topics;
pub mod offsets;
pub mod steady;
pub mod reader;
pub mod watcher;
pub mod oracle;
pub mod rest;
pub mod process;
pub mod program;
pub mod disk;
pub mod proxy;
pub mod statistics;
pub mod numbers;
pub mod interval;
pub mod native;

pub use error::Error;
