//! A point in time by which an operation must have answered.
//!
//! A broker may leave a request unanswered for minutes (an EndTxn while too few replicas live), so
//! nothing in this client waits without one.

use std::time::{Duration, Instant};

use crate::host::clock;

/// When to give up, and how much time there was to begin with.
#[derive(Debug, Clone, Copy)]
pub struct Deadline {
    at: Instant,
    budget: Duration,
}

impl Deadline {
    /// The deadline that passes when `budget` has gone by from now.
    pub fn after(budget: Duration) -> Self {
        Self { at: clock::now() + budget, budget }
    }

    /// Time left; zero once the deadline has passed.
    pub fn left(&self) -> Duration {
        clock::until(self.at)
    }

    /// Whether no time is left.
    pub fn passed(&self) -> bool {
        self.left().is_zero()
    }

    /// The time there was at the beginning.
    pub fn budget(&self) -> Duration {
        self.budget
    }

    /// The earlier one of this deadline and `limit` from now.
    pub fn at_most(&self, limit: Duration) -> Self {
        if self.left() <= limit { *self } else { Self::after(limit) }
    }
}
