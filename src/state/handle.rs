//! Where a piece of frozen state is kept, and how it finds its subtasks again.

use crate::storage::{self, FileRef, Storage};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// Where the bytes of a piece of state are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum StateHandle {
    /// In the manifest itself, whose checksum covers them.
    Inline(Vec<u8>),
    /// In a file of the store.
    File(FileRef),
}

impl StateHandle {
    /// The file, if it is one.
    pub fn file(&self) -> Option<&FileRef> {
        match self {
            Self::Inline(_) => None,
            Self::File(file) => Some(file),
        }
    }

    /// How many bytes it refers to.
    pub fn bytes(&self) -> u64 {
        match self {
            Self::Inline(bytes) => bytes.len() as u64,
            Self::File(file) => file.bytes,
        }
    }

    /// What it is called in messages.
    pub fn describe(&self) -> String {
        match self {
            Self::Inline(bytes) => format!("{} bytes inside the manifest", bytes.len()),
            Self::File(file) => file.name.clone(),
        }
    }

    /// Its bytes, checked.
    ///
    /// # Errors
    /// As [`FileRef::read`].
    pub fn read(&self, store: &dyn Storage) -> Result<Cow<'_, [u8]>, storage::Error> {
        match self {
            Self::Inline(bytes) => Ok(Cow::Borrowed(bytes)),
            Self::File(file) => file.read(store).map(Cow::Owned),
        }
    }
}

/// How the parts of an operator state find their subtasks after a restart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Redistribution {
    /// The entries of all subtasks are one list, dealt out evenly.
    Split,
    /// Every subtask gets the entries of all.
    Union,
    /// Every subtask has the same; one copy is kept and given to all.
    Broadcast,
}

impl std::fmt::Display for Redistribution {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Split => "list",
            Self::Union => "union",
            Self::Broadcast => "broadcast",
        })
    }
}
