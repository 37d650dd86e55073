//! User code with keys: the stage makes a record's key current, and state belongs to that key.

use super::opening::OwnState;
use super::process::{drain, user_failure};
use super::{
    AnyStage, BuildContext, Context, Emitter, Frozen, FrozenPart, OpenContext, Signal, Stage, StageFactory,
};
use super::{KeyGroups, Outputs, UserError};
use crate::model::{Barrier, Failure, Key, KeyGroupRange, Record};
use crate::state::KeyedState;
use std::sync::{Arc, Mutex, PoisonError};

/// Appends the canonical bytes of a record's key.
pub type KeySelector<T> = Arc<dyn Fn(&T, &mut Vec<u8>) + Send + Sync>;

/// What is done to each value of a keyed stream. Every subtask works on a clone.
pub trait KeyedProcessFunction<In>: Clone + Send + 'static {
    /// What is emitted.
    type Out: Clone + Send + 'static;

    /// Called once before the first value; declares state.
    ///
    /// # Errors
    /// Fails the task.
    fn open(&mut self, context: &mut OpenContext<'_>) -> Result<(), UserError>;

    /// Called with each value; state is that of the value's key.
    ///
    /// # Errors
    /// Fails the task, with the record's topic, partition and offset in the message.
    fn process(
        &mut self,
        value: In,
        context: &mut KeyedContext<'_>,
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

/// Given to user code with each record of a keyed stream.
pub struct KeyedContext<'a> {
    pub(super) context: Context<'a>,
    pub(super) state: &'a mut KeyedState,
}

impl<'a> std::ops::Deref for KeyedContext<'a> {
    type Target = Context<'a>;
    fn deref(&self) -> &Context<'a> {
        &self.context
    }
}

impl AsMut<KeyedState> for KeyedContext<'_> {
    fn as_mut(&mut self) -> &mut KeyedState {
        self.state
    }
}

impl KeyedContext<'_> {
    /// The current key's canonical bytes.
    pub fn key_bytes(&self) -> &[u8] {
        self.state.key().map_or(&[], |k| &k.bytes)
    }

    /// The current key; `None` if `K` is not the type that the stream is keyed by.
    pub fn key<K: Key + ?Sized>(&self) -> Option<K::Owned> {
        K::decode(self.key_bytes())
    }
}

/// Builds the stages of a [`KeyedProcessFunction`].
pub struct KeyedFactory<In, F> {
    function: Mutex<F>,
    select: KeySelector<In>,
    groups: KeyGroups,
}

impl<In, F> KeyedFactory<In, F> {
    /// Each instance gets a clone of the function, and the key groups that the arithmetic gives it.
    pub fn new(function: F, select: KeySelector<In>, groups: KeyGroups) -> Self {
        Self { function: Mutex::new(function), select, groups }
    }
}

impl<In: Send + 'static, F: KeyedProcessFunction<In>> StageFactory for KeyedFactory<In, F> {
    fn build(&self, context: BuildContext, mut outputs: Outputs) -> Result<AnyStage, Failure> {
        let function = self.function.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let max = self.groups.get();
        let range = KeyGroupRange::of_subtask(context.info.subtask, context.info.parallelism, max);
        let state = KeyedState::new(range, max);
        let (select, next) = (Arc::clone(&self.select), outputs.take::<F::Out>(0));
        let own = OwnState::new(&context);
        Ok(AnyStage::new::<In>(Box::new(Keyed { function, select, state, own, context, next })))
    }

    fn may_keep_state(&self) -> bool {
        true
    }
}

struct Keyed<In, F: KeyedProcessFunction<In>> {
    function: F,
    select: KeySelector<In>,
    state: KeyedState,
    own: OwnState,
    context: BuildContext,
    next: Box<dyn Stage<F::Out>>,
}

impl<In: Send, F: KeyedProcessFunction<In>> Stage<In> for Keyed<In, F> {
    fn open(&mut self) -> Result<(), Failure> {
        let function = &mut self.function;
        self.own.open(&mut self.context, Some(&mut self.state), |opening| function.open(opening))?;
        self.next.open()
    }

    fn process(&mut self, record: Record<In>) -> Result<(), Failure> {
        let Record { value, timestamp, origin } = record;
        self.state.set_key(|out| (self.select)(&value, out));
        let mut out = Emitter::new(&mut *self.next, timestamp, origin);
        let (info, origins) = (&self.context.info, &self.context.origins);
        let context = Context { info, origins, timestamp, origin };
        let mut context = KeyedContext { context, state: &mut self.state };
        self.function
            .process(value, &mut context, &mut out)
            .map_err(|e| user_failure(&e, &format!("{} at {}", info.place(), origins.describe(origin))))?;
        out.result()
    }

    fn end_of_batch(&mut self) -> Result<(), Failure> {
        self.next.end_of_batch()
    }

    fn drain(&mut self) -> Result<(), Failure> {
        self.state.clear_key();
        drain(&self.context, &mut *self.next, |out| self.function.end_of_input(out))
    }

    fn freeze(&mut self, barrier: Barrier, frozen: &mut Frozen) -> Result<(), Failure> {
        self.state.clear_key();
        frozen.push((self.context.info.uid.clone(), FrozenPart::Keyed(self.state.freeze())));
        frozen.push(self.own.freeze(&self.context.info.uid));
        self.next.freeze(barrier, frozen)
    }

    fn forward(&mut self, signal: Signal) -> Result<(), Failure> {
        self.next.forward(signal)
    }

    fn close(&mut self) -> Result<(), Failure> {
        self.state.clear_key();
        let place = self.context.info.place();
        self.function.close().map_err(|e| user_failure(&e, &format!("{place} in close")))?;
        self.next.close()
    }
}
