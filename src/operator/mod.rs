//! What is done to a record.
//!
//! Its law: synchronous, never blocking, one key at a time. A chain of operators is a nest of [`Stage`]s, each
//! owning what follows it; a record goes down by calls, a barrier goes down twice: first everything is frozen
//! ([`Stage::freeze`]), only then may the barrier leave the task ([`Stage::forward`]).

mod in_flight;
mod stage;
mod counting;
mod context;
mod emitter;
mod key_groups;
mod build;
mod map;
mod opening;
mod process;
mod keyed;
mod side;
mod broadcast;
mod sink;
mod source;

pub use broadcast::{
    BroadcastContext, BroadcastFactory, BroadcastProcessFunction, KeyedBroadcastFactory,
    KeyedBroadcastProcessFunction,
};
pub use build::{AnyStage, BuildContext, Outputs, SourceFactory, SourceTask, StageFactory};
pub use context::{Context, OpenContext, SubtaskInfo};
pub use emitter::Emitter;
pub use in_flight::Captured;
pub use key_groups::KeyGroups;
pub use keyed::{KeySelector, KeyedContext, KeyedFactory, KeyedProcessFunction};
pub use map::{filter, flat_map, map, try_map};
pub use process::{ProcessFactory, ProcessFunction, UserError};
pub use side::{Side, SideSerializer};
pub use sink::{Committer, CommitterRegistry, SinkFactory};
pub use source::{BuildReader, DEAD_LETTERS, RECORDS, SourceStageFactory};
pub use stage::{Frozen, FrozenPart, Signal, Stage, combine};
