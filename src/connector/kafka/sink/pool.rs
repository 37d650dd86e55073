//! The transactions of one subtask, shared by its writer and its committer.
//!
//! ```text
//!          warmed             taken            barrier             commit answered      a manifest without it
//!   Cold ----------> Ready ----------> Open ------------> Prepared ----------------> Committed ---------> Ready
//! ```
//!
//! A checkpoint lists everything from Prepared up to the answer of the commit.
//!
//! With no transaction ready the writer takes no records, and that is the backpressure of an overdue checkpoint.

use super::evidence::{Evidence, Written};
use crate::connector::kafka::native::Producer;
use crate::host::clock;
use crate::model::Failure;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How often a waiting writer looks whether the attempt is over.
const LOOK: Duration = Duration::from_millis(50);

/// Where a transaction stands, and so what it waits for.
pub(super) enum State {
    /// It has no producer yet.
    Cold,
    /// Its producer is being made.
    Warming,
    /// It can be begun.
    Ready(Producer),
    /// The writer has its producer.
    Open,
    /// It waits for the completion of a checkpoint that lists it.
    Prepared(Producer, Prepared),
    /// Its commit is under way; until that is answered it is listed like a prepared one.
    Committing(Prepared),
    /// It waits for a manifest that does not list it any more.
    Committed(Producer, Prepared),
}

/// A transaction that is prepared.
#[derive(Clone)]
pub(super) struct Prepared {
    pub(super) sequence: u64,
    pub(super) deadline_ms: i64,
    pub(super) written: Vec<Written>,
    /// The broker's description, once it was asked.
    pub(super) evidence: Option<Evidence>,
}

struct Slot {
    id: String,
    state: State,
}

struct Inner {
    slots: Mutex<Vec<Slot>>,
    changed: Condvar,
    cancelled: Arc<AtomicBool>,
}

/// The pool of one subtask.
#[derive(Clone)]
pub(super) struct Pool(Arc<Inner>);

impl Pool {
    pub(super) fn new(ids: Vec<String>, cancelled: Arc<AtomicBool>) -> Self {
        let slots = ids.into_iter().map(|id| Slot { id, state: State::Cold }).collect();
        Self(Arc::new(Inner { slots: Mutex::new(slots), changed: Condvar::new(), cancelled }))
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Slot>> {
        self.0.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn is_cancelled(&self) -> bool {
        self.0.cancelled.load(Ordering::Relaxed)
    }

    pub(super) fn id(&self, slot: usize) -> String {
        self.lock()[slot].id.clone()
    }

    pub(super) fn len(&self) -> usize {
        self.lock().len()
    }

    /// A cold slot to warm, if there is one; it is busy from now on.
    pub(super) fn take_cold(&self) -> Option<(usize, String)> {
        let mut slots = self.lock();
        let at = slots.iter().position(|s| matches!(s.state, State::Cold))?;
        slots[at].state = State::Warming;
        Some((at, slots[at].id.clone()))
    }

    /// Puts a producer into a slot that was busy.
    pub(super) fn warmed(&self, slot: usize, producer: Producer) {
        self.put(slot, State::Ready(producer));
    }

    /// Gives a slot back that could not be warmed.
    pub(super) fn not_warmed(&self, slot: usize) {
        self.put(slot, State::Cold);
    }

    fn put(&self, slot: usize, state: State) {
        self.lock()[slot].state = state;
        self.0.changed.notify_all();
    }

    /// Takes a ready transaction's producer, in the order of the slots after `after`, waiting for one at most
    /// `patience`. `Ok(None)` says that none is ready but one could be warmed.
    pub(super) fn open(
        &self,
        after: usize,
        patience: Duration,
    ) -> Result<Option<(usize, Producer)>, Failure> {
        let deadline = clock::now() + patience;
        let mut slots = self.lock();
        loop {
            let count = slots.len();
            for step in 1..=count {
                let at = (after + step) % count;
                if matches!(slots[at].state, State::Ready(_))
                    && let State::Ready(producer) = std::mem::replace(&mut slots[at].state, State::Open)
                {
                    return Ok(Some((at, producer)));
                }
            }
            let busy = slots.iter().any(|s| matches!(s.state, State::Warming));
            if !busy && slots.iter().any(|s| matches!(s.state, State::Cold)) {
                return Ok(None);
            }
            if self.is_cancelled() {
                return Err(Failure::restart("the attempt is over"));
            }
            if clock::now() >= deadline {
                return Err(Failure::restart(format!(
                    "none of the {count} transactions became free within the checkpoint timeout of {patience:?}: checkpoints \
                     fail or their commits are not answered"
                )));
            }
            slots = self.0.changed.wait_timeout(slots, LOOK).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Gives an open transaction back as prepared.
    pub(super) fn prepared(&self, slot: usize, producer: Producer, prepared: Prepared) {
        self.put(slot, State::Prepared(producer, prepared));
    }

    /// Sequence numbers of what is prepared and not committed, in order.
    pub(super) fn pending(&self) -> Vec<u64> {
        let slots = self.lock();
        let pending = slots.iter().filter_map(|s| match &s.state {
            State::Prepared(_, p) | State::Committing(p) => Some(p.sequence),
            _ => None,
        });
        let mut pending: Vec<u64> = pending.collect();
        pending.sort_unstable();
        pending
    }

    /// Whether a commit is answered that no manifest has recorded yet.
    pub(super) fn has_unrecorded(&self) -> bool {
        self.lock().iter().any(|s| matches!(s.state, State::Committed(..)))
    }

    /// Slot and facts of a transaction, prepared or committed since.
    pub(super) fn find(&self, sequence: u64) -> Option<(usize, Prepared)> {
        self.lock().iter().enumerate().find_map(|(at, s)| match &s.state {
            State::Prepared(_, p) | State::Committing(p) | State::Committed(_, p)
                if p.sequence == sequence =>
            {
                Some((at, p.clone()))
            }
            _ => None,
        })
    }

    /// Keeps the broker's description.
    pub(super) fn describe(&self, sequence: u64, evidence: &Evidence) {
        for slot in self.lock().iter_mut() {
            if let State::Prepared(_, p) | State::Committing(p) | State::Committed(_, p) = &mut slot.state
                && p.sequence == sequence
            {
                p.evidence = Some(evidence.clone());
            }
        }
    }

    /// Takes a prepared transaction to commit it; `None` if it is committed already.
    pub(super) fn take_prepared(
        &self,
        sequence: u64,
    ) -> Result<Option<(usize, Producer, Prepared)>, Failure> {
        let mut slots = self.lock();
        for (at, slot) in slots.iter_mut().enumerate() {
            match std::mem::replace(&mut slot.state, State::Cold) {
                State::Prepared(producer, p) if p.sequence == sequence => {
                    slot.state = State::Committing(p.clone());
                    return Ok(Some((at, producer, p)));
                }
                State::Committed(producer, p) if p.sequence == sequence => {
                    slot.state = State::Committed(producer, p);
                    return Ok(None);
                }
                other => slot.state = other,
            }
        }
        Err(Failure::new(
            crate::model::Advice::Bug,
            format!("transaction number {sequence} is listed, but this subtask never prepared it"),
        ))
    }

    pub(super) fn committed(&self, slot: usize, producer: Producer, prepared: Prepared) {
        self.put(slot, State::Committed(producer, prepared));
    }

    /// Sets free what is committed and not listed by the newest manifest.
    pub(super) fn release(&self, listed: &[u64]) {
        for slot in self.lock().iter_mut() {
            match std::mem::replace(&mut slot.state, State::Cold) {
                State::Committed(producer, p) if !listed.contains(&p.sequence) => {
                    slot.state = State::Ready(producer);
                }
                other => slot.state = other,
            }
        }
        self.0.changed.notify_all();
    }
}
