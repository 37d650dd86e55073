//! A steady feed of clicks in the background, as a production topic has it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};

use crate::feed::{Fed, Feeder};
use crate::{Error, clicks};

/// A thread that writes clicks at a rate until it is stopped, has written enough, or is dropped.
pub struct SteadyClicks {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<Result<Fed, Error>>>,
}

#[derive(Default)]
struct Shared {
    made: AtomicU64,
    stop: AtomicBool,
}

impl SteadyClicks {
    /// Begins to write `rate` clicks a second to the topic, `records` at most.
    ///
    /// # Errors
    /// When librdkafka refuses the address.
    pub fn start(
        bootstrap: &str,
        topic: &str,
        options: clicks::Options,
        rate: u64,
        records: u64,
    ) -> Result<Self, Error> {
        let mut feeder = Feeder::new(bootstrap, topic)?;
        let shared = Arc::new(Shared::default());
        let told = Arc::clone(&shared);
        let thread = thread::spawn(move || {
            feeder.steady(&mut clicks::Clicks::new(options), rate, records, |made| {
                told.made.store(made, Ordering::Relaxed);
                !told.stop.load(Ordering::Relaxed)
            })
        });
        Ok(Self { shared, thread: Some(thread) })
    }

    /// How many clicks have been written so far; the last ones may still be on their way.
    pub fn made(&self) -> u64 {
        self.shared.made.load(Ordering::Relaxed)
    }

    /// Whether it has written all it should, or failed.
    pub fn ended(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Ends the feed and waits until the broker has acknowledged all of it.
    ///
    /// # Errors
    /// When the broker has refused a record.
    pub fn stop(mut self) -> Result<Fed, Error> {
        self.shared.stop.store(true, Ordering::Relaxed);
        let thread =
            self.thread.take().expect("because only this and drop take it, and both consume the feed");
        thread.join().expect("because the feed returns its errors")
    }
}

impl Drop for SteadyClicks {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // Whoever drops the feed instead of stopping it has failed already.
            let _ = thread.join();
        }
    }
}
