//! Transactions as rows: what the brokers know, beside what the newest checkpoints list.

use super::List;
use crate::checkpoint::{Manifest, Sequence};
use crate::connector::Committable;
use crate::connector::kafka::sink::{ByHand, IdOwner, IdSlot, KnownId, Pending, parse_id};
use crate::host::clock;
use crate::model::{Failure, JobId};
use crate::service::output::{self, Row};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, UNIX_EPOCH};

/// One transaction.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Transaction {
    /// Its transactional id.
    pub(super) id: String,
    /// What its coordinator says; for a listed one that the coordinator does not know any more, what became of it.
    pub(super) state: String,
    /// Whether the job's newest checkpoint lists it as pending; null if no checkpoint was looked at.
    pub(super) listed: Option<bool>,
    /// Seconds until the broker aborts it, negative if that is overdue; null if it is not open.
    pub(super) seconds_left: Option<i64>,
    /// When its first record arrived, milliseconds since the Unix epoch; null if there was none.
    pub(super) start_ms: Option<i64>,
    /// How many records it holds; null if no checkpoint lists it.
    pub(super) records: Option<u64>,
    pub(super) producer_id: i64,
    pub(super) epoch: i16,
    pub(super) job: String,
    /// The sink's uid.
    pub(super) sink: String,
    pub(super) subtask: u32,
    /// Its place in the subtask's pool; `s0` and `s1` are for salvages.
    pub(super) slot: String,
}

impl Row for Transaction {
    const COLUMNS: &'static [&'static str] = &[
        "JOB", "SINK", "SUBTASK", "SLOT", "STATE", "LISTED", "LEFT", "START", "RECORDS", "PRODUCER", "EPOCH",
    ];

    fn cells(&self) -> Vec<String> {
        let start = self.start_ms.and_then(|ms| u64::try_from(ms).ok());
        let start = start.map(|ms| UNIX_EPOCH + Duration::from_millis(ms));
        let listed = |listed| if listed { "yes" } else { "no" };
        vec![
            self.job.clone(),
            self.sink.clone(),
            self.subtask.to_string(),
            self.slot.clone(),
            self.state.clone(),
            self.listed.map_or(String::new(), |l| listed(l).to_owned()),
            self.seconds_left.map_or(String::new(), |s| format!("{s}s")),
            start.map_or(String::new(), |s| humantime::format_rfc3339_millis(s).to_string()),
            self.records.map_or(String::new(), |n| n.to_string()),
            self.producer_id.to_string(),
            self.epoch.to_string(),
        ]
    }
}

impl Transaction {
    fn owned_by(id: &str, owner: Option<&IdOwner>) -> Self {
        let name = |of: Option<String>, escaped: &str| of.unwrap_or_else(|| escaped.to_owned());
        Self {
            id: id.to_owned(),
            state: String::new(),
            listed: None,
            seconds_left: None,
            start_ms: None,
            records: None,
            producer_id: -1,
            epoch: -1,
            job: owner.map_or(String::new(), |o| name(o.job_name().map(|j| j.to_string()), &o.job)),
            sink: owner.map_or(String::new(), |o| name(o.uid_name(), &o.uid)),
            subtask: owner.map_or(0, |o| o.subtask),
            slot: owner.map_or(String::new(), |o| match o.slot {
                IdSlot::Turn(n) => n.to_string(),
                IdSlot::Salvage(n) => format!("s{n}"),
            }),
        }
    }

    /// As the coordinator knows it.
    pub(super) fn known(known: &KnownId) -> Self {
        let described = &known.described;
        Self {
            state: described.state.to_string(),
            seconds_left: known.deadline_ms().map(|at| (at - clock::unix_millis()).div_euclid(1000)),
            start_ms: (described.start_ms >= 0).then_some(described.start_ms),
            producer_id: described.producer_id,
            epoch: described.producer_epoch,
            ..Self::owned_by(&known.id, Some(&known.owner))
        }
    }

    /// As a checkpoint lists it.
    pub(super) fn pending(pending: &Pending) -> Self {
        let left = (pending.deadline_ms - clock::unix_millis()).div_euclid(1000);
        Self {
            state: pending.state.clone(),
            listed: Some(true),
            seconds_left: (pending.state == "open").then_some(left),
            start_ms: Some(pending.start_ms),
            records: Some(pending.records),
            producer_id: pending.producer.0,
            epoch: pending.producer.1,
            ..Self::owned_by(&pending.id, parse_id(&pending.id).as_ref())
        }
    }
}

/// The pending transactions of a manifest, in the order in which they are to be committed.
fn committables(manifest: &Manifest) -> impl Iterator<Item = &Committable> {
    manifest.operators.iter().flat_map(|o| &o.subtasks).flat_map(|s| &s.committables)
}

/// What a manifest lists, with its fate so far.
pub(super) fn listed(by_hand: &mut ByHand, manifest: &Manifest) -> Result<Vec<Pending>, Failure> {
    committables(manifest).map(|committable| by_hand.pending(committable)).collect()
}

/// Whether the open transaction of this id is the one that is listed: an id names many, one after the other.
pub(super) fn is_same(known: &KnownId, pending: &Pending) -> bool {
    let described = &known.described;
    known.id == pending.id
        && (described.producer_id, described.start_ms) == (pending.producer.0, pending.start_ms)
}

/// Carries `list` out.
pub(super) fn run(list: &List) -> Result<(), Failure> {
    let mut by_hand = ByHand::new(list.kafka.connection())?;
    let known = by_hand.ids(list.job.as_ref())?;
    let mut pending: BTreeMap<String, Vec<Pending>> = BTreeMap::new();
    if let Some(location) = &list.checkpoints {
        let mut jobs: BTreeSet<JobId> = known.iter().filter_map(|k| k.owner.job_name()).collect();
        jobs.extend(list.job.clone());
        for job in jobs {
            let newest = Sequence::existing(location, &job, &list.store.options())?
                .map(|s| s.newest())
                .transpose()?
                .flatten();
            let Some(manifest) = newest else {
                eprintln!("job {job} has no checkpoint below {location}");
                continue;
            };
            let found = listed(&mut by_hand, &manifest)?;
            let age = (clock::unix_millis() - manifest.published_at_ms).div_euclid(1000);
            eprintln!(
                "job {job}: checkpoint {} lists {} pending transactions (manifest {} of generation {}, {age} s old)",
                manifest.checkpoint,
                found.len(),
                manifest.slot,
                manifest.generation
            );
            pending.insert(job.to_string(), found);
        }
    }
    let rows = rows(&known, pending);
    let open = known.iter().filter(|k| k.is_open()).count();
    eprintln!("{} transactional ids, {open} with an open transaction", known.len());
    output::print(list.output, &rows)
}

/// One row for each id, and one for each listed transaction that its id's coordinator has left behind. `pending` has the
/// jobs whose checkpoints were read.
fn rows(known: &[KnownId], mut pending: BTreeMap<String, Vec<Pending>>) -> Vec<Transaction> {
    let mut rows = Vec::new();
    for known in known {
        let mut row = Transaction::known(known);
        if let Some(listed) = pending.get_mut(&row.job) {
            let at = listed.iter().position(|p| is_same(known, p));
            row.listed = Some(at.is_some());
            row.records = at.map(|at| listed.remove(at).records);
        }
        rows.push(row);
    }
    rows.extend(pending.values().flatten().map(Transaction::pending));
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connector::kafka::raw::{Described, TransactionState};

    fn known(id: &str, state: TransactionState, start_ms: i64) -> KnownId {
        let described = Described {
            state,
            producer_id: 7,
            producer_epoch: 1,
            start_ms,
            timeout_ms: 60_000,
            partitions: Vec::new(),
        };
        KnownId { id: id.to_owned(), owner: parse_id(id).unwrap(), described }
    }

    fn pending(id: &str, start_ms: i64) -> Pending {
        let id = id.to_owned();
        Pending { id, producer: (7, 1), start_ms, deadline_ms: 0, records: 3, state: "committed".into() }
    }

    #[test]
    fn a_listed_transaction_is_found_by_its_start_and_kept_when_its_id_has_moved_on() {
        let (open, empty) = (TransactionState::Ongoing, TransactionState::Empty);
        let ids = [
            known("tidegate:a%2fb:out:0:0", open.clone(), 100),
            known("tidegate:a%2fb:out:0:1", open.clone(), 200),
            known("tidegate:a%2fb:out:0:2", empty, -1),
            known("tidegate:other:out:0:0", open, 300),
        ];
        let listed = vec![pending("tidegate:a%2fb:out:0:0", 100), pending("tidegate:a%2fb:out:0:1", 150)];
        let rows = rows(&ids, BTreeMap::from([("a/b".to_owned(), listed)]));
        let short: Vec<_> = rows.iter().map(|r| (r.slot.as_str(), r.listed, r.records, r.start_ms)).collect();
        let expected = [
            ("0", Some(true), Some(3), Some(100)),
            ("1", Some(false), None, Some(200)),
            ("2", Some(false), None, None),
            ("0", None, None, Some(300)),
            ("1", Some(true), Some(3), Some(150)),
        ];
        assert_eq!(short, expected);
        assert_eq!((rows[4].state.as_str(), rows[4].seconds_left), ("committed", None));
        assert!(rows[0].seconds_left.is_some_and(|s| s < 0), "it began in 1970: {:?}", rows[0]);
    }
}
