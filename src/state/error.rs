//! What can go wrong with state.

use super::Redistribution;
use crate::model::envelope::EnvelopeError;
use crate::model::{Advice, Failure};
use crate::storage;

/// A failed operation on state.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// State was used where no key is current.
    #[error(
        "state {state:?} was used outside of a keyed record; use it in `process`, not in `open` or `close`"
    )]
    NoKey {
        /// The state's name.
        state: String,
    },
    /// State was declared in an operator without keys.
    #[error("state {state:?} needs a key; put `key_by` in front of this operator")]
    NotKeyed {
        /// The state's name.
        state: String,
    },
    /// A name was declared twice with different types, or twice at all.
    #[error("state {state:?} is declared twice in one operator; give each state its own name")]
    DeclaredTwice {
        /// The state's name.
        state: String,
    },
    /// A handle of another operator was used.
    #[error(
        "state handle number {index} does not belong to this operator; declare state in `open` of the operator that uses it"
    )]
    ForeignHandle {
        /// The handle's number.
        index: usize,
    },
    /// A value or key could not be written or read.
    #[error("state {state:?}: a value cannot be {action}: {problem}")]
    Serializer {
        /// The state's name.
        state: String,
        /// `written` or `read`.
        action: &'static str,
        /// The serializer's words.
        problem: String,
    },
    /// A key is too long.
    #[error("state {state:?}: a key has {bytes} bytes, at most {limit} are allowed")]
    KeyTooLong {
        /// The state's name.
        state: String,
        /// The key's size.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// A snapshot file is damaged.
    #[error("state file {file}: {problem}")]
    Envelope {
        /// The file's name.
        file: String,
        /// What is wrong.
        problem: EnvelopeError,
    },
    /// A snapshot file is whole but does not make sense.
    #[error("state file {file}: {problem}")]
    Malformed {
        /// The file's name.
        file: String,
        /// What is wrong.
        problem: String,
    },
    /// The checkpoint has state that the program does not declare.
    #[error(
        "state file {file} has state {state:?}, which the operator no longer declares; declare it again, or start with --fresh"
    )]
    Undeclared {
        /// The file's name.
        file: String,
        /// The state's name.
        state: String,
    },
    /// The checkpoint has operator state that the program does not declare.
    #[error(
        "the checkpoint has {redistribution} state {state:?}, which the operator did not declare in `open`; declare it \
         again, clearing it if it is of no use any more, or start with --fresh to drop all state"
    )]
    UndeclaredOperatorState {
        /// The state's name.
        state: String,
        /// How it was declared.
        redistribution: Redistribution,
    },
    /// The checkpoint has the state in another mode.
    #[error(
        "state {state:?} is {found} state in the checkpoint and is declared as {declared} state now; declare it as before, \
         or give the new state another name"
    )]
    Redistributed {
        /// The state's name.
        state: String,
        /// How it was declared.
        found: Redistribution,
        /// How it is declared now.
        declared: Redistribution,
    },
    /// A file of state cannot be read.
    #[error(transparent)]
    Storage(#[from] storage::Error),
}

impl Error {
    /// What to do about it.
    pub fn advice(&self) -> Advice {
        match self {
            Error::Envelope { .. } | Error::Malformed { .. } => Advice::DataIsCorrupt,
            Error::Storage(e) if e.is_transient() => Advice::Restart,
            Error::Storage(_) => Advice::DataIsCorrupt,
            // Only a restore reads: a value that its type cannot take now it will not take after a restart either.
            Error::Serializer { action: "written", .. } => Advice::Restart,
            _ => Advice::FixConfiguration,
        }
    }
}

impl From<Error> for Failure {
    fn from(e: Error) -> Self {
        Failure::new(e.advice(), e.to_string())
    }
}
