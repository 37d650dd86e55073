//! The end of a job that is cancelled: what its newest manifest lists is committed, and only then, if that is set, its
//! checkpoints are deleted.

use super::job::Setup;
use super::recovery;
use crate::checkpoint::{Cause, Held, Manifest, OnCancellation, orphans, state_files};
use crate::model::{Advice, Failure};
use std::collections::BTreeSet;

/// Settles the job's transactions and deletes its checkpoints or retains them; gives the last complete one. Where they are
/// retained the next start settles what was not. `failure` is what the attempt ended with.
///
/// # Errors
/// When another process owns the job and its checkpoints shall be deleted, or when transactions cannot be settled: then
/// nothing is deleted.
pub(super) fn settle(setup: &Setup, failure: &Failure) -> Result<u64, Failure> {
    if setup.options.checkpoint.on_cancellation == OnCancellation::Retain {
        recovery::tidy(setup, failure).map_err(|e| {
            e.at(
                "the job is cancelled, but its transactions are left to the next start, or to `tidegate txn`",
            )
        })?;
        return Ok(setup.options.progress.seen().checkpoint.unwrap_or(0));
    }
    if failure.advice == Advice::Fenced {
        return Err(failure.clone());
    }
    let manifest = recovery::claim(setup)?;
    let manifest = recovery::settle(setup, manifest)?;
    delete(setup, &manifest)?;
    Ok(manifest.checkpoint.0)
}

/// One empty manifest stays: it keeps the generations and ids growing, so that whoever slept through this finds himself
/// fenced, and it lets a later start begin anew.
fn delete(setup: &Setup, settled: &Manifest) -> Result<(), Failure> {
    let sequence = &setup.sequence;
    let slots = sequence.slots()?;
    let readable = slots.iter().filter_map(|slot| sequence.read(*slot).ok());
    let mut files: BTreeSet<String> =
        readable.flat_map(|m| Held::of(&m).files).map(|file| file.name).collect();
    let next = sequence.next(settled, Cause::Cancelled, settled.checkpoint);
    let emptied = Manifest {
        operators: Vec::new(),
        started: false,
        finished: false,
        restored_from: String::new(),
        ..next
    };
    sequence.must_publish(&emptied)?;
    match sequence.store().list("state") {
        // A checkpoint that was under way has left what no manifest lists.
        Ok(names) => {
            files.extend(orphans(&state_files(names), &[Held::of(&emptied)], emptied.generation.next()));
        }
        Err(e) => {
            tracing::warn!(error = %e, "what a checkpoint under way has left is not known and stays behind")
        }
    }
    // Manifests first, so that every one that is found has its files.
    let (manifests, files): (Vec<String>, Vec<String>) =
        (slots.into_iter().map(Manifest::name_of).collect(), files.into_iter().collect());
    for names in [manifests, files] {
        if let Err(e) = sequence.store().delete_all(&names) {
            tracing::warn!(error = %e, "files of checkpoints could not be deleted and stay behind");
            break;
        }
    }
    tracing::info!(checkpoint = settled.checkpoint.0, "the checkpoints of the cancelled job are deleted");
    Ok(())
}
