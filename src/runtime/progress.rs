//! How far the running job is, for whoever watches it from outside.
//!
//! Its law: what it says comes from what has happened (turns, checkpoints, failures), never from what was asked for. The
//! supervisor and the driver write it; the service reads it, at any time and from any thread.

use crate::host::clock;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// What the job is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// It claims its checkpoints, resolves transactions, restores: it waits for storage and brokers.
    Starting,
    /// Its tasks run.
    Running,
    /// It takes its last checkpoint and commits it.
    Stopping,
    /// It waits after a failure before it starts again.
    Restarting,
    /// It has ended.
    Ended,
}

/// What was seen of the job until now.
#[derive(Debug, Clone)]
pub struct Seen {
    /// What it is doing.
    pub phase: Phase,
    /// Since when.
    pub since: Instant,
    /// When its driving thread last came round.
    pub turned: Instant,
    /// The last complete checkpoint of this process.
    pub checkpoint: Option<u64>,
    /// When that was.
    pub completed: Option<Instant>,
    /// Since when checkpoints are due: the start of the running attempt or the last complete checkpoint.
    pub due_since: Option<Instant>,
    /// When the broker would abort the oldest transaction of the last checkpoint, in milliseconds since the Unix epoch.
    pub deadline_ms: Option<i64>,
    /// Why the last attempt failed.
    pub failure: Option<String>,
}

/// One value, shared.
#[derive(Clone)]
pub struct Progress(Arc<Mutex<Seen>>);

impl Default for Progress {
    fn default() -> Self {
        let now = clock::now();
        Self(Arc::new(Mutex::new(Seen {
            phase: Phase::Starting,
            since: now,
            turned: now,
            checkpoint: None,
            completed: None,
            due_since: None,
            deadline_ms: None,
            failure: None,
        })))
    }
}

impl Progress {
    /// Everything, as of now.
    pub fn seen(&self) -> Seen {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Seen> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn enter(&self, phase: Phase) {
        let (mut seen, now) = (self.lock(), clock::now());
        (seen.phase, seen.since, seen.turned) = (phase, now, now);
        match phase {
            Phase::Running => (seen.due_since, seen.failure) = (Some(now), None),
            Phase::Stopping => {}
            Phase::Starting | Phase::Restarting | Phase::Ended => seen.due_since = None,
        }
    }

    pub(super) fn turned(&self) {
        self.lock().turned = clock::now();
    }

    pub(super) fn completed(&self, checkpoint: u64) {
        let (mut seen, now) = (self.lock(), clock::now());
        (seen.checkpoint, seen.completed, seen.due_since) = (Some(checkpoint), Some(now), Some(now));
    }

    /// The least deadline that the checkpoint being published lists, if it lists a transaction.
    pub(super) fn deadline_in(&self, left_ms: Option<i64>) {
        self.lock().deadline_ms = left_ms.map(|left| clock::unix_millis() + left);
    }

    pub(super) fn failed(&self, text: String) {
        self.lock().failure = Some(text);
    }
}

impl Seen {
    /// How long the newest checkpoint is overdue, if checkpoints are due every `allowed` at the least.
    pub fn overdue(&self, allowed: Duration, now: Instant) -> Option<Duration> {
        let waited = now.saturating_duration_since(self.due_since?);
        waited.checked_sub(allowed).filter(|late| !late.is_zero())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checkpoint_is_overdue_only_while_the_job_runs() {
        let progress = Progress::default();
        let later = clock::now() + Duration::from_secs(60);
        let allowed = Duration::from_secs(10);
        assert_eq!(progress.seen().overdue(allowed, later), None, "it has not begun");
        progress.enter(Phase::Running);
        assert!(progress.seen().overdue(allowed, later).is_some());
        assert!(progress.seen().overdue(allowed, clock::now()).is_none());
        progress.completed(7);
        assert!(progress.seen().overdue(Duration::from_secs(100), later).is_none());
        progress.failed("no broker".into());
        progress.enter(Phase::Restarting);
        assert_eq!(progress.seen().overdue(allowed, later), None);
        assert_eq!(progress.seen().failure.as_deref(), Some("no broker"));
    }
}
