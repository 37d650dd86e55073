//! The asynchronous half of a snapshot: what tasks froze is written by a few threads while they go on.

use super::events::{Events, Snapshot, SnapshotProblem, What};
use crate::checkpoint::{OperatorState, SubtaskSnapshot};
use crate::host::{random, thread};
use crate::model::key_group::hash_key;
use crate::model::{Advice, CheckpointId, Failure, Generation, OperatorUid, TaskId};
use crate::operator::{Frozen, FrozenPart};
use crate::state::{FrozenKeyed, FrozenStates, StateHandle};
use crate::storage::{FileRef, Storage};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

/// Threads that write snapshots.
const THREADS: usize = 2;

/// Snapshots that may wait to be written, for each task; beyond that a checkpoint is declined.
const WAITING_PER_TASK: usize = 2;

struct Order {
    task: TaskId,
    checkpoint: CheckpointId,
    frozen: Frozen,
}

/// Takes frozen state from tasks.
#[derive(Clone)]
pub(super) struct Snapshots(SyncSender<Order>);

impl Snapshots {
    /// Starts the writing threads; they end when the last handle is dropped and everything is written.
    pub(super) fn start(
        tasks: usize,
        store: &Arc<dyn Storage>,
        generation: Generation,
        events: &Events,
    ) -> Result<(Self, Vec<JoinHandle<()>>), Failure> {
        let (sender, receiver) = sync_channel(tasks * WAITING_PER_TASK);
        let receiver = Arc::new(Mutex::new(receiver));
        let mut threads = Vec::new();
        for number in 0..THREADS {
            let writer = Writer {
                receiver: Arc::clone(&receiver),
                store: Arc::clone(store),
                generation,
                events: events.clone(),
            };
            let started = thread::spawn(format!("snapshot-{number}"), move || writer.run());
            threads.push(started.map_err(|e| Failure::restart(format!("no thread for snapshots: {e}")))?);
        }
        Ok((Self(sender), threads))
    }

    /// Hands frozen state over; never waits.
    ///
    /// # Errors
    /// A reason to decline, when the writers are too far behind.
    pub(super) fn submit(
        &self,
        task: TaskId,
        checkpoint: CheckpointId,
        frozen: Frozen,
    ) -> Result<(), String> {
        self.0.try_send(Order { task, checkpoint, frozen }).map_err(|e| match e {
            TrySendError::Full(_) => {
                "earlier snapshots are still being written: the storage is too slow".to_owned()
            }
            TrySendError::Disconnected(_) => "the attempt is over".to_owned(),
        })
    }
}

struct Writer {
    receiver: Arc<Mutex<Receiver<Order>>>,
    store: Arc<dyn Storage>,
    generation: Generation,
    events: Events,
}

impl Writer {
    fn run(self) {
        loop {
            let order = self.receiver.lock().unwrap_or_else(PoisonError::into_inner).recv();
            let Ok(Order { task, checkpoint, frozen }) = order else { return };
            let written = catch_unwind(AssertUnwindSafe(|| self.write(task, checkpoint, frozen)));
            let result = written.unwrap_or_else(|panic| {
                let text = format!("writing a snapshot panicked: {}", thread::panic_text(&*panic));
                Err(SnapshotProblem::Failed(Failure::new(Advice::Restart, text)))
            });
            self.events.send(What::Snapshot { checkpoint, task, result });
        }
    }

    fn write(
        &self,
        task: TaskId,
        checkpoint: CheckpointId,
        frozen: Frozen,
    ) -> Result<Snapshot, SnapshotProblem> {
        let mut snapshot = Snapshot::new();
        for (uid, part) in frozen {
            match self.write_part(task, checkpoint, &uid, part) {
                Ok(subtask) => match snapshot.last_mut() {
                    // An operator with state of both kinds.
                    Some((last, whole)) if *last == uid => {
                        whole.range = whole.range.or(subtask.range);
                        whole.keyed.extend(subtask.keyed);
                        whole.operator.extend(subtask.operator);
                    }
                    _ => snapshot.push((uid, subtask)),
                },
                Err(problem) => {
                    // Nobody will know of what the operators before it have written.
                    self.delete(snapshot.iter().flat_map(|(_, subtask)| subtask.files()));
                    return Err(problem);
                }
            }
        }
        Ok(snapshot)
    }

    fn write_part(
        &self,
        task: TaskId,
        checkpoint: CheckpointId,
        uid: &OperatorUid,
        part: FrozenPart,
    ) -> Result<SubtaskSnapshot, SnapshotProblem> {
        let mut subtask = SubtaskSnapshot::default();
        match part {
            FrozenPart::Splits(splits) => subtask.splits = splits,
            FrozenPart::Sink(evidence) => {
                subtask.committables = evidence().map_err(SnapshotProblem::Failed)?;
            }
            FrozenPart::Keyed(keyed) => {
                subtask.range = Some(keyed.range());
                let files = self.write_keyed(task, checkpoint, uid, keyed)?;
                subtask.keyed = files.into_iter().map(StateHandle::File).collect();
                crate::fault_point!("state.after_upload");
            }
            FrozenPart::Operator(states) => {
                subtask.operator = self.write_operator(task, checkpoint, uid, states)?;
                crate::fault_point!("state.after_upload");
            }
        }
        Ok(subtask)
    }

    /// Takes files back that no manifest lists; what cannot be deleted is an orphan.
    fn delete<'a>(&self, files: impl Iterator<Item = &'a FileRef>) {
        for file in files {
            let _ = self.store.delete(&file.name);
        }
    }

    fn write_keyed(
        &self,
        task: TaskId,
        checkpoint: CheckpointId,
        uid: &OperatorUid,
        keyed: FrozenKeyed,
    ) -> Result<Vec<FileRef>, SnapshotProblem> {
        let mut written: Vec<FileRef> = Vec::new();
        for (number, file) in keyed.into_files().enumerate() {
            let file = file.map_err(|e| SnapshotProblem::Failed(e.into()))?;
            let name = self.name(task, checkpoint, uid, "k", number);
            match FileRef::write(&*self.store, name, &file) {
                Ok(reference) => written.push(reference),
                Err(e) => {
                    self.delete(written.iter());
                    return Err(SnapshotProblem::Declined(e.to_string()));
                }
            }
        }
        Ok(written)
    }

    fn write_operator(
        &self,
        task: TaskId,
        checkpoint: CheckpointId,
        uid: &OperatorUid,
        states: FrozenStates,
    ) -> Result<Vec<OperatorState>, SnapshotProblem> {
        let pieces = states.into_entries().map_err(|e| SnapshotProblem::Failed(e.into()))?;
        let mut written: Vec<OperatorState> = Vec::new();
        for (number, piece) in pieces.into_iter().enumerate() {
            let name = self.name(task, checkpoint, uid, "o", number);
            match FileRef::write(&*self.store, name, &piece.bytes) {
                Ok(file) => written.push(OperatorState {
                    name: piece.name,
                    redistribution: piece.redistribution,
                    serializer: piece.serializer,
                    entries: piece.entries,
                    handle: StateHandle::File(file),
                }),
                Err(e) => {
                    self.delete(written.iter().filter_map(|state| state.handle.file()));
                    return Err(SnapshotProblem::Declined(e.to_string()));
                }
            }
        }
        Ok(written)
    }

    fn name(
        &self,
        task: TaskId,
        checkpoint: CheckpointId,
        uid: &OperatorUid,
        kind: &str,
        number: usize,
    ) -> String {
        format!(
            "state/{}-{}-{:08x}-{}-{kind}{number}-{}",
            self.generation,
            checkpoint,
            hash_key(uid.0.as_bytes()) as u32,
            task.subtask.0,
            random::token()
        )
    }
}
