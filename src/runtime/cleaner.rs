//! Deletes what is superseded, on a thread of its own, so that no checkpoint waits for a deletion.

use crate::checkpoint::{Deletions, Manifest};
use crate::host::thread;
use crate::model::Failure;
use crate::storage::Storage;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;

/// Orders that may wait; one that finds no room is left to a later sweep.
const WAITING: usize = 256;

/// Takes lists of names to delete.
pub(super) struct Cleaner {
    to: SyncSender<Vec<String>>,
    thread: JoinHandle<()>,
}

impl Cleaner {
    pub(super) fn start(store: Arc<dyn Storage>) -> Result<Self, Failure> {
        let (to, from) = sync_channel::<Vec<String>>(WAITING);
        let body = move || {
            for name in from.into_iter().flatten() {
                if let Err(e) = store.delete(&name) {
                    tracing::warn!(name, error = %e, "a superseded file could not be deleted and stays behind");
                }
            }
        };
        let thread = thread::spawn("cleaner", body)
            .map_err(|e| Failure::restart(format!("no thread for deletions: {e}")))?;
        Ok(Self { to, thread })
    }

    /// Deletes what the retention gave up: files first, so that no manifest is gone before what it names.
    pub(super) fn superseded(&self, deletions: Deletions) {
        let mut names = deletions.files;
        names.extend(deletions.slots.into_iter().map(Manifest::name_of));
        self.delete(names);
    }

    /// Deletes files by name.
    pub(super) fn delete(&self, names: Vec<String>) {
        if names.is_empty() {
            return;
        }
        if let Err(TrySendError::Full(names)) = self.to.try_send(names) {
            tracing::warn!(files = names.len(), "deletions are too far behind, these files stay behind");
        }
    }

    /// Deletes what is waiting, then ends.
    pub(super) fn close(self) {
        drop(self.to);
        let _ = self.thread.join();
    }
}
