//! One operator with everything behind it.

use super::{AnyStage, Captured};
use crate::connector::Evidence;
use crate::model::{Barrier, Failure, OperatorUid, Record};
use crate::state::{FrozenKeyed, FrozenStates};

/// What leaves a task besides records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// A barrier, after everything in the task is frozen.
    Barrier(Barrier),
    /// Nothing will follow.
    End,
}

/// What one operator froze.
pub enum FrozenPart {
    /// Keyed state, to be written.
    Keyed(FrozenKeyed),
    /// State of the subtask itself, to be written; it follows the keyed state of the same operator.
    Operator(FrozenStates),
    /// A source's positions.
    Splits(Vec<Vec<u8>>),
    /// A sink's prepared transactions, whose evidence is yet to be collected.
    Sink(Evidence),
    /// Records that were under way to it, to be encoded and written.
    InFlight(Vec<Captured>),
}

/// What the operators of one task froze at one barrier.
pub type Frozen = Vec<(OperatorUid, FrozenPart)>;

/// An operator of a chain, with the rest of the chain inside.
pub trait Stage<T>: Send {
    /// Makes ready: opens user code, restores state. Called once, on the task's thread, before any record.
    ///
    /// # Errors
    /// The user's, or damage in what is restored.
    fn open(&mut self) -> Result<(), Failure>;

    /// Takes a record.
    ///
    /// # Errors
    /// The user's, or any of the stages behind.
    fn process(&mut self, record: Record<T>) -> Result<(), Failure>;

    /// The input has nothing more for now: what was collected leaves.
    ///
    /// # Errors
    /// As [`Stage::process`].
    fn end_of_batch(&mut self) -> Result<(), Failure>;

    /// The input is over: what was kept back is emitted. Comes before the last barrier; if that checkpoint fails, the
    /// attempt does.
    ///
    /// # Errors
    /// As [`Stage::process`].
    fn drain(&mut self) -> Result<(), Failure>;

    /// Freezes this and all stages behind for the barrier.
    ///
    /// # Errors
    /// When an effect of an earlier record is known to have failed.
    fn freeze(&mut self, barrier: Barrier, frozen: &mut Frozen) -> Result<(), Failure>;

    /// Sends a signal to the tasks behind.
    ///
    /// # Errors
    /// When the attempt is over.
    fn forward(&mut self, signal: Signal) -> Result<(), Failure>;

    /// Closes user code; called once at an orderly end.
    ///
    /// # Errors
    /// The user's.
    fn close(&mut self) -> Result<(), Failure>;
}

/// One stage out of any number of them: none drops its records, several get a copy each.
pub fn combine<T: Clone + Send + 'static>(stages: Vec<AnyStage>) -> Box<dyn Stage<T>> {
    let mut typed: Vec<Box<dyn Stage<T>>> = stages.into_iter().map(AnyStage::take).collect();
    match typed.len() {
        1 => typed.remove(0),
        _ => Box::new(Tee { stages: typed }),
    }
}

struct Tee<T> {
    stages: Vec<Box<dyn Stage<T>>>,
}

impl<T: Clone + Send> Stage<T> for Tee<T> {
    fn open(&mut self) -> Result<(), Failure> {
        self.stages.iter_mut().try_for_each(|s| s.open())
    }

    fn process(&mut self, record: Record<T>) -> Result<(), Failure> {
        let Some((last, others)) = self.stages.split_last_mut() else { return Ok(()) };
        for stage in others {
            stage.process(record.clone())?;
        }
        last.process(record)
    }

    fn end_of_batch(&mut self) -> Result<(), Failure> {
        self.stages.iter_mut().try_for_each(|s| s.end_of_batch())
    }

    fn drain(&mut self) -> Result<(), Failure> {
        self.stages.iter_mut().try_for_each(|s| s.drain())
    }

    fn freeze(&mut self, barrier: Barrier, frozen: &mut Frozen) -> Result<(), Failure> {
        self.stages.iter_mut().try_for_each(|s| s.freeze(barrier, frozen))
    }

    fn forward(&mut self, signal: Signal) -> Result<(), Failure> {
        self.stages.iter_mut().try_for_each(|s| s.forward(signal))
    }

    fn close(&mut self) -> Result<(), Failure> {
        self.stages.iter_mut().try_for_each(|s| s.close())
    }
}
