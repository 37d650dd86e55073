//! What was asked of the running job, by id, and how that ended.
//!
//! A command is taken once: asking again while it is under way gives the same id, since the job ends but once.

use crate::host::random;
use crate::runtime::Outcome;
use serde::Serialize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What can be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Kind {
    /// A last checkpoint, its commits, the end.
    Stop,
    /// The end without a checkpoint.
    Cancel,
}

/// How far it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase", tag = "state")]
pub(super) enum State {
    /// Under way.
    Running,
    /// Done.
    Succeeded {
        /// The job's last complete checkpoint.
        checkpoint: u64,
    },
    /// The job has ended otherwise.
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
    /// Whether somebody has read how it ended.
    #[serde(skip)]
    told: bool,
}

/// All of them: at most one of each kind.
#[derive(Clone, Default)]
pub(super) struct Operations(Arc<Mutex<Vec<Operation>>>);

impl Operations {
    fn lock(&self) -> MutexGuard<'_, Vec<Operation>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins one, or finds the one that was begun.
    pub(super) fn begin(&self, kind: Kind) -> Operation {
        let mut all = self.lock();
        if let Some(begun) = all.iter().find(|o| o.kind == kind) {
            return begun.clone();
        }
        let begun = Operation { id: random::token(), kind, state: State::Running, told: false };
        all.push(begun.clone());
        begun
    }

    /// How far one is; `None` if there is no such id.
    pub(super) fn get(&self, id: &str) -> Option<Operation> {
        let mut all = self.lock();
        let found = all.iter_mut().find(|o| o.id == id)?;
        found.told = found.state != State::Running;
        Some(found.clone())
    }

    /// The job has ended, and with it whatever was asked for.
    pub(super) fn end(&self, how: Result<&Outcome, String>) {
        for operation in self.lock().iter_mut() {
            operation.state = match &how {
                Ok(outcome) => State::Succeeded { checkpoint: outcome.checkpoint },
                Err(reason) => State::Failed { reason: reason.clone() },
            };
        }
    }

    /// Whether everybody who asked for something knows how it ended.
    pub(super) fn all_told(&self) -> bool {
        self.lock().iter().all(|o| o.told)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_taken_once_and_its_end_is_told() {
        let operations = Operations::default();
        assert!(operations.all_told(), "nothing was asked");
        let stop = operations.begin(Kind::Stop);
        assert_eq!(operations.begin(Kind::Stop).id, stop.id);
        assert_ne!(operations.begin(Kind::Cancel).id, stop.id);
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
}
