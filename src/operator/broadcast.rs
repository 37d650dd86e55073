//! User code with two inputs: a main one, with or without keys, and a broadcast one that every subtask gets whole.
//!
//! The broadcast side keeps what it is told in [`BroadcastState`](crate::state::BroadcastState), the main side reads it.
//! Nothing orders the two inputs against each other: a main record may come before or after a broadcast record that was
//! written earlier, and broadcast records of several senders may come in another order to each subtask. So what the
//! broadcast side does should not depend on the order of such records.

use super::opening::OwnState;
use super::process::{drain, user_failure};
use super::{
    AnyStage, BuildContext, Context, Emitter, Frozen, FrozenPart, KeyGroups, KeySelector, KeyedContext,
    OpenContext, Outputs, Side, Signal, Stage, StageFactory, UserError,
};
use crate::model::{Barrier, Failure, KeyGroupRange, Record};
use crate::state::{KeyedState, WriteRight};
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, PoisonError};

/// What is done to the values of a main and a broadcast input, without keys. Every subtask works on a clone.
///
/// ```
/// use tidegate::api::prelude::*;
///
/// /// Lets values pass that are below the limit of their kind.
/// #[derive(Clone, Default)]
/// struct Limits { limits: Option<BroadcastState<str, u64>> }
///
/// impl BroadcastProcessFunction<(String, u64), (String, u64)> for Limits {
///     type Out = (String, u64);
///     fn open(&mut self, context: &mut OpenContext<'_>) -> Result<(), UserError> {
///         let limits = context.broadcast_state::<str, u64>("limits")?;
///         if limits.is_empty() {
///             limits.put(context, "default", 100);
///         }
///         self.limits = Some(limits);
///         Ok(())
///     }
///     fn process(&mut self, value: (String, u64), _: &Context<'_>, out: &mut Emitter<'_, Self::Out>)
///         -> Result<(), UserError>
///     {
///         let limits = self.limits.as_ref().expect("open has declared it");
///         let limit = limits.get(&value.0).or_else(|| limits.get("default")).unwrap_or(0);
///         if value.1 < limit {
///             out.emit(value);
///         }
///         Ok(())
///     }
///     fn process_broadcast(&mut self, limit: (String, u64), context: &BroadcastContext<'_>, _: &mut Emitter<'_, Self::Out>)
///         -> Result<(), UserError>
///     {
///         self.limits.as_ref().expect("open has declared it").put(context, &limit.0, limit.1);
///         Ok(())
///     }
/// }
/// ```
pub trait BroadcastProcessFunction<In, B>: Clone + Send + 'static {
    /// What is emitted.
    type Out: Clone + Send + 'static;

    /// Called once before the first value; declares state, and may write broadcast state, as every subtask does here.
    ///
    /// # Errors
    /// Fails the task.
    fn open(&mut self, context: &mut OpenContext<'_>) -> Result<(), UserError>;

    /// Called with each value of the main input, on one subtask.
    ///
    /// # Errors
    /// Fails the task, with the record's topic, partition and offset in the message.
    fn process(
        &mut self,
        value: In,
        context: &Context<'_>,
        out: &mut Emitter<'_, Self::Out>,
    ) -> Result<(), UserError>;

    /// Called with each value of the broadcast input, on every subtask: what is emitted here is emitted by each of them.
    ///
    /// # Errors
    /// Fails the task, with the record's topic, partition and offset in the message.
    fn process_broadcast(
        &mut self,
        value: B,
        context: &BroadcastContext<'_>,
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

/// What is done to the values of a keyed main input and a broadcast one. Every subtask works on a clone.
///
/// Keyed state belongs to the key of a main value; while a broadcast value is processed no key is current.
pub trait KeyedBroadcastProcessFunction<In, B>: Clone + Send + 'static {
    /// What is emitted.
    type Out: Clone + Send + 'static;

    /// As [`BroadcastProcessFunction::open`].
    ///
    /// # Errors
    /// Fails the task.
    fn open(&mut self, context: &mut OpenContext<'_>) -> Result<(), UserError>;

    /// Called with each value of the main input, on its key's subtask.
    ///
    /// # Errors
    /// Fails the task, with the record's topic, partition and offset in the message.
    fn process(
        &mut self,
        value: In,
        context: &mut KeyedContext<'_>,
        out: &mut Emitter<'_, Self::Out>,
    ) -> Result<(), UserError>;

    /// As [`BroadcastProcessFunction::process_broadcast`].
    ///
    /// # Errors
    /// Fails the task, with the record's topic, partition and offset in the message.
    fn process_broadcast(
        &mut self,
        value: B,
        context: &BroadcastContext<'_>,
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

/// Given to user code with each broadcast record; holds the right to change broadcast state.
pub struct BroadcastContext<'a> {
    context: Context<'a>,
    right: WriteRight,
}

impl<'a> std::ops::Deref for BroadcastContext<'a> {
    type Target = Context<'a>;
    fn deref(&self) -> &Context<'a> {
        &self.context
    }
}

impl AsRef<WriteRight> for BroadcastContext<'_> {
    fn as_ref(&self) -> &WriteRight {
        &self.right
    }
}

/// One of the two traits above, as the stage calls it.
trait Sides<In, B>: Send {
    type Out;
    fn open(&mut self, own: &mut OwnState, context: &mut BuildContext) -> Result<(), Failure>;
    fn main(
        &mut self,
        value: In,
        context: Context<'_>,
        out: &mut Emitter<'_, Self::Out>,
    ) -> Result<(), UserError>;
    fn broadcast(
        &mut self,
        value: B,
        context: &BroadcastContext<'_>,
        out: &mut Emitter<'_, Self::Out>,
    ) -> Result<(), UserError>;
    fn keyed(&mut self) -> Option<&mut KeyedState>;
    fn end_of_input(&mut self, out: &mut Emitter<'_, Self::Out>) -> Result<(), UserError>;
    fn close(&mut self) -> Result<(), UserError>;
}

struct Plain<F>(F);

impl<In, B, F: BroadcastProcessFunction<In, B>> Sides<In, B> for Plain<F> {
    type Out = F::Out;
    fn open(&mut self, own: &mut OwnState, context: &mut BuildContext) -> Result<(), Failure> {
        own.open(context, None, |opening| self.0.open(opening))
    }
    fn main(
        &mut self,
        value: In,
        context: Context<'_>,
        out: &mut Emitter<'_, F::Out>,
    ) -> Result<(), UserError> {
        self.0.process(value, &context, out)
    }
    fn broadcast(
        &mut self,
        value: B,
        context: &BroadcastContext<'_>,
        out: &mut Emitter<'_, F::Out>,
    ) -> Result<(), UserError> {
        self.0.process_broadcast(value, context, out)
    }
    fn keyed(&mut self) -> Option<&mut KeyedState> {
        None
    }
    fn end_of_input(&mut self, out: &mut Emitter<'_, F::Out>) -> Result<(), UserError> {
        self.0.end_of_input(out)
    }
    fn close(&mut self) -> Result<(), UserError> {
        self.0.close()
    }
}

struct ByKey<In, F> {
    function: F,
    select: KeySelector<In>,
    state: KeyedState,
}

impl<In, B, F: KeyedBroadcastProcessFunction<In, B>> Sides<In, B> for ByKey<In, F> {
    type Out = F::Out;
    fn open(&mut self, own: &mut OwnState, context: &mut BuildContext) -> Result<(), Failure> {
        own.open(context, Some(&mut self.state), |opening| self.function.open(opening))
    }
    fn main(
        &mut self,
        value: In,
        context: Context<'_>,
        out: &mut Emitter<'_, F::Out>,
    ) -> Result<(), UserError> {
        self.state.set_key(|out| (self.select)(&value, out));
        self.function.process(value, &mut KeyedContext { context, state: &mut self.state }, out)
    }
    fn broadcast(
        &mut self,
        value: B,
        context: &BroadcastContext<'_>,
        out: &mut Emitter<'_, F::Out>,
    ) -> Result<(), UserError> {
        self.state.clear_key();
        self.function.process_broadcast(value, context, out)
    }
    fn keyed(&mut self) -> Option<&mut KeyedState> {
        Some(&mut self.state)
    }
    fn end_of_input(&mut self, out: &mut Emitter<'_, F::Out>) -> Result<(), UserError> {
        self.state.clear_key();
        self.function.end_of_input(out)
    }
    fn close(&mut self) -> Result<(), UserError> {
        self.state.clear_key();
        self.function.close()
    }
}

/// Builds the stages of a [`BroadcastProcessFunction`].
pub struct BroadcastFactory<In, B, F>(Mutex<F>, PhantomData<fn(In, B)>);

impl<In, B, F> BroadcastFactory<In, B, F> {
    /// Each instance gets a clone.
    pub fn new(function: F) -> Self {
        Self(Mutex::new(function), PhantomData)
    }
}

impl<In, B, F> StageFactory for BroadcastFactory<In, B, F>
where
    In: Send + 'static,
    B: Send + 'static,
    F: BroadcastProcessFunction<In, B>,
{
    fn build(&self, context: BuildContext, outputs: Outputs) -> Result<AnyStage, Failure> {
        let function = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Ok(stage::<In, B, _>(Plain(function), context, outputs))
    }

    fn may_keep_state(&self) -> bool {
        true
    }
}

/// Builds the stages of a [`KeyedBroadcastProcessFunction`].
pub struct KeyedBroadcastFactory<In, B, F> {
    function: Mutex<F>,
    select: KeySelector<In>,
    groups: KeyGroups,
    of: PhantomData<fn(B)>,
}

impl<In, B, F> KeyedBroadcastFactory<In, B, F> {
    /// Each instance gets a clone of the function, and the key groups that the arithmetic gives it.
    pub fn new(function: F, select: KeySelector<In>, groups: KeyGroups) -> Self {
        Self { function: Mutex::new(function), select, groups, of: PhantomData }
    }
}

impl<In, B, F> StageFactory for KeyedBroadcastFactory<In, B, F>
where
    In: Send + 'static,
    B: Send + 'static,
    F: KeyedBroadcastProcessFunction<In, B>,
{
    fn build(&self, context: BuildContext, outputs: Outputs) -> Result<AnyStage, Failure> {
        let function = self.function.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let max = self.groups.get();
        let range = KeyGroupRange::of_subtask(context.info.subtask, context.info.parallelism, max);
        let (select, state) = (Arc::clone(&self.select), KeyedState::new(range, max));
        Ok(stage::<In, B, _>(ByKey { function, select, state }, context, outputs))
    }

    fn may_keep_state(&self) -> bool {
        true
    }
}

fn stage<In, B, S>(sides: S, context: BuildContext, mut outputs: Outputs) -> AnyStage
where
    In: Send + 'static,
    B: Send + 'static,
    S: Sides<In, B> + 'static,
    S::Out: Clone + Send + 'static,
{
    let (own, next) = (OwnState::new(&context), outputs.take::<S::Out>(0));
    AnyStage::new::<Side<In, B>>(Box::new(TwoInputs::<In, B, S> { sides, own, context, next }))
}

struct TwoInputs<In, B, S: Sides<In, B>> {
    sides: S,
    own: OwnState,
    context: BuildContext,
    next: Box<dyn Stage<S::Out>>,
}

impl<In: Send, B: Send, S: Sides<In, B>> Stage<Side<In, B>> for TwoInputs<In, B, S> {
    fn open(&mut self) -> Result<(), Failure> {
        self.sides.open(&mut self.own, &mut self.context)?;
        self.next.open()
    }

    fn process(&mut self, record: Record<Side<In, B>>) -> Result<(), Failure> {
        let Record { value, timestamp, origin } = record;
        let mut out = Emitter::new(&mut *self.next, timestamp, origin);
        let (info, origins) = (&self.context.info, &self.context.origins);
        let context = Context { info, origins, timestamp, origin };
        let result = match value {
            Side::Main(value) => self.sides.main(value, context, &mut out),
            Side::Broadcast(value) => {
                let context = BroadcastContext { context, right: WriteRight::new() };
                self.sides.broadcast(value, &context, &mut out)
            }
        };
        result.map_err(|e| user_failure(&e, &format!("{} at {}", info.place(), origins.describe(origin))))?;
        out.result()
    }

    fn end_of_batch(&mut self) -> Result<(), Failure> {
        self.next.end_of_batch()
    }

    fn drain(&mut self) -> Result<(), Failure> {
        drain(&self.context, &mut *self.next, |out| self.sides.end_of_input(out))
    }

    fn freeze(&mut self, barrier: Barrier, frozen: &mut Frozen) -> Result<(), Failure> {
        let uid = &self.context.info.uid;
        if let Some(keyed) = self.sides.keyed() {
            keyed.clear_key();
            frozen.push((uid.clone(), FrozenPart::Keyed(keyed.freeze())));
        }
        frozen.push(self.own.freeze(uid));
        self.next.freeze(barrier, frozen)
    }

    fn forward(&mut self, signal: Signal) -> Result<(), Failure> {
        self.next.forward(signal)
    }

    fn close(&mut self) -> Result<(), Failure> {
        let place = self.context.info.place();
        self.sides.close().map_err(|e| user_failure(&e, &format!("{place} in close")))?;
        self.next.close()
    }
}
