//! Ends the transactions of a job that is gone, as its newest checkpoint says.

use super::Target;
use super::life;
use super::list::{Transaction, is_same, listed};
use crate::checkpoint::{Cause, Manifest, Sequence};
use crate::connector::kafka::sink::{ByHand, KnownId, Pending};
use crate::connector::{Committable, SinkControl};
use crate::model::{Failure, OperatorUid};
use crate::runtime::pending;
use crate::service::output::{self, Row};
use serde::Serialize;
use std::sync::Arc;

/// A transaction as it was found, and what was done to it.
#[derive(Debug, Serialize)]
struct Ended {
    action: &'static str,
    #[serde(flatten)]
    found: Transaction,
}

impl Row for Ended {
    const COLUMNS: &'static [&'static str] = &[
        "ACTION", "JOB", "SINK", "SUBTASK", "SLOT", "FOUND", "LISTED", "LEFT", "START", "RECORDS",
        "PRODUCER", "EPOCH",
    ];

    fn cells(&self) -> Vec<String> {
        let mut cells = self.found.cells();
        cells.insert(0, self.action.to_owned());
        cells
    }
}

/// Carries `commit` out.
pub(super) fn commit(target: &Target) -> Result<(), Failure> {
    let job = &target.job;
    let mut by_hand = ByHand::new(target.kafka.connection())?;
    let Some((sequence, newest)) = newest(target)? else {
        return Err(Failure::configuration(format!(
            "there is no checkpoint of job {job} below {}, so nothing says what is to be committed. Nothing was changed; point \
             --checkpoints at the folder that the job used",
            target.checkpoints
        )));
    };
    if !newest.has_committables() {
        eprintln!(
            "checkpoint {} of job {job} lists no pending transactions: nothing to commit",
            newest.checkpoint
        );
        return output::print::<Ended>(target.output, &[]);
    }
    let manifest = claim(target, &sequence, &mut by_hand)?;
    let before = listed(&mut by_hand, &manifest)?;
    let control_of = |uid: &OperatorUid| control(&by_hand, &manifest, uid);
    pending::resolve(&sequence, manifest.clone(), control_of).map_err(|e| {
        e.at(format!("checkpoint {} of job {job} still lists what is pending", manifest.checkpoint))
    })?;
    // A process that was held may still have their producers: it must not begin anything on these ids.
    for pending in &before {
        by_hand.take_over(&pending.id)?;
    }
    let ended = |p| Ended { action: committed(p), found: Transaction::pending(p) };
    let done: Vec<Ended> = before.iter().map(ended).collect();
    let records: u64 = before.iter().map(|p| p.records).sum();
    eprintln!(
        "committed {} transactions with {records} records of checkpoint {} of job {job}; its newest manifest lists none any \
         more",
        done.len(),
        manifest.checkpoint
    );
    output::print(target.output, &done)
}

/// What was done, by how it stood before.
fn committed(pending: &Pending) -> &'static str {
    match pending.state.as_str() {
        "committed" => "found committed",
        "aborted" => "salvaged",
        _ => "committed",
    }
}

/// Carries `abort` out; `also_listed` says that records of the newest checkpoint shall be lost.
pub(super) fn abort(target: &Target, also_listed: bool) -> Result<(), Failure> {
    let job = &target.job;
    let mut by_hand = ByHand::new(target.kafka.connection())?;
    let Some((sequence, newest)) = newest(target)? else {
        if !also_listed {
            return Err(Failure::configuration(format!(
                "there is no checkpoint of job {job} below {}, so nothing says which of its transactions belong to the output. \
                 Nothing was changed; point --checkpoints at the folder that the job used, or, if its checkpoints are lost, \
                 abort everything with --listed --yes-lose-records",
                target.checkpoints
            )));
        }
        eprintln!(
            "there is no checkpoint of job {job} below {}: aborting all that is open",
            target.checkpoints
        );
        let open: Vec<KnownId> = by_hand.ids(Some(job))?.into_iter().filter(KnownId::is_open).collect();
        return take_over(target, &mut by_hand, &open, &[]);
    };
    let (strays, kept) = open(&mut by_hand, target, &newest)?;
    if strays.is_empty() && !(also_listed && newest.has_committables()) {
        eprintln!(
            "job {job} has no open transaction that its newest checkpoint does not list: nothing to abort"
        );
        tell_kept(&kept, &newest);
        return output::print::<Ended>(target.output, &[]);
    }
    let manifest = claim(target, &sequence, &mut by_hand)?;
    let (mut targets, kept) = open(&mut by_hand, target, &manifest)?;
    if also_listed && manifest.has_committables() {
        // First of all nothing lists them any more, so that the job's next start does not bring them back.
        let next = sequence.next(&manifest, Cause::Resolution, manifest.checkpoint).without_committables();
        sequence.must_publish(&next)?;
        targets.extend(kept);
        return take_over(target, &mut by_hand, &targets, &[]);
    }
    tell_kept(&kept, &manifest);
    take_over(target, &mut by_hand, &targets, &kept)
}

/// The open transactions of the job: those that the manifest does not list, and those that it lists.
fn open(
    by_hand: &mut ByHand,
    target: &Target,
    manifest: &Manifest,
) -> Result<(Vec<KnownId>, Vec<KnownId>), Failure> {
    let pending = listed(by_hand, manifest)?;
    let open = by_hand.ids(Some(&target.job))?.into_iter().filter(KnownId::is_open);
    Ok(open.partition(|known| !pending.iter().any(|p| is_same(known, p))))
}

fn tell_kept(kept: &[KnownId], manifest: &Manifest) {
    if !kept.is_empty() {
        eprintln!(
            "{} open transactions belong to checkpoint {} and are left alone: txn commit, or a start of the job, commits them",
            kept.len(),
            manifest.checkpoint
        );
    }
}

fn take_over(
    target: &Target,
    by_hand: &mut ByHand,
    targets: &[KnownId],
    kept: &[KnownId],
) -> Result<(), Failure> {
    for known in targets {
        by_hand.take_over(&known.id)?;
    }
    eprintln!("aborted {} open transactions of job {}", targets.len(), target.job);
    let ended = |action| move |known| Ended { action, found: Transaction::known(known) };
    let aborted = targets.iter().map(ended("aborted"));
    let kept = kept.iter().map(ended("left alone"));
    output::print(target.output, &aborted.chain(kept).collect::<Vec<_>>())
}

/// The job's sequence and its newest manifest, if there is any.
fn newest(target: &Target) -> Result<Option<(Sequence, Manifest)>, Failure> {
    let Some(sequence) = Sequence::existing(&target.checkpoints, &target.job, &target.store.options())?
    else {
        return Ok(None);
    };
    Ok(sequence.newest()?.map(|newest| (sequence, newest)))
}

/// Makes sure that the job is gone, or that nobody cares, and claims it: what its newest manifest lists is final then.
fn claim(target: &Target, sequence: &Sequence, by_hand: &mut ByHand) -> Result<Manifest, Failure> {
    if target.force {
        eprintln!("not looking whether job {} still runs: if it does, it ends now", target.job);
    } else {
        life::must_be_gone(sequence, &target.job, by_hand, target.patience)?;
    }
    let manifest = sequence.claim(false)?;
    eprintln!("claimed job {} under generation {}", target.job, manifest.generation);
    Ok(manifest)
}

/// What resolves the transactions of one sink.
fn control(
    by_hand: &ByHand,
    manifest: &Manifest,
    uid: &OperatorUid,
) -> Result<Arc<dyn SinkControl>, Failure> {
    let of_sink = manifest.operators.iter().filter(|o| o.uid == *uid);
    let listed: Vec<Committable> =
        of_sink.flat_map(|o| &o.subtasks).flat_map(|s| s.committables.clone()).collect();
    by_hand.control(&listed)
}
