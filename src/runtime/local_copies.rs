//! Second copies of state files on this machine, so that a restart need not fetch them from far away.
//!
//! Its law: a copy is never trusted. It carries its own checksum, the reader compares what it gets with the manifest
//! besides, and whatever is missing or damaged comes from the storage. So nothing here is durable, and nothing here can
//! fail a checkpoint.

use crate::host::metrics::Metrics;
use crate::model::JobId;
use crate::storage::{self, Put, Storage};
use prometheus::IntCounter;
use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// What is copied: files of state, not manifests.
const COPIED: &str = "state/";

/// A store whose state files are kept here too.
pub(super) struct LocalCopies {
    store: Arc<dyn Storage>,
    folder: PathBuf,
    used: IntCounter,
    missed: IntCounter,
}

impl LocalCopies {
    /// In front of a store; the job gets a folder of its own.
    pub(super) fn new(store: Arc<dyn Storage>, folder: &Path, job: &JobId, metrics: &Metrics) -> Self {
        let name: String = job.as_str().bytes().map(|byte| format!("{byte:02x}")).collect();
        let job = job.to_string();
        let labels = [("job", job.as_str())];
        let used = metrics.own_counter(
            "tidegate_local_recovery_files_total",
            "State files that were restored from this machine.",
            &labels,
        );
        let missed = metrics.own_counter(
            "tidegate_local_recovery_missed_total",
            "State files that had no good copy on this machine and came from the storage.",
            &labels,
        );
        Self { store, folder: folder.join(name), used, missed }
    }

    fn path(&self, name: &str) -> Option<PathBuf> {
        let below = name.strip_prefix(COPIED)?;
        Some(self.folder.join(below))
    }

    /// Deletes every copy but these: what a former attempt left and no restart will ask for.
    pub(super) fn keep_only<'a>(&self, names: impl Iterator<Item = &'a str>) {
        let kept: HashSet<PathBuf> = names.filter_map(|name| self.path(name)).collect();
        for entry in fs::read_dir(&self.folder).into_iter().flatten().flatten() {
            if !kept.contains(&entry.path()) {
                // One that stays is deleted next time.
                let _ = fs::remove_file(entry.path());
            }
        }
    }

    fn copy(&self, name: &str, bytes: &[u8]) {
        let Some(path) = self.path(name) else { return };
        let mut sealed = Vec::with_capacity(bytes.len() + 4);
        sealed.extend_from_slice(&crc32fast::hash(bytes).to_be_bytes());
        sealed.extend_from_slice(bytes);
        if let Err(e) = fs::create_dir_all(&self.folder).and_then(|()| fs::write(&path, sealed)) {
            tracing::warn!(path = %path.display(), "no local copy for recovery: {e}");
            // Half a copy would be found out, but is of no use either.
            let _ = fs::remove_file(&path);
        }
    }

    fn good_copy(&self, name: &str) -> Option<Vec<u8>> {
        let mut sealed = fs::read(self.path(name)?).ok()?;
        let crc32 = u32::from_be_bytes(*sealed.first_chunk()?);
        sealed.drain(..4);
        (crc32fast::hash(&sealed) == crc32).then_some(sealed)
    }
}

impl Storage for LocalCopies {
    fn location(&self) -> String {
        self.store.location()
    }

    fn put(&self, name: &str, bytes: &[u8]) -> Result<(), storage::Error> {
        self.store.put(name, bytes)?;
        self.copy(name, bytes);
        Ok(())
    }

    fn put_if_absent(&self, name: &str, bytes: &[u8]) -> Result<Put, storage::Error> {
        self.store.put_if_absent(name, bytes)
    }

    fn get(&self, name: &str) -> Result<Vec<u8>, storage::Error> {
        if let Some(bytes) = self.good_copy(name) {
            self.used.inc();
            return Ok(bytes);
        }
        if name.starts_with(COPIED) {
            self.missed.inc();
        }
        self.store.get(name)
    }

    fn list(&self, folder: &str) -> Result<Vec<String>, storage::Error> {
        self.store.list(folder)
    }

    fn delete(&self, name: &str) -> Result<(), storage::Error> {
        if let Some(path) = self.path(name) {
            // One that stays is deleted by the next attempt.
            let _ = fs::remove_file(path);
        }
        self.store.delete(name)
    }

    fn delete_all(&self, names: &[String]) -> Result<(), storage::Error> {
        for path in names.iter().filter_map(|name| self.path(name)) {
            let _ = fs::remove_file(path);
        }
        self.store.delete_all(names)
    }

    fn distrust(&self, name: &str) -> bool {
        self.path(name).is_some_and(|path| fs::remove_file(path).is_ok())
    }

    fn list_older(&self, folder: &str, than: Duration) -> Result<Vec<String>, storage::Error> {
        self.store.list_older(folder, than)
    }

    fn sweep(&self, older_than: Duration) -> Result<usize, storage::Error> {
        self.store.sweep(older_than)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::{FileRef, Local};

    fn copies(dir: &tempfile::TempDir) -> (LocalCopies, Arc<dyn Storage>) {
        let store: Arc<dyn Storage> = Arc::new(Local::open(dir.path().join("store")).unwrap());
        let job = JobId::new("orders").unwrap();
        let copies =
            LocalCopies::new(Arc::clone(&store), &dir.path().join("copies"), &job, &Metrics::default());
        (copies, store)
    }

    fn copy_of(copies: &LocalCopies, name: &str) -> PathBuf {
        copies.path(name).unwrap()
    }

    #[test]
    fn a_good_copy_is_used_and_a_bad_or_missing_one_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let (copies, store) = copies(&dir);
        copies.put("state/1-1-a", b"all of it").unwrap();
        store.put("state/1-1-a", b"gone bad!").unwrap();
        assert_eq!(copies.get("state/1-1-a").unwrap(), b"all of it", "from here");
        let mut damaged = fs::read(copy_of(&copies, "state/1-1-a")).unwrap();
        damaged[5] ^= 1;
        fs::write(copy_of(&copies, "state/1-1-a"), damaged).unwrap();
        assert_eq!(copies.get("state/1-1-a").unwrap(), b"gone bad!", "from the storage");
        fs::remove_file(copy_of(&copies, "state/1-1-a")).unwrap();
        assert_eq!(copies.get("state/1-1-a").unwrap(), b"gone bad!", "from the storage");
        assert_eq!((copies.used.get(), copies.missed.get()), (1, 2));
    }

    #[test]
    fn a_copy_of_something_else_is_given_up_for_what_the_storage_has() {
        let dir = tempfile::tempdir().unwrap();
        let (copies, store) = copies(&dir);
        let file = FileRef::write(&copies, "state/1-1-a".into(), b"all of it").unwrap();
        copies.copy("state/1-1-a", b"of another time");
        assert_eq!(file.read(&copies).unwrap(), b"all of it");
        assert!(!copy_of(&copies, "state/1-1-a").exists());
        store.delete("state/1-1-a").unwrap();
        assert!(file.read(&copies).is_err());
    }

    #[test]
    fn copies_go_with_their_files_and_what_is_left_over_is_wiped() {
        let dir = tempfile::tempdir().unwrap();
        let (copies, _) = copies(&dir);
        for name in ["state/1-1-a", "state/1-1-b", "state/1-1-c"] {
            copies.put(name, b"x").unwrap();
        }
        copies.delete("state/1-1-a").unwrap();
        copies.keep_only(["state/1-1-b"].into_iter());
        let left: Vec<_> = fs::read_dir(&copies.folder).unwrap().map(|e| e.unwrap().file_name()).collect();
        assert_eq!(left, ["1-1-b"]);
    }
}
