//! State that belongs to a subtask rather than to a key: lists, unions, and broadcast maps.
//!
//! Its law: an entry is encoded alone and belongs to one subtask, so that entries can be dealt out anew when the number
//! of subtasks changes. What a subtask declares is shared between its task, which changes it through a handle, and
//! [`OperatorStates`], which freezes all of it at a barrier: pages and shards are reference counted, so a freeze copies
//! pointers only, and what is written to afterwards is copied first.

mod pages;
mod list;
mod union;
mod broadcast;
mod codec;
mod share;
mod states;

pub use broadcast::{BroadcastState, WriteRight};
pub use list::ListState;
pub use share::{EntryRange, StateShare};
pub use states::{FrozenEntries, FrozenStates, OperatorStates};
pub use union::UnionState;
