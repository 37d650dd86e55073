//! A sink as the last stage of a chain.

use super::{AnyStage, BuildContext, Frozen, FrozenPart, Outputs, Signal, Stage, StageFactory};
use crate::connector::{SinkCommitter, SinkParts, SinkWriter};
use crate::model::{Barrier, Failure, OperatorUid, Record};
use std::sync::{Arc, Mutex, PoisonError};

/// A committer, and the sink and subtask that it is of.
pub type Committer = (OperatorUid, u32, Box<dyn SinkCommitter>);

/// Where sinks leave their committers while a job is built; the runtime starts a thread for each.
#[derive(Clone, Default)]
pub struct CommitterRegistry(Arc<Mutex<Vec<Committer>>>);

impl CommitterRegistry {
    fn add(&self, uid: OperatorUid, subtask: u32, committer: Box<dyn SinkCommitter>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push((uid, subtask, committer));
    }

    /// All that were left, each once.
    pub fn take(&self) -> Vec<Committer> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Makes writer and committer of one subtask.
type MakeParts<T> = Box<dyn Fn(&BuildContext) -> Result<SinkParts<T>, Failure> + Send + Sync>;

/// Builds the stages of a sink.
pub struct SinkFactory<T>(MakeParts<T>);

impl<T> SinkFactory<T> {
    /// From what makes writer and committer of one subtask.
    pub fn new(
        make: impl Fn(&BuildContext) -> Result<SinkParts<T>, Failure> + Send + Sync + 'static,
    ) -> Self {
        Self(Box::new(make))
    }
}

impl<T: Send + 'static> StageFactory for SinkFactory<T> {
    fn build(&self, context: BuildContext, _outputs: Outputs) -> Result<AnyStage, Failure> {
        let SinkParts { writer, committer } = (self.0)(&context)?;
        context.committers.add(context.info.uid.clone(), context.info.subtask, committer);
        Ok(AnyStage::new::<T>(Box::new(Sink { writer, context })))
    }
}

struct Sink<T> {
    writer: Box<dyn SinkWriter<T>>,
    context: BuildContext,
}

impl<T: Send> Sink<T> {
    fn place<R>(&self, result: Result<R, Failure>) -> Result<R, Failure> {
        result.map_err(|e| e.at(self.context.info.place()))
    }
}

impl<T: Send> Stage<T> for Sink<T> {
    fn open(&mut self) -> Result<(), Failure> {
        Ok(())
    }

    fn process(&mut self, record: Record<T>) -> Result<(), Failure> {
        let origin = record.origin;
        self.writer.write(record).map_err(|e| {
            e.at(format!("{} at {}", self.context.info.place(), self.context.origins.describe(origin)))
        })
    }

    fn end_of_batch(&mut self) -> Result<(), Failure> {
        let flushed = self.writer.flush();
        self.place(flushed)
    }

    fn drain(&mut self) -> Result<(), Failure> {
        Ok(())
    }

    fn freeze(&mut self, barrier: Barrier, frozen: &mut Frozen) -> Result<(), Failure> {
        let prepared = self.writer.prepare(barrier.checkpoint);
        frozen.push((self.context.info.uid.clone(), FrozenPart::Sink(self.place(prepared)?)));
        Ok(())
    }

    fn forward(&mut self, _signal: Signal) -> Result<(), Failure> {
        Ok(())
    }

    fn close(&mut self) -> Result<(), Failure> {
        let closed = self.writer.close();
        self.place(closed)
    }
}
