//! The input gate: bounded channels from several senders to one task.
//!
//! One lock a batch. A channel that the aligner holds back is simply not read, so its sender fills it and then
//! waits: that is the backpressure, all the way to the consumer.
//!
//! Barriers never wait for room. One that may overtake is *announced* when it is put into its channel, and the task hears
//! of it before it takes anything else, though its place in the queue stays where it is: that is where the records
//! before it end. One that may overtake after a time is announced when that is over.

use super::waits;
use crate::graph::{ChannelFrom, Urgency};
use crate::host::clock;
use crate::model::{Alignment, Barrier, CheckpointId, Record};
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How often a sender that waits for room looks whether it must hurry.
const LOOK: Duration = Duration::from_millis(10);

/// What travels in a channel.
#[derive(Debug)]
pub(super) enum Element<T> {
    Batch(Vec<Record<T>>),
    Barrier(Barrier),
    End,
}

/// What a task hears from its gate.
#[derive(Debug)]
pub(super) enum Arrived<T> {
    /// The next of this channel, in its order.
    Next(usize, Element<T>),
    /// This channel has a barrier that overtakes what waits in it.
    Ahead(usize, Barrier),
    /// The time in which this checkpoint's barriers align is over.
    Due(CheckpointId),
}

/// The gate was closed: the attempt is over.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Closed;

pub(super) struct Channel<T> {
    queue: VecDeque<Element<T>>,
    batches: usize,
    held: bool,
    /// The newest barrier that the task has heard of.
    heard: Option<CheckpointId>,
    /// Whether the sender waits for room.
    waiting: bool,
}

struct State<T> {
    channels: Vec<Channel<T>>,
    /// Where the search for the next element begins, so that no channel starves.
    turn: usize,
    closed: bool,
    /// Announced, and not yet heard by the task.
    announced: VecDeque<(usize, Barrier)>,
    /// Until when the barriers of the newest such checkpoint align.
    timer: Option<(CheckpointId, Instant)>,
    /// Its barriers are announced, however they come.
    overtaking: Option<CheckpointId>,
    /// The task is frozen for this one, so it has no timer any more.
    settled: Option<CheckpointId>,
}

struct Shared<T> {
    state: Mutex<State<T>>,
    arrived: Condvar,
    room: Condvar,
    capacity: usize,
    overtaking: bool,
    urgency: Urgency,
}

impl<T> Shared<T> {
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells the task from when on it must not let itself be held up.
    fn alarm(&self, state: &State<T>) {
        match (state.announced.is_empty(), state.timer) {
            (false, _) => self.urgency.set(clock::now()),
            (true, Some((_, at))) => self.urgency.set(at),
            (true, None) => self.urgency.clear(),
        }
    }
}

impl<T> State<T> {
    /// Announces the barriers of this checkpoint that wait in their channels.
    fn announce_all(&mut self, checkpoint: CheckpointId) {
        for (at, channel) in self.channels.iter().enumerate() {
            let barrier = channel.queue.iter().find_map(|e| match e {
                Element::Barrier(b) if b.checkpoint == checkpoint => Some(*b),
                _ => None,
            });
            let heard = channel.heard.is_some_and(|h| h >= checkpoint);
            if let Some(barrier) = barrier.filter(|b| !heard && !self.announced.contains(&(at, *b))) {
                self.announced.push_back((at, barrier));
            }
        }
    }

    /// What the task must hear before anything else.
    fn ahead(&mut self) -> Option<Arrived<T>> {
        if let Some((at, barrier)) = self.announced.pop_front() {
            self.channels[at].heard = self.channels[at].heard.max(Some(barrier.checkpoint));
            return Some(Arrived::Ahead(at, barrier));
        }
        let (checkpoint, _) = self.timer.filter(|(_, at)| *at <= clock::now())?;
        self.timer = None;
        self.overtaking = self.overtaking.max(Some(checkpoint));
        self.announce_all(checkpoint);
        Some(Arrived::Due(checkpoint))
    }

    fn next(&mut self) -> Option<(usize, Element<T>)> {
        let count = self.channels.len();
        for step in 0..count {
            let at = (self.turn + step) % count;
            let channel = &mut self.channels[at];
            if channel.held {
                continue;
            }
            if let Some(element) = channel.queue.pop_front() {
                match &element {
                    Element::Batch(_) => channel.batches -= 1,
                    Element::Barrier(b) => channel.heard = channel.heard.max(Some(b.checkpoint)),
                    Element::End => {}
                }
                self.turn = (at + 1) % count;
                return Some((at, element));
            }
        }
        None
    }
}

/// The receiving end of all channels of one task.
pub(super) struct Gate<T>(Arc<Shared<T>>);

/// The sending end of one channel.
pub(super) struct Sender<T> {
    shared: Arc<Shared<T>>,
    channel: usize,
}

impl<T: Send + 'static> Gate<T> {
    /// A gate with `channels` channels of at most `capacity` batches; `overtaking` says whether barriers may.
    pub(super) fn new(
        channels: usize,
        capacity: usize,
        overtaking: bool,
        urgency: Urgency,
    ) -> (Self, Vec<Sender<T>>) {
        let empty = |_| Channel {
            queue: VecDeque::with_capacity(capacity + 1),
            batches: 0,
            held: false,
            heard: None,
            waiting: false,
        };
        let state = State {
            channels: (0..channels).map(empty).collect(),
            turn: 0,
            closed: false,
            announced: VecDeque::new(),
            timer: None,
            overtaking: None,
            settled: None,
        };
        let shared = Arc::new(Shared {
            state: Mutex::new(state),
            arrived: Condvar::new(),
            room: Condvar::new(),
            capacity,
            overtaking,
            urgency,
        });
        let senders = (0..channels).map(|channel| Sender { shared: Arc::clone(&shared), channel }).collect();
        (Self(shared), senders)
    }

    pub(super) fn channels(&self) -> usize {
        self.0.lock().channels.len()
    }

    /// What the task must hear next; `None` if nothing has come after `wait`.
    pub(super) fn receive(&self, wait: Duration) -> Result<Option<Arrived<T>>, Closed> {
        let mut state = self.0.lock();
        let mut waited = false;
        loop {
            if state.closed {
                return Err(Closed);
            }
            if let Some(ahead) = self.ahead(&mut state) {
                return Ok(Some(ahead));
            }
            if let Some((at, element)) = state.next() {
                let was_full = state.channels[at].batches + 1 >= self.0.capacity;
                let mut element = element;
                if let Element::Barrier(Barrier {
                    checkpoint, alignment: Alignment::AlignedFor(left), ..
                }) = &mut element
                    && let Some((_, due)) = state.timer.filter(|(timed, _)| timed == checkpoint)
                {
                    *left = clock::until(due);
                }
                drop(state);
                if was_full {
                    self.0.room.notify_all();
                }
                return Ok(Some(Arrived::Next(at, element)));
            }
            if waited {
                return Ok(None);
            }
            let (next, timeout) =
                self.0.arrived.wait_timeout(state, wait).unwrap_or_else(PoisonError::into_inner);
            state = next;
            waited = timeout.timed_out();
        }
    }

    /// What the task must hear before it goes on with the records that it has.
    pub(super) fn urgent(&self) -> Result<Option<Arrived<T>>, Closed> {
        let mut state = self.0.lock();
        if state.closed { Err(Closed) } else { Ok(self.ahead(&mut state)) }
    }

    fn ahead(&self, state: &mut State<T>) -> Option<Arrived<T>> {
        let ahead = state.ahead()?;
        self.0.alarm(state);
        Some(ahead)
    }

    /// Does not read the channel any more.
    pub(super) fn hold(&self, channel: usize) {
        self.0.lock().channels[channel].held = true;
    }

    /// Reads every channel again.
    pub(super) fn release(&self) {
        self.0.lock().channels.iter_mut().for_each(|c| c.held = false);
    }

    /// The task freezes for this checkpoint; with `overtaking`, the rest of its barriers come ahead.
    pub(super) fn settle(&self, checkpoint: CheckpointId, overtaking: bool) {
        let mut state = self.0.lock();
        state.settled = state.settled.max(Some(checkpoint));
        state.timer = state.timer.filter(|(timed, _)| *timed > checkpoint);
        if overtaking {
            state.overtaking = state.overtaking.max(Some(checkpoint));
            state.announce_all(checkpoint);
        }
        self.0.alarm(&state);
    }

    /// What closes the gate: receiver and senders then fail instead of waiting.
    pub(super) fn closer(&self) -> Box<dyn Fn() + Send + Sync> {
        let shared = Arc::clone(&self.0);
        Box::new(move || {
            shared.lock().closed = true;
            shared.arrived.notify_all();
            shared.room.notify_all();
        })
    }

    /// Tells, channel by channel, what keeps a checkpoint's barrier away; see [`waits::describe`].
    pub(super) fn waits(&self, place: String, from: Vec<ChannelFrom>) -> crate::graph::Waits {
        let shared = Arc::clone(&self.0);
        Box::new(move |checkpoint| {
            let state = shared.lock();
            let seen: Vec<waits::Seen> = state.channels.iter().map(|c| c.seen(checkpoint)).collect();
            drop(state);
            waits::describe(&place, &from, &seen)
        })
    }
}

impl<T: Clone> Gate<T> {
    /// A copy of what waits in the channel before the checkpoint's barrier.
    pub(super) fn before(&self, channel: usize, checkpoint: CheckpointId) -> Vec<Vec<Record<T>>> {
        let state = self.0.lock();
        let mut batches = Vec::new();
        for element in &state.channels[channel].queue {
            match element {
                Element::Batch(batch) => batches.push(batch.clone()),
                Element::Barrier(b) if b.checkpoint == checkpoint => break,
                Element::Barrier(_) | Element::End => {}
            }
        }
        batches
    }
}

impl<T> Channel<T> {
    fn seen(&self, checkpoint: CheckpointId) -> waits::Seen {
        let mut ahead_of_it = 0;
        for element in &self.queue {
            match element {
                Element::Batch(_) => ahead_of_it += 1,
                Element::Barrier(b) if b.checkpoint >= checkpoint => break,
                Element::Barrier(_) => {}
                Element::End => break,
            }
        }
        let waits_behind = ahead_of_it < self.batches
            || self.queue.iter().any(|e| matches!(e, Element::Barrier(b) if b.checkpoint >= checkpoint));
        waits::Seen {
            heard: self.heard.is_some_and(|h| h >= checkpoint),
            arrived: waits_behind,
            batches: ahead_of_it,
            sender_waits: self.waiting,
        }
    }
}

impl<T> Sender<T> {
    /// Puts a batch into the channel, waiting while it is full, unless the sender must hurry.
    pub(super) fn send(&self, batch: Vec<Record<T>>, must_hurry: impl Fn() -> bool) -> Result<(), Closed> {
        let mut state = self.shared.lock();
        while !state.closed && state.channels[self.channel].batches >= self.shared.capacity && !must_hurry() {
            state.channels[self.channel].waiting = true;
            state = self.shared.room.wait_timeout(state, LOOK).unwrap_or_else(PoisonError::into_inner).0;
            state.channels[self.channel].waiting = false;
        }
        let channel = &mut state.channels[self.channel];
        channel.batches += 1;
        channel.queue.push_back(Element::Batch(batch));
        self.sent(state)
    }

    /// Puts a barrier into the channel; never waits.
    pub(super) fn send_barrier(&self, barrier: Barrier) -> Result<(), Closed> {
        let mut state = self.shared.lock();
        let n = barrier.checkpoint;
        state.channels[self.channel].queue.push_back(Element::Barrier(barrier));
        if self.shared.overtaking {
            match barrier.alignment {
                Alignment::Unaligned => state.announced.push_back((self.channel, barrier)),
                _ if state.overtaking == Some(n) => state.announced.push_back((self.channel, barrier)),
                Alignment::AlignedFor(left) => {
                    let at = clock::now() + left;
                    state.timer = match state.timer {
                        _ if state.settled.is_some_and(|s| s >= n) => state.timer,
                        Some((timed, _)) if timed > n => state.timer,
                        Some((timed, other)) if timed == n => Some((n, other.min(at))),
                        _ => Some((n, at)),
                    };
                }
                _ => {}
            }
            self.shared.alarm(&state);
        }
        self.sent(state)
    }

    /// Nothing will follow; never waits.
    pub(super) fn send_end(&self) -> Result<(), Closed> {
        let mut state = self.shared.lock();
        state.channels[self.channel].queue.push_back(Element::End);
        self.sent(state)
    }

    fn sent(&self, state: MutexGuard<'_, State<T>>) -> Result<(), Closed> {
        let closed = state.closed;
        drop(state);
        self.shared.arrived.notify_one();
        if closed { Err(Closed) } else { Ok(()) }
    }
}

#[cfg(test)]
#[path = "gate_tests.rs"]
mod tests;
