//! The manifest: everything that a restart needs, in one blob whose existence is the completion.
//!
//! Inside an envelope (`TGMF`, version 2) as postcard. Manifests are numbered by *slot*, without gaps and apart
//! from checkpoint ids: a claim, a start, a checkpoint, a resolution each take one.

use crate::connector::Committable;
use crate::model::envelope::{self, EnvelopeError};
use crate::model::serializer::SerializerId;
use crate::model::{CheckpointId, Generation, JobId, KeyGroupRange, MaxParallelism, OperatorUid};
use crate::state::{Redistribution, StateHandle};
use crate::storage::FileRef;
use serde::{Deserialize, Serialize};

const MAGIC: [u8; 4] = *b"TGMF";
const VERSION: u16 = 2;

/// Why a manifest was published.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Cause {
    /// A process took the job over; the content is that of the manifest before.
    Claim,
    /// The sources' start positions are fixed.
    Start,
    /// A checkpoint is complete.
    Checkpoint,
    /// Pending transactions were resolved or replaced; the state is that of the manifest before.
    Resolution,
    /// The job was cancelled and its checkpoints deleted; there is no state.
    Cancelled,
    /// It stands in a savepoint, outside of any sequence.
    Savepoint,
    /// The job begins with a savepoint, or with the checkpoint of another job.
    Restore,
}

/// One named operator state of one subtask.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OperatorState {
    /// Its name within the operator.
    pub name: String,
    /// How it is given to subtasks.
    pub redistribution: Redistribution,
    /// What the entries are encoded with.
    pub serializer: SerializerId,
    /// How many entries the bytes hold.
    pub entries: u64,
    /// The entries, as the state room encodes them.
    pub handle: StateHandle,
}

/// Records that a barrier overtook in one channel of one task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InFlight {
    /// Which input of the operator, in the order of the graph.
    pub input: u32,
    /// The subtask that sent them.
    pub from: u32,
    /// What the records are encoded with.
    pub serializer: SerializerId,
    /// How many records the bytes hold.
    pub records: u64,
    /// Whether the number of key groups has changed since, so that a record's key may be another subtask's.
    pub regrouped: bool,
    /// The records in their order, as the exchange encodes them.
    pub handle: StateHandle,
}

/// What one subtask of one operator put into a checkpoint.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubtaskSnapshot {
    /// The key groups that `keyed` covers, if the operator has keyed state.
    pub range: Option<KeyGroupRange>,
    /// Keyed state, each piece in the format of a keyed snapshot.
    pub keyed: Vec<StateHandle>,
    /// State of the operator's own.
    pub operator: Vec<OperatorState>,
    /// What was under way to it, if it begins a task.
    pub in_flight: Vec<InFlight>,
    /// How far event time had come, in milliseconds since the Unix epoch, if it keeps any.
    pub watermark: Option<i64>,
    /// A source's positions, one entry a partition, opaque here.
    pub splits: Vec<Vec<u8>>,
    /// A sink's transactions, in order of preparation.
    pub committables: Vec<Committable>,
}

impl SubtaskSnapshot {
    /// Every piece of state in it.
    pub fn handles(&self) -> impl Iterator<Item = &StateHandle> {
        let operator = self.operator.iter().map(|s| &s.handle);
        self.keyed.iter().chain(operator).chain(self.in_flight.iter().map(|f| &f.handle))
    }

    /// As [`SubtaskSnapshot::handles`], to change them.
    pub fn handles_mut(&mut self) -> impl Iterator<Item = &mut StateHandle> {
        let operator = self.operator.iter_mut().map(|s| &mut s.handle);
        self.keyed.iter_mut().chain(operator).chain(self.in_flight.iter_mut().map(|f| &mut f.handle))
    }

    /// Whether it holds nothing but records in flight.
    pub fn is_in_flight_only(&self) -> bool {
        let Self { range, keyed, operator, in_flight: _, watermark: _, splits, committables } = self;
        range.is_none()
            && keyed.is_empty()
            && operator.is_empty()
            && splits.is_empty()
            && committables.is_empty()
    }

    /// All files that it refers to.
    pub fn files(&self) -> impl Iterator<Item = &FileRef> {
        self.handles().filter_map(StateHandle::file)
    }
}

/// What all subtasks of one operator put into a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OperatorSnapshot {
    /// By which it is found again.
    pub uid: OperatorUid,
    /// Its name when the checkpoint was taken, for people.
    pub name: String,
    /// The number of key groups, if it has keyed state.
    pub max_parallelism: Option<MaxParallelism>,
    /// By subtask index.
    pub subtasks: Vec<SubtaskSnapshot>,
}

/// One entry of a job's sequence of truths.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// The job.
    pub job: JobId,
    /// The place in the sequence.
    pub slot: u64,
    /// Which claim of the job published it.
    pub generation: Generation,
    /// Random, to recognise one's own publication.
    pub nonce: String,
    /// Why it was published.
    pub cause: Cause,
    /// The last complete checkpoint; 0 before the first.
    pub checkpoint: CheckpointId,
    /// Ids below this one may have been used; a new process begins here.
    pub reserved: CheckpointId,
    /// Whether the sources' start positions are fixed.
    pub started: bool,
    /// Whether a bounded job has come to its end.
    pub finished: bool,
    /// When it was published, milliseconds since the Unix epoch, for people.
    pub published_at_ms: i64,
    /// What the job began with last, see [`savepoint::Snapshot::origin`](super::savepoint::Snapshot::origin); of one that has
    /// not started, what it is about to begin with. Empty if there is nothing.
    pub restored_from: String,
    /// The operators with anything to remember.
    pub operators: Vec<OperatorSnapshot>,
}

impl Manifest {
    /// The content before a job's first claim.
    pub fn unborn(job: JobId) -> Self {
        Self {
            job,
            slot: 0,
            generation: Generation(0),
            nonce: String::new(),
            cause: Cause::Claim,
            checkpoint: CheckpointId(0),
            reserved: CheckpointId(1),
            started: false,
            finished: false,
            published_at_ms: 0,
            restored_from: String::new(),
            operators: Vec::new(),
        }
    }

    /// The name of the blob in this slot.
    pub fn name_of(slot: u64) -> String {
        format!("manifest/{slot:020}")
    }

    /// As bytes.
    pub fn encode(&self) -> Vec<u8> {
        let body = postcard::to_stdvec(self).expect("a manifest has only plain fields");
        envelope::seal(MAGIC, VERSION, &body)
    }

    /// From bytes.
    ///
    /// # Errors
    /// What the envelope says; a body that is no manifest counts as a wrong length.
    pub fn decode(bytes: &[u8]) -> Result<Self, EnvelopeError> {
        let body = envelope::open(MAGIC, VERSION, bytes)?;
        postcard::from_bytes(body)
            .map_err(|_| EnvelopeError::Length { expected: 0, found: body.len() as u64 })
    }

    /// The size of all state in it, in files and in the manifest itself.
    pub fn bytes(&self) -> u64 {
        let subtasks = self.operators.iter().flat_map(|o| &o.subtasks);
        subtasks.flat_map(SubtaskSnapshot::handles).map(StateHandle::bytes).sum()
    }

    /// All files that it refers to.
    pub fn files(&self) -> impl Iterator<Item = &FileRef> {
        self.operators.iter().flat_map(|o| &o.subtasks).flat_map(SubtaskSnapshot::files)
    }

    /// How many records are in flight in it.
    pub fn records_in_flight(&self) -> u64 {
        let subtasks = self.operators.iter().flat_map(|o| &o.subtasks);
        subtasks.flat_map(|s| &s.in_flight).map(|f| f.records).sum()
    }

    /// Whether any transaction is pending.
    pub fn has_committables(&self) -> bool {
        self.operators.iter().flat_map(|o| &o.subtasks).any(|s| !s.committables.is_empty())
    }

    /// The same without pending transactions.
    #[must_use]
    pub fn without_committables(mut self) -> Self {
        for subtask in self.operators.iter_mut().flat_map(|o| &mut o.subtasks) {
            subtask.committables.clear();
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manifest_comes_back_and_a_flipped_byte_is_found() {
        let mut manifest = Manifest::unborn(JobId::new("orders").unwrap());
        manifest.operators.push(OperatorSnapshot {
            uid: OperatorUid("sink".into()),
            name: "sink".into(),
            max_parallelism: None,
            subtasks: vec![SubtaskSnapshot {
                committables: vec![Committable { sequence: 7, deadline_ms: 0, evidence: vec![1, 2] }],
                ..SubtaskSnapshot::default()
            }],
        });
        let bytes = manifest.encode();
        assert_eq!(Manifest::decode(&bytes).unwrap(), manifest);
        for at in 0..bytes.len() {
            let mut broken = bytes.clone();
            broken[at] ^= 1;
            assert!(Manifest::decode(&broken).is_err(), "byte {at}");
        }
        assert!(!manifest.without_committables().has_committables());
    }
}
