//! What a checkpoint or savepoint holds, piece by piece, and whether it can be relied on.

use super::KafkaArguments;
use super::output::Row;
use crate::checkpoint::savepoint::Snapshot;
use crate::checkpoint::{OperatorSnapshot, SubtaskSnapshot};
use crate::connector::kafka::sink::ByHand;
use crate::connector::kafka::source::{Position, position_of};
use crate::model::Failure;
use crate::state::{StateHandle, contents};
use serde::Serialize;
use std::collections::BTreeMap;

/// One piece of what a subtask put into it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Piece {
    /// The operator's uid.
    operator: String,
    /// The operator's name.
    name: String,
    subtask: usize,
    /// The state's name; positions, pending transactions and records in flight have none.
    state: String,
    /// As value, list, union, broadcast, position, transaction or in flight.
    kind: String,
    /// The first and the last key group of a keyed state, and how many the operator has; null without keys.
    key_groups: Option<(u32, u32, u32)>,
    /// Entries, records, or the offset that is read next; null if only a reading of the entries would tell.
    count: Option<u64>,
    bytes: u64,
    /// The file; null if it lies in the manifest.
    file: Option<String>,
}

impl Row for Piece {
    const COLUMNS: &'static [&'static str] =
        &["OPERATOR", "NAME", "SUBTASK", "STATE", "KIND", "KEY GROUPS", "COUNT", "BYTES", "FILE"];

    fn cells(&self) -> Vec<String> {
        vec![
            self.operator.clone(),
            self.name.clone(),
            self.subtask.to_string(),
            self.state.clone(),
            self.kind.clone(),
            self.key_groups.map_or(String::new(), |(first, last, of)| format!("{first}-{last} of {of}")),
            self.count.map_or(String::new(), |n| n.to_string()),
            self.bytes.to_string(),
            self.file.clone().unwrap_or_default(),
        ]
    }
}

/// Everything in it, in the order of the manifest. Keyed files are read, for their names of states.
///
/// # Errors
/// When a file or a position cannot be read.
pub(super) fn pieces(snapshot: &Snapshot) -> Result<Vec<Piece>, Failure> {
    let mut found = Vec::new();
    for operator in &snapshot.manifest.operators {
        for (subtask, of) in operator.subtasks.iter().enumerate() {
            pieces_of(snapshot, operator, subtask, of, &mut found)?;
        }
    }
    Ok(found)
}

fn pieces_of(
    snapshot: &Snapshot,
    operator: &OperatorSnapshot,
    subtask: usize,
    of: &SubtaskSnapshot,
    found: &mut Vec<Piece>,
) -> Result<(), Failure> {
    let piece = |state: &str, kind: &str, bytes: u64| Piece {
        operator: operator.uid.to_string(),
        name: operator.name.clone(),
        subtask,
        state: state.to_owned(),
        kind: kind.to_owned(),
        key_groups: None,
        count: None,
        bytes,
        file: None,
    };
    let file = |handle: &StateHandle| handle.file().map(|file| file.name.clone());
    let groups = operator.max_parallelism.map_or(0, |max| max.get());
    for handle in &of.keyed {
        let bytes = handle.read(&*snapshot.store).map_err(crate::checkpoint::Error::from)?;
        for state in contents(&handle.describe(), &bytes).map_err(Failure::from)? {
            let key_groups = Some((u32::from(state.first.0), u32::from(state.last.0), groups));
            let file = file(handle);
            found.push(Piece { key_groups, file, ..piece(&state.name, &state.kind, state.bytes) });
        }
    }
    for state in &of.operator {
        let (count, file) = (Some(state.entries), file(&state.handle));
        let kind = state.redistribution.to_string();
        found.push(Piece { count, file, ..piece(&state.name, &kind, state.handle.bytes()) });
    }
    for flight in &of.in_flight {
        let (count, file) = (Some(flight.records), file(&flight.handle));
        let from = format!("input {} from subtask {}", flight.input, flight.from);
        found.push(Piece { count, file, ..piece(&from, "in flight", flight.handle.bytes()) });
    }
    for split in &of.splits {
        let Position { topic, partition, next } = position_of(split)?;
        let count = u64::try_from(next).ok();
        let place = format!("{topic}-{partition}");
        found.push(Piece { count, ..piece(&place, "position", split.len() as u64) });
    }
    for committable in &of.committables {
        let count = Some(committable.sequence);
        found.push(Piece { count, ..piece("", "transaction", committable.evidence.len() as u64) });
    }
    Ok(())
}

/// A partition that stands more than once, be it at another offset, has two owners.
pub(super) fn twice_owned(snapshot: &Snapshot) -> Vec<String> {
    let mut problems = Vec::new();
    for operator in &snapshot.manifest.operators {
        let mut owners: BTreeMap<(String, i32), Vec<String>> = BTreeMap::new();
        for (subtask, of) in operator.subtasks.iter().enumerate() {
            for split in &of.splits {
                match position_of(split) {
                    Ok(Position { topic, partition, next }) => owners
                        .entry((topic, partition))
                        .or_default()
                        .push(format!("subtask {subtask} at offset {next}")),
                    Err(e) => problems.push(format!("source {}: {e}", operator.uid)),
                }
            }
        }
        for ((topic, partition), owners) in owners.into_iter().filter(|(_, owners)| owners.len() > 1) {
            problems.push(format!(
                "source {}: topic {topic} partition {partition} has more than one owner: {}",
                operator.uid,
                owners.join(", ")
            ));
        }
    }
    problems
}

/// Asks the brokers whether what is listed as pending is committed, or can still be.
///
/// # Errors
/// When they do not answer.
pub(super) fn lost(snapshot: &Snapshot, kafka: &KafkaArguments) -> Result<Vec<String>, Failure> {
    let mut brokers = ByHand::new(kafka.connection())?;
    let mut problems = Vec::new();
    for operator in &snapshot.manifest.operators {
        for committable in operator.subtasks.iter().flat_map(|s| &s.committables) {
            let pending = brokers.pending(committable)?;
            if !matches!(pending.state.as_str(), "open" | "being ended" | "committed") {
                problems.push(format!(
                    "sink {}: transaction {} of {} records is {} at the brokers and can be committed no more",
                    operator.uid, pending.id, pending.records, pending.state
                ));
            }
        }
    }
    Ok(problems)
}
