//! The mark that separates what is in checkpoint n from what is not.

use super::CheckpointId;

/// What follows a barrier.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BarrierKind {
    /// Records.
    Periodic,
    /// Nothing, unless the checkpoint fails: sources stand still until the job says how it ended.
    Last,
    /// As with [`BarrierKind::Last`], and the input is over: before it, every operator emits what it kept back.
    Drain,
}

impl BarrierKind {
    /// Whether the job ends with the checkpoint, if that is complete.
    pub const fn is_last(self) -> bool {
        matches!(self, Self::Last | Self::Drain)
    }
}

/// How a task with several inputs treats a barrier that has not come on all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Alignment {
    /// Inputs that have brought it wait for the others.
    Aligned,
    /// As [`Alignment::Aligned`] for this long after the trigger; then as [`Alignment::Unaligned`].
    AlignedFor(std::time::Duration),
    /// It overtakes the records before it, which become part of the checkpoint.
    Unaligned,
    /// No input waits and nothing is captured: what comes between the first and the last of the barriers counts as
    /// before, and is read again after a restart.
    AtLeastOnce,
}

/// One barrier, as it flows with the records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Barrier {
    /// The checkpoint that it belongs to.
    pub checkpoint: CheckpointId,
    /// What follows.
    pub kind: BarrierKind,
    /// Whether inputs wait for each other.
    pub alignment: Alignment,
}
