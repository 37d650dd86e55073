//! Two numbers that a task shares with what feeds it: when it must hurry for a barrier, and how much it must replay
//! before it takes anything new.

use crate::host::clock;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

const NEVER: u64 = u64::MAX;

/// From which moment on a task lets nothing hold it up, since a barrier waits for it that may overtake.
///
/// Asked between two records and while a full channel makes the task wait; as long as no such barrier is there, the
/// question is one load of a number that nobody writes.
#[derive(Clone)]
pub struct Urgency {
    base: Instant,
    /// Nanoseconds after `base`.
    at: Arc<AtomicU64>,
}

impl Default for Urgency {
    fn default() -> Self {
        Self { base: clock::now(), at: Arc::new(AtomicU64::new(NEVER)) }
    }
}

impl Urgency {
    /// The task must hurry from this moment on.
    pub fn set(&self, at: Instant) {
        let nanos = at.saturating_duration_since(self.base).as_nanos();
        self.at.store(u64::try_from(nanos).unwrap_or(NEVER - 1), Ordering::Release);
    }

    /// Nothing is urgent any more.
    pub fn clear(&self) {
        self.at.store(NEVER, Ordering::Release);
    }

    /// The moment as it is set now, for [`Urgency::clear_if`].
    pub fn set_now(&self) -> u64 {
        self.at.load(Ordering::Acquire)
    }

    /// Nothing is urgent any more, unless another moment was set since [`Urgency::set_now`].
    pub fn clear_if(&self, set: u64) {
        // If it fails, somebody has set another one, which stays.
        let _ = self.at.compare_exchange(set, NEVER, Ordering::AcqRel, Ordering::Relaxed);
    }

    /// Whether the moment has come.
    #[inline]
    pub fn is_due(&self) -> bool {
        let at = self.at.load(Ordering::Relaxed);
        at != NEVER && self.base + Duration::from_nanos(at) <= clock::now()
    }

    /// How long it is until the moment; zero if it has come, or if there is none.
    pub fn remaining(&self) -> Duration {
        match self.at.load(Ordering::Acquire) {
            NEVER => Duration::ZERO,
            at => clock::until(self.base + Duration::from_nanos(at)),
        }
    }
}

/// How many restored records the operators of a task must still replay. Until that is zero the task takes nothing new.
#[derive(Clone, Default)]
pub struct Backlog(Arc<AtomicU64>);

impl Backlog {
    /// So many more are to be replayed.
    pub fn add(&self, records: usize) {
        self.0.fetch_add(records as u64, Ordering::Relaxed);
    }

    /// So many were replayed.
    pub fn done(&self, records: usize) {
        self.0.fetch_sub(records as u64, Ordering::Relaxed);
    }

    /// Whether nothing is left to replay.
    pub fn is_empty(&self) -> bool {
        self.0.load(Ordering::Relaxed) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_due_when_it_has_come_and_not_after_it_was_cleared() {
        let urgency = Urgency::default();
        assert!(!urgency.is_due());
        urgency.set(clock::now() + Duration::from_secs(60));
        assert!(!urgency.is_due() && urgency.remaining() > Duration::from_secs(50));
        urgency.set(clock::now());
        assert!(urgency.is_due() && urgency.remaining().is_zero());
        urgency.clear();
        assert!(!urgency.is_due());
    }
}
