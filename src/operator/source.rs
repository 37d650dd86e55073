//! A source as the head of a chain.

use super::{BuildContext, Frozen, FrozenPart, Outputs, Signal, SourceFactory, SourceTask, Stage};
use crate::connector::{DeadLetter, Polled, SourceOutput, SourceReader};
use crate::model::{Barrier, Failure, Record};
use std::time::Duration;

/// Makes the reader of one subtask.
pub type BuildReader<T> =
    Box<dyn Fn(&BuildContext) -> Result<Box<dyn SourceReader<T>>, Failure> + Send + Sync>;

/// Builds the tasks of a source.
pub struct SourceStageFactory<T>(BuildReader<T>);

impl<T> SourceStageFactory<T> {
    /// From what makes the reader of one subtask.
    pub fn new(make: BuildReader<T>) -> Self {
        Self(make)
    }
}

impl<T: Clone + Send + 'static> SourceFactory for SourceStageFactory<T> {
    fn build(&self, context: BuildContext, mut outputs: Outputs) -> Result<Box<dyn SourceTask>, Failure> {
        let reader = (self.0)(&context).map_err(|e| e.at(context.info.place()))?;
        let chain = Chain { records: outputs.take(RECORDS), dead_letters: outputs.take(DEAD_LETTERS) };
        Ok(Box::new(Head { reader, chain, context }))
    }
}

/// The port of the records.
pub const RECORDS: usize = 0;

/// The port of what could not be decoded.
pub const DEAD_LETTERS: usize = 1;

struct Chain<T> {
    records: Box<dyn Stage<T>>,
    dead_letters: Box<dyn Stage<DeadLetter>>,
}

impl<T> SourceOutput<T> for Chain<T> {
    fn record(&mut self, record: Record<T>) -> Result<(), Failure> {
        self.records.process(record)
    }

    fn dead_letter(&mut self, letter: Record<DeadLetter>) -> Result<(), Failure> {
        self.dead_letters.process(letter)
    }
}

struct Head<T> {
    reader: Box<dyn SourceReader<T>>,
    chain: Chain<T>,
    context: BuildContext,
}

impl<T: Send> SourceTask for Head<T> {
    fn open(&mut self) -> Result<(), Failure> {
        self.chain.records.open()?;
        self.chain.dead_letters.open()
    }

    fn poll(&mut self, wait: Duration) -> Result<Polled, Failure> {
        let polled = self.reader.poll(wait, &mut self.chain)?;
        self.idle()?;
        Ok(polled)
    }

    fn idle(&mut self) -> Result<(), Failure> {
        self.chain.records.end_of_batch()?;
        self.chain.dead_letters.end_of_batch()
    }

    fn drain(&mut self) -> Result<(), Failure> {
        self.chain.records.drain()?;
        self.chain.dead_letters.drain()
    }

    fn freeze(&mut self, barrier: Barrier, frozen: &mut Frozen) -> Result<(), Failure> {
        let splits = self.reader.freeze().map_err(|e| e.at(self.context.info.place()))?;
        frozen.push((self.context.info.uid.clone(), FrozenPart::Splits(splits)));
        self.chain.records.freeze(barrier, frozen)?;
        self.chain.dead_letters.freeze(barrier, frozen)
    }

    fn forward(&mut self, signal: Signal) -> Result<(), Failure> {
        self.chain.records.forward(signal)?;
        self.chain.dead_letters.forward(signal)
    }

    fn close(&mut self) -> Result<(), Failure> {
        self.chain.records.close()?;
        self.chain.dead_letters.close()
    }
}
