//! Follows an output topic as its readers would, `read_committed`, on a thread of its own.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::Error;
use crate::offsets::Isolation;
use crate::reader::Reader;

/// The last record that came from a partition at a time.
#[derive(Debug, Clone, Copy)]
struct Arrival {
    at: Instant,
    partition: i32,
    offset: i64,
}

#[derive(Default)]
struct Seen {
    records: AtomicU64,
    stopped: AtomicBool,
    arrivals: Mutex<Vec<Arrival>>,
    latest: Mutex<BTreeMap<i32, Vec<u8>>>,
    failure: Mutex<Option<Error>>,
}

/// A reader that never stops before it is dropped.
pub struct Watcher {
    seen: Arc<Seen>,
    thread: Option<JoinHandle<()>>,
}

const POLL: Duration = Duration::from_millis(20);

impl Watcher {
    /// Follows the topic from its start.
    ///
    /// # Errors
    /// When the topic does not exist or the broker cannot be reached.
    pub fn start(bootstrap: &str, topic: &str) -> Result<Self, Error> {
        let mut reader = Reader::open(bootstrap, topic, Isolation::Committed)?;
        let seen = Arc::new(Seen::default());
        let noting = Arc::clone(&seen);
        let thread = thread::spawn(move || {
            while !noting.stopped.load(Ordering::Relaxed) {
                if let Err(error) = note(&mut reader, &noting) {
                    *lock(&noting.failure) = Some(error);
                    return;
                }
            }
        });
        Ok(Self { seen, thread: Some(thread) })
    }

    /// How many records have come.
    ///
    /// # Errors
    /// When the reading has failed; told once.
    pub fn records(&self) -> Result<u64, Error> {
        match lock(&self.seen.failure).take() {
            Some(error) => Err(error),
            None => Ok(self.seen.records.load(Ordering::Relaxed)),
        }
    }

    /// When the first record at or above these offsets, one per partition, came after this time.
    pub fn first_from(&self, offsets: &[i64], after: Instant) -> Option<Instant> {
        let arrivals = lock(&self.seen.arrivals);
        let new =
            |arrival: &&Arrival| arrival.at >= after && arrival.offset >= offsets[arrival.partition as usize];
        arrivals.iter().find(new).map(|arrival| arrival.at)
    }

    /// The value of the last record of each partition.
    pub fn latest(&self) -> Vec<Vec<u8>> {
        lock(&self.seen.latest).values().cloned().collect()
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.seen.stopped.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // It returns its errors; a panic has been printed.
            let _ = thread.join();
        }
    }
}

fn note(reader: &mut Reader, seen: &Seen) -> Result<(), Error> {
    let batch = reader.poll(POLL)?;
    let at = Instant::now();
    let (mut last, mut records) = (BTreeMap::new(), 0);
    for record in batch.records() {
        records += 1;
        last.insert(record.partition(), record);
    }
    let mut latest = lock(&seen.latest);
    let mut arrivals = lock(&seen.arrivals);
    for (partition, record) in last {
        arrivals.push(Arrival { at, partition, offset: record.offset() });
        latest.insert(partition, record.value().unwrap_or_default().to_vec());
    }
    seen.records.fetch_add(records, Ordering::Relaxed);
    Ok(())
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
