//! Counters and gauges of this process, in one Prometheus registry.
//!
//! A metric is looked up when something is built and then held; nothing is looked up for a record.

use prometheus::process_collector::ProcessCollector;
use prometheus::{Histogram, HistogramOpts, IntCounter, IntGauge, Opts, Registry};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// The registry, and what is registered: asking twice for one metric gives the same, also after a restart.
#[derive(Clone, Default)]
pub struct Metrics {
    registry: Registry,
    counters: Arc<Mutex<HashMap<String, IntCounter>>>,
    gauges: Arc<Mutex<HashMap<String, IntGauge>>>,
    histograms: Arc<Mutex<HashMap<String, Histogram>>>,
}

/// From a millisecond to a minute, in seconds.
const SECONDS: [f64; 14] =
    [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 30.0, 60.0];

fn options(name: &str, help: &str, labels: &[(&str, &str)]) -> (String, Opts) {
    let mut options = Opts::new(name, help);
    for (label, value) in labels {
        options = options.const_label(*label, *value);
    }
    (format!("{name} {labels:?}"), options)
}

impl Metrics {
    /// What Prometheus reads.
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// A counter, by name and labels.
    ///
    /// # Errors
    /// When the name is no metric name, or is taken by another kind or with other labels.
    pub fn counter(
        &self,
        name: &str,
        help: &str,
        labels: &[(&str, &str)],
    ) -> Result<IntCounter, prometheus::Error> {
        let (id, options) = options(name, help, labels);
        let mut known = self.counters.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(counter) = known.get(&id) {
            return Ok(counter.clone());
        }
        let counter = IntCounter::with_opts(options)?;
        self.registry.register(Box::new(counter.clone()))?;
        known.insert(id, counter.clone());
        Ok(counter)
    }

    /// A gauge, by name and labels.
    ///
    /// # Errors
    /// As [`Metrics::counter`].
    pub fn gauge(
        &self,
        name: &str,
        help: &str,
        labels: &[(&str, &str)],
    ) -> Result<IntGauge, prometheus::Error> {
        let (id, options) = options(name, help, labels);
        let mut known = self.gauges.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(gauge) = known.get(&id) {
            return Ok(gauge.clone());
        }
        let gauge = IntGauge::with_opts(options)?;
        self.registry.register(Box::new(gauge.clone()))?;
        known.insert(id, gauge.clone());
        Ok(gauge)
    }

    /// A histogram of seconds of Tidegate's own.
    pub fn own_seconds(&self, name: &str, help: &str, labels: &[(&str, &str)]) -> Histogram {
        let (id, options) = options(name, help, labels);
        let mut known = self.histograms.lock().unwrap_or_else(PoisonError::into_inner);
        let make = || {
            let mut all = HistogramOpts::from(options);
            all.buckets = SECONDS.to_vec();
            let histogram = Histogram::with_opts(all)?;
            self.registry.register(Box::new(histogram.clone()))?;
            Ok::<_, prometheus::Error>(histogram)
        };
        let new = || make().expect("Tidegate's own metrics have valid names and one set of labels each");
        known.entry(id).or_insert_with(new).clone()
    }

    /// Adds what the operating system knows about this process: memory, CPU time, open files, threads.
    pub fn watch_process(&self) {
        // Twice in one registry is once.
        let _ = self.registry.register(Box::new(ProcessCollector::for_self()));
    }

    /// A counter of Tidegate's own, whose name and labels are known to be good.
    pub fn own_counter(&self, name: &str, help: &str, labels: &[(&str, &str)]) -> IntCounter {
        self.counter(name, help, labels)
            .expect("Tidegate's own metrics have valid names and one set of labels each")
    }

    /// A gauge of Tidegate's own.
    pub fn own_gauge(&self, name: &str, help: &str, labels: &[(&str, &str)]) -> IntGauge {
        self.gauge(name, help, labels)
            .expect("Tidegate's own metrics have valid names and one set of labels each")
    }
}
