//! What was asked of the running job, by id, and how that ended.
//!
//! A stop and a cancellation are taken once: asking again while one is under way gives the same id, since the job ends
//! but once. Savepoints are as many as are asked for.

use crate::host::random;
use crate::runtime::{Outcome, SavepointStatus, StopHandle};
use serde::Serialize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Operations that are kept; the oldest savepoints and those whose end was read are forgotten.
const KEPT: usize = 100;

/// What can be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Kind {
    /// A last checkpoint, its commits, the end.
    Stop,
    /// The end without a checkpoint.
    Cancel,
    /// A savepoint; the job runs on.
    Savepoint,
    /// A savepoint, its commits, the end.
    StopWithSavepoint,
}

/// How far it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase", tag = "state")]
pub(super) enum State {
    /// Under way.
    Running,
    /// Done.
    Succeeded {
        /// With an end: the job's last complete checkpoint.
        #[serde(skip_serializing_if = "Option::is_none")]
        checkpoint: Option<u64>,
        /// With a savepoint: its folder.
        #[serde(skip_serializing_if = "Option::is_none")]
        location: Option<String>,
    },
    /// It failed, or the job has ended otherwise.
    Failed {
        /// Why.
        reason: String,
    },
}

/// One of them.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Operation {
    pub(super) id: String,
    pub(super) kind: Kind,
    #[serde(flatten)]
    pub(super) state: State,
    /// By which the job knows a savepoint.
    #[serde(skip)]
    savepoint: Option<u64>,
    /// Whether somebody has read how it ended.
    #[serde(skip)]
    told: bool,
}

/// All of them.
#[derive(Clone)]
pub(super) struct Operations {
    all: Arc<Mutex<Vec<Operation>>>,
    stop: StopHandle,
}

impl Operations {
    /// None yet, of the job that the handle ends.
    pub(super) fn of(stop: StopHandle) -> Self {
        Self { all: Arc::default(), stop }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Operation>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(all: &mut Vec<Operation>, kind: Kind, savepoint: Option<u64>) -> Operation {
        if all.len() >= KEPT
            && let Some(oldest) = all.iter().position(|o| o.told || o.savepoint.is_some())
        {
            all.remove(oldest);
        }
        let begun = Operation { id: random::token(), kind, state: State::Running, savepoint, told: false };
        all.push(begun.clone());
        begun
    }

    fn begin(&self, kind: Kind) -> Operation {
        let mut all = self.lock();
        match all.iter().find(|o| o.kind == kind) {
            Some(begun) => begun.clone(),
            None => Self::add(&mut all, kind, None),
        }
    }

    /// Asks for a stop, or finds the one that was asked for.
    pub(super) fn stop(&self) -> Operation {
        let begun = self.begin(Kind::Stop);
        self.stop.stop();
        begun
    }

    /// Asks for a cancellation, or finds the one that was asked for.
    pub(super) fn cancel(&self) -> Operation {
        let begun = self.begin(Kind::Cancel);
        self.stop.cancel();
        begun
    }

    /// Asks for a savepoint below a folder.
    pub(super) fn savepoint(&self, folder: &str) -> Operation {
        let number = self.stop.savepoint(folder);
        Self::add(&mut self.lock(), Kind::Savepoint, Some(number))
    }

    /// Asks for a savepoint below a folder and the end with it, after all operators have given out what they kept back if
    /// it drains.
    pub(super) fn stop_with_savepoint(&self, folder: &str, drain: bool) -> Operation {
        let number = match drain {
            true => self.stop.drain_with_savepoint(folder),
            false => self.stop.stop_with_savepoint(folder),
        };
        Self::add(&mut self.lock(), Kind::StopWithSavepoint, Some(number))
    }

    /// How far one is; `None` if there is no such id.
    pub(super) fn get(&self, id: &str) -> Option<Operation> {
        let mut all = self.lock();
        let found = all.iter_mut().find(|o| o.id == id)?;
        self.look(found);
        found.told = found.state != State::Running;
        Some(found.clone())
    }

    /// Asks the job how a savepoint stands.
    fn look(&self, operation: &mut Operation) {
        let Some(number) = operation.savepoint.filter(|_| operation.state == State::Running) else { return };
        operation.state = match self.stop.savepoint_status(number) {
            Some(SavepointStatus::Waiting | SavepointStatus::Running) => State::Running,
            Some(SavepointStatus::Done { location }) => {
                State::Succeeded { checkpoint: None, location: Some(location) }
            }
            Some(SavepointStatus::Failed { reason }) => State::Failed { reason },
            None => State::Failed { reason: "it was so long ago that its end is forgotten".to_owned() },
        };
    }

    /// The job has ended, and with it whatever was asked for.
    pub(super) fn end(&self, how: Result<&Outcome, String>) {
        for operation in self.lock().iter_mut() {
            if operation.savepoint.is_some() {
                self.look(operation);
                continue;
            }
            operation.state = match &how {
                Ok(outcome) if outcome.cancelled && operation.kind == Kind::Stop => {
                    State::Failed { reason: "the job was cancelled".to_owned() }
                }
                Ok(outcome) => State::Succeeded { checkpoint: Some(outcome.checkpoint), location: None },
                Err(reason) => State::Failed { reason: reason.clone() },
            };
        }
    }

    /// Whether everybody who asked for an end, or for a savepoint, knows how that went.
    pub(super) fn all_told(&self) -> bool {
        self.lock().iter().all(|o| o.told)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_taken_once_and_its_end_is_told() {
        let operations = Operations::of(StopHandle::default());
        assert!(operations.all_told(), "nothing was asked");
        let stop = operations.stop();
        assert_eq!(operations.stop().id, stop.id);
        assert_ne!(operations.cancel().id, stop.id);
        assert_eq!(operations.get(&stop.id).unwrap().state, State::Running);
        operations.end(Ok(&Outcome { finished: false, cancelled: false, checkpoint: 7, restarts: 0 }));
        assert!(!operations.all_told());
        let told = serde_json::to_value(operations.get(&stop.id).unwrap()).unwrap();
        assert_eq!(
            told,
            serde_json::json!({"id": stop.id, "kind": "stop", "state": "succeeded", "checkpoint": 7})
        );
        assert!(operations.get("unknown").is_none());
    }

    #[test]
    fn savepoints_are_as_many_as_are_asked_for() {
        let operations = Operations::of(StopHandle::default());
        let (first, second) = (operations.savepoint("/a"), operations.stop_with_savepoint("/a", true));
        assert_ne!(first.id, second.id);
        assert_eq!(operations.get(&first.id).unwrap().state, State::Running);
        assert_eq!(serde_json::to_value(&second).unwrap()["kind"], "stop-with-savepoint");
        assert!(!operations.all_told(), "nobody has read their ends");
    }
}
