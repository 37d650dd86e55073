//! The machine below: clocks, randomness, threads and crash points, each behind one small wrapper.
//!
//! Its law: no other room reads a clock, draws a random number or starts a thread by itself, so that a
//! whole job can be put under a test's control in one place. It knows nothing about streams.

pub mod clock;
pub mod metrics;
pub mod random;
pub mod thread;
pub mod fault;
