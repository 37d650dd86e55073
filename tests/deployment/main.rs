//! Image, chart and compose file: what they promise, and that they agree with the program's settings.
//!
//! Helm and Kubernetes' own schemas look at the chart, the loader of `docker compose` at the compose file; the image
//! runs as a real container that may do nothing. Needs what `make test` sets, and root for containers.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../support/mod.rs"]
mod support;

mod helm;
mod program;
mod chart;
mod refusals;
mod reference;
mod compose;
mod container;
