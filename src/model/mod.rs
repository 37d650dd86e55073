//! The words that every other room speaks: ids, keys and key groups, records, barriers, failures.
//!
//! Its law: values only. Nothing here does I/O, takes a lock or waits.

pub mod id;
pub mod key;
pub mod key_group;
pub mod record;
pub mod barrier;
pub mod serializer;
pub mod failure;
pub mod envelope;

pub use barrier::{Alignment, Barrier, BarrierKind};
pub use failure::{Advice, Failure};
pub use id::{Attempt, CheckpointId, Generation, JobId, OperatorUid, SubtaskIndex, TaskId};
pub use key::Key;
pub use key_group::{KeyGroup, KeyGroupRange, MaxParallelism};
pub use record::{Origin, Record};
pub use serializer::{Data, Serializer};
