//! A checkpoint under another maximum parallelism, made offline.
//!
//! The problem: the number of key groups is fixed when a job first starts, since an entry is found by its key group; a
//! job that has outgrown it cannot have more subtasks. The algorithm: the key group of an entry follows from its key's
//! bytes, which stand beside it, so each entry is read, counted anew, and written into the file of the subtask that owns
//! its new key group. No type is needed. Values, operator state and records in flight are copied byte for byte (records
//! are routed by their key when they are replayed), positions and transactions stay as they are. The result refers to
//! nothing of the old store; the old checkpoint is not touched.

use super::{Error, Manifest, OperatorSnapshot};
use crate::model::{KeyGroupRange, MaxParallelism};
use crate::state::{Regrouped, StateHandle};
use crate::storage::{self, Storage};

/// Where the bytes of the new checkpoint go: called with each piece, says how to find it again.
pub type Write<'a> = dyn FnMut(&[u8]) -> Result<StateHandle, storage::Error> + 'a;

/// Writes all state of a manifest anew, with `max` key groups for every keyed operator, and returns what refers to it.
///
/// Reads each keyed file once for each subtask; holds one subtask's keyed state in memory.
///
/// # Errors
/// [`Error::Regroup`] if state is damaged or missing, and the stores'.
pub fn rewrite(
    store: &dyn Storage,
    manifest: &Manifest,
    max: MaxParallelism,
    write: &mut Write<'_>,
) -> Result<Manifest, Error> {
    let mut result = manifest.clone();
    for operator in &mut result.operators {
        if operator.max_parallelism.is_some() {
            regroup(store, operator, max, write)?;
        }
        let name = operator.name.clone();
        for subtask in &mut operator.subtasks {
            let operator = subtask.operator.iter_mut().map(|state| &mut state.handle);
            for handle in operator.chain(subtask.in_flight.iter_mut().map(|records| &mut records.handle)) {
                *handle = write(&read(store, &name, handle)?)?;
            }
        }
    }
    Ok(result)
}

fn regroup(
    store: &dyn Storage,
    operator: &mut OperatorSnapshot,
    max: MaxParallelism,
    write: &mut Write<'_>,
) -> Result<(), Error> {
    let problem = |problem| Error::Regroup { operator: operator.name.clone(), problem };
    let old: Vec<StateHandle> = operator.subtasks.iter().flat_map(|s| s.keyed.clone()).collect();
    // Not all former subtasks have key groups any more if there are fewer key groups than subtasks.
    let keyed = (operator.subtasks.len() as u32).min(max.get());
    let mut new = Vec::new();
    for index in 0..keyed {
        let range = KeyGroupRange::of_subtask(index, keyed, max);
        let mut regrouped = Regrouped::new(range, max);
        for handle in &old {
            let bytes = read(store, &operator.name, handle)?;
            regrouped.add(&handle.describe(), &bytes).map_err(problem)?;
        }
        let mut handles = Vec::new();
        for file in regrouped.into_files() {
            handles.push(write(&file.map_err(problem)?)?);
        }
        new.push((Some(range), handles));
    }
    for (index, subtask) in operator.subtasks.iter_mut().enumerate() {
        (subtask.range, subtask.keyed) = new.get_mut(index).map(std::mem::take).unwrap_or_default();
    }
    for records in operator.subtasks.iter_mut().flat_map(|s| &mut s.in_flight) {
        records.regrouped |= operator.max_parallelism != Some(max);
    }
    operator.max_parallelism = Some(max);
    Ok(())
}

fn read(store: &dyn Storage, operator: &str, handle: &StateHandle) -> Result<Vec<u8>, Error> {
    let bytes = handle
        .read(store)
        .map_err(|e| Error::Regroup { operator: operator.to_owned(), problem: e.into() })?;
    Ok(bytes.into_owned())
}

#[cfg(test)]
mod tests {
    use super::super::{OperatorState, SubtaskSnapshot};
    use super::*;
    use crate::model::serializer::Postcard;
    use crate::model::{JobId, OperatorUid};
    use crate::state::{KeyedState, Redistribution};
    use crate::storage::FileRef;
    use std::collections::BTreeMap;

    fn max(n: u32) -> MaxParallelism {
        MaxParallelism::new(n).unwrap()
    }

    fn key(n: u64) -> impl FnOnce(&mut Vec<u8>) {
        move |out| out.extend_from_slice(&n.to_be_bytes())
    }

    /// A checkpoint in a store: `keys` numbers with their squares, held by so many subtasks.
    fn checkpoint(store: &dyn Storage, keys: u64, parallelism: u32, groups: u32) -> Manifest {
        let mut manifest = Manifest::unborn(JobId::new("j").unwrap());
        let subtasks = (0..parallelism).map(|index| {
            let range = KeyGroupRange::of_subtask(index, parallelism, max(groups));
            let mut state = KeyedState::new(range, max(groups));
            let (squares, names) =
                (state.value::<u64>("square").unwrap(), state.value::<String>("name").unwrap());
            for n in 0..keys {
                let hash = crate::model::key_group::hash_key(&n.to_be_bytes());
                if range.contains(crate::model::key_group::key_group_of(hash, max(groups))) {
                    state.set_key(key(n));
                    squares.set(&mut state, n * n).unwrap();
                    names.set(&mut state, format!("number {n}")).unwrap();
                }
            }
            let files = state.freeze().into_files().enumerate();
            let keyed = files.map(|(i, file)| {
                let name = format!("state/old-{index}-{i}");
                StateHandle::File(FileRef::write(store, name, &file.unwrap()).unwrap())
            });
            SubtaskSnapshot {
                range: Some(range),
                keyed: keyed.collect(),
                operator: vec![OperatorState {
                    name: "list".into(),
                    redistribution: Redistribution::Split,
                    serializer: crate::model::Serializer::id(&Postcard::<u64>::default()),
                    entries: 1,
                    handle: StateHandle::Inline(vec![index as u8]),
                }],
                ..SubtaskSnapshot::default()
            }
        });
        manifest.operators.push(OperatorSnapshot {
            uid: OperatorUid("squares".into()),
            name: "squares".into(),
            max_parallelism: Some(max(groups)),
            subtasks: subtasks.collect(),
        });
        manifest
    }

    /// Everything that so many subtasks restore together; each entry by exactly one of them.
    fn contents(
        store: &dyn Storage,
        manifest: &Manifest,
        keys: u64,
        parallelism: u32,
        groups: u32,
    ) -> BTreeMap<u64, (u64, String)> {
        let uid = OperatorUid("squares".into());
        let planned = super::super::Planned {
            uid: uid.clone(),
            parallelism,
            max_parallelism: Some(max(groups)),
            stateful: true,
        };
        let plan = super::super::plan(manifest, &[planned]).unwrap();
        let mut found = BTreeMap::new();
        for index in 0..parallelism {
            let range = KeyGroupRange::of_subtask(index, parallelism, max(groups));
            let mut state = KeyedState::new(range, max(groups));
            let (squares, names) =
                (state.value::<u64>("square").unwrap(), state.value::<String>("name").unwrap());
            for handle in plan.of(&uid, index).keyed {
                state.restore(&handle.describe(), &handle.read(store).unwrap()).unwrap();
            }
            for n in 0..keys {
                let hash = crate::model::key_group::hash_key(&n.to_be_bytes());
                if range.contains(crate::model::key_group::key_group_of(hash, max(groups))) {
                    state.set_key(key(n));
                    let square = squares.get(&mut state).unwrap().unwrap();
                    let name = names.get(&mut state).unwrap().unwrap();
                    assert!(found.insert(n, (square, name)).is_none(), "{n} is in two subtasks");
                }
            }
        }
        found
    }

    #[test]
    fn every_entry_is_found_under_any_other_maximum_and_parallelism() {
        let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let open =
            |f: &tempfile::TempDir| storage::open(&format!("file://{}", f.path().display()), "j").unwrap();
        let (from, to) = (open(&one), open(&two));
        let keys = 2000;
        let expected: BTreeMap<u64, (u64, String)> =
            (0..keys).map(|n| (n, (n * n, format!("number {n}")))).collect();
        for (number, (then, groups, parallelism)) in
            [(3, 128, 5), (128, 512, 300), (128, 7, 7), (4, 2, 1), (16, 16, 16)].into_iter().enumerate()
        {
            // Four subtasks had it before, or three where there are no four key groups.
            let manifest = checkpoint(&*from, keys, then.min(4), then);
            let mut files = 0;
            let mut write = |bytes: &[u8]| {
                files += 1;
                FileRef::write(&*to, format!("state/new-{number}-{files}"), bytes).map(StateHandle::File)
            };
            let rewritten = rewrite(&*from, &manifest, max(groups), &mut write).unwrap();
            // The new checkpoint refers to nothing of the old store.
            assert_eq!(contents(&*to, &rewritten, keys, parallelism, groups), expected, "{then} to {groups}");
            for (old, new) in manifest.operators[0].subtasks.iter().zip(&rewritten.operators[0].subtasks) {
                let bytes = |h: &StateHandle, s: &dyn Storage| h.read(s).unwrap().into_owned();
                assert_eq!(bytes(&old.operator[0].handle, &*from), bytes(&new.operator[0].handle, &*to));
            }
            // Back again gives what was there.
            let mut inline = |bytes: &[u8]| Ok(StateHandle::Inline(bytes.to_vec()));
            let back = rewrite(&*to, &rewritten, max(then), &mut inline).unwrap();
            assert_eq!(contents(&*to, &back, keys, then, then), expected, "{groups} back to {then}");
        }
    }

    #[test]
    fn damaged_state_is_refused_by_its_files_name() {
        let folder = tempfile::tempdir().unwrap();
        let store = storage::open(&format!("file://{}", folder.path().display()), "j").unwrap();
        let mut manifest = checkpoint(&*store, 50, 1, 128);
        let StateHandle::File(file) = &mut manifest.operators[0].subtasks[0].keyed[0] else {
            panic!("a file")
        };
        file.crc32 ^= 1;
        let mut inline = |bytes: &[u8]| Ok(StateHandle::Inline(bytes.to_vec()));
        let error = rewrite(&*store, &manifest, max(256), &mut inline).unwrap_err().to_string();
        assert!(error.contains("squares") && error.contains("state/old-0-0"), "{error}");
    }
}
