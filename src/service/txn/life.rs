//! Signs of a running job, seen from outside.
//!
//! No question proves that a process is gone; it may be cut off, or held. So this is no safety: that is the claim, by
//! which a job that runs is fenced. It is a courtesy, so that nobody ends a running job by mistake. A running job
//! publishes a manifest at every interval, also without input, and its transactions come and go. What is watched is
//! that nothing of this happens for three times as long as the job's checkpoints were apart.

use crate::checkpoint::{Cause, Manifest, Sequence};
use crate::connector::kafka::raw::TransactionState;
use crate::connector::kafka::sink::{ByHand, KnownId};
use crate::host::clock;
use crate::model::{Failure, JobId};
use std::time::Duration;

/// Between two looks.
const PAUSE: Duration = Duration::from_millis(500);

/// The shortest watch.
const LEAST: Duration = Duration::from_secs(3);

/// How far apart checkpoints are thought to be when there are not two to compare: the default interval.
const UNKNOWN_GAP: Duration = Duration::from_secs(10);

/// What a look at the job shows.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Look {
    slot: u64,
    transactions: Vec<KnownId>,
}

/// What was concluded.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Life {
    /// It runs, as this shows.
    Runs(String),
    /// It was silent for too short a time to tell.
    Unsure,
    /// It has been silent for long enough.
    Gone,
}

/// Watches until the job shows no sign of life for long enough.
///
/// # Errors
/// When it runs, or `patience` is too short to tell; when store or brokers cannot be asked.
pub(super) fn must_be_gone(
    sequence: &Sequence,
    job: &JobId,
    by_hand: &mut ByHand,
    patience: Duration,
) -> Result<(), Failure> {
    let needed = silence_needed(&published(sequence)?);
    let first = look(sequence, job, by_hand)?.0;
    let began = clock::now();
    let mut told = false;
    loop {
        let (now, age) = look(sequence, job, by_hand)?;
        let watched = clock::now() - began;
        match conclude(&first, &now, age, watched, needed) {
            Life::Gone => return Ok(()),
            Life::Runs(sign) => {
                return Err(Failure::configuration(format!(
                    "job {job} is running: {sign}. Nothing was changed; a running job ends its transactions itself. Stop it \
                     first, or take the job away from it with --force: then it ends with an error"
                )));
            }
            Life::Unsure if watched >= patience => {
                return Err(Failure::configuration(format!(
                    "job {job} may be running: its last manifest is {age:?} old, and only after {needed:?} of silence it counts as \
                     gone. Nothing was changed; wait, give more time with --patience, or, if you know that it is gone, use \
                     --force"
                )));
            }
            Life::Unsure => {}
        }
        if !told {
            told = true;
            eprintln!("watching for signs of a running job {job}: it must be silent for {needed:?}");
        }
        std::thread::sleep(PAUSE);
    }
}

/// How it stands, and how old the newest manifest is by this machine's clock.
fn look(sequence: &Sequence, job: &JobId, by_hand: &mut ByHand) -> Result<(Look, Duration), Failure> {
    let transactions = by_hand.ids(Some(job))?;
    let newest = sequence.newest()?;
    let age = newest.as_ref().map_or(0, |m| clock::unix_millis() - m.published_at_ms);
    let age = Duration::from_millis(u64::try_from(age).unwrap_or(0));
    Ok((Look { slot: newest.map_or(0, |m| m.slot), transactions }, age))
}

/// The manifests that are still there; one that is deleted meanwhile, or damaged, says nothing here.
fn published(sequence: &Sequence) -> Result<Vec<Manifest>, Failure> {
    let slots = sequence.slots()?;
    Ok(slots.into_iter().filter_map(|slot| sequence.read(slot).ok()).collect())
}

/// Three times the longest time between two checkpoints of the last owner.
fn silence_needed(manifests: &[Manifest]) -> Duration {
    let owner = manifests.last().map(|m| m.generation);
    let checkpoints: Vec<i64> = manifests
        .iter()
        .filter(|m| Some(m.generation) == owner && m.cause == Cause::Checkpoint)
        .map(|m| m.published_at_ms)
        .collect();
    let longest = checkpoints.windows(2).filter_map(|pair| u64::try_from(pair[1] - pair[0]).ok()).max();
    (longest.map_or(UNKNOWN_GAP, Duration::from_millis) * 3).max(LEAST)
}

fn conclude(first: &Look, now: &Look, age: Duration, watched: Duration, needed: Duration) -> Life {
    if now.slot > first.slot {
        return Life::Runs(format!("it published manifest {} just now", now.slot));
    }
    for (before, after) in pairs(first, now) {
        let (was, is) = (&before.described, &after.described);
        let begun = is.start_ms != was.start_ms && is.start_ms >= 0;
        let committed = was.state == TransactionState::Ongoing
            && matches!(is.state, TransactionState::PrepareCommit | TransactionState::CompleteCommit);
        // An abort alone may be the broker's, by the timeout.
        if begun || committed {
            let what = if begun { "began" } else { "committed" };
            return Life::Runs(format!("it {what} transaction {} just now", after.id));
        }
    }
    if age.max(watched) >= needed && watched >= LEAST { Life::Gone } else { Life::Unsure }
}

fn pairs<'a>(first: &'a Look, now: &'a Look) -> impl Iterator<Item = (&'a KnownId, &'a KnownId)> {
    let before = |id: &str| first.transactions.iter().find(|known| known.id == id);
    now.transactions.iter().filter_map(move |known| Some((before(&known.id)?, known)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connector::kafka::raw::Described;
    use crate::connector::kafka::sink::parse_id;
    use crate::model::Generation;

    const SECOND: Duration = Duration::from_secs(1);

    fn manifest(generation: u64, cause: Cause, seconds: i64) -> Manifest {
        let unborn = Manifest::unborn(JobId::new("j").unwrap());
        Manifest { generation: Generation(generation), cause, published_at_ms: seconds * 1000, ..unborn }
    }

    #[test]
    fn silence_is_measured_by_the_last_owners_checkpoints() {
        use Cause::{Checkpoint, Claim};
        let table: &[(&[Manifest], u64)] = &[
            (&[], 30),
            (&[manifest(1, Checkpoint, 100)], 30),
            (&[manifest(1, Checkpoint, 100), manifest(1, Checkpoint, 101), manifest(1, Checkpoint, 106)], 15),
            (&[manifest(1, Checkpoint, 0), manifest(1, Checkpoint, 50), manifest(2, Claim, 51)], 30),
            (&[manifest(2, Claim, 0), manifest(2, Checkpoint, 100), manifest(2, Checkpoint, 100)], 3),
        ];
        for (manifests, seconds) in table {
            assert_eq!(silence_needed(manifests).as_secs(), *seconds, "{manifests:?}");
        }
    }

    fn look(slot: u64, state: TransactionState, start_ms: i64) -> Look {
        let described = Described {
            state,
            producer_id: 1,
            producer_epoch: 0,
            start_ms,
            timeout_ms: 1,
            partitions: Vec::new(),
        };
        let (id, owner) = ("tidegate:j:out:0:0".to_owned(), parse_id("tidegate:j:out:0:0").unwrap());
        Look { slot, transactions: vec![KnownId { id, owner, described }] }
    }

    #[test]
    fn a_manifest_or_a_transaction_is_a_sign_of_life_and_a_timeout_is_none() {
        use TransactionState as S;
        let first = look(5, S::Ongoing, 100);
        let alive = [
            look(6, S::Ongoing, 100),
            look(5, S::Ongoing, 101),
            look(5, S::CompleteCommit, 100),
            look(5, S::PrepareCommit, 100),
        ];
        for now in alive {
            let life = conclude(&first, &now, 100 * SECOND, 100 * SECOND, 30 * SECOND);
            assert!(matches!(life, Life::Runs(_)), "{now:?}: {life:?}");
        }
        for now in [look(5, S::Ongoing, 100), look(5, S::CompleteAbort, 100), look(5, S::Empty, -1)] {
            let conclude = |age, watched| conclude(&first, &now, age * SECOND, watched * SECOND, 30 * SECOND);
            assert_eq!(conclude(100, 1), Life::Unsure, "a glance is not enough");
            assert_eq!(conclude(20, 20), Life::Unsure);
            assert_eq!(conclude(30, 3), Life::Gone);
            assert_eq!(conclude(0, 30), Life::Gone, "the clocks may differ");
        }
    }
}
