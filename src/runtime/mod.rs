//! One task and its channels, and the job that drives the tasks through checkpoints, failures and restarts.
//!
//! Its law: no barrier leaves a task before its state is frozen. The data plane is synchronous, one thread a task,
//! over bounded channels of batches; [`job`] is the one place that carries the checkpoint protocol's decisions out.

mod waits;
mod gate;
mod aligner;
mod tracker;
mod in_flight;
mod route;
mod replay;
mod input;
mod inventory;
mod exchange;
mod sided;
mod task;
mod snapshot;
mod committing;
mod events;
mod restart;
pub mod pending;
mod recovery;
mod assembly;
mod driver;
mod attempt;
mod cleaner;
mod progress;
mod meters;
mod local_copies;
mod cancel;
mod savepoints;
mod job;

pub use exchange::TypedLink;
pub use job::{JobOptions, Outcome, StopHandle, run};
pub use progress::{Phase, Progress, Seen};
pub use restart::RestartPolicy;
pub use route::{Partitioner, RouteBy};
pub use savepoints::SavepointStatus;
pub use sided::SidedLink;
