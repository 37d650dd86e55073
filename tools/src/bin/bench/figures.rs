//! The figures of one run, computed from its samples.

use std::fmt;

use serde_json::{Value, json};

use crate::placement::Placement;
use crate::trial::Samples;
use crate::{Contender, Options};

/// What one run gave. Seconds count from the start of the process.
#[derive(Debug, Clone)]
pub(crate) struct Figures {
    pub(crate) contender: Contender,
    pub(crate) records_in: u64,
    pub(crate) records_out: u64,
    /// Until the first committed output.
    pub(crate) startup_s: f64,
    /// Until the last one.
    pub(crate) total_s: f64,
    /// From the first committed output to the last.
    pub(crate) records_per_s: f64,
    /// From 20 % of the records committed to the last.
    pub(crate) records_per_s_warm: f64,
    /// As before, per second of user and system time.
    pub(crate) records_per_cpu_s_warm: f64,
    /// All records per second of user and system time, the start included.
    pub(crate) records_per_cpu_s: f64,
    pub(crate) cpu_s: f64,
    pub(crate) cpu_startup_s: f64,
    pub(crate) cores_used_warm: f64,
    pub(crate) peak_rss_mb: f64,
    /// Ascending; empty if the program tells none.
    pub(crate) checkpoints_ms: Vec<f64>,
    /// Whether the counts are right; `None` where the output is no counts.
    pub(crate) correct: Option<bool>,
    /// Load average of the machine when it began.
    pub(crate) load: f64,
}

/// Below this share of the records a run counts as warming up.
const WARM_FROM: f64 = 0.2;

impl Figures {
    pub(crate) fn new(
        options: &Options,
        contender: Contender,
        load: f64,
        seen: &Samples,
        placement: &Placement,
        correct: Option<bool>,
        log: &str,
    ) -> Self {
        let made = placement.records();
        // (seconds, CPU seconds, visible records) per sample
        let visible: Vec<(f64, f64, u64)> = (seen.samples.iter())
            .map(|s| (s.at.as_secs_f64(), s.cpu.as_secs_f64(), placement.below(&s.stable)))
            .collect();
        let reached = |records: u64| {
            visible.iter().find(|(.., seen)| *seen >= records.max(1)).copied().unwrap_or_default()
        };
        let first = reached(1);
        let warm = reached((made as f64 * WARM_FROM).ceil() as u64);
        let last = reached(made);
        let rate = |records: u64, seconds: f64| if seconds > 0.0 { records as f64 / seconds } else { 0.0 };
        Self {
            contender,
            records_in: options.records,
            records_out: made,
            startup_s: first.0,
            total_s: last.0,
            records_per_s: rate(last.2 - first.2, last.0 - first.0),
            records_per_s_warm: rate(last.2 - warm.2, last.0 - warm.0),
            records_per_cpu_s_warm: rate(last.2 - warm.2, last.1 - warm.1),
            records_per_cpu_s: rate(last.2, last.1),
            cpu_s: last.1,
            cpu_startup_s: first.1,
            cores_used_warm: if last.0 > warm.0 { (last.1 - warm.1) / (last.0 - warm.0) } else { 0.0 },
            peak_rss_mb: seen.peak_memory as f64 / f64::from(1 << 20),
            checkpoints_ms: checkpoints_ms(log),
            correct,
            load,
        }
    }

    /// Whether every record has its output, and the right one as far as that can be told.
    pub(crate) fn good(&self) -> bool {
        self.records_in == self.records_out && self.correct != Some(false)
    }

    pub(crate) fn json(&self) -> String {
        let two = |number: f64| (number * 100.0).round() / 100.0;
        let last = self.checkpoints_ms.len().saturating_sub(1);
        let checkpoint =
            |share: f64| self.checkpoints_ms.get((last as f64 * share).round() as usize).map(|ms| two(*ms));
        let row: Value = json!({
            "system": self.contender.system.to_string(),
            "parallelism": self.contender.parallelism,
            "records_in": self.records_in,
            "records_out": self.records_out,
            "startup_s": two(self.startup_s),
            "total_s": two(self.total_s),
            "records_per_s": self.records_per_s.round(),
            "records_per_s_warm": self.records_per_s_warm.round(),
            "records_per_cpu_s": self.records_per_cpu_s.round(),
            "records_per_cpu_s_warm": self.records_per_cpu_s_warm.round(),
            "cpu_s": two(self.cpu_s),
            "cpu_startup_s": two(self.cpu_startup_s),
            "cores_used_warm": two(self.cores_used_warm),
            "peak_rss_mb": self.peak_rss_mb.round(),
            "checkpoints": self.checkpoints_ms.len(),
            "checkpoint_ms_median": checkpoint(0.5),
            "checkpoint_ms_p95": checkpoint(0.95),
            "checkpoint_ms_max": checkpoint(1.0),
            "complete": self.records_in == self.records_out,
            "correct": self.correct,
            "load": self.load,
        });
        row.to_string()
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Contender { system, parallelism } = self.contender;
        write!(
            f,
            "{system} at parallelism {parallelism}: {:.0} records per CPU second, {:.0} per second, {:.0} MB, first \
             output after {:.2} s, load {:.1}",
            self.records_per_cpu_s_warm, self.records_per_s, self.peak_rss_mb, self.startup_s, self.load
        )?;
        if !self.good() {
            write!(f, ", NOT CORRECT: {} records in, {} out", self.records_in, self.records_out)?;
        }
        Ok(())
    }
}

/// Every number that follows the words `checkpoint_duration_ms` in a log, whatever the log's format, ascending.
fn checkpoints_ms(log: &str) -> Vec<f64> {
    const MARK: &str = "checkpoint_duration_ms";
    let after = log.match_indices(MARK).map(|(at, _)| &log[at + MARK.len()..]);
    let numbers = after.filter_map(|rest| {
        let rest = rest.trim_start_matches(['"', '\'', ':', '=', ' ']);
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        rest[..end].parse().ok()
    });
    let mut numbers: Vec<f64> = numbers.collect();
    numbers.sort_by(f64::total_cmp);
    numbers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checkpoint_durations_are_found_in_any_format() {
        let log = "{\"checkpoint_duration_ms\":12.5,\"id\":1}\nINFO checkpoint_duration_ms=7 id=2\nno number: \
                   checkpoint_duration_ms\n{\"checkpoint_duration_ms\": 3}";
        assert_eq!(checkpoints_ms(log), [3.0, 7.0, 12.5]);
    }
}
