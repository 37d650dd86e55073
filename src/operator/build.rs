//! From an operator's description to one subtask's instance of it.

use super::counting::Counting;
use super::{Frozen, Signal, Stage, SubtaskInfo, combine};
use crate::connector::{Origins, Polled};
use crate::model::{Barrier, Failure};
use crate::state::{StateHandle, StateShare};
use crate::storage::Storage;
use prometheus::IntCounter;
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
pub struct AnyStage {
    stage: Box<dyn Any + Send>,
    count: fn(Box<dyn Any + Send>, IntCounter) -> Box<dyn Any + Send>,
}

impl AnyStage {
    /// Hides the type.
    pub fn new<T: 'static>(stage: Box<dyn Stage<T>>) -> Self {
        Self { stage: Box::new(stage), count: counted::<T> }
    }

    /// Shows the type again.
    ///
    /// # Panics
    /// If it is another one: the API connects only equal types.
    pub fn take<T: 'static>(self) -> Box<dyn Stage<T>> {
        *self.stage.downcast().expect("the API connects only operators of equal types")
    }

    /// The same, with what enters it counted.
    #[must_use]
    pub fn counting(self, records: IntCounter) -> Self {
        Self { stage: (self.count)(self.stage, records), ..self }
    }
}

fn counted<T: 'static>(stage: Box<dyn Any + Send>, records: IntCounter) -> Box<dyn Any + Send> {
    let stage: Box<dyn Stage<T>> = *stage.downcast().expect("it was made of a stage of this type");
    let counting: Box<dyn Stage<T>> = Box::new(Counting::new(stage, vec![records]));
    Box::new(counting)
}

/// What consumes an operator's outputs, by port.
#[derive(Default)]
pub struct Outputs {
    ports: Vec<Vec<AnyStage>>,
    counters: Vec<IntCounter>,
}

impl Outputs {
    /// Adds a consumer of a port.
    pub fn add(&mut self, port: usize, consumer: AnyStage) {
        if self.ports.len() <= port {
            self.ports.resize_with(port + 1, Vec::new);
        }
        self.ports[port].push(consumer);
    }

    /// Counts what leaves through any port; each record once for each counter.
    pub fn count(&mut self, records: IntCounter) {
        self.counters.push(records);
    }

    /// The consumers of a port as one stage; without any, records are dropped there.
    pub fn take<T: Clone + Send + 'static>(&mut self, port: usize) -> Box<dyn Stage<T>> {
        let stage = combine(self.ports.get_mut(port).map(std::mem::take).unwrap_or_default());
        if self.counters.is_empty() { stage } else { Box::new(Counting::new(stage, self.counters.clone())) }
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

    /// Reads nothing; lets the chain do what it does between two batches, such as replaying.
    ///
    /// # Errors
    /// The chain's.
    fn idle(&mut self) -> Result<(), Failure>;

    /// See [`Stage::drain`].
    ///
    /// # Errors
    /// As there.
    fn drain(&mut self) -> Result<(), Failure>;

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
