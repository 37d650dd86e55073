//! The mark that separates what is in checkpoint n from what is not.

use super::CheckpointId;

/// What follows a barrier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BarrierKind {
    /// Records.
    Periodic,
    /// Nothing, unless the checkpoint fails: sources stand still until the job says how it ended.
    Last,
}

/// One barrier, as it flows with the records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Barrier {
    /// The checkpoint that it belongs to.
    pub checkpoint: CheckpointId,
    /// What follows.
    pub kind: BarrierKind,
}
