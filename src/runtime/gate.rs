//! The input gate: bounded channels from several senders to one task.
//!
//! One lock a batch. A channel that the aligner holds back is simply not read, so its sender fills it and then
//! waits: that is the backpressure, all the way to the consumer.

use crate::model::{Barrier, Record};
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// What travels in a channel.
#[derive(Debug)]
pub(super) enum Element<T> {
    Batch(Vec<Record<T>>),
    Barrier(Barrier),
    End,
}

/// The gate was closed: the attempt is over.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Closed;

struct Channel<T> {
    queue: VecDeque<Element<T>>,
    held: bool,
}

struct State<T> {
    channels: Vec<Channel<T>>,
    /// Where the search for the next element begins, so that no channel starves.
    turn: usize,
    closed: bool,
}

struct Shared<T> {
    state: Mutex<State<T>>,
    arrived: Condvar,
    room: Condvar,
    capacity: usize,
}

impl<T> Shared<T> {
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
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
    /// A gate with `channels` channels of at most `capacity` elements.
    pub(super) fn new(channels: usize, capacity: usize) -> (Self, Vec<Sender<T>>) {
        let empty = |_| Channel { queue: VecDeque::with_capacity(capacity), held: false };
        let state = State { channels: (0..channels).map(empty).collect(), turn: 0, closed: false };
        let shared = Arc::new(Shared {
            state: Mutex::new(state),
            arrived: Condvar::new(),
            room: Condvar::new(),
            capacity,
        });
        let senders = (0..channels).map(|channel| Sender { shared: Arc::clone(&shared), channel }).collect();
        (Self(shared), senders)
    }

    pub(super) fn channels(&self) -> usize {
        self.0.lock().channels.len()
    }

    /// The next element of any channel that is not held back, and its channel; `None` after `wait`.
    pub(super) fn receive(&self, wait: Duration) -> Result<Option<(usize, Element<T>)>, Closed> {
        let mut state = self.0.lock();
        let mut waited = false;
        loop {
            if state.closed {
                return Err(Closed);
            }
            let count = state.channels.len();
            for step in 0..count {
                let at = (state.turn + step) % count;
                let channel = &mut state.channels[at];
                if channel.held {
                    continue;
                }
                if let Some(element) = channel.queue.pop_front() {
                    let was_full = channel.queue.len() + 1 == self.0.capacity;
                    state.turn = (at + 1) % count;
                    drop(state);
                    if was_full {
                        self.0.room.notify_all();
                    }
                    return Ok(Some((at, element)));
                }
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

    /// Does not read the channel any more.
    pub(super) fn hold(&self, channel: usize) {
        self.0.lock().channels[channel].held = true;
    }

    /// Reads every channel again.
    pub(super) fn release(&self) {
        self.0.lock().channels.iter_mut().for_each(|c| c.held = false);
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
}

impl<T> Sender<T> {
    /// Puts an element into the channel, waiting while it is full.
    pub(super) fn send(&self, element: Element<T>) -> Result<(), Closed> {
        let mut state = self.shared.lock();
        while !state.closed && state.channels[self.channel].queue.len() >= self.shared.capacity {
            state = self.shared.room.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if state.closed {
            return Err(Closed);
        }
        state.channels[self.channel].queue.push_back(element);
        drop(state);
        self.shared.arrived.notify_one();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::thread;

    fn batch(n: i64) -> Element<i64> {
        Element::Batch(vec![Record { value: n, timestamp: 0, origin: crate::model::Origin::NONE }])
    }

    #[test]
    fn a_full_channel_makes_its_sender_wait_and_loses_nothing() {
        let (gate, mut senders) = Gate::new(1, 2);
        let sender = senders.remove(0);
        let feeding =
            thread::spawn("feed", move || (0..100).try_for_each(|n| sender.send(batch(n)))).unwrap();
        let mut seen = Vec::new();
        while seen.len() < 100 {
            if let Some((_, Element::Batch(b))) = gate.receive(Duration::from_secs(5)).unwrap() {
                seen.extend(b.into_iter().map(|r| r.value));
            }
        }
        assert_eq!(seen, (0..100).collect::<Vec<_>>());
        feeding.join().unwrap().unwrap();
    }

    #[test]
    fn a_held_channel_is_not_read_while_the_others_are() {
        let (gate, senders) = Gate::new(2, 4);
        senders[0].send(batch(1)).unwrap();
        senders[1].send(batch(2)).unwrap();
        gate.hold(0);
        assert!(matches!(gate.receive(Duration::ZERO).unwrap(), Some((1, _))));
        assert!(gate.receive(Duration::ZERO).unwrap().is_none());
        gate.release();
        assert!(matches!(gate.receive(Duration::ZERO).unwrap(), Some((0, _))));
    }

    #[test]
    fn closing_wakes_a_waiting_sender() {
        let (gate, mut senders) = Gate::new(1, 1);
        let sender = senders.remove(0);
        sender.send(batch(1)).unwrap();
        let waiting = thread::spawn("feed", move || sender.send(batch(2))).unwrap();
        gate.closer()();
        assert_eq!(waiting.join().unwrap(), Err(Closed));
    }
}
