//! What can go wrong with a store, by what a person has to do about it.

use std::io;

/// A failed operation on a store.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The folder itself is missing and cannot be made.
    #[error(
        "{location}: the folder cannot be made: {source}; choose one that this user can make and write, or let this user do so"
    )]
    NoFolder {
        /// The store.
        location: String,
        /// The operating system's error.
        source: io::Error,
    },
    /// There is no such blob.
    #[error("{location}: there is no {name}")]
    NotFound {
        /// The store.
        location: String,
        /// The blob.
        name: String,
    },
    /// The store has no room left.
    #[error(
        "{location}: no space left while writing {name}; free some space or lower the number of retained checkpoints"
    )]
    Full {
        /// The store.
        location: String,
        /// The blob.
        name: String,
    },
    /// The store refuses this user.
    #[error("{location}: {action} {name} is not permitted; let this user read, write and delete there")]
    NotPermitted {
        /// The store.
        location: String,
        /// What was tried.
        action: &'static str,
        /// The blob.
        name: String,
    },
    /// The store cannot publish: several writers of one name could all win.
    #[error(
        "{location}: put-if-absent let {winners} of {racers} writers win, so two processes could both own a job; use a store with conditional writes"
    )]
    NoConditionalPut {
        /// The store.
        location: String,
        /// How many writers were told that they won.
        winners: usize,
        /// How many there were.
        racers: usize,
    },
    /// A blob is not what was written.
    #[error("{location}: {name} is damaged: expected {expected}, found {found}")]
    Changed {
        /// The store.
        location: String,
        /// The blob.
        name: String,
        /// Size and checksum when it was written.
        expected: String,
        /// Size and checksum now.
        found: String,
    },
    /// The URI names no store that is known here.
    #[error(
        "location {uri:?}: {problem}; expected file:///an/absolute/folder, s3://bucket/prefix, hdfs://host:port/folder, or memory://name in tests"
    )]
    Uri {
        /// As given.
        uri: String,
        /// What is wrong with it.
        problem: String,
    },
    /// A remote store gave no answer in time, or an answer that says nothing about the request.
    #[error(
        "{location}: {action} {name}: {problem}; look whether the store is up and reachable, or raise storage property timeout_ms"
    )]
    Unavailable {
        /// The store.
        location: String,
        /// What was tried.
        action: &'static str,
        /// The blob.
        name: String,
        /// The last answer, or that there was none.
        problem: String,
    },
    /// A remote store refuses, and will refuse again.
    #[error("{location}: {action} {name} was refused: {problem}; {advice}")]
    Refused {
        /// The store.
        location: String,
        /// What was tried.
        action: &'static str,
        /// The blob. Boxed, as the answer is, so that errors stay small.
        name: Box<str>,
        /// The store's answer.
        problem: Box<str>,
        /// The way out.
        advice: &'static str,
    },
    /// The store's own threads cannot be started.
    #[error(
        "{location}: its threads cannot be started: {source}; raise the limit of processes for this user"
    )]
    NoThreads {
        /// The store.
        location: String,
        /// The operating system's error.
        source: io::Error,
    },
    /// Some of many blobs could not be deleted.
    #[error("{location}: {} of {of} blobs could not be deleted and stay behind, such as {}: {first}", names.len(), names[0])]
    Left {
        /// The store.
        location: String,
        /// The blobs, at least one.
        names: Vec<String>,
        /// How many there were to delete.
        of: usize,
        /// What went wrong with the first.
        first: Box<Error>,
    },
    /// Anything else.
    #[error("{location}: {action} {name}: {source}")]
    Io {
        /// The store.
        location: String,
        /// What was tried.
        action: &'static str,
        /// The blob.
        name: String,
        /// The operating system's error.
        source: io::Error,
    },
}

impl Error {
    /// From an error of the operating system.
    pub(super) fn io(location: &str, action: &'static str, name: &str, source: io::Error) -> Self {
        let (location, name) = (location.to_owned(), name.to_owned());
        match source.kind() {
            io::ErrorKind::NotFound => Self::NotFound { location, name },
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::Full { location, name },
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                Self::NotPermitted { location, action, name }
            }
            _ => Self::Io { location, action, name, source },
        }
    }

    /// Whether the same operation may succeed later without anybody changing a setting.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Io { .. } | Self::Full { .. } | Self::Unavailable { .. } => true,
            Self::Left { first, .. } => first.is_transient(),
            _ => false,
        }
    }
}
