//! Which records in flight each subtask is given to replay.
//!
//! At the parallelism of the checkpoint each subtask gets its predecessor's, as they are. At another one every subtask is
//! given those of all predecessors that may concern it, in their order, and takes its own as it reads them: with key
//! groups, of the predecessors whose groups overlap its own; without, or if there are other key groups by now, of all.

use super::{InFlight, OperatorSnapshot};
use crate::model::KeyGroupRange;

/// Records in flight for one subtask.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct InFlightRestore {
    /// Whether there were another number of subtasks or of key groups, so that not every record of these is this subtask's.
    pub rescaled: bool,
    /// In the order of the predecessors, and of each in the order in which it would have replayed them.
    pub entries: Vec<InFlight>,
}

/// What subtask `index` of `parallelism`, with these key groups, replays; `None` if the operator had nothing in flight in
/// any subtask.
pub(super) fn in_flight_of(
    snapshot: &OperatorSnapshot,
    index: u32,
    parallelism: u32,
    range: Option<KeyGroupRange>,
) -> Option<InFlightRestore> {
    if snapshot.subtasks.iter().all(|s| s.in_flight.is_empty()) {
        return None;
    }
    let regrouped = snapshot.subtasks.iter().flat_map(|s| &s.in_flight).any(|records| records.regrouped);
    let rescaled = regrouped || snapshot.subtasks.len() != parallelism as usize;
    let concerns = |old: u32, its: Option<KeyGroupRange>| match (rescaled, its, range) {
        (false, ..) => old == index,
        (true, Some(its), Some(ours)) if !regrouped => its.overlaps(ours),
        (true, ..) => true,
    };
    let old = (0u32..).zip(&snapshot.subtasks).filter(|(old, s)| concerns(*old, s.range));
    Some(InFlightRestore { rescaled, entries: old.flat_map(|(_, s)| s.in_flight.iter().cloned()).collect() })
}

#[cfg(test)]
mod tests {
    use super::super::SubtaskSnapshot;
    use super::*;
    use crate::model::serializer::SerializerId;
    use crate::model::{MaxParallelism, OperatorUid};
    use crate::state::StateHandle;

    fn max() -> MaxParallelism {
        MaxParallelism::new(128).unwrap()
    }

    fn snapshot(parallelism: u32, keyed: bool) -> OperatorSnapshot {
        let entry = |from| InFlight {
            input: 0,
            from,
            serializer: SerializerId { codec: "postcard".into(), version: 1 },
            records: 1,
            regrouped: false,
            handle: StateHandle::Inline(vec![]),
        };
        let subtask = |i| SubtaskSnapshot {
            range: keyed.then(|| KeyGroupRange::of_subtask(i, parallelism, max())),
            in_flight: vec![entry(10 * i), entry(10 * i + 1)],
            ..SubtaskSnapshot::default()
        };
        OperatorSnapshot {
            uid: OperatorUid("o".into()),
            name: "o".into(),
            max_parallelism: keyed.then(max),
            subtasks: (0..parallelism).map(subtask).collect(),
        }
    }

    #[test]
    fn each_subtask_gets_what_may_concern_it_in_order() {
        let table: &[(u32, u32, bool, &[&[u32]])] = &[
            (2, 2, true, &[&[0, 1], &[10, 11]]),
            (2, 2, false, &[&[0, 1], &[10, 11]]),
            (2, 3, true, &[&[0, 1], &[0, 1, 10, 11], &[10, 11]]),
            (2, 3, false, &[&[0, 1, 10, 11], &[0, 1, 10, 11], &[0, 1, 10, 11]]),
            (3, 1, true, &[&[0, 1, 10, 11, 20, 21]]),
        ];
        for (then, now, keyed, expected) in table {
            for (index, expected) in (0u32..).zip(*expected) {
                let range = keyed.then(|| KeyGroupRange::of_subtask(index, *now, max()));
                let found = in_flight_of(&snapshot(*then, *keyed), index, *now, range).unwrap();
                let from: Vec<u32> = found.entries.iter().map(|e| e.from).collect();
                assert_eq!(from, *expected, "{then} to {now}, keyed {keyed}, subtask {index}");
                assert_eq!(found.rescaled, then != now);
            }
        }
    }

    #[test]
    fn with_other_key_groups_any_predecessor_may_have_a_subtasks_records() {
        let mut snapshot = snapshot(2, true);
        snapshot.subtasks.iter_mut().flat_map(|s| &mut s.in_flight).for_each(|f| f.regrouped = true);
        for index in 0..2 {
            let range = Some(KeyGroupRange::of_subtask(index, 2, max()));
            let found = in_flight_of(&snapshot, index, 2, range).unwrap();
            assert!(found.rescaled);
            assert_eq!(found.entries.len(), 4);
        }
    }

    #[test]
    fn nothing_in_flight_is_nothing_to_replay() {
        let mut snapshot = snapshot(2, true);
        snapshot.subtasks[0].in_flight.clear();
        assert_eq!(
            in_flight_of(&snapshot, 0, 2, None),
            Some(InFlightRestore::default()),
            "its sibling has some"
        );
        snapshot.subtasks[1].in_flight.clear();
        assert_eq!(in_flight_of(&snapshot, 0, 2, None), None);
    }
}
