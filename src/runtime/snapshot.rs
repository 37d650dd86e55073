//! The asynchronous half of a snapshot: what tasks froze is written by a few threads while they go on.

use super::events::{Events, Snapshot, SnapshotProblem, What};
use crate::checkpoint::{InFlight, OperatorState, Settings, SubtaskSnapshot};
use crate::host::{random, thread};
use crate::model::key_group::hash_key;
use crate::model::{Advice, CheckpointId, Failure, Generation, OperatorUid, TaskId};
use crate::operator::{Captured, Frozen, FrozenPart};
use crate::state::{FrozenStates, StateHandle};
use crate::storage::{FileRef, Storage};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

/// Threads that write snapshots.
const THREADS: usize = 2;

/// Snapshots that may wait to be written, for each task and checkpoint that may be under way; beyond that a checkpoint is
/// declined.
const WAITING_PER_TASK: usize = 2;

/// Records in flight of one channel are kept in the manifest up to this size. 4 KiB.
const INLINE_BYTES: usize = 4096;

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
        settings: &Settings,
        events: &Events,
        cancelled: &Arc<AtomicBool>,
    ) -> Result<(Self, Vec<JoinHandle<()>>), Failure> {
        let waiting = tasks * WAITING_PER_TASK * settings.maximum_concurrent as usize;
        let (sender, receiver) = sync_channel(waiting);
        let receiver = Arc::new(Mutex::new(receiver));
        let mut threads = Vec::new();
        for number in 0..THREADS {
            let writer = Writer {
                receiver: Arc::clone(&receiver),
                store: Arc::clone(store),
                generation,
                inline_below_bytes: settings.inline_below_bytes,
                events: events.clone(),
                cancelled: Arc::clone(cancelled),
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
    inline_below_bytes: u64,
    events: Events,
    cancelled: Arc<AtomicBool>,
}

impl Writer {
    fn run(self) {
        loop {
            let order = self.receiver.lock().unwrap_or_else(PoisonError::into_inner).recv();
            let Ok(Order { task, checkpoint, frozen }) = order else { return };
            // Nobody will list it any more; a store that is away would hold up the next attempt.
            if self.cancelled.load(Ordering::Relaxed) {
                continue;
            }
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
            // One operator may have several parts.
            let at = snapshot.iter().position(|(known, _)| *known == uid).unwrap_or_else(|| {
                snapshot.push((uid.clone(), SubtaskSnapshot::default()));
                snapshot.len() - 1
            });
            match self.write_part(task, checkpoint, &uid, part, &mut snapshot[at].1) {
                Ok(()) => {}
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
        subtask: &mut SubtaskSnapshot,
    ) -> Result<(), SnapshotProblem> {
        match part {
            FrozenPart::Splits(splits) => subtask.splits = splits,
            FrozenPart::Sink(evidence) => {
                subtask.committables = evidence().map_err(SnapshotProblem::Failed)?;
            }
            FrozenPart::Keyed(keyed) => {
                subtask.range = Some(keyed.range());
                let pieces = keyed.into_files().map(|piece| piece.map_err(Failure::from));
                subtask.keyed = self.write_pieces(task, checkpoint, uid, pieces)?;
                crate::fault_point!("state.after_upload");
            }
            FrozenPart::Operator(states) => {
                subtask.operator = self.write_operator(task, checkpoint, uid, states)?;
                crate::fault_point!("state.after_upload");
            }
            FrozenPart::InFlight(channels) => {
                for captured in channels {
                    let number = subtask.in_flight.len();
                    subtask.in_flight.push(self.write_in_flight(task, checkpoint, uid, captured, number)?);
                }
            }
        }
        Ok(())
    }

    fn write_in_flight(
        &self,
        task: TaskId,
        checkpoint: CheckpointId,
        uid: &OperatorUid,
        captured: Captured,
        number: usize,
    ) -> Result<InFlight, SnapshotProblem> {
        let Captured { input, from, ref serializer, records, .. } = captured;
        let serializer = serializer.clone();
        let bytes = captured.encode().map_err(|problem| {
            SnapshotProblem::Failed(Failure::new(
                Advice::FixConfiguration,
                format!("operator {uid}: a record in flight cannot be written by its serializer: {problem}"),
            ))
        })?;
        let handle = if bytes.len() <= INLINE_BYTES {
            StateHandle::Inline(bytes)
        } else {
            let name = self.name(task, checkpoint, uid, "f", number);
            let written = FileRef::write(&*self.store, name, &bytes);
            StateHandle::File(written.map_err(|e| SnapshotProblem::Declined(e.to_string()))?)
        };
        Ok(InFlight { input, from, serializer, records, regrouped: false, handle })
    }

    /// Takes files back that no manifest lists; what cannot be deleted is an orphan.
    fn delete<'a>(&self, files: impl Iterator<Item = &'a FileRef>) {
        for file in files {
            let _ = self.store.delete(&file.name);
        }
    }

    /// Writes pieces of an operator's state, each to a file of its own or, if it is small, into the manifest. Takes all
    /// files back if one cannot be written.
    fn write_pieces(
        &self,
        task: TaskId,
        checkpoint: CheckpointId,
        uid: &OperatorUid,
        pieces: impl Iterator<Item = Result<Vec<u8>, Failure>>,
    ) -> Result<Vec<StateHandle>, SnapshotProblem> {
        let mut written = Vec::new();
        for (number, piece) in pieces.enumerate() {
            let handle = piece
                .map_err(SnapshotProblem::Failed)
                .and_then(|bytes| self.write_piece(self.name(task, checkpoint, uid, "k", number), bytes));
            match handle {
                Ok(handle) => written.push(handle),
                Err(problem) => {
                    self.delete(written.iter().filter_map(StateHandle::file));
                    return Err(problem);
                }
            }
        }
        Ok(written)
    }

    /// Into the manifest, if it is small.
    fn write_piece(&self, name: String, bytes: Vec<u8>) -> Result<StateHandle, SnapshotProblem> {
        if (bytes.len() as u64) < self.inline_below_bytes {
            return Ok(StateHandle::Inline(bytes));
        }
        let file = FileRef::write(&*self.store, name, &bytes);
        file.map(StateHandle::File).map_err(|e| SnapshotProblem::Declined(e.to_string()))
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
            match self.write_piece(name, piece.bytes) {
                Ok(handle) => written.push(OperatorState {
                    name: piece.name,
                    redistribution: piece.redistribution,
                    serializer: piece.serializer,
                    entries: piece.entries,
                    handle,
                }),
                Err(problem) => {
                    self.delete(written.iter().filter_map(|state| state.handle.file()));
                    return Err(problem);
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
