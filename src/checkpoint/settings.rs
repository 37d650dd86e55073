//! The settings of checkpointing, by name, checked together.
//!
//! Whoever knows Flink finds its names beside these in `docs/checkpoints.md`.

use crate::model::{Alignment, BarrierKind};
use std::path::PathBuf;
use std::time::Duration;

/// The longest time that a setting may name: a year, so that sums of them do not overflow.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// Small state is kept in the manifest up to this size; larger pieces would make every publication slow. 1 MiB.
const MOST_INLINE_BYTES: u64 = 1024 * 1024;

/// As many checkpoints may be under way at once, at most: each costs transactional ids and room in every queue.
const MOST_CONCURRENT: u32 = 8;

/// What a checkpoint promises about state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Mode {
    /// After a restart every record has changed the state exactly once.
    #[default]
    ExactlyOnce,
    /// No input ever waits for a barrier on another one: after a restart, records that had overtaken a barrier change
    /// state again, and what a transactional sink writes for them is written, and committed, again.
    AtLeastOnce,
}

impl std::str::FromStr for Mode {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "exactly-once" => Ok(Self::ExactlyOnce),
            "at-least-once" => Ok(Self::AtLeastOnce),
            other => Err(format!("the mode is exactly-once or at-least-once, found {other:?}")),
        }
    }
}

/// What becomes of a job's checkpoints when it is cancelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum OnCancellation {
    /// They stay, and a later start goes on from the newest.
    #[default]
    Retain,
    /// They are deleted once everything that they list is committed; a later start begins anew.
    Delete,
}

impl std::str::FromStr for OnCancellation {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "retain" => Ok(Self::Retain),
            "delete" => Ok(Self::Delete),
            other => Err(format!("checkpoints are retained or deleted: retain or delete, found {other:?}")),
        }
    }
}

/// When checkpoints are taken, how, and what is tolerated and kept.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Settings {
    /// From one trigger to the next. 10 ms or more; 10 s by default.
    pub interval: Duration,
    /// A checkpoint that is not acknowledged by all tasks after this is given up. 100 ms or more; 60 s by default. It
    /// should be longer than a broker's failover, which takes 10 to 20 s.
    pub timeout: Duration,
    /// What is promised about state; exactly once by default.
    pub mode: Mode,
    /// At least this long from the end of one checkpoint to the trigger of the next. Zero by default; more goes only with
    /// one checkpoint at a time.
    pub minimum_pause: Duration,
    /// How many checkpoints may be under way at once, 1 to 8; 1 by default. The newest that is complete makes the older
    /// ones superfluous. Each costs two more transactional ids per sink subtask.
    pub maximum_concurrent: u32,
    /// How many checkpoints in a row may fail, for storage or time, before the job goes back to the last complete
    /// one, 0 to 100. 2 by default; each costs two more transactional ids per sink subtask.
    pub tolerable_failures: u32,
    /// Whether barriers may overtake records, which then become part of the checkpoint. Off by default. Only exactly
    /// once and one checkpoint at a time; the last checkpoint of a job and savepoints are aligned all the same.
    pub unaligned: bool,
    /// With `unaligned`: how long after its trigger a checkpoint stays aligned before its barriers overtake. Zero by
    /// default: at once.
    pub aligned_timeout: Duration,
    /// What becomes of the checkpoints when the job is cancelled; they are retained by default.
    pub on_cancellation: OnCancellation,
    /// How many complete checkpoints are kept, 1 or more; 3 by default.
    pub retained: usize,
    /// Pieces of state of fewer bytes than this are kept in the manifest itself and make no file. 0 to 1 MiB; 0 by
    /// default: every piece is a file.
    pub inline_below_bytes: u64,
    /// A folder of this machine where each state file is kept a second time, so that a restart need not fetch it. `None`
    /// by default. A copy that is missing or damaged is fetched from the storage.
    pub local_recovery: Option<PathBuf>,
    /// How long a restart may take before prepared transactions are in danger. 60 s by default.
    pub restart_budget: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            interval: Duration::from_secs(10),
            timeout: Duration::from_secs(60),
            mode: Mode::ExactlyOnce,
            minimum_pause: Duration::ZERO,
            maximum_concurrent: 1,
            tolerable_failures: 2,
            unaligned: false,
            aligned_timeout: Duration::ZERO,
            on_cancellation: OnCancellation::Retain,
            retained: 3,
            inline_below_bytes: 0,
            local_recovery: None,
            restart_budget: Duration::from_secs(60),
        }
    }
}

impl Settings {
    /// Everything that is wrong, one text each.
    pub fn problems(&self) -> Vec<String> {
        let mut found = Vec::new();
        let mut must = |holds: bool, text: String| {
            if !holds {
                found.push(text);
            }
        };
        must(
            self.interval >= Duration::from_millis(10),
            format!("the checkpoint interval must be 10 ms or more, found {:?}", self.interval),
        );
        must(
            self.timeout >= Duration::from_millis(100),
            format!("the checkpoint timeout must be 100 ms or more, found {:?}", self.timeout),
        );
        for (what, time) in [
            ("checkpoint interval", self.interval),
            ("checkpoint timeout", self.timeout),
            ("minimum pause", self.minimum_pause),
            ("restart budget", self.restart_budget),
        ] {
            must(time <= LONGEST, format!("the {what} must be at most {LONGEST:?}, found {time:?}"));
        }
        must(self.retained > 0, "at least 1 checkpoint must be retained, found 0".to_owned());
        must(
            self.tolerable_failures <= 100,
            format!(
                "at most 100 failed checkpoints can be tolerated, since each costs transactional ids, found {}",
                self.tolerable_failures
            ),
        );
        must(
            (1..=MOST_CONCURRENT).contains(&self.maximum_concurrent),
            format!(
                "the maximum of concurrent checkpoints must be 1 to {MOST_CONCURRENT}, found {}",
                self.maximum_concurrent
            ),
        );
        must(
            self.minimum_pause.is_zero() || self.maximum_concurrent == 1,
            format!(
                "a minimum pause of {:?} between checkpoints goes only with 1 checkpoint at a time, found a maximum of {} \
                 concurrent ones; leave one of the two out",
                self.minimum_pause, self.maximum_concurrent
            ),
        );
        must(
            !self.unaligned || self.maximum_concurrent == 1,
            format!(
                "unaligned checkpoints go only one at a time, found a maximum of {} concurrent ones",
                self.maximum_concurrent
            ),
        );
        must(
            !self.unaligned || self.mode == Mode::ExactlyOnce,
            "unaligned checkpoints are for exactly once; with at least once no input waits anyway".to_owned(),
        );
        must(
            self.unaligned || self.aligned_timeout.is_zero(),
            format!(
                "an aligned timeout of {:?} has no effect without unaligned checkpoints; switch these on or leave it out",
                self.aligned_timeout
            ),
        );
        must(
            self.aligned_timeout < self.timeout,
            format!(
                "the aligned timeout must be shorter than the checkpoint timeout of {:?}, found {:?}",
                self.timeout, self.aligned_timeout
            ),
        );
        must(
            self.inline_below_bytes <= MOST_INLINE_BYTES,
            format!(
                "state of at most {MOST_INLINE_BYTES} bytes can be kept in the manifest, found {}",
                self.inline_below_bytes
            ),
        );
        must(
            self.local_recovery.as_ref().is_none_or(|folder| folder.is_absolute()),
            format!(
                "the folder for local recovery must be absolute, found {}",
                self.local_recovery.as_deref().unwrap_or_else(|| "".as_ref()).display()
            ),
        );
        found
    }

    /// How tasks treat the barrier of a checkpoint of this kind. After a last one nothing follows that could wait, and
    /// what is in flight before it must be processed: it is always aligned.
    pub fn alignment(&self, kind: BarrierKind) -> Alignment {
        match (kind, self.mode) {
            (BarrierKind::Last | BarrierKind::Drain, _) => Alignment::Aligned,
            (BarrierKind::Periodic, Mode::AtLeastOnce) => Alignment::AtLeastOnce,
            (BarrierKind::Periodic, Mode::ExactlyOnce) if !self.unaligned => Alignment::Aligned,
            _ if self.aligned_timeout.is_zero() => Alignment::Unaligned,
            _ => Alignment::AlignedFor(self.aligned_timeout),
        }
    }

    /// How many transactions of one sink subtask can be open, prepared, or committed and not yet recorded, at once.
    ///
    /// A transaction is in use from its barrier until a manifest without it is published: that is until a first
    /// checkpoint is complete, which permits the commit, and a second one, triggered afterwards, which records it. Either
    /// takes at most all tolerable failures in a row, with `maximum_concurrent` barriers under way, and one savepoint may
    /// come between; one more is open.
    pub fn transactions_per_subtask(&self) -> u32 {
        2 * (self.tolerable_failures + self.maximum_concurrent + 1) + 1
    }

    /// The shortest transaction timeout with which no prepared transaction can be aborted while everything goes
    /// as these settings allow, and the arithmetic in words. Concurrent checkpoints are triggered earlier and fail
    /// earlier than single ones, never later, so their number makes it no longer.
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

    #[test]
    fn what_does_not_go_together_is_refused() {
        let second = Duration::from_secs(1);
        let with = |change: fn(&mut Settings, Duration)| {
            let mut settings = Settings::default();
            change(&mut settings, second);
            settings
        };
        let table: &[(Settings, &str)] = &[
            (with(|s, second| (s.minimum_pause, s.maximum_concurrent) = (second, 2)), "minimum pause"),
            (with(|s, _| (s.unaligned, s.maximum_concurrent) = (true, 2)), "one at a time"),
            (with(|s, _| (s.unaligned, s.mode) = (true, Mode::AtLeastOnce)), "exactly once"),
            (with(|s, second| s.aligned_timeout = second), "no effect"),
            (with(|s, second| (s.unaligned, s.aligned_timeout) = (true, 60 * second)), "shorter"),
            (with(|s, _| s.maximum_concurrent = 0), "1 to 8"),
            (with(|s, _| s.inline_below_bytes = 1 << 21), "1048576 bytes"),
            (with(|s, _| s.local_recovery = Some("copies".into())), "absolute"),
        ];
        for (settings, text) in table {
            let problems = settings.problems();
            assert!(problems.len() == 1 && problems[0].contains(text), "{text}: {problems:?}");
        }
    }

    #[test]
    fn the_alignment_follows_mode_and_kind() {
        let settings = |mode, unaligned, aligned_timeout| Settings {
            mode,
            unaligned,
            aligned_timeout,
            ..Settings::default()
        };
        let (second, zero) = (Duration::from_secs(1), Duration::ZERO);
        let table = [
            (settings(Mode::ExactlyOnce, false, zero), Alignment::Aligned),
            (settings(Mode::ExactlyOnce, true, zero), Alignment::Unaligned),
            (settings(Mode::ExactlyOnce, true, second), Alignment::AlignedFor(second)),
            (settings(Mode::AtLeastOnce, false, zero), Alignment::AtLeastOnce),
        ];
        for (settings, expected) in table {
            assert_eq!(settings.alignment(BarrierKind::Periodic), expected);
            assert_eq!(settings.alignment(BarrierKind::Last), Alignment::Aligned);
        }
    }

    #[test]
    fn transactions_cover_two_rows_of_failures_and_a_savepoint_in_each() {
        let with = |tolerable_failures, maximum_concurrent| {
            let settings = Settings { tolerable_failures, maximum_concurrent, ..Settings::default() };
            settings.transactions_per_subtask()
        };
        assert_eq!((with(0, 1), with(2, 1), with(2, 3)), (5, 9, 13));
    }
}
