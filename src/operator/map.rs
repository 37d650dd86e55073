//! Operators made of a closure: map, filter, flat_map are all one stage that differs in what it calls.

use super::{AnyStage, BuildContext, Frozen, Outputs, Signal, Stage, StageFactory, UserError};
use crate::connector::Origins;
use crate::model::{Barrier, Failure, Record};
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, PoisonError};

/// How a closure handles a record: it calls the next stage as often as it likes.
trait Apply<T, U>: Send {
    fn apply(&mut self, record: Record<T>, next: &mut dyn Stage<U>) -> Result<(), ApplyError>;
}

enum ApplyError {
    User(UserError),
    Behind(Failure),
}

impl From<Failure> for ApplyError {
    fn from(failure: Failure) -> Self {
        Self::Behind(failure)
    }
}

struct Applied<T, U> {
    apply: Box<dyn Apply<T, U>>,
    next: Box<dyn Stage<U>>,
    place: String,
    origins: Origins,
}

impl<T: Send + 'static, U: 'static> Stage<T> for Applied<T, U> {
    fn open(&mut self) -> Result<(), Failure> {
        self.next.open()
    }

    fn process(&mut self, record: Record<T>) -> Result<(), Failure> {
        let origin = record.origin;
        self.apply.apply(record, &mut *self.next).map_err(|e| match e {
            ApplyError::Behind(failure) => failure,
            ApplyError::User(e) => {
                Failure::restart(format!("{} at {}: {e}", self.place, self.origins.describe(origin)))
            }
        })
    }

    fn end_of_batch(&mut self) -> Result<(), Failure> {
        self.next.end_of_batch()
    }

    fn drain(&mut self) -> Result<(), Failure> {
        self.next.drain()
    }

    fn freeze(&mut self, barrier: Barrier, frozen: &mut Frozen) -> Result<(), Failure> {
        self.next.freeze(barrier, frozen)
    }

    fn forward(&mut self, signal: Signal) -> Result<(), Failure> {
        self.next.forward(signal)
    }

    fn close(&mut self) -> Result<(), Failure> {
        self.next.close()
    }
}

/// Makes a clone of the closure.
type MakeApply<T, U> = Box<dyn Fn() -> Box<dyn Apply<T, U>> + Send>;

/// Makes one closure's stages; each instance has a clone of the closure.
struct ClosureFactory<T, U> {
    make: Mutex<MakeApply<T, U>>,
}

impl<T: Send + 'static, U: Clone + Send + 'static> ClosureFactory<T, U> {
    fn of<A: Apply<T, U> + Clone + 'static>(apply: A) -> Arc<dyn StageFactory> {
        Arc::new(Self { make: Mutex::new(Box::new(move || Box::new(apply.clone()))) })
    }
}

impl<T: Send + 'static, U: Clone + Send + 'static> StageFactory for ClosureFactory<T, U> {
    fn build(&self, context: BuildContext, mut outputs: Outputs) -> Result<AnyStage, Failure> {
        let apply = self.make.lock().unwrap_or_else(PoisonError::into_inner)();
        let (place, origins) = (context.info.place(), context.origins);
        Ok(AnyStage::new::<T>(Box::new(Applied { apply, next: outputs.take(0), place, origins })))
    }
}

/// A closure with the types that it has no fields for.
struct Typed<F, T, U>(F, PhantomData<fn(T) -> U>);

impl<F: Clone, T, U> Clone for Typed<F, T, U> {
    fn clone(&self) -> Self {
        Self(self.0.clone(), PhantomData)
    }
}

#[derive(Clone)]
struct MapBy<X>(X);
impl<T, U, F: FnMut(T) -> U + Send> Apply<T, U> for MapBy<Typed<F, T, U>> {
    fn apply(&mut self, record: Record<T>, next: &mut dyn Stage<U>) -> Result<(), ApplyError> {
        let Record { value, timestamp, origin } = record;
        Ok(next.process(Record { value: self.0.0(value), timestamp, origin })?)
    }
}

#[derive(Clone)]
struct TryMapBy<X>(X);
impl<T, U, F: FnMut(T) -> Result<U, UserError> + Send> Apply<T, U> for TryMapBy<Typed<F, T, U>> {
    fn apply(&mut self, record: Record<T>, next: &mut dyn Stage<U>) -> Result<(), ApplyError> {
        let Record { value, timestamp, origin } = record;
        let value = self.0.0(value).map_err(ApplyError::User)?;
        Ok(next.process(Record { value, timestamp, origin })?)
    }
}

#[derive(Clone)]
struct FilterBy<X>(X);
impl<T, F: FnMut(&T) -> bool + Send> Apply<T, T> for FilterBy<Typed<F, T, T>> {
    fn apply(&mut self, record: Record<T>, next: &mut dyn Stage<T>) -> Result<(), ApplyError> {
        if self.0.0(&record.value) { Ok(next.process(record)?) } else { Ok(()) }
    }
}

#[derive(Clone)]
struct FlatMapBy<X>(X);
impl<T, I: IntoIterator, F: FnMut(T) -> I + Send> Apply<T, I::Item> for FlatMapBy<Typed<F, T, I>> {
    fn apply(&mut self, record: Record<T>, next: &mut dyn Stage<I::Item>) -> Result<(), ApplyError> {
        let Record { value, timestamp, origin } = record;
        for value in self.0.0(value) {
            next.process(Record { value, timestamp, origin })?;
        }
        Ok(())
    }
}

/// A stage that turns each value into another.
pub fn map<T: Send + 'static, U: Clone + Send + 'static>(
    f: impl FnMut(T) -> U + Clone + Send + 'static,
) -> Arc<dyn StageFactory> {
    ClosureFactory::of(MapBy(Typed(f, PhantomData)))
}

/// A stage that turns each value into another, or fails the task with the record's origin.
pub fn try_map<T: Send + 'static, U: Clone + Send + 'static>(
    f: impl FnMut(T) -> Result<U, UserError> + Clone + Send + 'static,
) -> Arc<dyn StageFactory> {
    ClosureFactory::of(TryMapBy(Typed(f, PhantomData)))
}

/// A stage that keeps the values for which the closure is true.
pub fn filter<T: Clone + Send + 'static>(
    f: impl FnMut(&T) -> bool + Clone + Send + 'static,
) -> Arc<dyn StageFactory> {
    ClosureFactory::of(FilterBy(Typed(f, PhantomData)))
}

/// A stage that turns each value into any number of others.
pub fn flat_map<T: Send + 'static, I>(f: impl FnMut(T) -> I + Clone + Send + 'static) -> Arc<dyn StageFactory>
where
    I: IntoIterator + 'static,
    I::Item: Clone + Send + 'static,
{
    ClosureFactory::of(FlatMapBy(Typed(f, PhantomData)))
}
