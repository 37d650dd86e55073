//! Readers that rewind and writers that pre-commit: the edges of a job.
//!
//! Its law: a source's position is state; a sink's commit is idempotent and fenced. The traits here are what the
//! runtime drives; `kafka` implements them. What a *control* does concerns the whole job and happens before the
//! tasks run or beside them; readers and writers belong to one subtask.

mod origin;
mod sink;
mod source;
pub mod kafka;

pub use origin::Origins;
pub use sink::{
    CommitScope, Committable, Completed, Evidence, Resolution, SinkCommitter, SinkControl, SinkFacts,
    SinkParts, SinkSeat, SinkWriter,
};
pub use source::{
    DeadLetter, OffsetCommitter, Polled, ReaderSeat, SourceControl, SourceOutput, SourceReader,
};
