//! A task that takes from a gate: records to its chain, barriers to the aligner, and what a barrier overtakes into the
//! checkpoint.
//!
//! Captured records go on being processed as if nothing had happened: the capture is a copy. A batch that the task has
//! begun when a barrier overtakes is in flight too, as far as it is not processed.

use super::aligner::{Aligner, Decision, Verdict};
use super::exchange::over;
use super::gate::{Arrived, Element, Gate};
use super::in_flight;
use super::tracker::Tracker;
use crate::graph::{Backlog, GateSeat, InputTask, Step, Waits};
use crate::host::clock;
use crate::model::{Alignment, Barrier, CheckpointId, Failure, Record, Serializer};
use crate::operator::{Captured, Frozen, FrozenPart, Signal, Stage};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Records that one task captures for one checkpoint, at most; it is given up beyond.
const MOST_CAPTURED: usize = 1_000_000;

/// A task and its channels.
pub(super) struct Input<T> {
    gate: Gate<T>,
    seat: GateSeat,
    aligner: Aligner,
    /// For barriers that no input waits for.
    tracker: Tracker,
    stage: Box<dyn Stage<T>>,
    backlog: Backlog,
    serializer: Arc<dyn Serializer<T>>,
    /// The batch that is being processed, and its channel.
    current: Option<(usize, std::vec::IntoIter<Record<T>>)>,
    /// By channel: what was captured so far.
    capture: Vec<Vec<Vec<Record<T>>>>,
    captured: usize,
    /// Until when the barrier that is forwarded next may stay in its order.
    due: Option<Instant>,
    /// What is to be told, in this order.
    steps: VecDeque<Step>,
    waits: Waits,
}

impl<T: Clone + Send + 'static> Input<T> {
    pub(super) fn new(
        gate: Gate<T>,
        seat: GateSeat,
        stage: Box<dyn Stage<T>>,
        backlog: Backlog,
        serializer: Arc<dyn Serializer<T>>,
    ) -> Self {
        let waits = gate.waits(seat.place.clone(), seat.channels.clone());
        Self {
            aligner: Aligner::new(gate.channels()),
            tracker: Tracker::new(gate.channels()),
            capture: vec![Vec::new(); gate.channels()],
            gate,
            seat,
            stage,
            backlog,
            serializer,
            current: None,
            captured: 0,
            due: None,
            steps: VecDeque::new(),
            waits,
        }
    }

    /// Processes the current batch, until it is done or something must not wait for that.
    fn drain(&mut self) -> Result<(), Failure> {
        if let Some((_, batch)) = &mut self.current {
            for record in batch {
                self.stage.process(record)?;
                if self.seat.urgency.is_due() {
                    return Ok(());
                }
            }
        }
        self.current = None;
        self.stage.end_of_batch()
    }

    fn hear(&mut self, arrived: Arrived<T>) -> Result<(), Failure> {
        match arrived {
            Arrived::Next(channel, Element::Batch(batch)) => {
                if self.aligner.captures(channel) {
                    self.keep(channel, vec![batch.clone()]);
                }
                self.current = Some((channel, batch.into_iter()));
                return self.drain();
            }
            Arrived::Next(channel, Element::Barrier(barrier))
                if barrier.alignment == Alignment::AtLeastOnce =>
            {
                let complete = self.tracker.barrier(channel, barrier);
                self.steps.extend(complete.map(Step::Aligned));
            }
            Arrived::Next(channel, Element::Barrier(barrier)) => {
                let verdict = self.aligner.in_order(channel, barrier);
                self.decide(verdict, channel, None);
            }
            Arrived::Next(channel, Element::End) => {
                let decision = self.aligner.end(channel);
                let complete = self.tracker.end(channel).filter(|_| decision == Decision::GoOn);
                self.steps.extend(complete.map(Step::Aligned));
                self.decide(decision.into(), channel, None);
            }
            Arrived::Ahead(channel, barrier) => {
                let verdict = self.aligner.ahead(channel, barrier);
                self.decide(verdict, channel, Some(barrier));
            }
            Arrived::Due(checkpoint) => {
                let verdict = self.aligner.due(checkpoint).into();
                // No channel brought anything by this.
                self.decide(verdict, 0, None);
            }
        }
        Ok(())
    }

    /// Carries a verdict out; `ahead` is what the channel has brought past its records.
    fn decide(&mut self, verdict: Verdict, channel: usize, ahead: Option<Barrier>) {
        if let Some(checkpoint) = verdict.passed_over {
            self.gate.release();
            self.drop_capture();
            self.steps.push_back(Step::PassedOver(
                checkpoint,
                "a newer barrier came before all inputs had brought its own",
            ));
        }
        match verdict.decision {
            Decision::GoOn => {}
            Decision::Hold => self.gate.hold(channel),
            Decision::Freeze(barrier) => {
                self.gate.settle(barrier.checkpoint, false);
                self.due = match barrier.alignment {
                    Alignment::AlignedFor(left) => Some(clock::now() + left),
                    _ => None,
                };
                self.steps.push_back(Step::Aligned(barrier));
            }
            Decision::Overtake(barrier) => self.overtake(barrier, channel, ahead),
            Decision::Capture => self.keep_before(channel, ahead),
        }
        if let Some(checkpoint) = self.aligner.take_captured() {
            self.steps.push_back(Step::Captured(checkpoint));
        }
    }

    fn overtake(&mut self, barrier: Barrier, channel: usize, ahead: Option<Barrier>) {
        let n = barrier.checkpoint.0;
        let waits =
            (self.waits)(barrier.checkpoint).unwrap_or_else(|| format!("{} has it on all", self.seat.place));
        match barrier.alignment {
            Alignment::Unaligned => tracing::debug!(checkpoint = n, "the barrier overtakes: {waits}"),
            _ => tracing::info!(checkpoint = n, "the time to align is over, the barrier overtakes: {waits}"),
        }
        self.drop_capture();
        self.gate.release();
        self.gate.settle(barrier.checkpoint, true);
        self.steps.push_back(Step::Overtaken(Barrier { alignment: Alignment::Unaligned, ..barrier }));
        if let Some((of, rest)) = &self.current
            && !rest.as_slice().is_empty()
        {
            let (of, rest) = (*of, rest.as_slice().to_vec());
            self.keep(of, vec![rest]);
        }
        self.keep_before(channel, ahead);
    }

    fn keep_before(&mut self, channel: usize, ahead: Option<Barrier>) {
        if let Some(barrier) = ahead {
            let batches = self.gate.before(channel, barrier.checkpoint);
            self.keep(channel, batches);
        }
    }

    fn keep(&mut self, channel: usize, batches: Vec<Vec<Record<T>>>) {
        self.captured += batches.iter().map(Vec::len).sum::<usize>();
        self.capture[channel].extend(batches);
        if self.captured > MOST_CAPTURED {
            self.drop_capture();
            // What comes for the same barrier after that is nobody's any more.
            if let Some(checkpoint) = self.aligner.give_up_capture() {
                let reason = "a task captures 1000000 records in flight at most";
                self.steps.push_back(Step::PassedOver(checkpoint, reason));
            }
        }
    }

    fn drop_capture(&mut self) {
        self.capture.iter_mut().for_each(Vec::clear);
        self.captured = 0;
    }
}

impl<T: Clone + Send + 'static> InputTask for Input<T> {
    fn open(&mut self) -> Result<(), Failure> {
        self.stage.open()
    }

    fn step(&mut self, wait: Duration) -> Result<Step, Failure> {
        if let Some(step) = self.steps.pop_front() {
            return Ok(step);
        }
        let replaying = !self.backlog.is_empty();
        if replaying || self.current.is_some() {
            if self.seat.urgency.is_due()
                && let Some(arrived) = self.gate.urgent().map_err(over)?
            {
                self.hear(arrived)?;
            } else if replaying {
                self.stage.end_of_batch()?;
            } else {
                self.drain()?;
            }
        } else if self.aligner.ended() {
            return Ok(Step::Ended);
        } else {
            match self.gate.receive(wait).map_err(over)? {
                Some(arrived) => self.hear(arrived)?,
                None => self.stage.end_of_batch()?,
            }
        }
        Ok(self.steps.pop_front().unwrap_or(Step::Goes))
    }

    fn drain(&mut self) -> Result<(), Failure> {
        self.stage.drain()
    }

    fn freeze(&mut self, barrier: Barrier, frozen: &mut Frozen) -> Result<(), Failure> {
        if matches!(barrier.alignment, Alignment::AlignedFor(_) | Alignment::Unaligned) {
            // Every subtask of the operator has a part of the checkpoint, whether or not it has anything in flight.
            frozen.push((self.seat.uid.clone(), FrozenPart::InFlight(Vec::new())));
        }
        self.stage.freeze(barrier, frozen)
    }

    fn forward(&mut self, signal: Signal) -> Result<(), Failure> {
        let signal = match (signal, self.due.take()) {
            (Signal::Barrier(barrier), Some(due)) => {
                let alignment = Alignment::AlignedFor(clock::until(due));
                Signal::Barrier(Barrier { alignment, ..barrier })
            }
            (signal, _) => signal,
        };
        self.stage.forward(signal)?;
        self.gate.release();
        Ok(())
    }

    fn captured(&mut self, frozen: &mut Frozen) {
        let channels = self.capture.iter_mut().zip(&self.seat.channels);
        let parts = channels.filter(|(batches, _)| !batches.is_empty()).map(|(batches, from)| {
            let batches = std::mem::take(batches);
            Captured::new(from.input, from.subtask, batches, &self.serializer, in_flight::encode)
        });
        let parts: Vec<Captured> = parts.collect();
        self.captured = 0;
        frozen.push((self.seat.uid.clone(), FrozenPart::InFlight(parts)));
    }

    fn close(&mut self) -> Result<(), Failure> {
        self.stage.close()
    }
}

/// Where a task stands, for the failure text of a checkpoint that it has not acknowledged.
pub(super) fn report(waits: &[Waits], checkpoint: CheckpointId) -> String {
    let found: Vec<String> = waits.iter().filter_map(|w| w(checkpoint)).collect();
    if found.is_empty() { "every task has its barriers".to_owned() } else { found.join("; ") }
}

#[cfg(test)]
#[path = "input_tests.rs"]
mod tests;
