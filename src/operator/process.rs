//! User code without keys: a struct with `open`, `process` and `close`.

use super::opening::OwnState;
use super::{
    AnyStage, BuildContext, Context, Emitter, Frozen, OpenContext, Outputs, Signal, Stage, StageFactory,
};
use crate::model::{Advice, Barrier, Failure, Origin, Record};
use crate::state;
use std::sync::{Mutex, PoisonError};

/// Any error of user code. It fails the task, with the record's topic, partition and offset in front.
pub type UserError = Box<dyn std::error::Error + Send + Sync>;

/// What is done to each value, without keys; state belongs to the subtask. Every subtask works on a clone.
pub trait ProcessFunction<In>: Clone + Send + 'static {
    /// What is emitted.
    type Out: Clone + Send + 'static;

    /// Called once before the first value, on the subtask's thread; declares state.
    ///
    /// # Errors
    /// Fails the task.
    fn open(&mut self, _context: &mut OpenContext<'_>) -> Result<(), UserError> {
        Ok(())
    }

    /// Called with each value.
    ///
    /// # Errors
    /// Fails the task, with the record's topic, partition and offset in the message.
    fn process(
        &mut self,
        value: In,
        context: &Context<'_>,
        out: &mut Emitter<'_, Self::Out>,
    ) -> Result<(), UserError>;

    /// Called when the input is over, before the job's last checkpoint: when all sources are at their ends, and at a stop
    /// that drains. Emits what was kept back; what is emitted has no event time of its own, see [`Emitter::emit_at`].
    /// If that checkpoint fails the job goes back to the one before.
    ///
    /// # Errors
    /// Fails the task.
    fn end_of_input(&mut self, _out: &mut Emitter<'_, Self::Out>) -> Result<(), UserError> {
        Ok(())
    }

    /// Called once at an orderly end.
    ///
    /// # Errors
    /// Fails the task.
    fn close(&mut self) -> Result<(), UserError> {
        Ok(())
    }
}

/// Builds the stages of a [`ProcessFunction`].
pub struct ProcessFactory<F>(Mutex<F>);

impl<F> ProcessFactory<F> {
    /// Each instance gets a clone.
    pub fn new(function: F) -> Self {
        Self(Mutex::new(function))
    }

    /// Its stages take values of `In`.
    pub fn taking<In>(self) -> Taking<F, In> {
        Taking(self, std::marker::PhantomData)
    }
}

/// A factory that knows what its stages take.
pub struct Taking<F, In>(ProcessFactory<F>, std::marker::PhantomData<fn(In)>);

impl<In: Send + 'static, F: ProcessFunction<In>> StageFactory for Taking<F, In> {
    fn build(&self, context: BuildContext, mut outputs: Outputs) -> Result<AnyStage, Failure> {
        let function = self.0.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let next = outputs.take::<F::Out>(0);
        let own = OwnState::new(&context);
        Ok(AnyStage::new::<In>(Box::new(Process::<In, F> { function, own, context, next })))
    }

    fn may_keep_state(&self) -> bool {
        true
    }
}

struct Process<In, F: ProcessFunction<In>> {
    function: F,
    own: OwnState,
    context: BuildContext,
    next: Box<dyn Stage<F::Out>>,
}

impl<In: Send, F: ProcessFunction<In>> Stage<In> for Process<In, F> {
    fn open(&mut self) -> Result<(), Failure> {
        let function = &mut self.function;
        self.own.open(&mut self.context, None, |opening| function.open(opening))?;
        self.next.open()
    }

    fn process(&mut self, record: Record<In>) -> Result<(), Failure> {
        let Record { value, timestamp, origin } = record;
        let mut out = Emitter::new(&mut *self.next, timestamp, origin);
        let (info, origins) = (&self.context.info, &self.context.origins);
        let context = Context { info, origins, timestamp, origin };
        self.function
            .process(value, &context, &mut out)
            .map_err(|e| user_failure(&e, &format!("{} at {}", info.place(), origins.describe(origin))))?;
        out.result()
    }

    fn end_of_batch(&mut self) -> Result<(), Failure> {
        self.next.end_of_batch()
    }

    fn drain(&mut self) -> Result<(), Failure> {
        drain(&self.context, &mut *self.next, |out| self.function.end_of_input(out))
    }

    fn freeze(&mut self, barrier: Barrier, frozen: &mut Frozen) -> Result<(), Failure> {
        frozen.push(self.own.freeze(&self.context.info.uid));
        self.next.freeze(barrier, frozen)
    }

    fn forward(&mut self, signal: Signal) -> Result<(), Failure> {
        self.next.forward(signal)
    }

    fn close(&mut self) -> Result<(), Failure> {
        let place = self.context.info.place();
        self.function.close().map_err(|e| user_failure(&e, &format!("{place} in close")))?;
        self.next.close()
    }
}

/// Lets user code give out what it kept back, and then what is behind it.
pub(super) fn drain<T>(
    context: &BuildContext,
    next: &mut dyn Stage<T>,
    end_of_input: impl FnOnce(&mut Emitter<'_, T>) -> Result<(), UserError>,
) -> Result<(), Failure> {
    let mut out = Emitter::new(next, Record::<()>::NO_TIMESTAMP, Origin::NONE);
    end_of_input(&mut out)
        .map_err(|e| user_failure(&e, &format!("{} at the end of its input", context.info.place())))?;
    out.result()?;
    next.drain()
}

/// User code's error as the task's failure.
pub(super) fn user_failure(error: &UserError, place: &str) -> Failure {
    // What is wrong with a declaration is wrong after a restart, too.
    let advice = error.downcast_ref::<state::Error>().map_or(Advice::Restart, state::Error::advice);
    Failure::new(advice, format!("{place}: {error}"))
}
