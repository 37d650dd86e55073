//! The committing half of the transactional sink: while its producer lives, librdkafka commits.

use super::KafkaSink;
use super::outbox::producer_failure;
use super::pool::Pool;
use crate::connector::kafka::native::{self, Producer};
use crate::connector::{Completed, SinkCommitter};
use crate::host::{clock, thread};
use crate::model::{Advice, Failure};
use prometheus::IntCounter;
use std::time::{Duration, Instant};

/// Producers that are made at once: one to write, one to prepare, one to commit.
const WARM: usize = 3;

/// One wait in a call that may take longer.
const TURN: Duration = Duration::from_millis(500);

/// The first wait for a commit. For tests it sends the request and does not wait for the answer, as a rule.
const FIRST_TURN: Duration = if cfg!(feature = "fault-points") { Duration::from_millis(1) } else { TURN };

/// How long an initialisation may take: a broker's failover, and the abort of what a former process left.
const INIT: Duration = Duration::from_secs(60);

/// Commits for one subtask.
pub(super) struct Committer<T> {
    sink: KafkaSink<T>,
    pool: Pool,
    committed: IntCounter,
}

impl<T> Committer<T> {
    pub(super) fn new(sink: KafkaSink<T>, pool: Pool, committed: IntCounter) -> Self {
        Self { sink, pool, committed }
    }

    /// Commits one transaction that is prepared here. Retriable answers are met with the same call; after any other
    /// the outcome is not known here, and the attempt goes back to resolve it.
    fn commit_one(&self, id: &str, producer: &Producer, deadline: Instant) -> Result<(), Failure> {
        crate::fault_point!("commit.before_end_transaction");
        let mut turn = FIRST_TURN;
        loop {
            let answer = producer.commit_transaction(turn);
            crate::fault_point!("commit.during_end_transaction");
            turn = TURN;
            match answer {
                Ok(()) => break,
                Err(e) if goes_on(&e) && !self.pool.is_cancelled() && clock::now() < deadline => {
                    tracing::debug!(id, "commit not answered yet: {e}");
                }
                Err(e) => return Err(producer_failure("commit", id, &e)),
            }
        }
        crate::fault_point!("commit.after_end_transaction");
        Ok(())
    }
}

fn goes_on(e: &native::Error) -> bool {
    !e.fatal && !e.requires_abort && (e.retriable || e.name == "_TIMED_OUT")
}

/// Makes the producer of one cold slot, if there is any.
pub(super) fn warm_one<T>(sink: &KafkaSink<T>, pool: &Pool) -> Result<(), Failure> {
    let Some((slot, id)) = pool.take_cold() else { return Ok(()) };
    match initialised(sink, &id, || pool.is_cancelled()) {
        Ok(producer) => {
            pool.warmed(slot, producer);
            Ok(())
        }
        Err(failure) => {
            pool.not_warmed(slot);
            Err(failure)
        }
    }
}

/// A producer that has fenced every former owner of its id.
pub(super) fn initialised<T>(
    sink: &KafkaSink<T>,
    id: &str,
    is_over: impl Fn() -> bool,
) -> Result<Producer, Failure> {
    let properties = sink.producer_properties(Some(id));
    let begun = clock::now();
    let mut producer = Producer::new(&properties).map_err(|e| {
        Failure::new(Advice::FixConfiguration, format!("the producer for {id} cannot be made: {e}"))
    })?;
    let topic = producer.topic(&sink.topic).map_err(|e| producer_failure("use topic", &sink.topic, &e))?;
    let deadline = clock::now() + INIT;
    while let Err(e) = producer.meet(topic, TURN) {
        if clock::now() >= deadline || is_over() {
            return Err(producer_failure("reach the brokers of", &sink.topic, &e));
        }
        producer.poll(Duration::ZERO, |_| {}).map_err(|e| producer_failure("initialise", id, &e))?;
    }
    let met = clock::now() - begun;
    loop {
        match producer.init_transactions(TURN) {
            Ok(()) => {
                let took = clock::now() - begun;
                tracing::debug!(
                    id,
                    took_ms = took.as_millis() as u64,
                    met_ms = met.as_millis() as u64,
                    "producer initialised"
                );
                return Ok(producer);
            }
            Err(e)
                if (goes_on(&e) || e.name == "CONCURRENT_TRANSACTIONS")
                    && clock::now() < deadline
                    && !is_over() =>
            {
                // Reports and errors of the producer as a whole come only here.
                producer.poll(Duration::ZERO, |_| {}).map_err(|e| producer_failure("initialise", id, &e))?;
            }
            Err(e) => return Err(producer_failure("initialise", id, &e)),
        }
    }
}

fn panicked(panic: &(dyn std::any::Any + Send)) -> Failure {
    Failure::restart(format!("making a producer panicked: {}", thread::panic_text(panic)))
}

impl<T: Send + Sync + 'static> SinkCommitter for Committer<T> {
    fn warm_up(&mut self) -> Result<(), Failure> {
        // All at once: an initialisation takes half a second if it just misses its coordinator, and the writer takes
        // whichever is ready first.
        let warm = |_| {
            let (sink, pool) = (self.sink.clone(), self.pool.clone());
            thread::spawn("warm-up", move || warm_one(&sink, &pool))
                .map_err(|e| Failure::restart(format!("no thread for a producer: {e}")))
        };
        let warming: Vec<_> = (0..WARM.min(self.pool.len())).map(warm).collect();
        let mut result = Ok(());
        for thread in warming {
            let warmed = thread.and_then(|t| t.join().unwrap_or_else(|p| Err(panicked(&*p))));
            result = result.and(warmed);
        }
        result
    }

    fn commit(&mut self, completed: &Completed) -> Result<(), Failure> {
        let deadline = clock::now() + self.sink.resolve_budget;
        for &sequence in &completed.listed {
            let Some((slot, producer, prepared)) = self.pool.take_prepared(sequence)? else { continue };
            let id = self.pool.id(slot);
            self.commit_one(&id, &producer, deadline)?;
            self.committed.inc();
            self.pool.committed(slot, producer, prepared);
        }
        self.pool.release(&completed.listed);
        Ok(())
    }
}
