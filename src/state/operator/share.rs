//! What one subtask gets of a state that several subtasks have written.

use crate::model::serializer::SerializerId;
use crate::state::{Redistribution, StateHandle};
use std::ops::Range;

/// Some of the entries of one piece of state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntryRange {
    /// The piece.
    pub handle: StateHandle,
    /// What its entries are encoded with.
    pub serializer: SerializerId,
    /// How many entries it has.
    pub entries: u64,
    /// Which of them, by their place in it.
    pub take: Range<u64>,
}

/// A named operator state as one subtask begins with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateShare {
    /// Its name within the operator.
    pub name: String,
    /// How it was given to subtasks.
    pub redistribution: Redistribution,
    /// The entries that this subtask gets, in their order.
    pub parts: Vec<EntryRange>,
    /// Which of these entries are this subtask's own, by their place among them: it alone will write them again.
    pub own: Range<u64>,
}
