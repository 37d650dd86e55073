//! The edge between two tasks: the stage that routes records into channels, and what makes both of its ends.

use super::gate::{Closed, Gate, Sender};
use super::input::Input;
use super::replay::Replay;
use super::route::RouteBy;
use crate::graph::{AnyGate, AnySender, Backlog, GateSeat, InputTask, Link, ReplaySeat, Urgency, Waits};
use crate::host::clock;
use crate::model::{Advice, Alignment, Barrier, Failure, Record, Serializer};
use crate::operator::{AnyStage, Frozen, Signal, Stage};
use std::sync::Arc;

/// Records in one batch, at most.
const BATCH: usize = 1024;

/// An edge for records of one type.
pub struct TypedLink<T> {
    route: RouteBy<T>,
    serializer: Arc<dyn Serializer<T>>,
    verify: bool,
}

impl<T> TypedLink<T> {
    /// With `verify`, each record is written and read again by the serializer on its way, as it is between processes:
    /// a test of the types, paid for with speed.
    pub fn new(route: RouteBy<T>, serializer: Arc<dyn Serializer<T>>, verify: bool) -> Self {
        Self { route, serializer, verify }
    }
}

/// A gate and what it was made from.
struct Seated<T> {
    gate: Gate<T>,
    seat: GateSeat,
}

fn seated<T: 'static>(gate: &AnyGate) -> &Seated<T> {
    gate.0.downcast_ref().expect("an edge makes its own gate")
}

impl<T: Clone + Send + 'static> Link for TypedLink<T> {
    fn gate(&self, seat: GateSeat) -> (AnyGate, Vec<AnySender>) {
        let (gate, senders) =
            Gate::<T>::new(seat.channels.len(), seat.capacity, seat.overtaking, seat.urgency.clone());
        let senders = senders.into_iter().map(|s| AnySender(Box::new(s))).collect();
        (AnyGate(Box::new(Seated { gate, seat })), senders)
    }

    fn output(&self, receivers: Vec<AnySender>, subtask: u32, urgency: Urgency) -> AnyStage {
        let lanes: Vec<Lane<T>> = receivers
            .into_iter()
            .map(|r| Lane {
                sender: *r.0.downcast().expect("an edge makes its own channels"),
                batch: Vec::new(),
            })
            .collect();
        let turn = subtask as usize % lanes.len();
        let verify = self.verify.then(|| Arc::clone(&self.serializer));
        AnyStage::new::<T>(Box::new(Output {
            lanes,
            route: self.route.clone(),
            turn,
            scratch: Vec::new(),
            verify,
            urgency,
        }))
    }

    fn replay(&self, stage: AnyStage, seat: ReplaySeat) -> AnyStage {
        let serializer = Arc::clone(&self.serializer);
        AnyStage::new::<T>(Box::new(Replay::new(stage.take::<T>(), seat, self.route.clone(), serializer)))
    }

    fn task(&self, gate: AnyGate, stage: AnyStage, backlog: Backlog) -> Box<dyn InputTask> {
        let Seated { gate, seat } = *gate.0.downcast::<Seated<T>>().expect("an edge makes its own gate");
        Box::new(Input::new(gate, seat, stage.take::<T>(), backlog, Arc::clone(&self.serializer)))
    }

    fn closer(&self, gate: &AnyGate) -> Box<dyn Fn() + Send + Sync> {
        seated::<T>(gate).gate.closer()
    }

    fn waits(&self, gate: &AnyGate) -> Waits {
        let Seated { gate, seat } = seated::<T>(gate);
        gate.waits(seat.place.clone(), seat.channels.clone())
    }
}

pub(super) fn over(_: Closed) -> Failure {
    Failure::restart("the attempt is over")
}

struct Lane<T> {
    sender: Sender<T>,
    batch: Vec<Record<T>>,
}

impl<T> Lane<T> {
    fn push(&mut self, record: Record<T>, urgency: &Urgency) -> Result<(), Failure> {
        self.batch.push(record);
        if self.batch.len() == BATCH { self.flush(|| urgency.is_due()) } else { Ok(()) }
    }

    fn flush(&mut self, must_hurry: impl Fn() -> bool) -> Result<(), Failure> {
        if self.batch.is_empty() {
            return Ok(());
        }
        // As much room as was used: many lanes with few records each must not hold the memory of full batches.
        let next = Vec::with_capacity(self.batch.len());
        let batch = std::mem::replace(&mut self.batch, next);
        self.sender.send(batch, must_hurry).map_err(over)
    }
}

/// The last stage of a chain that feeds other tasks.
struct Output<T> {
    lanes: Vec<Lane<T>>,
    route: RouteBy<T>,
    turn: usize,
    scratch: Vec<u8>,
    verify: Option<Arc<dyn Serializer<T>>>,
    /// Of the task: a barrier that may overtake waits for it, so that it must not wait for room.
    urgency: Urgency,
}

impl<T> Output<T> {
    /// The lane that the record takes; `None` if it takes every one.
    fn lane_of(&mut self, value: &T) -> Option<usize> {
        let count = self.lanes.len();
        if count == 1 {
            return Some(0);
        }
        if matches!(self.route, RouteBy::Broadcast) {
            return None;
        }
        let lane = match self.route.owner(value, count as u32, &mut self.scratch) {
            Some(owner) => owner as usize,
            None => {
                self.turn = (self.turn + 1) % count;
                self.turn
            }
        };
        Some(lane)
    }

    fn verified(&mut self, value: T) -> Result<T, Failure> {
        let Some(serializer) = &self.verify else { return Ok(value) };
        self.scratch.clear();
        serializer
            .write(&value, &mut self.scratch)
            .and_then(|()| serializer.read(&serializer.id(), &self.scratch))
            .map_err(|e| {
                Failure::new(
                    Advice::FixConfiguration,
                    format!("a record does not survive its serializer: {e}"),
                )
            })
    }

    /// What was collected goes into the channels before the barrier, at the latest when that may overtake: it is in
    /// flight then.
    fn flush_for(&mut self, barrier: Barrier) -> Result<(), Failure> {
        let urgency = &self.urgency;
        let due = match barrier.alignment {
            Alignment::Unaligned => Some(clock::now()),
            Alignment::AlignedFor(left) => Some(clock::now() + left),
            _ => None,
        };
        let must_hurry = || urgency.is_due() || due.is_some_and(|due| due <= clock::now());
        self.lanes.iter_mut().try_for_each(|lane| lane.flush(must_hurry))
    }
}

impl<T: Clone + Send> Stage<T> for Output<T> {
    fn open(&mut self) -> Result<(), Failure> {
        Ok(())
    }

    fn process(&mut self, record: Record<T>) -> Result<(), Failure> {
        let Record { value, timestamp, origin } = record;
        let value = self.verified(value)?;
        let lane = self.lane_of(&value);
        let record = Record { value, timestamp, origin };
        match lane {
            Some(lane) => self.lanes[lane].push(record, &self.urgency),
            None => {
                let (last, others) = self.lanes.split_last_mut().expect("an edge has a receiver");
                for lane in others {
                    lane.push(record.clone(), &self.urgency)?;
                }
                last.push(record, &self.urgency)
            }
        }
    }

    fn end_of_batch(&mut self) -> Result<(), Failure> {
        let urgency = &self.urgency;
        self.lanes.iter_mut().try_for_each(|lane| lane.flush(|| urgency.is_due()))
    }

    fn drain(&mut self) -> Result<(), Failure> {
        Ok(())
    }

    fn freeze(&mut self, _barrier: Barrier, _frozen: &mut Frozen) -> Result<(), Failure> {
        Ok(())
    }

    fn forward(&mut self, signal: Signal) -> Result<(), Failure> {
        match signal {
            Signal::Barrier(barrier) => {
                self.flush_for(barrier)?;
                self.lanes.iter().try_for_each(|lane| lane.sender.send_barrier(barrier)).map_err(over)
            }
            Signal::End => {
                self.end_of_batch()?;
                self.lanes.iter().try_for_each(|lane| lane.sender.send_end()).map_err(over)
            }
        }
    }

    fn close(&mut self) -> Result<(), Failure> {
        Ok(())
    }
}
