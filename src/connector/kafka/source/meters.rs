//! What a source counts.

use crate::host::metrics::Metrics;
use prometheus::IntCounter;

/// The counters of one topic.
#[derive(Clone)]
pub(super) struct Meters {
    pub(super) records: IntCounter,
    pub(super) undecodable: IntCounter,
    pub(super) dead_letters: IntCounter,
    pub(super) skipped: IntCounter,
    pub(super) released: IntCounter,
}

impl Meters {
    pub(super) fn new(metrics: &Metrics, group: &str, topic: &str) -> Self {
        let counter = |name, help| metrics.own_counter(name, help, &[("group", group), ("topic", topic)]);
        Self {
            records: counter("tidegate_source_records_total", "Records handed to the job."),
            undecodable: counter("tidegate_source_undecodable_total", "Records that could not be decoded."),
            dead_letters: counter(
                "tidegate_dead_letters_total",
                "Undecodable records handed to the dead letters.",
            ),
            skipped: counter(
                "tidegate_source_skipped_offsets_total",
                "Offsets that were skipped by policy, since the log did not hold them any more.",
            ),
            released: counter(
                "tidegate_source_released_partitions_total",
                "Partitions given up because their topic is gone or not read any more.",
            ),
        }
    }
}
