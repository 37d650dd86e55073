//! What cannot work is refused with a message that names the thing, the place, what was expected and found, and the way
//! out; nothing panics, nothing is lost, no reader is held back, and after the repair the job goes on exactly.
//!
//! Everything is tried with the example `clicks_per_url`, as a user meets it. Needs what `make test` sets, and root, for
//! small and read-only file systems.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![expect(clippy::disallowed_methods, reason = "tests measure time by themselves")]

mod job;
mod surroundings;
mod records;
mod checkpoints;
mod owners;
mod rights;
