//! How a part of the job fails: with words for a person and an advice for the job.

use std::fmt;

/// What the one who started the work should do about a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Advice {
    /// The same call may succeed later.
    Retry,
    /// Go back to the last complete checkpoint and start again.
    Restart,
    /// The brokers take nothing more from this process's producers, for somebody else has taken their transactional ids
    /// over. If that one has claimed the job, this process is fenced; if not, go back as for a restart.
    Displaced,
    /// Another process has claimed the job: commit nothing, delete nothing, exit.
    Fenced,
    /// A person has to change a setting, a permission or the surroundings; starting again does not help.
    FixConfiguration,
    /// Data that was promised to be there is gone or damaged.
    DataIsCorrupt,
    /// An invariant of Tidegate itself does not hold.
    Bug,
}

/// A failure as it travels between rooms that do not know each other's errors.
#[derive(Debug, Clone)]
pub struct Failure {
    /// What to do.
    pub advice: Advice,
    /// What happened: the thing, the place, expected and found, and the way out.
    pub text: String,
}

impl Failure {
    /// With an advice.
    pub fn new(advice: Advice, text: impl Into<String>) -> Self {
        Self { advice, text: text.into() }
    }

    /// Start again from the last checkpoint.
    pub fn restart(text: impl Into<String>) -> Self {
        Self::new(Advice::Restart, text)
    }

    /// Somebody has to change something.
    pub fn configuration(text: impl Into<String>) -> Self {
        Self::new(Advice::FixConfiguration, text)
    }

    /// The same failure, with the place in front of its text.
    #[must_use]
    pub fn at(mut self, place: impl fmt::Display) -> Self {
        self.text = format!("{place}: {}", self.text);
        self
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Failure {}
