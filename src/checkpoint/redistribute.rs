//! From the operator states of all former subtasks to what each subtask gets of them.
//!
//! A pure function of what a manifest says. The pieces of a state, in the order of their subtasks, are one list of N
//! entries; of p subtasks number i owns the entries from `i * N / p` to before `(i + 1) * N / p`. With list state it gets
//! just those. With union state it gets all, and these are its own. Of broadcast state one copy is kept in a checkpoint,
//! and everybody gets it. Only counts are used, so nothing is read and any two processes agree.

use super::{OperatorState, SubtaskSnapshot};
use crate::state::{EntryRange, Redistribution, StateShare};
use std::ops::Range;

/// What each of `parallelism` subtasks gets, by its index.
///
/// # Errors
/// A text, when one name stands for states of two kinds: no operator has written that.
pub(super) fn shares(subtasks: &[SubtaskSnapshot], parallelism: u32) -> Result<Vec<Vec<StateShare>>, String> {
    let mut result = vec![Vec::new(); parallelism as usize];
    for (name, redistribution) in states(subtasks)? {
        let pieces = |subtask: &'_ SubtaskSnapshot| -> Vec<OperatorState> {
            subtask.operator.iter().filter(|s| s.name == name).cloned().collect()
        };
        let mut all = subtasks.iter().map(pieces).filter(|pieces| !pieces.is_empty());
        let pieces: Vec<OperatorState> = match redistribution {
            Redistribution::Broadcast => all.next().unwrap_or_default(),
            Redistribution::Split | Redistribution::Union => all.flatten().collect(),
        };
        let total: u64 = pieces.iter().map(|p| p.entries).sum();
        for (index, shares) in result.iter_mut().enumerate() {
            let dealt = dealt(total, index as u64, u64::from(parallelism));
            let (get, own) = match redistribution {
                Redistribution::Split => (dealt.clone(), 0..dealt.end - dealt.start),
                Redistribution::Union => (0..total, dealt),
                Redistribution::Broadcast => (0..total, 0..total),
            };
            shares.push(StateShare { name: name.clone(), redistribution, parts: parts(&pieces, &get), own });
        }
    }
    Ok(result)
}

/// The entries of the whole list that subtask `index` of `parallelism` owns.
fn dealt(total: u64, index: u64, parallelism: u64) -> Range<u64> {
    let bound = |i: u64| (u128::from(total) * u128::from(i) / u128::from(parallelism)) as u64;
    bound(index)..bound(index + 1)
}

/// The names of all states with their kinds, in the order in which they first stand there.
fn states(subtasks: &[SubtaskSnapshot]) -> Result<Vec<(String, Redistribution)>, String> {
    let mut found: Vec<(String, Redistribution)> = Vec::new();
    for state in subtasks.iter().flat_map(|s| &s.operator) {
        match found.iter().find(|(name, _)| *name == state.name) {
            None => found.push((state.name.clone(), state.redistribution)),
            Some((_, kind)) if *kind == state.redistribution => {}
            Some((_, kind)) => {
                return Err(format!(
                    "state {:?} is {kind} state of one subtask and {} state of another; start with --fresh to drop all \
                     state",
                    state.name, state.redistribution
                ));
            }
        }
    }
    Ok(found)
}

/// The ranges of the pieces that make up this range of the whole list.
fn parts(pieces: &[OperatorState], get: &Range<u64>) -> Vec<EntryRange> {
    let mut begin = 0;
    let mut result = Vec::new();
    for piece in pieces {
        let (from, to) = (get.start.max(begin), get.end.min(begin + piece.entries));
        if from < to {
            result.push(EntryRange {
                handle: piece.handle.clone(),
                serializer: piece.serializer.clone(),
                entries: piece.entries,
                take: from - begin..to - begin,
            });
        }
        begin += piece.entries;
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::serializer::{Postcard, Serializer};
    use crate::state::{OperatorStates, StateHandle};
    use proptest::prelude::*;
    use std::sync::Arc;

    fn store() -> (tempfile::TempDir, Arc<dyn crate::storage::Storage>) {
        let folder = tempfile::tempdir().unwrap();
        let store = crate::storage::open(&format!("file://{}", folder.path().display()), "j").unwrap();
        (folder, store)
    }

    /// What a checkpoint keeps of these states.
    fn snapshot(states: &OperatorStates) -> SubtaskSnapshot {
        let pieces = states.freeze().into_entries().unwrap().into_iter().map(|e| OperatorState {
            name: e.name,
            redistribution: e.redistribution,
            serializer: e.serializer,
            entries: e.entries,
            handle: StateHandle::Inline(e.bytes),
        });
        SubtaskSnapshot { operator: pieces.collect(), ..SubtaskSnapshot::default() }
    }

    fn restored(subtasks: &[SubtaskSnapshot], parallelism: u32) -> Vec<OperatorStates> {
        let (_folder, store) = store();
        let shares = shares(subtasks, parallelism).unwrap();
        let load = |(index, shares): (usize, Vec<StateShare>)| {
            let mut states = OperatorStates::new(index as u32);
            states.load(shares, &*store).unwrap();
            states
        };
        shares.into_iter().enumerate().map(load).collect()
    }

    fn postcard<T: crate::model::Data>() -> Arc<dyn Serializer<T>> {
        Arc::new(Postcard::default())
    }

    #[test]
    fn lists_unions_and_maps_find_their_subtasks_at_any_parallelism() {
        let mut states = vec![OperatorStates::new(0)];
        let (mut lists, mut unions, mut maps) = (Vec::new(), Vec::new(), Vec::new());
        let table: &[(u32, &[usize])] =
            &[(1, &[10]), (2, &[5, 5]), (3, &[3, 3, 4]), (4, &[2, 3, 2, 3]), (2, &[5, 5]), (1, &[10])];
        for (round, (parallelism, sizes)) in table.iter().enumerate() {
            if round > 0 {
                let written: Vec<_> = states.iter().map(snapshot).collect();
                states = restored(&written, *parallelism);
            }
            (lists, unions, maps) = (Vec::new(), Vec::new(), Vec::new());
            for states in &mut states {
                lists.push(states.list::<u64>("list", postcard()).unwrap());
                unions.push(states.union::<u64>("union", postcard()).unwrap());
                maps.push(states.broadcast::<str, u64>("map", postcard()).unwrap());
                states.all_declared().unwrap();
            }
            if round == 0 {
                (0..10).for_each(|n| lists[0].add(n));
                (0..10).for_each(|n| unions[0].add(n));
                let right = crate::state::WriteRight::new();
                for n in 0..10 {
                    maps[0].put(&right, &format!("k{n}"), n);
                }
            }
            let all: Vec<u64> = (0..10).collect();
            assert_eq!(lists.iter().map(|l| l.len()).collect::<Vec<_>>(), *sizes, "{parallelism}");
            assert_eq!(lists.iter().flat_map(|l| l.entries()).collect::<Vec<_>>(), all);
            assert_eq!(
                unions.iter().flat_map(|u| u.own()).collect::<Vec<_>>(),
                all,
                "never more, never less"
            );
            for (union, map) in unions.iter().zip(&maps) {
                assert_eq!(union.take_restored(), if round == 0 { vec![] } else { all.clone() });
                assert!(union.take_restored().is_empty(), "handed over once");
                let mut found = map.entries();
                found.sort();
                assert_eq!(found, all.iter().map(|n| (format!("k{n}"), *n)).collect::<Vec<_>>());
            }
        }
        drop((lists, unions, maps));
    }

    #[test]
    fn one_copy_of_a_broadcast_map_is_kept() {
        let written: Vec<_> = (0..3)
            .map(|subtask| {
                let mut states = OperatorStates::new(subtask);
                let map = states.broadcast::<u64, u64>("map", postcard()).unwrap();
                map.put(&crate::state::WriteRight::new(), &1, 2);
                snapshot(&states).operator.len()
            })
            .collect();
        assert_eq!(written, [1, 0, 0]);
    }

    #[test]
    fn what_does_not_fit_is_refused_by_name_with_the_way_out() {
        let mut states = OperatorStates::new(0);
        states.list::<u64>("seen", postcard()).unwrap().add(1 << 40);
        let written = [snapshot(&states)];
        let states = || restored(&written, 1).remove(0);
        for (text, parts) in [
            (states().all_declared().unwrap_err().to_string(), ["\"seen\"", "list", "--fresh"]),
            (
                states().union::<u64>("seen", postcard()).map(|_| ()).unwrap_err().to_string(),
                ["\"seen\"", "is list state", "as union state"],
            ),
            (
                states().list::<String>("seen", postcard()).map(|_| ()).unwrap_err().to_string(),
                ["\"seen\"", "read", ""],
            ),
            (
                states().list::<u64>("seen", Arc::new(Other)).map(|_| ()).unwrap_err().to_string(),
                ["\"seen\"", "postcard", "other"],
            ),
        ] {
            for part in parts {
                assert!(text.contains(part), "{part} is not in: {text}");
            }
        }
        let mut twice = states();
        twice.list::<u64>("seen", postcard()).unwrap();
        assert!(matches!(
            twice.list::<u64>("seen", postcard()),
            Err(crate::state::Error::DeclaredTwice { .. })
        ));
    }

    struct Other;
    impl Serializer<u64> for Other {
        fn id(&self) -> crate::model::serializer::SerializerId {
            crate::model::serializer::SerializerId { codec: "other".into(), version: 1 }
        }
        fn write(&self, value: &u64, out: &mut Vec<u8>) -> Result<(), String> {
            out.extend_from_slice(&value.to_be_bytes());
            Ok(())
        }
        fn read(&self, by: &crate::model::serializer::SerializerId, _: &[u8]) -> Result<u64, String> {
            Err(format!("written by {}, this program reads other", by.codec))
        }
    }

    #[test]
    fn a_freeze_keeps_its_moment_and_every_flipped_byte_is_found() {
        let mut states = OperatorStates::new(0);
        let list = states.list::<u64>("list", postcard()).unwrap();
        (0..700).for_each(|n| list.add(n));
        let frozen = states.freeze();
        list.add(700);
        list.retain(|n| n % 2 == 0);
        let pieces = frozen.into_entries().unwrap();
        assert_eq!(pieces.iter().map(|p| p.entries).sum::<u64>(), 700);
        let written = snapshot(&states);
        assert_eq!(written.operator[0].entries, 351);
        let (_folder, store) = store();
        let share = shares(&[written], 1).unwrap().remove(0).remove(0);
        let StateHandle::Inline(bytes) = &share.parts[0].handle else { panic!("inline") };
        for at in 0..bytes.len() {
            let mut broken = share.clone();
            let mut bytes = bytes.clone();
            bytes[at] ^= 1;
            broken.parts[0].handle = StateHandle::Inline(bytes);
            assert!(OperatorStates::new(0).load(vec![broken], &*store).is_err(), "byte {at}");
        }
    }

    proptest! {
        #[test]
        fn shares_are_even_and_together_are_everything(
            sizes in prop::collection::vec(0u64..50, 1..6),
            steps in prop::collection::vec(1u32..9, 1..5),
        ) {
            let mut lists: Vec<Vec<u64>> = Vec::new();
            let mut next = 0;
            for size in &sizes {
                lists.push((next..next + size).collect());
                next += size;
            }
            let all: Vec<u64> = (0..next).collect();
            for parallelism in steps {
                let written: Vec<SubtaskSnapshot> = lists.iter().map(|values| {
                    let mut states = OperatorStates::new(0);
                    let (list, union) =
                        (states.list("l", postcard()).unwrap(), states.union("u", postcard()).unwrap());
                    list.set(values.iter().copied());
                    union.set(values.iter().copied());
                    snapshot(&states)
                }).collect();
                let mut unions = Vec::new();
                lists = Vec::new();
                for mut states in restored(&written, parallelism) {
                    lists.push(states.list::<u64>("l", postcard()).unwrap().entries());
                    let union = states.union::<u64>("u", postcard()).unwrap();
                    prop_assert_eq!(&union.take_restored(), &all);
                    unions.push(union.own());
                }
                prop_assert_eq!(&lists, &unions, "of a union each owns what a list would have given it");
                let (least, most) = (lists.iter().map(Vec::len).min(), lists.iter().map(Vec::len).max());
                prop_assert!(most.unwrap() - least.unwrap() <= 1);
                prop_assert_eq!(lists.concat(), all.clone());
            }
        }
    }
}
