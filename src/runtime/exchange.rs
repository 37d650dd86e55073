//! The edge between two tasks: the stage that routes records into channels, and the task that takes them out.

use super::aligner::{Aligner, Decision};
use super::gate::{Closed, Element, Gate, Sender};
use super::tracker::Tracker;
use crate::graph::{AnyGate, AnySender, InputTask, Link, Step};
use crate::model::key_group::{hash_key, key_group_of, subtask_of};
use crate::model::{Advice, Alignment, Barrier, Failure, Record, Serializer};
use crate::operator::{AnyStage, Frozen, KeyGroups, KeySelector, Signal, Stage};
use std::sync::Arc;
use std::time::Duration;

/// Records in one batch, at most.
const BATCH: usize = 1024;

/// The user's function of value and number of receivers.
pub type Partitioner<T> = Arc<dyn Fn(&T, u32) -> u32 + Send + Sync>;

/// How a typed edge distributes records.
pub enum RouteBy<T> {
    /// In turn.
    RoundRobin,
    /// By the key's group.
    Key(KeySelector<T>, KeyGroups),
    /// By the user's function of value and number of receivers; its result is taken modulo that number.
    Custom(Partitioner<T>),
    /// To every receiver. A barrier must not overtake these records: the receivers' broadcast state is the same only
    /// because at a barrier each has seen the same.
    Broadcast,
}

impl<T> Clone for RouteBy<T> {
    fn clone(&self) -> Self {
        match self {
            Self::RoundRobin => Self::RoundRobin,
            Self::Key(select, max) => Self::Key(Arc::clone(select), max.clone()),
            Self::Custom(f) => Self::Custom(Arc::clone(f)),
            Self::Broadcast => Self::Broadcast,
        }
    }
}

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

impl<T: Clone + Send + 'static> Link for TypedLink<T> {
    fn gate(&self, channels: usize, capacity: usize) -> (AnyGate, Vec<AnySender>) {
        let (gate, senders) = Gate::<T>::new(channels, capacity);
        (AnyGate(Box::new(gate)), senders.into_iter().map(|s| AnySender(Box::new(s))).collect())
    }

    fn output(&self, receivers: Vec<AnySender>, subtask: u32) -> AnyStage {
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
        }))
    }

    fn task(&self, gate: AnyGate, stage: AnyStage) -> Box<dyn InputTask> {
        let gate: Gate<T> = *gate.0.downcast().expect("an edge makes its own gate");
        let (aligner, tracker) = (Aligner::new(gate.channels()), Tracker::new(gate.channels()));
        Box::new(Input { gate, aligner, tracker, stage: stage.take::<T>() })
    }

    fn closer(&self, gate: &AnyGate) -> Box<dyn Fn() + Send + Sync> {
        gate.0.downcast_ref::<Gate<T>>().expect("an edge makes its own gate").closer()
    }
}

fn over(_: Closed) -> Failure {
    Failure::restart("the attempt is over")
}

struct Lane<T> {
    sender: Sender<T>,
    batch: Vec<Record<T>>,
}

impl<T> Lane<T> {
    fn push(&mut self, record: Record<T>) -> Result<(), Failure> {
        self.batch.push(record);
        if self.batch.len() == BATCH { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<(), Failure> {
        if self.batch.is_empty() {
            return Ok(());
        }
        // As much room as was used: many lanes with few records each must not hold the memory of full batches.
        let next = Vec::with_capacity(self.batch.len());
        let batch = std::mem::replace(&mut self.batch, next);
        self.sender.send(Element::Batch(batch)).map_err(over)
    }
}

/// The last stage of a chain that feeds other tasks.
struct Output<T> {
    lanes: Vec<Lane<T>>,
    route: RouteBy<T>,
    turn: usize,
    scratch: Vec<u8>,
    verify: Option<Arc<dyn Serializer<T>>>,
}

impl<T> Output<T> {
    /// The lane that the record takes; `None` if it takes every one.
    fn lane_of(&mut self, value: &T) -> Option<usize> {
        let count = self.lanes.len();
        let lane = match &self.route {
            _ if count == 1 => 0,
            RouteBy::Broadcast => return None,
            RouteBy::RoundRobin => {
                self.turn = (self.turn + 1) % count;
                self.turn
            }
            RouteBy::Key(select, groups) => {
                let max = groups.get();
                self.scratch.clear();
                select(value, &mut self.scratch);
                subtask_of(key_group_of(hash_key(&self.scratch), max), count as u32, max) as usize
            }
            RouteBy::Custom(f) => f(value, count as u32) as usize % count,
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
            Some(lane) => self.lanes[lane].push(record),
            None => {
                let (last, others) = self.lanes.split_last_mut().expect("an edge has a receiver");
                for lane in others {
                    lane.push(record.clone())?;
                }
                last.push(record)
            }
        }
    }

    fn end_of_batch(&mut self) -> Result<(), Failure> {
        self.lanes.iter_mut().try_for_each(Lane::flush)
    }

    fn freeze(&mut self, _barrier: Barrier, _frozen: &mut Frozen) -> Result<(), Failure> {
        Ok(())
    }

    fn forward(&mut self, signal: Signal) -> Result<(), Failure> {
        for lane in &mut self.lanes {
            lane.flush()?;
            let element = match signal {
                Signal::Barrier(barrier) => Element::Barrier(barrier),
                Signal::End => Element::End,
            };
            lane.sender.send(element).map_err(over)?;
        }
        Ok(())
    }

    fn close(&mut self) -> Result<(), Failure> {
        Ok(())
    }
}

/// A task that takes from a gate.
struct Input<T> {
    gate: Gate<T>,
    aligner: Aligner,
    /// For barriers that no input waits for.
    tracker: Tracker,
    stage: Box<dyn Stage<T>>,
}

impl<T: Send + 'static> InputTask for Input<T> {
    fn open(&mut self) -> Result<(), Failure> {
        self.stage.open()
    }

    fn step(&mut self, wait: Duration) -> Result<Step, Failure> {
        if self.aligner.ended() {
            return Ok(Step::Ended);
        }
        let (channel, element) = match self.gate.receive(wait).map_err(over)? {
            Some(arrived) => arrived,
            None => {
                self.stage.end_of_batch()?;
                return Ok(Step::Goes);
            }
        };
        let decision = match element {
            Element::Batch(batch) => {
                for record in batch {
                    self.stage.process(record)?;
                }
                self.stage.end_of_batch()?;
                return Ok(Step::Goes);
            }
            Element::Barrier(barrier) if barrier.alignment == Alignment::AtLeastOnce => {
                return Ok(self.tracker.barrier(channel, barrier).map_or(Step::Goes, Step::Aligned));
            }
            Element::Barrier(barrier) => self.aligner.barrier(channel, barrier),
            Element::End => match (self.aligner.end(channel), self.tracker.end(channel)) {
                (Decision::GoOn, Some(barrier)) => Decision::Freeze(barrier),
                (decision, _) => decision,
            },
        };
        match decision {
            Decision::Hold => self.gate.hold(channel),
            Decision::Restart { passed_over } => {
                tracing::warn!(checkpoint = passed_over.0, "a newer barrier passed an unaligned one over");
                self.gate.release();
                self.gate.hold(channel);
            }
            Decision::Freeze(barrier) => return Ok(Step::Aligned(barrier)),
            Decision::GoOn => {}
        }
        Ok(Step::Goes)
    }

    fn freeze(&mut self, barrier: Barrier, frozen: &mut Frozen) -> Result<(), Failure> {
        self.stage.freeze(barrier, frozen)
    }

    fn forward(&mut self, signal: Signal) -> Result<(), Failure> {
        self.stage.forward(signal)?;
        self.gate.release();
        Ok(())
    }

    fn close(&mut self) -> Result<(), Failure> {
        self.stage.close()
    }
}
