//! What the runtime must be able to do with an edge whose record type only the API knows.

use super::{Backlog, Urgency};
use crate::model::serializer::SerializerId;
use crate::model::{Barrier, CheckpointId, Failure, OperatorUid};
use crate::operator::{AnyStage, Frozen, Signal};
use crate::state::StateHandle;
use crate::storage::Storage;
use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

/// The sending end of one channel, its type hidden.
pub struct AnySender(pub Box<dyn Any + Send>);

/// An input gate, its type hidden.
pub struct AnyGate(pub Box<dyn Any + Send>);

/// Which input of an operator a channel belongs to, and whose records it brings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChannelFrom {
    /// The operator's input, in the order of the graph.
    pub input: u32,
    /// The operator that sends.
    pub sender: OperatorUid,
    /// Its subtask.
    pub subtask: u32,
}

impl std::fmt::Display for ChannelFrom {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "input {} from {} subtask {}", self.input, self.sender, self.subtask)
    }
}

/// What the input gate of one task is made from.
pub struct GateSeat {
    /// The operator that takes the input.
    pub uid: OperatorUid,
    /// The task in words.
    pub place: String,
    /// One channel for each.
    pub channels: Vec<ChannelFrom>,
    /// Batches that may wait in one channel.
    pub capacity: usize,
    /// Whether barriers may overtake records here.
    pub overtaking: bool,
    /// Tells the task that a barrier must not wait.
    pub urgency: Urgency,
}

/// What an operator replays before anything new.
pub struct ReplaySeat {
    /// The operator.
    pub uid: OperatorUid,
    /// The operator's subtask in words.
    pub place: String,
    /// Which subtask.
    pub subtask: u32,
    /// How many there are.
    pub parallelism: u32,
    /// Whether the records must be routed anew, since there were another number of subtasks.
    pub rescaled: bool,
    /// In the order in which they are replayed.
    pub records: Vec<Replayed>,
    /// Where the files are.
    pub store: Arc<dyn Storage>,
    /// What the task shares.
    pub urgency: Urgency,
    /// What the task shares.
    pub backlog: Backlog,
}

/// Records of one channel that a checkpoint captured.
#[derive(Debug, Clone)]
pub struct Replayed {
    /// Which input they came through.
    pub input: u32,
    /// The subtask that had sent them.
    pub from: u32,
    /// What they are encoded with.
    pub serializer: SerializerId,
    /// Where they are.
    pub handle: StateHandle,
}

/// For a checkpoint: what each channel of a gate that has not brought its barrier keeps it from, in words; `None` if all
/// have brought it.
pub type Waits = Box<dyn Fn(CheckpointId) -> Option<String> + Send + Sync>;

/// A typed edge.
pub trait Link: Send + Sync {
    /// An input gate, and its channels' sending ends.
    fn gate(&self, seat: GateSeat) -> (AnyGate, Vec<AnySender>);

    /// The stage that sends records to these receivers, by the edge's route.
    fn output(&self, receivers: Vec<AnySender>, subtask: u32, urgency: Urgency) -> AnyStage;

    /// The stage, after it has replayed what a checkpoint captured on this edge.
    fn replay(&self, stage: AnyStage, seat: ReplaySeat) -> AnyStage;

    /// The task that takes from the gate and drives the stage, after its backlog.
    fn task(&self, gate: AnyGate, stage: AnyStage, backlog: Backlog) -> Box<dyn InputTask>;

    /// What closes the gate, so that nobody waits at it any more.
    fn closer(&self, gate: &AnyGate) -> Box<dyn Fn() + Send + Sync>;

    /// What tells whom the gate waits for.
    fn waits(&self, gate: &AnyGate) -> Waits;
}

/// What a turn of an input task brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Records were processed, or there were none.
    Goes,
    /// The barrier has arrived on every input: freeze, then forward, and the task's part is complete.
    Aligned(Barrier),
    /// The barrier has overtaken: freeze, then forward; the part is complete after [`Step::Captured`].
    Overtaken(Barrier),
    /// Every input has brought the barrier that had overtaken; [`InputTask::captured`] has what it overtook.
    Captured(CheckpointId),
    /// A newer barrier came, or too much was captured: this checkpoint will have no part of this task.
    PassedOver(CheckpointId, &'static str),
    /// Every input has ended.
    Ended,
}

/// A task that is fed by other tasks, as the runtime drives it.
pub trait InputTask: Send {
    /// See [`crate::operator::Stage::open`].
    ///
    /// # Errors
    /// As there.
    fn open(&mut self) -> Result<(), Failure>;

    /// Waits at most `wait` for something to arrive, and handles it.
    ///
    /// # Errors
    /// The chain's.
    fn step(&mut self, wait: Duration) -> Result<Step, Failure>;

    /// See [`crate::operator::Stage::drain`].
    ///
    /// # Errors
    /// As there.
    fn drain(&mut self) -> Result<(), Failure>;

    /// Freezes the chain.
    ///
    /// # Errors
    /// The chain's.
    fn freeze(&mut self, barrier: Barrier, frozen: &mut Frozen) -> Result<(), Failure>;

    /// Sends a signal on, and takes input again from the channels that were held back.
    ///
    /// # Errors
    /// When the attempt is over.
    fn forward(&mut self, signal: Signal) -> Result<(), Failure>;

    /// Adds the records that the last barrier overtook.
    fn captured(&mut self, frozen: &mut Frozen);

    /// See [`crate::operator::Stage::close`].
    ///
    /// # Errors
    /// As there.
    fn close(&mut self) -> Result<(), Failure>;
}
