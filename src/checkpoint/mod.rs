//! The agreement: when a checkpoint is complete, who owns the job, what is kept, what a restart begins with.
//!
//! Its law: a checkpoint is complete if and only if a manifest of the sequence says so; transactions are
//! committed only after that, and only those that it lists. Everything that decides is a pure function here;
//! `runtime::job` carries the decisions out.

mod error;
mod manifest;
mod sequence;
mod protocol;
mod retention;
mod redistribute;
mod restore;
mod rewrite;
mod restore_in_flight;
pub mod savepoint;
mod settings;
#[cfg(test)]
mod laws;
#[cfg(test)]
mod histories;
#[cfg(test)]
mod exploration;

pub use error::Error;
pub use manifest::{Cause, InFlight, Manifest, OperatorSnapshot, OperatorState, SubtaskSnapshot};
pub use protocol::{Action, Event, Protocol, SavepointRequest};
pub use restore::{Planned, RestorePlan, SubtaskRestore, plan};
pub use restore_in_flight::InFlightRestore;
pub use retention::{Deletions, Held, orphans, state_files, superseded};
pub use rewrite::{Write, rewrite};
pub use sequence::{Claims, Publication, Sequence};
pub use settings::{Mode, OnCancellation, Settings};
