//! What concerns the sink as a whole: checks at the start, resolution, fencing of former owners.

use super::committer::Committer;
use super::evidence::Evidence;
use super::ids::{IdSlot, id_of, parse_id, prefix_of};
use super::limits;
use super::outbox::{Lane, Outbox};
use super::plain::{NothingToCommit, Plain};
use super::pool::Pool;
use super::resolve::{End, Fate, is_open, settle};
use super::salvage::salvage;
use super::verdict::{Verdict, of_coordinator};
use super::writer::Writer;
use super::{Delivery, KafkaSink, OnLost};
use crate::connector::kafka::native::Producer;
use crate::connector::kafka::options::raw_failure;
use crate::connector::kafka::raw::{self, Client, ConfigResource, Deadline, Listed, TopicPartition};
use crate::connector::{CommitScope, Committable, Resolution, SinkControl, SinkFacts, SinkParts, SinkSeat};
use crate::model::{Advice, Failure, JobId, OperatorUid};
use std::collections::BTreeSet;
use std::time::Duration;

/// How long the checks at the start may take, with 10 to 20 s of it for a broker's failover.
const CHECK: Duration = Duration::from_secs(60);

impl<T: Send + Sync + 'static> KafkaSink<T> {
    /// Writer and committer of one subtask.
    ///
    /// # Errors
    /// When the clients cannot be made.
    pub fn parts(&self, seat: &SinkSeat) -> Result<SinkParts<T>, Failure> {
        let mut client = self.connection.raw()?;
        let sink = self.clone().with_batches_within(limits::ask(self, &mut client, &self.topic)?.max_bytes);
        let outbox = Outbox::new(sink.clone(), client, seat.cancelled.clone(), &seat.metrics, &seat.uid.0);
        if self.delivery != Delivery::ExactlyOnce {
            let producer = Producer::new(&sink.producer_properties(None))
                .map_err(|e| Failure::configuration(format!("the producer cannot be made: {e}")))?;
            let plain = Plain::new(outbox, Lane::new(producer), self.delivery, seat.patience);
            return Ok(SinkParts { writer: Box::new(plain), committer: Box::new(NothingToCommit) });
        }
        let ids =
            (0..seat.transactions).map(|n| id_of(&seat.job, &seat.uid.0, seat.subtask, IdSlot::Turn(n)));
        let pool = Pool::new(ids.collect(), seat.cancelled.clone());
        let subtask = seat.subtask.to_string();
        let committed = seat.metrics.own_counter(
            "tidegate_transactions_total",
            "Transactions that this process wrote and ended, by how they ended.",
            &[("operator", &seat.uid.0), ("subtask", &subtask), ("result", "committed")],
        );
        let aborted = seat.metrics.own_counter(
            "tidegate_transactions_total",
            "Transactions that this process wrote and ended, by how they ended.",
            &[("operator", &seat.uid.0), ("subtask", &subtask), ("result", "aborted")],
        );
        let writer = Writer::new(sink.clone(), pool.clone(), seat.patience, outbox, aborted);
        let committer = Committer::new(sink, pool, committed);
        Ok(SinkParts { writer: Box::new(writer), committer: Box::new(committer) })
    }

    /// What the brokers know of this job's transactional ids; nothing if this sink has no transactions.
    fn known(&self, job: &JobId) -> Result<Vec<Listed>, Failure> {
        if self.delivery != Delivery::ExactlyOnce {
            return Ok(Vec::new());
        }
        let listed = self.connection.raw()?.list_transactions(&[], self.deadline()).map_err(raw_failure)?;
        let of_job = |l: &Listed| parse_id(&l.transactional_id).is_some_and(|owner| owner.is_of_job(job));
        Ok(listed.into_iter().filter(of_job).collect())
    }

    fn deadline(&self) -> Deadline {
        Deadline::after(self.resolve_budget)
    }

    /// An error of the raw client, with the right that is missing if that is why.
    fn lacking(&self, e: raw::Error, right: &str) -> Failure {
        let refused = e.code().is_some_and(|code| code.is_refusal());
        let failure = raw_failure(e);
        if !refused {
            return failure;
        }
        Failure::configuration(format!("{failure}; {} needs {right}", self.connection.user()))
    }

    /// The timeout must be one that the broker allows and that the job's settings can keep.
    fn check_timeout(&self, client: &mut Client, facts: &SinkFacts, broker: i32) -> Result<(), Failure> {
        let deadline = Deadline::after(CHECK);
        let config = client.describe_configs(&ConfigResource::Broker(broker), deadline);
        let config = config.map_err(|e| self.lacking(e, "DescribeConfigs on the cluster"))?;
        let maximum = config.get("transaction.max.timeout.ms").and_then(|v| v.parse::<u64>().ok());
        let problem = timeout_problem(self.transaction_timeout, facts, maximum.map(Duration::from_millis));
        problem.map_or(Ok(()), |text| Err(Failure::configuration(text)))
    }
}

/// Why a transaction timeout cannot work, if so.
fn timeout_problem(timeout: Duration, facts: &SinkFacts, maximum: Option<Duration>) -> Option<String> {
    if let Some(maximum) = maximum.filter(|m| timeout > *m) {
        return Some(format!(
            "the transaction timeout of {timeout:?} is above the broker's transaction.max.timeout.ms of {maximum:?}; lower \
             the sink's transaction timeout, or raise the broker's maximum"
        ));
    }
    (timeout < facts.least_timeout).then(|| {
        format!(
            "the transaction timeout of {timeout:?} is too short: between the first record of a transaction and its commit \
             may pass {}; raise the sink's transaction timeout{}, or lower one of the others",
            facts.arithmetic,
            maximum.map_or(String::new(), |m| format!(" (the broker allows up to {m:?})"))
        )
    })
}

impl<T: Send + Sync + 'static> SinkControl for KafkaSink<T> {
    fn check(&self, facts: &SinkFacts) -> Result<(), Failure> {
        let deadline = Deadline::after(CHECK);
        let mut client = self.connection.raw()?;
        limits::ask(self, &mut client, &self.topic)?;
        let logs = [TopicPartition::new(&*self.topic, 0)];
        if self.delivery == Delivery::ExactlyOnce {
            // What recovery will need is done once now: reach every broker, read the log, describe each id.
            let checked = client.check(&logs, deadline).map_err(raw_failure)?;
            if let Some(broker) = checked.brokers.first() {
                self.check_timeout(&mut client, facts, broker.id)?;
            }
            for id in pool_ids(facts) {
                let described = client.describe_transaction(&id, deadline);
                described.map_err(|e| {
                    self.lacking(
                        e,
                        &format!("Write on the transactional ids with the prefix {}", prefix_of(&facts.job)),
                    )
                })?;
            }
        }
        Ok(())
    }

    fn known_ids(&self, job: &JobId) -> Result<Vec<String>, Failure> {
        Ok(self.known(job)?.into_iter().map(|l| l.transactional_id).collect())
    }

    fn open_beside(&self, job: &JobId, committables: &[Committable]) -> Result<Vec<String>, Failure> {
        let mut open: BTreeSet<String> =
            self.known(job)?.into_iter().filter(|l| is_open(&l.state)).map(|l| l.transactional_id).collect();
        let mut client = self.connection.raw()?;
        for evidence in committables.iter().map(Evidence::of) {
            let evidence = evidence?;
            if !open.contains(&evidence.id) {
                continue;
            }
            // An id has one transaction after the other, so it alone says little.
            let described =
                client.describe_transaction(&evidence.id, self.deadline()).map_err(raw_failure)?;
            if matches!(of_coordinator(&evidence, described.as_ref()), Verdict::Open | Verdict::Wait) {
                open.remove(&evidence.id);
            }
        }
        Ok(open.into_iter().collect())
    }

    fn resolve(&self, scope: &CommitScope, committables: &[Committable]) -> Result<Resolution, Failure> {
        let mut client = self.connection.raw()?;
        let evidences = committables.iter().map(Evidence::of).collect::<Result<Vec<_>, _>>()?;
        let place = |e: Failure, evidence: &Evidence| e.at(format!("resolving {}", evidence.id));
        let mut aborted = Vec::new();
        for (evidence, committable) in evidences.iter().zip(committables) {
            // Once one is aborted, the later ones must not become visible before its records are.
            let end = if aborted.is_empty() { End::Commit } else { End::Abort };
            match settle(&mut client, evidence, end, self.resolve_budget).map_err(|e| place(e, evidence))? {
                Fate::Committed if aborted.is_empty() => {
                    tracing::info!(id = evidence.id, records = evidence.records(), "resolved: committed");
                }
                Fate::Committed => {
                    tracing::error!(
                        id = evidence.id,
                        "committed from outside before an earlier transaction of its subtask: the order of its keys' records is \
                         not kept"
                    );
                }
                Fate::Aborted => aborted.push((evidence.clone(), committable.sequence)),
                Fate::Gone if self.on_lost == OnLost::Accept => {
                    tracing::error!(
                        id = evidence.id,
                        records = evidence.records(),
                        "gone from the log, as accepted"
                    );
                }
                Fate::Gone => {
                    return Err(Failure::new(
                        Advice::DataIsCorrupt,
                        format!(
                            "transaction {} of the newest checkpoint cannot be proven: its coordinator has forgotten it and the \
                             log no longer reaches back to its records, which were {}. Nothing was changed; to go on as if they \
                             had been committed set the sink's policy for lost records to accept",
                            evidence.id,
                            evidence.places()
                        ),
                    ));
                }
            }
        }
        let Some((_, first_sequence)) = aborted.first() else { return Ok(Resolution::Resolved) };
        let first_sequence = *first_sequence;
        let in_use: Vec<String> = evidences.iter().map(|e| e.id.clone()).collect();
        let aborted: Vec<Evidence> = aborted.into_iter().map(|(e, _)| e).collect();
        let replacement = salvage(self, &mut client, scope, &aborted, first_sequence, &in_use)?;
        Ok(replacement.map_or(Resolution::Resolved, Resolution::Replaced))
    }

    fn initialise(&self, facts: &SinkFacts) -> Result<(), Failure> {
        let mut client = self.connection.raw()?;
        let own: Vec<String> =
            if self.delivery == Delivery::ExactlyOnce { pool_ids(facts).collect() } else { Vec::new() };
        let deadline = self.deadline();
        for id in &own {
            client.init_producer_id(id, self.transaction_timeout, deadline).map_err(raw_failure)?;
            crate::fault_point!("init.during");
        }
        let listed = client.list_transactions(&[], deadline).map_err(raw_failure)?;
        let strays = listed.into_iter().filter(|l| {
            let Some(owner) = parse_id(&l.transactional_id) else { return false };
            let of_sink = |uid: &OperatorUid| owner.is_of(&facts.job, &uid.0);
            // A sink that the job has no longer has nobody else who would care for what it left open.
            let ours =
                of_sink(&facts.uid) || (owner.is_of_job(&facts.job) && !facts.sinks.iter().any(of_sink));
            ours && !own.contains(&l.transactional_id)
        });
        // Those of a larger parallelism of old, and of salvages: whatever their state, their former owner must not use them
        // again. One that has only initialised an id could begin a transaction that nobody ends before its timeout.
        for stray in strays {
            if is_open(&stray.state) {
                tracing::info!(id = stray.transactional_id, state = %stray.state, "aborting a transaction that no checkpoint lists");
            }
            client
                .init_producer_id(&stray.transactional_id, self.transaction_timeout, deadline)
                .map_err(raw_failure)?;
        }
        Ok(())
    }
}

/// The ids that take turns, of all subtasks.
fn pool_ids(facts: &SinkFacts) -> impl Iterator<Item = String> {
    (0..facts.parallelism).flat_map(move |subtask| {
        (0..facts.transactions).map(move |n| id_of(&facts.job, &facts.uid.0, subtask, IdSlot::Turn(n)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_arithmetic_is_in_the_message() {
        let facts = SinkFacts {
            job: JobId::new("j").unwrap(),
            uid: OperatorUid("s".into()),
            sinks: vec![OperatorUid("s".into())],
            parallelism: 1,
            transactions: 5,
            least_timeout: Duration::from_secs(300),
            arithmetic: "(2 + 1) × 60 s".into(),
        };
        let seconds = Duration::from_secs;
        assert_eq!(timeout_problem(seconds(600), &facts, Some(seconds(900))), None);
        let above = timeout_problem(seconds(901), &facts, Some(seconds(900))).unwrap();
        assert!(above.contains("901s") && above.contains("900s"), "{above}");
        let short = timeout_problem(seconds(299), &facts, Some(seconds(900))).unwrap();
        assert!(short.contains("299s") && short.contains("(2 + 1) × 60 s"), "{short}");
    }
}
