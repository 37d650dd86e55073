//! The settings of checkpointing.

use std::time::Duration;

/// The longest time that a setting may name: a year, so that sums of them do not overflow.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// When checkpoints are taken and what is tolerated.
#[derive(Debug, Clone)]
pub struct Settings {
    /// From one trigger to the next. 10 ms or more; 10 s by default.
    pub interval: Duration,
    /// A checkpoint that is not acknowledged by all tasks after this is given up. 60 s by default; it should be
    /// longer than a broker's failover, which takes 10 to 20 s.
    pub timeout: Duration,
    /// At least this long from the end of one checkpoint to the trigger of the next. Zero by default.
    pub minimum_pause: Duration,
    /// How many checkpoints in a row may fail, for storage or time, before the job goes back to the last complete
    /// one. 2 by default; each costs one more transactional id per sink subtask.
    pub tolerable_failures: u32,
    /// How many complete checkpoints are kept, 1 or more; 3 by default.
    pub retained: usize,
    /// How long a restart may take before prepared transactions are in danger. 60 s by default.
    pub restart_budget: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            interval: Duration::from_secs(10),
            timeout: Duration::from_secs(60),
            minimum_pause: Duration::ZERO,
            tolerable_failures: 2,
            retained: 3,
            restart_budget: Duration::from_secs(60),
        }
    }
}

impl Settings {
    /// Everything that is wrong, one text each.
    pub fn problems(&self) -> Vec<String> {
        let mut found = Vec::new();
        if self.interval < Duration::from_millis(10) {
            found.push(format!("the checkpoint interval must be 10 ms or more, found {:?}", self.interval));
        }
        if self.timeout < Duration::from_millis(100) {
            found.push(format!("the checkpoint timeout must be 100 ms or more, found {:?}", self.timeout));
        }
        for (what, time) in [
            ("checkpoint interval", self.interval),
            ("checkpoint timeout", self.timeout),
            ("minimum pause", self.minimum_pause),
            ("restart budget", self.restart_budget),
        ] {
            if time > LONGEST {
                found.push(format!("the {what} must be at most {LONGEST:?}, found {time:?}"));
            }
        }
        if self.retained == 0 {
            found.push("at least 1 checkpoint must be retained, found 0".to_owned());
        }
        if self.tolerable_failures > 100 {
            found.push(format!(
                "at most 100 failed checkpoints can be tolerated, since each costs a transactional id, found {}",
                self.tolerable_failures
            ));
        }
        found
    }

    /// The shortest transaction timeout with which no prepared transaction can be aborted while everything goes
    /// as these settings allow, and the arithmetic in words.
    pub fn least_transaction_timeout(&self) -> (Duration, String) {
        let between = self.interval.max(self.timeout + self.minimum_pause);
        let least = between * (self.tolerable_failures + 1) + self.timeout + self.restart_budget;
        let words = format!(
            "({} tolerable failures + 1) × max(interval {:?}, checkpoint timeout {:?} + minimum pause {:?}) + checkpoint \
             timeout {:?} + restart budget {:?} = {least:?}",
            self.tolerable_failures,
            self.interval,
            self.timeout,
            self.minimum_pause,
            self.timeout,
            self.restart_budget
        );
        (least, words)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_fits_into_a_transaction_of_ten_minutes() {
        let (least, words) = Settings::default().least_transaction_timeout();
        assert_eq!(least, Duration::from_secs(300), "{words}");
        assert!(Settings::default().problems().is_empty());
    }

    #[test]
    fn all_problems_are_named_at_once() {
        let wrong = Settings { interval: Duration::ZERO, retained: 0, ..Settings::default() };
        assert_eq!(wrong.problems().len(), 2);
    }

    #[test]
    fn times_that_no_clock_can_add_are_refused() {
        let (interval, timeout, minimum_pause, restart_budget) =
            (Duration::MAX, Duration::MAX, Duration::MAX, Duration::MAX);
        let endless = Settings { interval, timeout, minimum_pause, restart_budget, ..Settings::default() };
        assert_eq!(endless.problems().len(), 4);
    }
}
