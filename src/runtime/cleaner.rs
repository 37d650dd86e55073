//! Deletes what is superseded, on a thread of its own, so that no checkpoint waits for a deletion.
//!
//! Its law: deletion is by listed name, and not faster than the storage options allow, for a store that is busy with
//! deletions lets uploads wait. Names go to the store in batches of a tenth of a second's worth, with pauses between
//! them. When the job ends nothing is uploaded any more, and what is waiting goes without pauses, unless the store is
//! away: the process does not wait for it.

use crate::checkpoint::{Deletions, Manifest};
use crate::host::{clock, thread};
use crate::model::Failure;
use crate::storage::{Error, Storage};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TryRecvError, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// Orders that may wait; one that finds no room is left to a later start, which lists what is there.
const WAITING: usize = 256;

/// Batches in a second.
const BATCHES_PER_SECOND: u32 = 10;

/// Takes lists of names to delete.
pub(super) struct Cleaner {
    to: SyncSender<Vec<String>>,
    /// Never sent to: that it is gone says that the job ends.
    running: SyncSender<()>,
    thread: JoinHandle<()>,
}

impl Cleaner {
    pub(super) fn start(store: Arc<dyn Storage>, deletions_per_second: u32) -> Result<Self, Failure> {
        let (to, from) = sync_channel::<Vec<String>>(WAITING);
        let (running, ended) = sync_channel(0);
        let pace = Pace::of(deletions_per_second);
        let body = move || {
            for names in from {
                for batch in names.chunks(pace.batch) {
                    if !delete(&*store, batch) && matches!(ended.try_recv(), Err(TryRecvError::Disconnected))
                    {
                        tracing::warn!(
                            "the store is not to be had, what was waiting to be deleted stays behind"
                        );
                        return;
                    }
                    pace.pause(&ended, batch.len());
                }
            }
        };
        let thread = thread::spawn("cleaner", body)
            .map_err(|e| Failure::restart(format!("no thread for deletions: {e}")))?;
        Ok(Self { to, running, thread })
    }

    /// Deletes what the retention gave up: files first, so that no manifest is gone before what it names.
    pub(super) fn superseded(&self, deletions: Deletions) {
        self.delete(deletions.files);
        self.delete(deletions.slots.into_iter().map(Manifest::name_of).collect());
    }

    /// Deletes files by name, in any order, after all that were given before.
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
        drop(self.running);
        drop(self.to);
        let _ = self.thread.join();
    }
}

/// How many names go at once, and how long the thread pauses for each.
struct Pace {
    batch: usize,
    for_each: Duration,
}

impl Pace {
    fn of(deletions_per_second: u32) -> Self {
        let rate = deletions_per_second.max(1);
        let batch = rate.div_ceil(BATCHES_PER_SECOND) as usize;
        Self { batch, for_each: Duration::from_secs(1) / rate }
    }

    /// Waits until so many may be followed by others, or the job ends.
    fn pause(&self, ended: &Receiver<()>, deleted: usize) {
        let wake = clock::now() + self.for_each.saturating_mul(u32::try_from(deleted).unwrap_or(u32::MAX));
        while let Err(RecvTimeoutError::Timeout) = ended.recv_timeout(clock::until(wake)) {
            if clock::until(wake).is_zero() {
                return;
            }
        }
    }
}

/// Whether the store is to be had.
fn delete(store: &dyn Storage, names: &[String]) -> bool {
    let Err(e) = store.delete_all(names) else { return true };
    let to_be_had = !e.is_transient();
    match e {
        Error::Left { names, first, .. } => {
            tracing::warn!(
                files = names.len(), such_as = names[0], error = %first,
                "superseded files could not be deleted and stay behind"
            );
        }
        e => tracing::warn!(files = names.len(), error = %e, "superseded files may stay behind"),
    }
    to_be_had
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::{Memory, Put};
    use std::sync::Mutex;
    use std::time::Instant;

    /// Notes the batches that it is asked to delete, and takes its time for each.
    struct Noting {
        inner: Memory,
        batches: Mutex<Vec<Vec<String>>>,
        takes: Duration,
    }

    impl Noting {
        fn new(name: &str, takes: Duration) -> Arc<Self> {
            Arc::new(Self { inner: Memory::open(name, "", 1 << 20), batches: Mutex::default(), takes })
        }
    }

    impl Storage for Noting {
        fn location(&self) -> String {
            self.inner.location()
        }
        fn put(&self, name: &str, bytes: &[u8]) -> Result<(), Error> {
            self.inner.put(name, bytes)
        }
        fn put_if_absent(&self, name: &str, bytes: &[u8]) -> Result<Put, Error> {
            self.inner.put_if_absent(name, bytes)
        }
        fn get(&self, name: &str) -> Result<Vec<u8>, Error> {
            self.inner.get(name)
        }
        fn list(&self, folder: &str) -> Result<Vec<String>, Error> {
            self.inner.list(folder)
        }
        fn delete(&self, name: &str) -> Result<(), Error> {
            self.inner.delete(name)
        }
        fn delete_all(&self, names: &[String]) -> Result<(), Error> {
            std::thread::sleep(self.takes);
            self.batches.lock().unwrap().push(names.to_vec());
            names.iter().try_for_each(|name| self.delete(name))
        }
    }

    fn files(count: usize) -> Vec<String> {
        (0..count).map(|n| format!("state/{n}")).collect()
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "a test measures real time")]
    fn five_thousand_files_go_in_batches_and_nobody_waits_for_them() {
        let store = Noting::new("cleaner-many", Duration::from_millis(200));
        for name in files(5000) {
            store.put(&name, b"x").unwrap();
        }
        let cleaner = Cleaner::start(store.clone(), 10_000).unwrap();
        let asked = Instant::now();
        cleaner.delete(files(5000));
        assert!(asked.elapsed() < Duration::from_millis(500), "not for a second: {:?}", asked.elapsed());
        cleaner.close();
        assert!(store.list("state").unwrap().is_empty());
        let batches = store.batches.lock().unwrap();
        assert_eq!(batches.iter().map(Vec::len).collect::<Vec<_>>(), [1000; 5]);
    }

    #[test]
    fn no_manifest_goes_in_a_batch_with_files() {
        let store = Noting::new("cleaner-order", Duration::ZERO);
        let cleaner = Cleaner::start(store.clone(), 1000).unwrap();
        cleaner.superseded(Deletions { slots: vec![1, 2], files: files(3) });
        cleaner.close();
        let batches = store.batches.lock().unwrap();
        assert_eq!(*batches, [files(3), vec![Manifest::name_of(1), Manifest::name_of(2)]]);
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "a test measures real time")]
    fn the_rate_holds_while_the_job_runs_and_not_while_it_ends() {
        let store = Noting::new("cleaner-rate", Duration::ZERO);
        let cleaner = Cleaner::start(store.clone(), 100).unwrap();
        let began = Instant::now();
        cleaner.delete(files(10_000));
        while store.batches.lock().unwrap().len() < 4 {
            std::thread::sleep(Duration::from_millis(5));
        }
        assert!(began.elapsed() >= Duration::from_millis(290), "three pauses: {:?}", began.elapsed());
        let ending = Instant::now();
        cleaner.close();
        assert!(ending.elapsed() < Duration::from_secs(20), "without pauses: {:?}", ending.elapsed());
        assert_eq!(store.batches.lock().unwrap().len(), 1000);
    }
}
