//! Deletes what is superseded, on a thread of its own, so that no checkpoint waits for a deletion.
//!
//! Its laws: deletion is by listed name, and not faster than the storage options allow, for a store that is busy with
//! deletions lets uploads wait; names go to the store in batches of a tenth of a second's worth, with pauses between
//! them. A manifest goes before the files that it names, and if it stays so do they: whatever manifest is found, its
//! files are there. What could not be deleted because the store was away is tried again with what comes next. When the
//! job ends nothing is uploaded any more, and what is waiting goes without pauses, unless the store is away: the process
//! does not wait for it, and the next start lists what was left.

use crate::checkpoint::{Deletions, Manifest};
use crate::host::{clock, thread};
use crate::model::Failure;
use crate::storage::{Error, Storage};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TryRecvError, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// Orders that may wait, and those that may wait to be tried again; one that finds no room is left to a later start, which
/// lists what is there.
const WAITING: usize = 256;

/// Batches in a second.
const BATCHES_PER_SECOND: u32 = 10;

/// Names to delete.
struct Order {
    /// They go first.
    manifests: Vec<String>,
    /// They go when the manifests have gone.
    files: Vec<String>,
}

/// Takes lists of names to delete.
pub(super) struct Cleaner {
    to: SyncSender<Order>,
    /// Never sent to: that it is gone says that the job ends.
    running: SyncSender<()>,
    thread: JoinHandle<()>,
}

impl Cleaner {
    pub(super) fn start(store: Arc<dyn Storage>, deletions_per_second: u32) -> Result<Self, Failure> {
        let (to, from) = sync_channel::<Order>(WAITING);
        let (running, ended) = sync_channel(0);
        let worker = Worker { store, pace: Pace::of(deletions_per_second), ended };
        let thread = thread::spawn("cleaner", move || worker.run(&from))
            .map_err(|e| Failure::restart(format!("no thread for deletions: {e}")))?;
        Ok(Self { to, running, thread })
    }

    /// Deletes what the retention gave up.
    pub(super) fn superseded(&self, deletions: Deletions) {
        let manifests = deletions.slots.into_iter().map(Manifest::name_of).collect();
        self.order(Order { manifests, files: deletions.files });
    }

    /// Deletes files by name, in any order, after all that were given before.
    pub(super) fn delete(&self, files: Vec<String>) {
        self.order(Order { manifests: Vec::new(), files });
    }

    fn order(&self, order: Order) {
        if order.manifests.is_empty() && order.files.is_empty() {
            return;
        }
        if let Err(TrySendError::Full(order)) = self.to.try_send(order) {
            tracing::warn!(
                manifests = order.manifests.len(),
                files = order.files.len(),
                "deletions are too far behind, these stay behind"
            );
        }
    }

    /// Deletes what is waiting, then ends.
    pub(super) fn close(self) {
        drop(self.running);
        drop(self.to);
        let _ = self.thread.join();
    }
}

/// What the thread works with.
struct Worker {
    store: Arc<dyn Storage>,
    pace: Pace,
    ended: Receiver<()>,
}

impl Worker {
    fn run(&self, from: &Receiver<Order>) {
        let mut waiting = VecDeque::new();
        loop {
            match from.recv() {
                Ok(order) => waiting.push_back(order),
                Err(_) if waiting.is_empty() => return,
                Err(_) => {}
            }
            while let Some(mut order) = waiting.pop_front() {
                if self.carry_out(&mut order) {
                    continue;
                }
                // To the end, so that one that always fails holds up no other.
                waiting.push_back(order);
                if matches!(self.ended.try_recv(), Err(TryRecvError::Disconnected)) {
                    tracing::warn!("the store is not to be had, what was waiting to be deleted stays behind");
                    return;
                }
                break;
            }
            if waiting.len() > WAITING {
                waiting.pop_front();
                tracing::warn!(
                    "the store has been away for long, its oldest deletion is left to the next start"
                );
            }
        }
    }

    /// Whether nothing is left to be tried again.
    fn carry_out(&self, order: &mut Order) -> bool {
        match self.delete(&mut order.manifests) {
            Deleted::All => {}
            Deleted::Refused => return true,
            Deleted::Away => return false,
        }
        self.delete(&mut order.files) != Deleted::Away
    }

    /// Takes out of the list what was deleted, or was refused.
    fn delete(&self, names: &mut Vec<String>) -> Deleted {
        let mut result = Deleted::All;
        while !names.is_empty() {
            let batch = names.len().min(self.pace.batch);
            match delete(&*self.store, &names[..batch]) {
                Deleted::Away => return Deleted::Away,
                Deleted::Refused => result = Deleted::Refused,
                Deleted::All => {}
            }
            names.drain(..batch);
            self.pace.pause(&self.ended, batch);
        }
        result
    }
}

/// How a deletion ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Deleted {
    All,
    /// The store refuses some, and would again.
    Refused,
    /// The store is not to be had: it may be later.
    Away,
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

fn delete(store: &dyn Storage, names: &[String]) -> Deleted {
    let Err(e) = store.delete_all(names) else { return Deleted::All };
    if e.is_transient() {
        tracing::warn!(files = names.len(), error = %e, "superseded files could not be deleted now");
        return Deleted::Away;
    }
    match e {
        Error::Left { names, first, .. } => {
            tracing::warn!(
                files = names.len(), such_as = names[0], error = %first,
                "superseded files could not be deleted and stay behind"
            );
        }
        e => tracing::warn!(files = names.len(), error = %e, "superseded files may stay behind"),
    }
    Deleted::Refused
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
        /// How a deletion fails, if it does.
        fails: Mutex<Option<fn() -> Error>>,
    }

    impl Noting {
        fn new(name: &str, takes: Duration) -> Arc<Self> {
            Arc::new(Self {
                inner: Memory::open(name, "", 1 << 20),
                batches: Mutex::default(),
                takes,
                fails: Mutex::default(),
            })
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
            if let Some(error) = *self.fails.lock().unwrap() {
                return Err(error());
            }
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

    fn wait_for_batches(store: &Noting, count: usize) {
        while store.batches.lock().unwrap().len() < count {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn away() -> Error {
        Error::Unavailable {
            location: "memory://cleaner".to_owned(),
            action: "deleting",
            name: "state/0".to_owned(),
            problem: "503".to_owned(),
        }
    }

    fn not_permitted() -> Error {
        Error::NotPermitted {
            location: "memory://cleaner".to_owned(),
            action: "deleting",
            name: "state/0".to_owned(),
        }
    }

    #[test]
    fn manifests_go_before_their_files() {
        let store = Noting::new("cleaner-order", Duration::ZERO);
        let cleaner = Cleaner::start(store.clone(), 1000).unwrap();
        cleaner.superseded(Deletions { slots: vec![1, 2], files: files(3) });
        cleaner.close();
        let batches = store.batches.lock().unwrap();
        assert_eq!(*batches, [vec![Manifest::name_of(1), Manifest::name_of(2)], files(3)]);
    }

    #[test]
    fn what_a_store_that_was_away_did_not_delete_goes_with_what_comes_next() {
        let store = Noting::new("cleaner-away", Duration::ZERO);
        let manifest = |slot| vec![Manifest::name_of(slot)];
        let cleaner = Cleaner::start(store.clone(), 1000).unwrap();
        *store.fails.lock().unwrap() = Some(away);
        cleaner.superseded(Deletions { slots: vec![1], files: files(3) });
        wait_for_batches(&store, 1);
        *store.fails.lock().unwrap() = None;
        cleaner.superseded(Deletions { slots: vec![2], files: Vec::new() });
        cleaner.close();
        let batches = store.batches.lock().unwrap();
        assert_eq!(*batches, [manifest(1), manifest(1), files(3), manifest(2)]);
    }

    #[test]
    fn a_manifest_that_may_not_be_deleted_keeps_its_files() {
        let store = Noting::new("cleaner-refused", Duration::ZERO);
        let cleaner = Cleaner::start(store.clone(), 1000).unwrap();
        *store.fails.lock().unwrap() = Some(not_permitted);
        cleaner.superseded(Deletions { slots: vec![1], files: files(3) });
        cleaner.close();
        assert_eq!(*store.batches.lock().unwrap(), [vec![Manifest::name_of(1)]]);
    }

    #[test]
    fn a_job_that_ends_does_not_wait_for_a_store_that_is_away() {
        let store = Noting::new("cleaner-ends", Duration::ZERO);
        *store.fails.lock().unwrap() = Some(away);
        let cleaner = Cleaner::start(store.clone(), 1000).unwrap();
        (0..100).for_each(|_| cleaner.delete(files(3)));
        cleaner.close();
        assert!(store.batches.lock().unwrap().len() <= 101, "one try for each order, and one at the end");
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
