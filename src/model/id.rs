//! Names and numbers that tell jobs, operators, subtasks, attempts and checkpoints apart.

use serde::{Deserialize, Serialize};
use std::fmt;

/// The name of a job: unique among the jobs that share a Kafka cluster or a checkpoint folder.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct JobId(String);

impl JobId {
    /// Longest name in bytes: it becomes part of transactional ids and file names.
    pub const MAX_BYTES: usize = 200;

    /// Takes a name of 1 to [`Self::MAX_BYTES`] bytes.
    ///
    /// # Errors
    /// A text that says what is wrong with the name.
    pub fn new(name: impl Into<String>) -> Result<Self, String> {
        let name = name.into();
        if name.is_empty() || name.len() > Self::MAX_BYTES {
            return Err(format!(
                "a job's name must have 1 to {} bytes, this has {}: {name:?}",
                Self::MAX_BYTES,
                name.len()
            ));
        }
        Ok(Self(name))
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What state and transactions are found by across restarts: given by the user, or derived from the place.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct OperatorUid(pub String);

impl fmt::Display for OperatorUid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The number of a parallel instance of an operator, from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SubtaskIndex(pub u32);

/// One thread of the running job: the chain it drives and its subtask.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TaskId {
    /// Index of the chain in the physical plan.
    pub chain: u32,
    /// Which parallel instance of it.
    pub subtask: SubtaskIndex,
}

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.chain, self.subtask.0)
    }
}

macro_rules! counter {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        pub struct $name(pub u64);

        impl $name {
            /// The next one.
            #[must_use]
            pub fn next(self) -> Self {
                Self(self.0 + 1)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

counter!(
    /// The number of a checkpoint. It only grows, over declines, failures and restarts.
    CheckpointId
);
counter!(
    /// How often the job was started within one process; a message of an older attempt is refused.
    Attempt
);
counter!(
    /// How often the job was claimed by a process; a process that meets a higher one is fenced.
    Generation
);
