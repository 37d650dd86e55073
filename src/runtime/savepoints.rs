//! Savepoints that somebody has asked a running job for, each with a number by which he learns how it ended.

use crate::checkpoint::SavepointRequest;
use crate::model::BarrierKind;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Answers that are kept; older ones are forgotten.
const KEPT: usize = 100;

/// How a savepoint stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SavepointStatus {
    /// It is not yet begun.
    Waiting,
    /// It is under way.
    Running,
    /// It is complete; with a stop, everything that it lists is committed.
    Done {
        /// Its folder's URI.
        location: String,
    },
    /// There is none, and the job runs on.
    Failed {
        /// Why.
        reason: String,
    },
}

/// What is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Order {
    pub(super) request: SavepointRequest,
    /// The folder below which its own is made.
    pub(super) target: String,
    /// What follows it.
    pub(super) kind: BarrierKind,
}

#[derive(Debug, Default)]
struct Inner {
    last: u64,
    waiting: Vec<Order>,
    statuses: BTreeMap<SavepointRequest, SavepointStatus>,
}

/// Takes orders and keeps their answers.
#[derive(Debug, Default)]
pub(super) struct Desk(Mutex<Inner>);

impl Desk {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn order(&self, target: &str, kind: BarrierKind) -> u64 {
        let mut inner = self.lock();
        inner.last += 1;
        let request = SavepointRequest(inner.last);
        if inner.statuses.len() >= KEPT {
            inner.statuses.pop_first();
        }
        let status = if inner.waiting.len() < KEPT {
            inner.waiting.push(Order { request, target: target.to_owned(), kind });
            SavepointStatus::Waiting
        } else {
            SavepointStatus::Failed { reason: format!("{KEPT} savepoints are waiting already") }
        };
        inner.statuses.insert(request, status);
        request.0
    }

    pub(super) fn status(&self, request: u64) -> Option<SavepointStatus> {
        self.lock().statuses.get(&SavepointRequest(request)).cloned()
    }

    /// The next order, which is under way from now on.
    pub(super) fn take(&self) -> Option<Order> {
        let mut inner = self.lock();
        if inner.waiting.is_empty() {
            return None;
        }
        let order = inner.waiting.remove(0);
        inner.statuses.insert(order.request, SavepointStatus::Running);
        Some(order)
    }

    pub(super) fn done(&self, request: SavepointRequest, location: String) {
        self.lock().statuses.insert(request, SavepointStatus::Done { location });
    }

    pub(super) fn failed(&self, request: SavepointRequest, reason: String) {
        tracing::warn!(savepoint = request.0, "no savepoint is taken: {reason}");
        self.lock().statuses.insert(request, SavepointStatus::Failed { reason });
    }

    /// The attempt is over, and with it what was under way.
    pub(super) fn fail_running(&self) {
        for status in self.lock().statuses.values_mut().filter(|s| **s == SavepointStatus::Running) {
            *status =
                SavepointStatus::Failed { reason: "the attempt ended before it was complete".to_owned() };
        }
    }

    /// Nobody will take one any more.
    pub(super) fn close(&self, reason: &str) {
        let mut inner = self.lock();
        inner.waiting.clear();
        for status in inner.statuses.values_mut() {
            if matches!(status, SavepointStatus::Waiting | SavepointStatus::Running) {
                *status = SavepointStatus::Failed { reason: reason.to_owned() };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_order_has_an_answer_in_the_end() {
        let desk = Desk::default();
        let (first, second) = (desk.order("a", BarrierKind::Periodic), desk.order("b", BarrierKind::Last));
        let order = desk.take().unwrap();
        assert_eq!(
            (order.request.0, order.kind, desk.status(first)),
            (first, BarrierKind::Periodic, Some(SavepointStatus::Running))
        );
        desk.done(order.request, "file:///a/savepoint-1".into());
        desk.close("the job has ended");
        assert!(matches!(desk.status(first), Some(SavepointStatus::Done { .. })));
        assert!(matches!(desk.status(second), Some(SavepointStatus::Failed { .. })));
        assert_eq!((desk.take(), desk.status(99)), (None, None));
    }
}
