//! What the runtime must be able to do with an edge whose record type only the API knows.

use crate::model::{Barrier, Failure};
use crate::operator::{AnyStage, Frozen, Signal};
use std::any::Any;
use std::time::Duration;

/// The sending end of one channel, its type hidden.
pub struct AnySender(pub Box<dyn Any + Send>);

/// An input gate, its type hidden.
pub struct AnyGate(pub Box<dyn Any + Send>);

/// A typed edge.
pub trait Link: Send + Sync {
    /// An input gate with this many channels of at most `capacity` batches each, and the channels' sending ends.
    fn gate(&self, channels: usize, capacity: usize) -> (AnyGate, Vec<AnySender>);

    /// The stage that sends records to these receivers, by the edge's route.
    fn output(&self, receivers: Vec<AnySender>, subtask: u32) -> AnyStage;

    /// The task that takes from the gate and drives the stage.
    fn task(&self, gate: AnyGate, stage: AnyStage) -> Box<dyn InputTask>;

    /// What closes the gate, so that nobody waits at it any more.
    fn closer(&self, gate: &AnyGate) -> Box<dyn Fn() + Send + Sync>;
}

/// What a turn of an input task brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Records were processed, or there were none.
    Goes,
    /// The barrier has arrived on every input: freeze, then forward.
    Aligned(Barrier),
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

    /// See [`crate::operator::Stage::close`].
    ///
    /// # Errors
    /// As there.
    fn close(&mut self) -> Result<(), Failure>;
}
