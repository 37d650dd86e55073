//! What is counted and measured about checkpoints.

use crate::host::metrics::Metrics;
use crate::model::JobId;
use prometheus::{Histogram, IntCounter, IntGauge};
use std::time::Duration;

/// Why a checkpoint failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reason {
    /// Not every task acknowledged it in time.
    Timeout,
    /// A task could not store its part.
    Snapshot,
    /// The manifest could not be published.
    Publication,
}

/// Held by the driver of an attempt.
pub(super) struct Meters {
    completed: IntCounter,
    failed: [IntCounter; 3],
    pub(super) refused: IntCounter,
    pub(super) subsumed: IntCounter,
    last_id: IntGauge,
    last_bytes: IntGauge,
    duration: Histogram,
    acknowledge: Histogram,
    publish: Histogram,
    commit: Histogram,
}

impl Meters {
    pub(super) fn new(metrics: &Metrics, job: &JobId) -> Self {
        let job = job.to_string();
        let labels = [("job", job.as_str())];
        let counter = |name, help| metrics.own_counter(name, help, &labels);
        let failed = |reason| {
            metrics.own_counter(
                "tidegate_checkpoints_failed_total",
                "Checkpoints that failed.",
                &[("job", &job), ("reason", reason)],
            )
        };
        let phase = |phase| {
            metrics.own_seconds(
                "tidegate_checkpoint_phase_seconds",
                "How long the phases of complete checkpoints took: acknowledge, from the trigger to the last task's word; \
                 publish, of the manifest; commit, from then to the answer of each sink subtask.",
                &[("job", &job), ("phase", phase)],
            )
        };
        let (last_id, last_bytes) = (
            metrics.own_gauge("tidegate_checkpoint_last_id", "The last complete checkpoint.", &labels),
            metrics.own_gauge(
                "tidegate_checkpoint_last_size_bytes",
                "The files that the last complete checkpoint refers to.",
                &labels,
            ),
        );
        Self {
            completed: counter("tidegate_checkpoints_completed_total", "Complete checkpoints."),
            failed: ["timeout", "snapshot", "publication"].map(failed),
            refused: counter(
                "tidegate_stale_messages_total",
                "Messages of a checkpoint or attempt that is over, refused.",
            ),
            subsumed: counter(
                "tidegate_checkpoints_subsumed_total",
                "Checkpoints that were not needed any more, since a newer one was complete first.",
            ),
            last_id,
            last_bytes,
            duration: metrics.own_seconds(
                "tidegate_checkpoint_duration_seconds",
                "From the trigger of a complete checkpoint to its publication.",
                &labels,
            ),
            acknowledge: phase("acknowledge"),
            publish: phase("publish"),
            commit: phase("commit"),
        }
    }

    pub(super) fn failed(&self, reason: Reason) {
        self.failed[reason as usize].inc();
    }

    /// A checkpoint is complete: how long it took, how much of that the publication, and how large it is.
    pub(super) fn completed(&self, id: u64, took: Duration, publishing: Duration, bytes: u64) {
        self.completed.inc();
        self.last_id.set(id as i64);
        self.last_bytes.set(bytes as i64);
        self.duration.observe(took.as_secs_f64());
        self.publish.observe(publishing.as_secs_f64());
        self.acknowledge.observe(took.saturating_sub(publishing).as_secs_f64());
    }

    /// Every sink subtask has committed, so long after the checkpoint was complete.
    pub(super) fn committed(&self, after: Duration) {
        self.commit.observe(after.as_secs_f64());
    }
}
