//! Whether the process goes on, whether the job is ready, and the metrics of both.
//!
//! Alive is a question to this process alone: a broker or a store that is away must not make an orchestrator kill what
//! waits for it. Ready is a question to the job's progress.

use crate::host::clock;
use crate::host::metrics::Metrics;
use crate::runtime::{Phase, Progress};
use prometheus::{Gauge, IntGauge, Opts, TextEncoder};
use serde::Serialize;
use std::time::{Duration, Instant};

/// The driving thread of a running job comes round every 50 ms and waits for nobody; after so long it never will.
const STUCK: Duration = Duration::from_secs(120);

/// What is known, and since when.
#[derive(Clone)]
pub(super) struct Health {
    progress: Progress,
    metrics: Metrics,
    gauges: Gauges,
    /// How long a checkpoint may be coming.
    allowed: Duration,
}

/// What changes with time alone, set when it is asked for.
#[derive(Clone)]
struct Gauges {
    running: IntGauge,
    age: IntGauge,
    deadline: Gauge,
}

/// An answer.
#[derive(Debug, Serialize)]
pub(super) struct Verdict {
    #[serde(rename = "ok")]
    pub(super) good: bool,
    phase: Phase,
    /// Why not.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    /// The last complete checkpoint of this process.
    checkpoint: Option<u64>,
    /// How long ago that was.
    checkpoint_age_seconds: Option<f64>,
    /// How long the job is in this phase.
    phase_seconds: f64,
    /// How long ago the driving thread came round.
    turned_seconds: f64,
}

impl Health {
    pub(super) fn new(job: &str, progress: Progress, metrics: Metrics, allowed: Duration) -> Self {
        let labels = [("job", job)];
        let build = [("version", env!("CARGO_PKG_VERSION"))];
        metrics.own_gauge("tidegate_build_info", "Which build this is; always 1.", &build).set(1);
        let gauge = |name, help| metrics.own_gauge(name, help, &labels);
        let gauges = Gauges {
            running: gauge("tidegate_job_running", "Whether the job's tasks run: 1, else 0."),
            age: gauge(
                "tidegate_checkpoint_age_seconds",
                "Since the last complete checkpoint, or since the job runs if there is none yet.",
            ),
            deadline: Gauge::with_opts(
                Opts::new(
                    "tidegate_transaction_deadline_seconds",
                    "Until the broker aborts the oldest transaction that the last checkpoint lists, if nobody commits it; \
                     infinite without one.",
                )
                .const_label("job", job),
            )
            .expect("the name is a metric's"),
        };
        // A registry has one job.
        let _ = metrics.registry().register(Box::new(gauges.deadline.clone()));
        Self { progress, metrics, gauges, allowed }
    }

    fn verdict(&self, problem: impl FnOnce(&crate::runtime::Seen, Instant) -> Option<String>) -> Verdict {
        let (seen, now) = (self.progress.seen(), clock::now());
        let since = |then: Instant| now.saturating_duration_since(then).as_secs_f64();
        let reason = problem(&seen, now);
        Verdict {
            good: reason.is_none(),
            phase: seen.phase,
            reason,
            checkpoint: seen.checkpoint,
            checkpoint_age_seconds: seen.completed.map(since),
            phase_seconds: since(seen.since),
            turned_seconds: since(seen.turned),
        }
    }

    /// Whether the process itself goes on.
    pub(super) fn alive(&self) -> Verdict {
        self.verdict(|seen, now| {
            let still = now.saturating_duration_since(seen.turned);
            (seen.phase == Phase::Running && still > STUCK)
                .then(|| format!("the driving thread has not come round for {} s", still.as_secs()))
        })
    }

    /// Whether the job runs and its checkpoints are in time.
    pub(super) fn ready(&self) -> Verdict {
        self.verdict(|seen, now| match seen.phase {
            Phase::Running => seen.overdue(self.allowed, now).map(|late| {
                format!(
                    "no checkpoint is complete for {:.1} s more than the {:?} that interval and timeout allow",
                    late.as_secs_f64(),
                    self.allowed
                )
            }),
            Phase::Starting => Some("the job is starting".to_owned()),
            Phase::Stopping => Some("the job is stopping".to_owned()),
            Phase::Ended => Some("the job has ended".to_owned()),
            Phase::Restarting => {
                let failure = seen.failure.as_deref().unwrap_or("no reason is known");
                Some(format!("the job waits to start again after a failure: {failure}"))
            }
        })
    }

    /// All metrics as Prometheus reads them.
    pub(super) fn exposition(&self) -> Result<String, prometheus::Error> {
        let (seen, now) = (self.progress.seen(), clock::now());
        self.gauges.running.set(i64::from(matches!(seen.phase, Phase::Running | Phase::Stopping)));
        let since = seen.completed.into_iter().chain(seen.due_since).max().unwrap_or(seen.since);
        self.gauges.age.set(now.saturating_duration_since(since).as_secs() as i64);
        let left = seen
            .deadline_ms
            .map_or(f64::INFINITY, |deadline| (deadline - clock::unix_millis()) as f64 / 1000.0);
        self.gauges.deadline.set(left);
        TextEncoder::new().encode_to_string(&self.metrics.registry().gather())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_that_starts_is_alive_and_not_ready() {
        let metrics = Metrics::default();
        let health = Health::new("j", Progress::default(), metrics, Duration::from_secs(1));
        assert!(health.alive().good);
        let ready = health.ready();
        assert!(!ready.good);
        assert_eq!(ready.reason.as_deref(), Some("the job is starting"));
        let text = health.exposition().unwrap();
        assert!(text.contains("tidegate_job_running{job=\"j\"} 0"), "{text}");
        assert!(text.contains("tidegate_build_info{version="), "{text}");
    }
}
