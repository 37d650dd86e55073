//! `tidegate checkpoint rescale`: the newest checkpoint of a job under another maximum parallelism, in another place.
//!
//! The old sequence is claimed first, as a starting process does, so that whoever still runs the job is fenced and what is
//! read stays the newest. The new place gets the files first and the manifest last: until that is there, nothing is.

use super::store::StoreArguments;
use crate::checkpoint::{Sequence, rewrite};
use crate::host::random;
use crate::model::{Failure, JobId, MaxParallelism};
use crate::state::StateHandle;
use crate::storage::FileRef;

/// What to do about checkpoints.
#[derive(Debug, clap::Subcommand)]
pub(super) enum Command {
    /// Write the newest checkpoint of a stopped job anew, under another maximum parallelism, to another place
    Rescale(Rescale),
}

/// Arguments of `rescale`.
#[derive(Debug, clap::Args)]
pub(super) struct Rescale {
    /// The job; it must be stopped: if it still runs, it is fenced and ends
    #[arg(long, value_parser = name)]
    job: JobId,
    /// Where it keeps its checkpoints, such as file:///var/lib/tidegate
    #[arg(long, value_name = "URI")]
    checkpoints: String,
    /// Where the new checkpoint goes; from then on the job is started with this
    #[arg(long, value_name = "URI")]
    to: String,
    #[command(flatten)]
    store: StoreArguments,
    /// The number of key groups of every keyed operator, 1 to 32768
    #[arg(long, value_parser = max)]
    max_parallelism: MaxParallelism,
}

fn name(text: &str) -> Result<JobId, String> {
    JobId::new(text)
}

pub(super) fn max(text: &str) -> Result<MaxParallelism, String> {
    MaxParallelism::new(text.parse().map_err(|e| format!("{e}"))?)
}

/// Does what the arguments say.
///
/// # Errors
/// When there is no checkpoint, the new place has some of this job already, or a store fails.
pub(super) fn run(command: Command) -> Result<(), Failure> {
    let Command::Rescale(Rescale { job, checkpoints, to, store, max_parallelism }) = command;
    let options = store.options();
    let nothing = || Failure::configuration(format!("{checkpoints} has no checkpoint of job {job}"));
    let from = Sequence::existing(&checkpoints, &job, &options)?.ok_or_else(nothing)?;
    from.newest()?.ok_or_else(nothing)?;
    let target = Sequence::open_with(&to, &job, &options)?;
    if !target.slots()?.is_empty() {
        return Err(Failure::configuration(format!(
            "{to} has checkpoints of job {job} already; give --to a place that has none"
        )));
    }
    let claim = from.claim(false)?;
    let (store, prefix) =
        (target.store(), format!("state/{}-{}-rescaled", claim.generation, claim.checkpoint));
    let mut files = 0;
    let mut write = |bytes: &[u8]| {
        let file = FileRef::write(&**store, format!("{prefix}-{files}-{}", random::token()), bytes)?;
        files += 1;
        Ok(StateHandle::File(file))
    };
    let rewritten = rewrite(&**from.store(), &claim, max_parallelism, &mut write)?;
    crate::fault_point!("rescale.after_files");
    target.must_publish(&target.next(&rewritten, claim.cause, claim.checkpoint))?;
    crate::fault_point!("rescale.after_manifest");
    let keyed = rewritten.operators.iter().filter(|o| o.max_parallelism.is_some());
    let names: Vec<&str> = keyed.map(|o| o.uid.0.as_str()).collect();
    eprintln!(
        "checkpoint {} of job {job} is in {to} with {} key groups for {}, in {files} files; start the job with \
         --checkpoints {to}, and no more with {checkpoints}",
        claim.checkpoint,
        max_parallelism.get(),
        if names.is_empty() { "no operator: none has keyed state".to_owned() } else { names.join(", ") },
    );
    Ok(())
}
