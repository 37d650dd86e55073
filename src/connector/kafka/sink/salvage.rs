//! Salvage: the records of aborted transactions of a complete checkpoint are written anew.
//!
//! A transaction of a complete checkpoint can be aborted only from outside: its timeout during an outage, or a person.
//! The sources are already past what led to its records, so the log is the only place where they still stand, hidden
//! from `read_committed` readers. They are found by producer id, read `read_uncommitted`, produced to the same partitions
//! in one new transaction, and that one is *prepared*: it is committed only once a manifest lists it in place of the old
//! ones, so a crash in the middle of this begins it anew and repeats nothing.
//!
//! If one transaction of a subtask is aborted, all later ones join it, in order, or a key's records would change places.

use super::committer::initialised;
use super::evidence::{Evidence, Written};
use super::ids::{IdSlot, id_of};
use super::limits;
use super::outbox::{Lane, producer_failure};
use super::{KafkaSink, OnLost};
use crate::connector::kafka::native::{Consumer, Event, Outgoing, Position};
use crate::connector::kafka::options::raw_failure;
use crate::connector::kafka::raw::{BatchRange, Client, Deadline, TopicPartition, TransactionState};
use crate::connector::{CommitScope, Committable};
use crate::host::clock;
use crate::model::{Advice, Failure};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// One wait for records or room.
const TURN: Duration = Duration::from_millis(10);

/// One partition of one aborted transaction, and where in the log its records are.
struct Found<'a> {
    written: &'a Written,
    batches: Vec<BatchRange>,
}

/// Writes the records of the aborted transactions anew and prepares them; `None` if all are lost and the policy accepts
/// that.
pub(super) fn salvage<T>(
    sink: &KafkaSink<T>,
    client: &mut Client,
    scope: &CommitScope,
    aborted: &[Evidence],
    first_sequence: u64,
    in_use: &[String],
) -> Result<Option<Committable>, Failure> {
    crate::fault_point!("salvage.begin");
    // A long salvage may take longer in all: what is bounded is the time without progress.
    let patience = || Deadline::after(sink.resolve_budget);
    let mut found = Vec::new();
    for evidence in aborted {
        for written in &evidence.written {
            match find(client, evidence, written, patience())? {
                Ok(partition) => found.push(partition),
                // The other partitions' records are not lost, and are not given up.
                Err(lost) if sink.on_lost == OnLost::Accept => {
                    tracing::error!(
                        id = evidence.id,
                        records = written.count,
                        "records are lost, as accepted: {lost}"
                    );
                }
                Err(lost) => {
                    return Err(Failure::new(
                        Advice::DataIsCorrupt,
                        format!(
                            "transaction {} of the newest checkpoint was aborted and its records are gone: {lost}. They were {}. \
                             Nothing was changed; to go on without them set the sink's policy for lost records to accept",
                            evidence.id,
                            evidence.places()
                        ),
                    ));
                }
            }
        }
    }
    if found.is_empty() {
        return Ok(None);
    }
    let sink = &within_limits(sink, client, &found)?;
    let id = (0..2)
        .map(|n| id_of(&scope.job, &scope.uid.0, scope.subtask, IdSlot::Salvage(n)))
        .find(|id| !in_use.contains(id))
        .ok_or_else(|| Failure::new(Advice::Bug, "both salvage ids of a subtask are in use".to_owned()))?;
    let records: u64 = found.iter().map(|f| f.written.count).sum();
    tracing::warn!(
        id,
        records,
        transactions = aborted.len(),
        "salvaging the records of aborted transactions"
    );
    let begun_at_ms = clock::unix_millis();
    let producer = {
        let deadline = patience();
        initialised(sink, &id, || deadline.passed())?
    };
    producer.begin_transaction().map_err(|e| producer_failure("begin", &id, &e))?;
    let mut lane = Lane::new(producer);
    let mut names: Vec<String> = Vec::new();
    for partition in &found {
        copy(sink, &mut lane, &mut names, partition)?;
    }
    crate::fault_point!("salvage.after_produce");
    lane.drain(&names, sink.resolve_budget, || false)?;
    let written = lane.tally.written(&names);
    let delivered: u64 = written.iter().map(|w| w.count).sum();
    if delivered != records {
        return Err(Failure::restart(format!(
            "salvage {id}: {delivered} of {records} records were delivered"
        )));
    }
    let described = client.describe_transaction(&id, patience()).map_err(raw_failure)?;
    let Some(d) = described.filter(|d| d.state == TransactionState::Ongoing) else {
        return Err(Failure::restart(format!(
            "salvage transaction {id} is not open after its records were written"
        )));
    };
    let evidence = Evidence {
        id,
        producer_id: d.producer_id,
        epoch: d.producer_epoch,
        start_ms: d.start_ms,
        timeout_ms: d.timeout_ms,
        written,
    };
    crate::fault_point!("salvage.after_prepare");
    let deadline_ms = begun_at_ms + sink.transaction_timeout.as_millis() as i64;
    Ok(Some(evidence.into_committable(first_sequence, deadline_ms)))
}

/// The sink with batches that all the topics take: the same records were taken in batches of the writer's own size.
fn within_limits<T>(
    sink: &KafkaSink<T>,
    client: &mut Client,
    found: &[Found<'_>],
) -> Result<KafkaSink<T>, Failure> {
    let topics: BTreeSet<&str> = found.iter().map(|f| f.written.topic.as_str()).collect();
    let mut sink = sink.clone();
    for topic in topics {
        let limits = limits::ask(&sink, client, topic)?;
        sink = sink.with_batches_within(limits.max_bytes);
    }
    Ok(sink)
}

/// Where one partition's records of a transaction still are; the inner error says what is gone.
fn find<'a>(
    client: &mut Client,
    evidence: &Evidence,
    written: &'a Written,
    deadline: Deadline,
) -> Result<Result<Found<'a>, String>, Failure> {
    let at = TopicPartition::new(&*written.topic, written.partition);
    let batches = client
        .producer_batches(&at, evidence.producer_id, written.first, written.last, deadline)
        .map_err(raw_failure)?;
    if batches.log_start > written.first {
        return Ok(Err(format!(
            "{at} begins at offset {}, the records at {}",
            batches.log_start, written.first
        )));
    }
    let there = batches.count();
    if there != written.count as i64 {
        return Ok(Err(format!("{at} still holds {there} of {} records", written.count)));
    }
    Ok(Ok(Found { written, batches: batches.batches }))
}

/// Reads one partition's records and writes them to the same partition.
fn copy<T>(
    sink: &KafkaSink<T>,
    lane: &mut Lane,
    names: &mut Vec<String>,
    from: &Found<'_>,
) -> Result<(), Failure> {
    let (topic, partition) = (from.written.topic.as_str(), from.written.partition);
    let number = lane.topic(names, topic)?;
    let mut consumer =
        Consumer::new(&reading_properties(sink)).map_err(|e| producer_failure("read", topic, &e))?;
    consumer
        .assign(&[Position { slot: 0, topic, partition, offset: from.written.first }])
        .map_err(|e| producer_failure("read", topic, &e))?;
    let mut left = from.written.count;
    let mut deadline = Deadline::after(sink.resolve_budget);
    while left > 0 {
        if deadline.passed() {
            return Err(Failure::restart(format!(
                "salvage: {left} records of topic {topic} partition {partition} were not read in time"
            )));
        }
        let mut moved = false;
        consumer.poll(TURN, |event| {
            match event {
                Event::Message(message) => {
                    let offset = message.offset();
                    moved = true;
                    if left == 0 || !from.batches.iter().any(|b| (b.base..=b.last).contains(&offset)) {
                        return Ok(());
                    }
                    let record = Outgoing { key: message.key(), value: message.value() };
                    let timestamp = message.timestamp();
                    while !lane.send(number, partition, record, timestamp, message.headers())? {
                        lane.serve(names, TURN)?;
                        if deadline.passed() {
                            return Err(Failure::restart("salvage: the brokers take no records".to_owned()));
                        }
                    }
                    left -= 1;
                }
                Event::Problem { text, .. } => {
                    tracing::warn!(topic, partition, "salvage: {text}");
                }
                Event::End { .. } => {}
            }
            Ok(())
        })?;
        if moved {
            deadline = Deadline::after(sink.resolve_budget);
        }
        consumer.notices();
        lane.serve(names, Duration::ZERO)?;
    }
    Ok(())
}

fn reading_properties<T>(sink: &KafkaSink<T>) -> BTreeMap<String, String> {
    let mut properties = sink.connection.properties().clone();
    for (name, value) in [
        ("group.id", "tidegate-salvage"),
        ("enable.auto.commit", "false"),
        ("isolation.level", "read_uncommitted"),
        ("auto.offset.reset", "error"),
    ] {
        properties.insert(name.to_owned(), value.to_owned());
    }
    properties
}
