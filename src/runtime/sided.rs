//! An edge into an operator with two inputs of different types: a task's gate has channels of one type, so each of the
//! two edges puts its records into the variant that says where they come from.

use super::exchange::{RouteBy, TypedLink};
use crate::graph::{AnyGate, AnySender, InputTask, Link};
use crate::model::{Barrier, Failure, Record, Serializer};
use crate::operator::{AnyStage, Frozen, Signal, Stage};
use std::sync::Arc;

/// An edge for records of `T` to an operator that takes `E`, which is made of them.
pub struct SidedLink<T, E> {
    into: fn(T) -> E,
    link: TypedLink<E>,
}

impl<T, E> SidedLink<T, E> {
    /// See [`TypedLink::new`]; `into` makes what the operator takes.
    pub fn new(
        into: fn(T) -> E,
        route: RouteBy<E>,
        serializer: Arc<dyn Serializer<E>>,
        verify: bool,
    ) -> Self {
        Self { into, link: TypedLink::new(route, serializer, verify) }
    }
}

impl<T: Send + 'static, E: Clone + Send + 'static> Link for SidedLink<T, E> {
    fn gate(&self, channels: usize, capacity: usize) -> (AnyGate, Vec<AnySender>) {
        self.link.gate(channels, capacity)
    }

    fn output(&self, receivers: Vec<AnySender>, subtask: u32) -> AnyStage {
        let next = self.link.output(receivers, subtask).take::<E>();
        AnyStage::new::<T>(Box::new(Sided { into: self.into, next }))
    }

    fn task(&self, gate: AnyGate, stage: AnyStage) -> Box<dyn InputTask> {
        self.link.task(gate, stage)
    }

    fn closer(&self, gate: &AnyGate) -> Box<dyn Fn() + Send + Sync> {
        self.link.closer(gate)
    }
}

struct Sided<T, E> {
    into: fn(T) -> E,
    next: Box<dyn Stage<E>>,
}

impl<T, E> Stage<T> for Sided<T, E> {
    fn open(&mut self) -> Result<(), Failure> {
        self.next.open()
    }

    fn process(&mut self, record: Record<T>) -> Result<(), Failure> {
        let Record { value, timestamp, origin } = record;
        self.next.process(Record { value: (self.into)(value), timestamp, origin })
    }

    fn end_of_batch(&mut self) -> Result<(), Failure> {
        self.next.end_of_batch()
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
