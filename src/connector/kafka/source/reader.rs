//! The reader of one subtask: batches in, records out.
//!
//! Nothing is looked up or allocated for a record beyond what its decoder needs: messages carry the number of their
//! partition's slot, and what is counted is counted by runs of one partition. What librdkafka says about partitions
//! is collected during a batch and dealt with after it.

use super::breaker::Refusals;
use super::decode::{Decoder, RawMessage};
use super::discovery::Discovery;
use super::lag::Lag;
use super::meters::Meters;
use super::options::{Settings, Undecodable};
use super::slot::{Slot, State};
use super::split::{Split, owner};
use super::trouble::Trouble;
use crate::connector::kafka::native::{Consumer, Event, Message, Position, Problem};
use crate::connector::{DeadLetter, Polled, ReaderSeat, SourceOutput, SourceReader};
use crate::model::{Advice, Failure, Origin, Record};
use std::collections::BTreeSet;
use std::marker::PhantomData;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// Reads the partitions of one subtask.
pub(super) struct Reader<T, D> {
    pub(super) settings: Arc<Settings>,
    pub(super) seat: ReaderSeat,
    /// Made with the first partition that is read, gone with the last.
    pub(super) consumer: Option<Consumer>,
    pub(super) flow: Flow<D>,
    pub(super) discovery: Option<Discovery>,
    pub(super) trouble: Trouble,
    lag: Lag,
    _values: PhantomData<fn() -> T>,
}

/// What happens to messages.
pub(super) struct Flow<D> {
    pub(super) slots: Vec<Slot>,
    decoder: D,
    policy: Undecodable,
    refusals: Refusals,
    run: Run,
    /// Whether the batch brought records, and whether it shows that the brokers serve us.
    handed_out: bool,
    served: bool,
    /// What is to be dealt with after the batch.
    pub(super) complete: Vec<usize>,
    pub(super) problems: Vec<(usize, Problem, String)>,
}

/// Records of one partition in a row, which are counted together.
#[derive(Default)]
struct Run {
    slot: usize,
    records: u64,
}

impl<T, D: Decoder<T>> Reader<T, D> {
    pub(super) fn new(settings: Arc<Settings>, decoder: D, seat: ReaderSeat) -> Result<Self, Failure> {
        let splits = Split::decode_all(&seat.splits)?;
        let mut keys = BTreeSet::new();
        if let Some(twice) = splits.iter().find(|split| !keys.insert(split.key())) {
            return Err(Failure::new(Advice::Bug, format!("{} is restored twice", twice.place())));
        }
        let place = (seat.subtask, seat.parallelism);
        let discovery = match settings.discovery_interval() {
            Some(interval) => {
                let cancelled = Arc::clone(&seat.cancelled);
                Some(Discovery::start(Arc::clone(&settings), interval, place, &splits, cancelled)?)
            }
            None => None,
        };
        let flow = Flow {
            slots: Vec::new(),
            decoder,
            policy: settings.undecodable,
            refusals: Refusals::new(settings.breaker),
            run: Run::default(),
            handed_out: false,
            served: false,
            complete: Vec::new(),
            problems: Vec::new(),
        };
        let (trouble, lag) = (Trouble::default(), Lag::start(&settings)?);
        let mut reader =
            Self { settings, seat, consumer: None, flow, discovery, trouble, lag, _values: PhantomData };
        let own = splits.into_iter().filter(|split| owner(split.key(), place.1) == place.0);
        reader.add(own.collect())?;
        Ok(reader)
    }

    /// Takes partitions over; those at their end are only kept.
    pub(super) fn add(&mut self, splits: Vec<Split>) -> Result<(), Failure> {
        let first = self.flow.slots.len();
        for split in splits {
            let origin = self.seat.origins.number(&split.topic, split.partition);
            self.lag.add(&self.seat.metrics, &self.settings.group, &split);
            let meters = Meters::new(&self.seat.metrics, &self.settings.group, &split.topic);
            self.flow.slots.push(Slot::new(split, origin, meters));
        }
        let slots: Vec<usize> = (first..self.flow.slots.len()).collect();
        self.assign(&slots)
    }

    /// Begins to read slots at their next offsets.
    pub(super) fn assign(&mut self, slots: &[usize]) -> Result<(), Failure> {
        let reading = |slot: &&usize| self.flow.slots[**slot].state == State::Reading;
        let position = |slot: &usize| {
            let split = &self.flow.slots[*slot].split;
            Position { slot: *slot, topic: &split.topic, partition: split.partition, offset: split.next }
        };
        let positions: Vec<Position<'_>> = slots.iter().filter(reading).map(position).collect();
        if positions.is_empty() {
            return Ok(());
        }
        let consumer = match &mut self.consumer {
            Some(consumer) => consumer,
            none => {
                none.insert(Consumer::new(&self.settings.consumer(self.seat.parallelism)).map_err(|e| {
                    Failure::configuration(format!("librdkafka does not take the consumer's properties: {e}"))
                })?)
            }
        };
        consumer.assign(&positions).map_err(|e| Failure::restart(format!("assigning partitions: {e}")))
    }

    /// Tells how far each partition is.
    fn tell_lag(&self) {
        if self.flow.served {
            for (at, slot) in self.flow.slots.iter().enumerate() {
                self.lag.reached(at, (slot.state != State::Released).then_some(slot.split.next));
            }
        }
    }

    fn has_ended(&self) -> bool {
        self.settings.bounded && self.flow.slots.iter().all(|slot| slot.state != State::Reading)
    }

    /// Ends the partitions of a bounded source that are read to their end.
    fn end_complete(&mut self) -> Result<(), Failure> {
        for at in std::mem::take(&mut self.flow.complete) {
            let slot = &mut self.flow.slots[at];
            if slot.state != State::Reading {
                continue;
            }
            slot.end();
            tracing::debug!("{} is read to its end, offset {}", slot.split.place(), slot.split.next);
            self.release(at)?;
        }
        Ok(())
    }

    /// Stops librdkafka from fetching a slot's partition.
    pub(super) fn release(&mut self, slot: usize) -> Result<(), Failure> {
        let split = &self.flow.slots[slot].split;
        match &mut self.consumer {
            Some(consumer) => consumer
                .release(&split.topic, split.partition)
                .map_err(|e| Failure::restart(format!("releasing {}: {e}", split.place()))),
            None => Ok(()),
        }
    }
}

impl<T: Send, D: Decoder<T>> SourceReader<T> for Reader<T, D> {
    fn poll(&mut self, wait: Duration, out: &mut dyn SourceOutput<T>) -> Result<Polled, Failure> {
        self.look_around()?;
        if self.has_ended() {
            self.consumer = None;
            return Ok(Polled::AtEnd);
        }
        let Some(consumer) = &mut self.consumer else {
            thread::sleep(wait);
            return Ok(Polled::Idle);
        };
        let flow = &mut self.flow;
        (flow.handed_out, flow.served) = (false, false);
        consumer.poll(wait, |event| flow.event(event, out))?;
        flow.count();
        if flow.served {
            self.trouble.progress();
        }
        self.end_complete()?;
        self.solve_problems()?;
        self.tell_lag();
        Ok(if self.flow.handed_out { Polled::Some } else { Polled::Idle })
    }

    fn freeze(&mut self) -> Result<Vec<Vec<u8>>, Failure> {
        // Everything that was polled is handed out: no record stands between a position and the chain.
        let kept = self.flow.slots.iter().filter(|slot| slot.state != State::Released);
        Ok(kept.map(|slot| slot.split.encode()).collect())
    }
}

impl<D> Flow<D> {
    fn event<T>(&mut self, event: Event<'_>, out: &mut dyn SourceOutput<T>) -> Result<(), Failure>
    where
        D: Decoder<T>,
    {
        match event {
            Event::Message(message) => return self.message(message, out),
            Event::End { slot: at, offset } => {
                self.served = true;
                let slot = &mut self.slots[at];
                slot.reached(offset);
                if slot.is_complete() {
                    self.complete.push(at);
                }
            }
            Event::Problem { slot, problem, text } => self.problems.push((slot, problem, text)),
        }
        Ok(())
    }

    #[inline]
    fn message<T>(&mut self, message: Message<'_>, out: &mut dyn SourceOutput<T>) -> Result<(), Failure>
    where
        D: Decoder<T>,
    {
        let at = message.slot();
        let slot = &mut self.slots[at];
        let offset = message.offset();
        if !slot.admits(offset) {
            self.complete.push(at);
            return Ok(());
        }
        let raw = RawMessage::of(&slot.split.topic, slot.split.partition, message);
        let timestamp = raw.timestamp().unwrap_or(Record::<T>::NO_TIMESTAMP);
        let origin = Origin { split: slot.origin, offset };
        match self.decoder.decode(&raw) {
            Ok(value) => {
                self.refusals.good();
                out.record(Record { value, timestamp, origin })?;
            }
            Err(reason) => {
                let (policy, problem) = (self.policy, self.refusals.bad());
                slot.refuse(policy, problem, &raw, reason, timestamp, out)?;
            }
        }
        slot.passed(offset);
        if slot.is_complete() {
            self.complete.push(at);
        }
        if self.run.slot != at {
            self.count();
            self.run.slot = at;
        }
        self.run.records += 1;
        Ok(())
    }

    /// Adds the run to its topic's counter.
    fn count(&mut self) {
        if self.run.records > 0 {
            (self.handed_out, self.served) = (true, true);
            self.slots[self.run.slot].meters.records.inc_by(self.run.records);
            self.run.records = 0;
        }
    }
}

impl Slot {
    /// A record could not be decoded; `problem` says why that is one too many.
    #[cold]
    fn refuse<T>(
        &self,
        policy: Undecodable,
        problem: Option<String>,
        raw: &RawMessage<'_>,
        reason: String,
        timestamp: i64,
        out: &mut dyn SourceOutput<T>,
    ) -> Result<(), Failure> {
        self.meters.undecodable.inc();
        let (place, offset) = (self.split.place(), raw.offset());
        if let Some(problem) = problem.filter(|_| policy != Undecodable::Fail) {
            return Err(Failure::configuration(format!(
                "{problem}; the last one is {place} offset {offset}: {reason}. The decoder does not fit the topic, or the \
                 limits are too narrow"
            )));
        }
        match policy {
            Undecodable::Fail => Err(Failure::configuration(format!(
                "{place} offset {offset} cannot be decoded: {reason}. Correct the decoder, or choose with on_undecodable what \
                 becomes of such records: Skip leaves them out, DeadLetter keeps them"
            ))),
            Undecodable::Skip => {
                tracing::warn!("{place} offset {offset} is skipped, it cannot be decoded: {reason}");
                Ok(())
            }
            Undecodable::DeadLetter => {
                let letter = DeadLetter {
                    topic: raw.topic().to_owned(),
                    partition: raw.partition(),
                    offset,
                    key: raw.key().map(<[u8]>::to_vec),
                    value: raw.value().map(<[u8]>::to_vec),
                    headers: raw.owned_headers(),
                    reason,
                };
                let origin = Origin { split: self.origin, offset };
                out.dead_letter(Record { value: letter, timestamp, origin })?;
                self.meters.dead_letters.inc();
                Ok(())
            }
        }
    }
}
