//! How often and how soon a failed job is started again. Pure.

use crate::model::Advice;
use std::time::Duration;

/// Attempts without calm between them that lose their transactional ids before that is no accident any more.
const DISPLACED: u32 = 4;

/// Exponential backoff with jitter, a reset after calm, and a limit.
#[derive(Debug, Clone)]
pub struct RestartPolicy {
    /// Before the first restart. 1 s by default.
    pub initial_delay: Duration,
    /// At most this long. 1 min by default.
    pub maximum_delay: Duration,
    /// Each delay is this many times the one before. 2 by default.
    pub multiplier: f64,
    /// Each delay is made longer or shorter by up to this part of itself, 0 to 1. 0.1 by default.
    pub jitter: f64,
    /// A job that ran this long starts counting anew. 5 min by default.
    pub reset_after: Duration,
    /// Restarts in a row before the job gives up; `None` for no limit, the default.
    pub limit: Option<u32>,
}

impl Default for RestartPolicy {
    fn default() -> Self {
        Self {
            initial_delay: Duration::from_secs(1),
            maximum_delay: Duration::from_secs(60),
            multiplier: 2.0,
            jitter: 0.1,
            reset_after: Duration::from_secs(300),
            limit: None,
        }
    }
}

/// What to do after a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Start again after this.
    RestartAfter(Duration),
    /// The limit is reached.
    GiveUp,
    /// Somebody who does not share this job's checkpoints takes its transactional ids, again and again.
    Displaced,
}

/// Counts failures in a row.
#[derive(Debug, Default)]
pub(super) struct Restarts {
    in_a_row: u32,
    displaced: u32,
}

impl Restarts {
    /// Restarts in a row so far.
    pub(super) fn in_a_row(&self) -> u32 {
        self.in_a_row
    }

    /// After an attempt that ran for `ran`; `chance` is in `0.0..1.0`.
    pub(super) fn after_failure(
        &mut self,
        policy: &RestartPolicy,
        advice: Advice,
        ran: Duration,
        chance: f64,
    ) -> Verdict {
        if ran >= policy.reset_after {
            *self = Self::default();
        }
        self.displaced += u32::from(advice == Advice::Displaced);
        if self.displaced >= DISPLACED {
            return Verdict::Displaced;
        }
        if policy.limit.is_some_and(|limit| self.in_a_row >= limit) {
            return Verdict::GiveUp;
        }
        let grown =
            policy.initial_delay.as_secs_f64() * policy.multiplier.powi(self.in_a_row.min(1000) as i32);
        let capped = grown.min(policy.maximum_delay.as_secs_f64());
        let jittered = capped * (1.0 + policy.jitter.clamp(0.0, 1.0) * (2.0 * chance - 1.0));
        self.in_a_row += 1;
        Verdict::RestartAfter(Duration::from_secs_f64(jittered.max(0.0)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy() -> RestartPolicy {
        RestartPolicy { jitter: 0.0, limit: Some(8), ..RestartPolicy::default() }
    }

    #[test]
    fn delays_grow_to_the_maximum_and_the_limit_ends_it() {
        let mut restarts = Restarts::default();
        let delays: Vec<u64> = (0..8)
            .map(|_| match restarts.after_failure(&policy(), Advice::Restart, Duration::ZERO, 0.5) {
                Verdict::RestartAfter(d) => d.as_secs(),
                other => panic!("{other:?} comes too early"),
            })
            .collect();
        assert_eq!(delays, [1, 2, 4, 8, 16, 32, 60, 60]);
        assert_eq!(restarts.after_failure(&policy(), Advice::Restart, Duration::ZERO, 0.5), Verdict::GiveUp);
    }

    #[test]
    fn calm_resets_and_jitter_stays_in_its_bounds() {
        let mut restarts = Restarts { in_a_row: 8, displaced: 0 };
        let calm = Duration::from_secs(300);
        let first = restarts.after_failure(&policy(), Advice::Restart, calm, 0.5);
        assert_eq!(first, Verdict::RestartAfter(Duration::from_secs(1)));
        for chance in [0.0, 0.999] {
            let jittery = RestartPolicy { jitter: 0.5, ..policy() };
            let mut restarts = Restarts::default();
            let Verdict::RestartAfter(d) =
                restarts.after_failure(&jittery, Advice::Restart, Duration::ZERO, chance)
            else {
                panic!("gave up")
            };
            assert!((0.5..=1.5).contains(&d.as_secs_f64()), "{d:?}");
        }
    }

    #[test]
    fn losing_the_transactional_ids_again_and_again_ends_it_unless_there_was_calm() {
        let policy = RestartPolicy { limit: None, ..policy() };
        let lost =
            |restarts: &mut Restarts, ran| restarts.after_failure(&policy, Advice::Displaced, ran, 0.5);
        let mut restarts = Restarts::default();
        for _ in 0..3 {
            assert!(matches!(lost(&mut restarts, Duration::ZERO), Verdict::RestartAfter(_)));
            restarts.after_failure(&policy, Advice::Restart, Duration::ZERO, 0.5);
        }
        assert!(matches!(lost(&mut restarts, Duration::from_secs(300)), Verdict::RestartAfter(_)));
        for _ in 0..2 {
            lost(&mut restarts, Duration::ZERO);
        }
        assert_eq!(lost(&mut restarts, Duration::ZERO), Verdict::Displaced);
    }
}
