//! `tidegate txn`: the transactions of Tidegate's jobs, seen and ended from outside.
//!
//! A job that is gone for good may leave transactions behind: some that its newest checkpoint lists, whose records belong
//! to the output although no reader sees them yet, and some that no checkpoint lists. Until they end, readers of the
//! output topic wait. A job that is started again resolves both by itself; this is for the one that is not.
//!
//! The newest manifest decides: what it lists is committed, what it does not list is aborted. Both claim the job first,
//! as a starting process does: whoever still runs it is fenced and can publish nothing more, so what was decided stays
//! true. Since that would end a running job, [`life`] looks for signs of one before.

mod life;
mod list;
mod end;

use super::KafkaArguments;
use super::output::Format;
use super::store::StoreArguments;
use crate::model::{Failure, JobId};
use std::time::Duration;

/// What to do about transactions.
#[derive(Debug, clap::Subcommand)]
pub(super) enum Command {
    /// Show every transactional id of Tidegate's jobs
    List(List),
    /// Commit what the newest checkpoint of a job that is gone lists as pending, and record that
    Commit(Commit),
    /// Abort the open transactions of a job that is gone which its newest checkpoint does not list
    Abort(Abort),
}

/// Arguments of `list`.
#[derive(Debug, clap::Args)]
pub(super) struct List {
    #[command(flatten)]
    kafka: KafkaArguments,
    /// This job only
    #[arg(long, value_parser = job)]
    job: Option<JobId>,
    /// Where the jobs keep checkpoints; tells which transactions are listed by the newest one
    #[arg(long, value_name = "URI")]
    checkpoints: Option<String>,
    #[command(flatten)]
    store: StoreArguments,
    /// table or json
    #[arg(short, long, value_enum, default_value_t, hide_possible_values = true)]
    output: Format,
}

/// What `commit` and `abort` have in common.
#[derive(Debug, clap::Args)]
pub(super) struct Target {
    #[command(flatten)]
    kafka: KafkaArguments,
    /// The job that is gone
    #[arg(long, value_parser = job)]
    job: JobId,
    /// Where it kept its checkpoints, such as file:///var/lib/tidegate
    #[arg(long, value_name = "URI")]
    checkpoints: String,
    #[command(flatten)]
    store: StoreArguments,
    /// Do not look whether the job still runs; if it does, it is fenced and ends
    #[arg(long)]
    force: bool,
    /// How long to look for signs of a running job before refusing
    #[arg(long, default_value = "60s", value_parser = duration)]
    patience: Duration,
    /// table or json
    #[arg(short, long, value_enum, default_value_t, hide_possible_values = true)]
    output: Format,
}

/// Arguments of `commit`.
#[derive(Debug, clap::Args)]
pub(super) struct Commit {
    #[command(flatten)]
    target: Target,
}

/// Arguments of `abort`.
#[derive(Debug, clap::Args)]
pub(super) struct Abort {
    #[command(flatten)]
    target: Target,
    /// Also abort what the newest checkpoint lists: its records are lost, for the sources are already past them
    #[arg(long, requires = "yes_lose_records")]
    listed: bool,
    /// Confirms --listed
    #[arg(long, requires = "listed")]
    yes_lose_records: bool,
}

fn job(text: &str) -> Result<JobId, String> {
    JobId::new(text)
}

fn duration(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text).map_err(|e| format!("{e}; expected a duration such as 30s"))
}

/// Carries the command out.
///
/// # Errors
/// What prevents it, or why it is refused.
pub(super) fn run(command: Command) -> Result<(), Failure> {
    match command {
        Command::List(list) => list::run(&list),
        Command::Commit(commit) => end::commit(&commit.target),
        Command::Abort(abort) => end::abort(&abort.target, abort.listed && abort.yes_lose_records),
    }
}
