//! From a manifest and a plan to what each subtask begins with: key groups by Flink's arithmetic, source positions to
//! everybody (each reader keeps its own), operator state by its kind, everything without a home refused.

use super::redistribute::shares;
use super::restore_in_flight::in_flight_of;
use super::{InFlightRestore, Manifest, SubtaskSnapshot};
use crate::model::{KeyGroupRange, MaxParallelism, OperatorUid};
use crate::state::{StateHandle, StateShare};
use std::collections::BTreeMap;

/// An operator as the job now has it.
#[derive(Debug, Clone)]
pub struct Planned {
    /// By which its state is found.
    pub uid: OperatorUid,
    /// How many subtasks it has now.
    pub parallelism: u32,
    /// Its key groups, if it has keyed state.
    pub max_parallelism: Option<MaxParallelism>,
    /// Whether it keeps anything in checkpoints at all.
    pub stateful: bool,
}

/// What one subtask begins with.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SubtaskRestore {
    /// What holds some of its key groups.
    pub keyed: Vec<StateHandle>,
    /// All positions of the source, of all former subtasks.
    pub splits: Vec<Vec<u8>>,
    /// Its part of each operator state.
    pub operator: Vec<StateShare>,
    /// What it replays before anything new, if its operator had anything in flight.
    pub in_flight: Option<InFlightRestore>,
}

/// What every subtask begins with, by operator uid.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RestorePlan {
    /// By subtask index.
    pub operators: BTreeMap<OperatorUid, Vec<SubtaskRestore>>,
}

impl RestorePlan {
    /// What one subtask begins with; nothing for an operator that is new.
    pub fn of(&self, uid: &OperatorUid, subtask: u32) -> SubtaskRestore {
        self.operators.get(uid).and_then(|s| s.get(subtask as usize)).cloned().unwrap_or_default()
    }
}

/// Distributes the manifest's state over the planned operators.
///
/// # Errors
/// A text for the first thing that does not fit: state that no operator claims, another number of key groups.
pub fn plan(manifest: &Manifest, planned: &[Planned]) -> Result<RestorePlan, String> {
    let mut result = RestorePlan::default();
    for snapshot in &manifest.operators {
        let uid = &snapshot.uid;
        let holds_state =
            snapshot.subtasks.iter().any(|s| s.handles().next().is_some() || !s.splits.is_empty());
        // What was in flight to an operator is no state of its own: one without state has it too.
        let takes = |p: &&Planned| {
            p.uid == *uid && (p.stateful || snapshot.subtasks.iter().all(SubtaskSnapshot::is_in_flight_only))
        };
        let Some(now) = planned.iter().find(takes) else {
            if holds_state {
                return Err(format!(
                    "it has state of operator {uid:?} ({name}), and no operator of this job has that uid; give the \
                     operator its former uid, start with --allow-unclaimed-state to drop what no operator claims, or with \
                     --fresh to drop all state",
                    uid = uid.0,
                    name = snapshot.name
                ));
            }
            continue;
        };
        if let (Some(then), Some(now)) = (snapshot.max_parallelism, now.max_parallelism)
            && then != now
        {
            return Err(format!(
                "operator {:?} was started with a maximum parallelism of {}, this job has {}; set it to {} (it is fixed \
                 at the first start)",
                uid.0,
                then.get(),
                now.get(),
                then.get()
            ));
        }
        let splits: Vec<Vec<u8>> = snapshot.subtasks.iter().flat_map(|s| s.splits.clone()).collect();
        let operator = shares(&snapshot.subtasks, now.parallelism)
            .map_err(|problem| format!("operator {:?} ({}): {problem}", uid.0, snapshot.name))?;
        let subtasks = (0..now.parallelism).zip(operator).map(|(index, operator)| {
            let range = now.max_parallelism.map(|max| KeyGroupRange::of_subtask(index, now.parallelism, max));
            let keyed = snapshot
                .subtasks
                .iter()
                .filter(|old| matches!((old.range, range), (Some(a), Some(b)) if a.overlaps(b)))
                .flat_map(|old| old.keyed.clone())
                .collect();
            let in_flight = in_flight_of(snapshot, index, now.parallelism, range);
            SubtaskRestore { keyed, splits: splits.clone(), operator, in_flight }
        });
        result.operators.insert(uid.clone(), subtasks.collect());
    }
    Ok(result)
}

#[cfg(test)]
mod tests {
    use super::super::OperatorSnapshot;
    use super::*;
    use crate::model::JobId;
    use crate::storage::FileRef;

    fn max(n: u32) -> MaxParallelism {
        MaxParallelism::new(n).unwrap()
    }

    fn manifest(parallelism: u32) -> Manifest {
        let mut manifest = Manifest::unborn(JobId::new("j").unwrap());
        let subtasks = (0..parallelism).map(|i| SubtaskSnapshot {
            range: Some(KeyGroupRange::of_subtask(i, parallelism, max(128))),
            keyed: vec![StateHandle::File(FileRef { name: format!("f{i}"), bytes: 1, crc32: 0 })],
            ..SubtaskSnapshot::default()
        });
        manifest.operators.push(OperatorSnapshot {
            uid: OperatorUid("count".into()),
            name: "count".into(),
            max_parallelism: Some(max(128)),
            subtasks: subtasks.collect(),
        });
        manifest
    }

    fn planned(parallelism: u32, groups: u32) -> Planned {
        let uid = OperatorUid("count".into());
        Planned { uid, parallelism, max_parallelism: Some(max(groups)), stateful: true }
    }

    #[test]
    fn each_subtask_reads_the_files_that_overlap_its_key_groups() {
        let table: &[(u32, u32, &[&[&str]])] = &[
            (1, 2, &[&["f0"], &["f0"]]),
            (2, 1, &[&["f0", "f1"]]),
            (2, 3, &[&["f0"], &["f0", "f1"], &["f1"]]),
            (4, 2, &[&["f0", "f1"], &["f2", "f3"]]),
        ];
        for (then, now, expected) in table {
            let plan = plan(&manifest(*then), &[planned(*now, 128)]).unwrap();
            for (i, files) in expected.iter().enumerate() {
                let found = plan.of(&OperatorUid("count".into()), i as u32).keyed;
                let names: Vec<_> = found.iter().filter_map(|h| Some(h.file()?.name.as_str())).collect();
                assert_eq!(names, *files, "{then} to {now}, subtask {i}");
            }
        }
    }

    #[test]
    fn what_does_not_fit_is_refused_with_the_way_out() {
        let text = plan(&manifest(1), &[planned(1, 64)]).unwrap_err();
        assert!(text.contains("128") && text.contains("64"), "{text}");
        let text = plan(&manifest(1), &[]).unwrap_err();
        assert!(text.contains("\"count\"") && text.contains("--fresh"), "{text}");
    }
}
