//! An edge into an operator with two inputs of different types: a task's gate has channels of one type, so each of the
//! two edges puts its records into the variant that says where they come from.

use super::exchange::TypedLink;
use super::route::RouteBy;
use crate::graph::{AnyGate, AnySender, Backlog, GateSeat, InputTask, Link, ReplaySeat, Urgency, Waits};
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
    fn gate(&self, seat: GateSeat) -> (AnyGate, Vec<AnySender>) {
        self.link.gate(seat)
    }

    fn output(&self, receivers: Vec<AnySender>, subtask: u32, urgency: Urgency) -> AnyStage {
        let next = self.link.output(receivers, subtask, urgency).take::<E>();
        AnyStage::new::<T>(Box::new(Sided { into: self.into, next }))
    }

    fn replay(&self, stage: AnyStage, seat: ReplaySeat) -> AnyStage {
        self.link.replay(stage, seat)
    }

    fn task(&self, gate: AnyGate, stage: AnyStage, backlog: Backlog) -> Box<dyn InputTask> {
        self.link.task(gate, stage, backlog)
    }

    fn closer(&self, gate: &AnyGate) -> Box<dyn Fn() + Send + Sync> {
        self.link.closer(gate)
    }

    fn waits(&self, gate: &AnyGate) -> Waits {
        self.link.waits(gate)
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
