//! What the newest manifest lists as pending, brought to its end: committed, or replaced by a salvage that a manifest
//! names and then committed, until a manifest lists nothing.
//!
//! Called by whoever has claimed the job, before anybody initialises an id: [`super::recovery`], and the tool that
//! commits by hand for a job that is gone.

use crate::checkpoint::{Cause, Manifest, Sequence};
use crate::connector::{CommitScope, Resolution, SinkControl};
use crate::model::{Failure, OperatorUid};
use std::sync::Arc;

/// Replacements of one subtask's transactions in a row before this gives up.
const SALVAGES: u32 = 5;

/// Commits what the manifest lists, or replaces what was aborted; the result lists nothing any more and is published.
///
/// # Errors
/// When a sink has no control, an outcome is not known, records are lost, or the job was claimed by somebody else.
pub fn resolve(
    sequence: &Sequence,
    mut manifest: Manifest,
    control_of: impl Fn(&OperatorUid) -> Result<Arc<dyn SinkControl>, Failure>,
) -> Result<Manifest, Failure> {
    if !manifest.has_committables() {
        return Ok(manifest);
    }
    for at in 0..manifest.operators.len() {
        let operator = &manifest.operators[at];
        if operator.subtasks.iter().all(|s| s.committables.is_empty()) {
            continue;
        }
        let uid = operator.uid.clone();
        let control = control_of(&uid)?;
        for subtask in 0..manifest.operators[at].subtasks.len() {
            let scope = CommitScope { job: manifest.job.clone(), uid: uid.clone(), subtask: subtask as u32 };
            let mut salvages = 0;
            loop {
                let listed = &manifest.operators[at].subtasks[subtask].committables;
                if listed.is_empty() {
                    break;
                }
                match control.resolve(&scope, listed)? {
                    Resolution::Resolved => {
                        if salvages > 0 {
                            crate::fault_point!("salvage.after_commit");
                        }
                        break;
                    }
                    Resolution::Replaced(replacement) => {
                        let mut next = sequence.next(&manifest, Cause::Resolution, manifest.checkpoint);
                        next.operators[at].subtasks[subtask].committables = vec![replacement];
                        sequence.must_publish(&next)?;
                        crate::fault_point!("salvage.after_manifest");
                        manifest = next;
                        salvages += 1;
                        if salvages > SALVAGES {
                            return Err(Failure::restart(format!(
                                "sink {uid} subtask {subtask}: {SALVAGES} replacements of aborted transactions were \
                                 aborted themselves; is the transaction timeout long enough?"
                            )));
                        }
                    }
                }
            }
        }
    }
    let next = sequence.next(&manifest, Cause::Resolution, manifest.checkpoint).without_committables();
    sequence.must_publish(&next)?;
    Ok(next)
}
