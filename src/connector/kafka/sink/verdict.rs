//! What a coordinator's word about an id means for a prepared transaction: the table, as a pure function.
//!
//! Same producer id and same start time: it is this transaction, and the state itself is proof. Anything else says
//! nothing about it, for the id has moved on or is forgotten; then the log's marker decides. (Apache Kafka 4.1,
//! transaction.version 0, 1 and 2; the start time is kept from the first record through Prepare and Complete states
//! until the id's next transaction or initialisation.)

use super::evidence::Evidence;
use crate::connector::kafka::raw::{Described, Marker, TransactionState};

/// What to do next about a prepared transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It is open: end it.
    Open,
    /// Its end is decided and under way, or its producer is being replaced: ask again.
    Wait,
    /// Proven.
    Committed,
    /// Proven.
    Aborted,
    /// The coordinator does not know any more: look for the marker.
    LookForMarker,
}

/// By what the coordinator says.
pub(super) fn of_coordinator(evidence: &Evidence, described: Option<&Described>) -> Verdict {
    let Some(d) = described else { return Verdict::LookForMarker };
    if d.producer_id != evidence.producer_id || d.start_ms != evidence.start_ms {
        return Verdict::LookForMarker;
    }
    let same = d.producer_epoch == evidence.epoch;
    let next = d.producer_epoch == evidence.epoch.wrapping_add(1);
    match &d.state {
        TransactionState::Ongoing if same => Verdict::Open,
        TransactionState::Ongoing | TransactionState::PrepareEpochFence if next => Verdict::Wait,
        TransactionState::PrepareEpochFence => Verdict::Wait,
        TransactionState::PrepareCommit => Verdict::Wait,
        TransactionState::CompleteCommit => Verdict::Committed,
        TransactionState::PrepareAbort | TransactionState::CompleteAbort if same || next => Verdict::Aborted,
        _ => Verdict::LookForMarker,
    }
}

/// What the log says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LogVerdict {
    /// A marker proves it.
    Committed,
    /// A marker proves it.
    Aborted,
    /// The log no longer reaches back to the transaction, in any partition.
    Gone,
    /// The log is there and holds no marker: not provable either way, unless a later look finds one.
    NoMarker,
}

/// By the markers of all partitions: one that is found decides, its absence somewhere says nothing.
pub(super) fn of_log(markers: &[Marker]) -> LogVerdict {
    let mut gone = !markers.is_empty();
    for marker in markers {
        match marker {
            Marker::Committed { .. } => return LogVerdict::Committed,
            Marker::Aborted { .. } => return LogVerdict::Aborted,
            Marker::LogStartBeyond { .. } => {}
            Marker::NotFound { .. } => gone = false,
        }
    }
    if gone { LogVerdict::Gone } else { LogVerdict::NoMarker }
}

#[cfg(test)]
mod tests {
    use super::*;
    use TransactionState as S;

    fn evidence() -> Evidence {
        Evidence { id: "x".into(), producer_id: 7, epoch: 3, start_ms: 100, timeout_ms: 1, written: vec![] }
    }

    fn described(state: TransactionState, producer_id: i64, epoch: i16, start_ms: i64) -> Described {
        Described { state, producer_id, producer_epoch: epoch, start_ms, timeout_ms: 1, partitions: vec![] }
    }

    #[test]
    fn the_coordinators_word() {
        let table = [
            // This transaction.
            (S::Ongoing, 7, 3, 100, Verdict::Open),
            (S::Ongoing, 7, 4, 100, Verdict::Wait),
            (S::PrepareEpochFence, 7, 3, 100, Verdict::Wait),
            (S::PrepareEpochFence, 7, 4, 100, Verdict::Wait),
            (S::PrepareCommit, 7, 3, 100, Verdict::Wait),
            (S::CompleteCommit, 7, 3, 100, Verdict::Committed),
            (S::CompleteCommit, 7, 4, 100, Verdict::Committed),
            (S::PrepareAbort, 7, 3, 100, Verdict::Aborted),
            (S::PrepareAbort, 7, 4, 100, Verdict::Aborted),
            (S::CompleteAbort, 7, 3, 100, Verdict::Aborted),
            (S::CompleteAbort, 7, 4, 100, Verdict::Aborted),
            // An epoch that this transaction cannot have led to.
            (S::Ongoing, 7, 5, 100, Verdict::LookForMarker),
            (S::CompleteAbort, 7, 5, 100, Verdict::LookForMarker),
            // Initialised since, begun anew since, another producer id, about to be removed.
            (S::Empty, 7, 4, -1, Verdict::LookForMarker),
            (S::Empty, 7, 5, -1, Verdict::LookForMarker),
            (S::Ongoing, 7, 3, 101, Verdict::LookForMarker),
            (S::CompleteCommit, 7, 3, 101, Verdict::LookForMarker),
            (S::CompleteAbort, 8, 3, 100, Verdict::LookForMarker),
            (S::Dead, 7, 3, 100, Verdict::LookForMarker),
            (S::Unknown("New".into()), 7, 3, 100, Verdict::LookForMarker),
        ];
        for (state, producer_id, epoch, start_ms, expected) in table {
            let d = described(state, producer_id, epoch, start_ms);
            assert_eq!(of_coordinator(&evidence(), Some(&d)), expected, "{d:?}");
        }
        assert_eq!(of_coordinator(&evidence(), None), Verdict::LookForMarker);
    }

    #[test]
    fn one_marker_decides_and_its_absence_says_nothing() {
        let (commit, abort) = (Marker::Committed { offset: 1 }, Marker::Aborted { offset: 1 });
        let (none, beyond) = (Marker::NotFound { end: 9 }, Marker::LogStartBeyond { log_start: 9 });
        let table = [
            (vec![commit], LogVerdict::Committed),
            (vec![none, beyond, commit], LogVerdict::Committed),
            (vec![beyond, abort], LogVerdict::Aborted),
            (vec![beyond, beyond], LogVerdict::Gone),
            (vec![beyond, none], LogVerdict::NoMarker),
            (vec![none], LogVerdict::NoMarker),
            (vec![], LogVerdict::NoMarker),
        ];
        for (markers, expected) in table {
            assert_eq!(of_log(&markers), expected, "{markers:?}");
        }
    }
}
