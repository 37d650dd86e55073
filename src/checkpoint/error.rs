//! Why a job's truth cannot be read or written.

use crate::model::envelope::EnvelopeError;
use crate::model::{Advice, Failure};
use crate::state;
use crate::storage;

/// A failure of the agreement.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The newest manifest cannot be used. An older one would repeat committed output.
    #[error(
        "{location}: the newest manifest {name} cannot be read: {problem}. Starting from an older one would repeat \
         output that is already committed, so this is refused; restore the file, or start with --fresh to begin anew \
         without any state"
    )]
    Unreadable {
        /// The store.
        location: String,
        /// The manifest.
        name: String,
        /// What is wrong with it.
        problem: String,
    },
    /// What a start shall begin with cannot be used.
    #[error(
        "{location}: {name} is damaged: {problem}; copy the folder anew from where it is whole, or begin with another savepoint"
    )]
    Damaged {
        /// The store.
        location: String,
        /// The file.
        name: String,
        /// What is wrong with it.
        problem: String,
    },
    /// The folder belongs to another job.
    #[error(
        "{location}: the manifests there are of job {found:?}, this is job {expected:?}; use another folder"
    )]
    OtherJob {
        /// The store.
        location: String,
        /// This job.
        expected: String,
        /// The job in the manifest.
        found: String,
    },
    /// Another process has claimed the job.
    #[error(
        "{location}: job {job:?} was claimed by another process (generation {theirs}, ours is {ours}); this process \
         commits nothing more and ends"
    )]
    Fenced {
        /// The store.
        location: String,
        /// The job.
        job: String,
        /// The generation of this process.
        ours: u64,
        /// The newer generation.
        theirs: u64,
    },
    /// There is nothing to begin with.
    #[error(
        "{location}: there is no savepoint and no checkpoint; name the folder that has the file \"savepoint\" or the folder \
         \"manifest\" in it"
    )]
    NoSnapshot {
        /// What was named.
        location: String,
    },
    /// What shall be deleted as the rest of a savepoint that was never finished is none.
    #[error(
        "{location}: this is no savepoint that was never finished: such a folder is called savepoint-… and has neither the \
         file \"savepoint\" nor the folder \"manifest\" in it; a finished one goes without --unfinished, and the checkpoints \
         of a job only that job deletes"
    )]
    Finished {
        /// The store.
        location: String,
    },
    /// What this process has published is not there any more. Without it the job would begin anew, unasked.
    #[error(
        "{location}: the manifests that this process published for job {job:?} are gone (its generation is {ours}, the \
         newest there {found}, 0 for none): the folder was emptied or replaced, or is not mounted. Going on without them \
         would repeat or lose output, so this is refused; bring the folder back, or start with --fresh to begin anew \
         without any state"
    )]
    Gone {
        /// The store.
        location: String,
        /// The job.
        job: String,
        /// The generation of this process.
        ours: u64,
        /// The generation of the newest manifest that is there; 0 for none.
        found: u64,
    },
    /// The job and the checkpoint do not fit together.
    #[error("checkpoint {checkpoint} does not fit this job: {problem}")]
    Mismatch {
        /// The checkpoint.
        checkpoint: u64,
        /// What does not fit, and the way out.
        problem: String,
    },
    /// It is not known whether a manifest was published, and the store does not answer.
    #[error("{location}: whether manifest {name} was published is not known: {problem}")]
    Unknown {
        /// The store.
        location: String,
        /// The manifest.
        name: String,
        /// What the store said last.
        problem: String,
    },
    /// State cannot be written anew.
    #[error("operator {operator}: its state cannot be rewritten: {problem}")]
    Regroup {
        /// The operator's name.
        operator: String,
        /// What is wrong with it.
        problem: state::Error,
    },
    /// The store failed.
    #[error(transparent)]
    Storage(#[from] storage::Error),
}

impl Error {
    pub(super) fn unreadable(location: String, name: &str, problem: &EnvelopeError) -> Self {
        Self::Unreadable { location, name: name.to_owned(), problem: problem.to_string() }
    }
}

impl From<Error> for Failure {
    fn from(e: Error) -> Self {
        let advice = match &e {
            Error::Unreadable { .. } | Error::Damaged { .. } | Error::Gone { .. } => Advice::DataIsCorrupt,
            Error::OtherJob { .. }
            | Error::Mismatch { .. }
            | Error::NoSnapshot { .. }
            | Error::Finished { .. } => Advice::FixConfiguration,
            Error::Fenced { .. } => Advice::Fenced,
            Error::Unknown { .. } => Advice::Restart,
            Error::Regroup { problem, .. } => problem.advice(),
            Error::Storage(e) if e.is_transient() => Advice::Restart,
            Error::Storage(_) => Advice::FixConfiguration,
        };
        Failure::new(advice, e.to_string())
    }
}
