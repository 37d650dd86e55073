//! Typed state for the current key and for the subtask, and how it is frozen for a checkpoint.
//!
//! Its law: every byte is addressed by (operator uid, state name, key group, key), and state without keys by (operator
//! uid, state name, entry); a snapshot is a list of files, never a destination. The task that owns a [`KeyedState`] or
//! [`OperatorStates`] is the only one that touches it; what a freeze returns can be written by another thread while the
//! task goes on.

mod error;
mod handle;
mod keyed;
mod value;
mod snapshot;
mod memory;
mod operator;
mod regroup;

pub use error::Error;
pub use handle::{Redistribution, StateHandle};
pub use keyed::{CurrentKey, FrozenKeyed, KeyedState};
pub use operator::{
    BroadcastState, EntryRange, FrozenEntries, FrozenStates, ListState, OperatorStates, StateShare,
    UnionState, WriteRight,
};
pub use regroup::Regrouped;
pub use snapshot::{Contained, FILE_TARGET_BYTES, contents};
pub use value::ValueState;
