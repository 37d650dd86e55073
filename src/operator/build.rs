//! From an operator's description to one subtask's instance of it.

use super::{Frozen, Signal, Stage, SubtaskInfo, combine};
use crate::connector::{Origins, Polled};
use crate::model::{Barrier, Failure};
use crate::state::{StateHandle, StateShare};
use crate::storage::Storage;
use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// What an instance is built from.
pub struct BuildContext {
    /// Which instance.
    pub info: Arc<SubtaskInfo>,
    /// What holds some of its key groups.
    pub keyed: Vec<StateHandle>,
    /// All restored positions, if it is a source.
    pub splits: Vec<Vec<u8>>,
    /// Its part of each operator state.
    pub operator: Vec<StateShare>,
    /// Where the files are.
    pub store: Arc<dyn Storage>,
    /// To name a record's origin.
    pub origins: Origins,
    /// Set when the attempt is over: whoever waits for something gives up.
    pub cancelled: Arc<AtomicBool>,
    /// How long anything may hold up a checkpoint before the attempt fails.
    pub patience: Duration,
    /// How many transactions a sink may have prepared, open or waiting at once.
    pub transactions: u32,
    /// Where sinks leave their committers.
    pub committers: super::CommitterRegistry,
}

/// A `Box<dyn Stage<T>>` on its way between two places that know `T`.
pub struct AnyStage(Box<dyn Any + Send>);

impl AnyStage {
    /// Hides the type.
    pub fn new<T: 'static>(stage: Box<dyn Stage<T>>) -> Self {
        Self(Box::new(stage))
    }

    /// Shows the type again.
    ///
    /// # Panics
    /// If it is another one: the API connects only equal types.
    pub fn take<T: 'static>(self) -> Box<dyn Stage<T>> {
        *self.0.downcast().expect("the API connects only operators of equal types")
    }
}

/// What consumes an operator's outputs, by port.
#[derive(Default)]
pub struct Outputs(Vec<Vec<AnyStage>>);

impl Outputs {
    /// Adds a consumer of a port.
    pub fn add(&mut self, port: usize, consumer: AnyStage) {
        if self.0.len() <= port {
            self.0.resize_with(port + 1, Vec::new);
        }
        self.0[port].push(consumer);
    }

    /// The consumers of a port as one stage; without any, records are dropped there.
    pub fn take<T: Clone + Send + 'static>(&mut self, port: usize) -> Box<dyn Stage<T>> {
        combine(self.0.get_mut(port).map(std::mem::take).unwrap_or_default())
    }
}

/// Builds the instances of one operator.
pub trait StageFactory: Send + Sync {
    /// One instance, in front of what consumes its output.
    ///
    /// # Errors
    /// When something outside, such as a client, cannot be made.
    fn build(&self, context: BuildContext, outputs: Outputs) -> Result<AnyStage, Failure>;

    /// Whether its instances may declare state; those that may find in `open` what has no declaration any more.
    fn may_keep_state(&self) -> bool {
        false
    }
}

/// Builds the instances of one source.
pub trait SourceFactory: Send + Sync {
    /// One instance, in front of what consumes its output.
    ///
    /// # Errors
    /// When the reader cannot be made.
    fn build(&self, context: BuildContext, outputs: Outputs) -> Result<Box<dyn SourceTask>, Failure>;
}

/// A source subtask with its chain, as the runtime drives it.
pub trait SourceTask: Send {
    /// See [`Stage::open`].
    ///
    /// # Errors
    /// As there.
    fn open(&mut self) -> Result<(), Failure>;

    /// Reads one batch and sends it down the chain; waits for the first record at most `wait`.
    ///
    /// # Errors
    /// The source's, or the chain's.
    fn poll(&mut self, wait: Duration) -> Result<Polled, Failure>;

    /// Freezes positions and chain.
    ///
    /// # Errors
    /// As [`Stage::freeze`].
    fn freeze(&mut self, barrier: Barrier, frozen: &mut Frozen) -> Result<(), Failure>;

    /// See [`Stage::forward`].
    ///
    /// # Errors
    /// As there.
    fn forward(&mut self, signal: Signal) -> Result<(), Failure>;

    /// See [`Stage::close`].
    ///
    /// # Errors
    /// As there.
    fn close(&mut self) -> Result<(), Failure>;
}
