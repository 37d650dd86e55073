//! The subtasks of a source, driven as the runtime drives them.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use tidegate::connector::kafka::source::{KafkaRecord, KafkaSource};
use tidegate::connector::{
    DeadLetter, Origins, Polled, ReaderSeat, SourceControl, SourceOutput, SourceReader,
};
use tidegate::host::metrics::Metrics;
use tidegate::model::{Failure, JobId, OperatorUid, Record};

/// Nothing in these tests takes longer on a working machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// What the chain behind a reader was given.
#[derive(Default)]
pub(crate) struct Output<T> {
    pub(crate) records: Vec<Record<T>>,
    pub(crate) letters: Vec<Record<DeadLetter>>,
}

impl<T> SourceOutput<T> for Output<T> {
    fn record(&mut self, record: Record<T>) -> Result<(), Failure> {
        self.records.push(record);
        Ok(())
    }

    fn dead_letter(&mut self, letter: Record<DeadLetter>) -> Result<(), Failure> {
        self.letters.push(letter);
        Ok(())
    }
}

/// All subtasks of a source, with what they gave.
pub(crate) struct Running<T> {
    pub(crate) source: KafkaSource<T>,
    pub(crate) subtasks: Vec<Box<dyn SourceReader<T>>>,
    pub(crate) output: Output<T>,
    pub(crate) metrics: Metrics,
    pub(crate) origins: Origins,
}

impl<T> Running<T> {
    /// As the first start of a job: positions are resolved, then read from.
    pub(crate) fn start(source: KafkaSource<T>) -> Self {
        source.check().unwrap();
        let splits = source.resolve_start().unwrap();
        Self::restore(source, splits, 1)
    }

    /// As a later start.
    pub(crate) fn restore(source: KafkaSource<T>, splits: Vec<Vec<u8>>, parallelism: u32) -> Self {
        let metrics = Metrics::default();
        let splits = source.reconcile(splits, &metrics).unwrap();
        Self::begin(source, splits, parallelism, metrics)
    }

    /// Without reconciling.
    pub(crate) fn begin(
        source: KafkaSource<T>,
        splits: Vec<Vec<u8>>,
        parallelism: u32,
        metrics: Metrics,
    ) -> Self {
        let origins = Origins::default();
        let seat = |subtask| ReaderSeat {
            job: JobId::new("test").unwrap(),
            uid: OperatorUid("source".to_owned()),
            subtask,
            parallelism,
            splits: splits.clone(),
            origins: origins.clone(),
            metrics: metrics.clone(),
            cancelled: Arc::new(AtomicBool::new(false)),
        };
        let subtasks = (0..parallelism).map(|subtask| source.reader(seat(subtask)).unwrap()).collect();
        Self {
            source,
            subtasks,
            output: Output { records: Vec::new(), letters: Vec::new() },
            metrics,
            origins,
        }
    }

    /// Polls every subtask once.
    pub(crate) fn poll(&mut self) -> Result<Vec<Polled>, Failure> {
        let output = &mut self.output;
        self.subtasks.iter_mut().map(|s| s.poll(Duration::from_millis(20), output)).collect()
    }

    /// Polls until the condition holds.
    pub(crate) fn poll_until(&mut self, what: &str, mut holds: impl FnMut(&Output<T>) -> bool) {
        let started = Instant::now();
        while !holds(&self.output) {
            assert!(started.elapsed() < PATIENCE, "waited in vain for {what}");
            self.poll().unwrap();
        }
    }

    /// Polls until a subtask fails.
    pub(crate) fn failure(&mut self) -> Failure {
        let started = Instant::now();
        loop {
            assert!(started.elapsed() < PATIENCE, "waited in vain for a failure");
            if let Err(failure) = self.poll() {
                return failure;
            }
        }
    }

    /// Polls until every subtask says that it is at its end.
    pub(crate) fn read_to_end(&mut self) {
        let started = Instant::now();
        while !self.poll().unwrap().iter().all(|polled| *polled == Polled::AtEnd) {
            assert!(started.elapsed() < PATIENCE, "waited in vain for the end");
        }
    }

    /// The positions of all subtasks.
    pub(crate) fn freeze(&mut self) -> Vec<Vec<u8>> {
        self.subtasks.iter_mut().flat_map(|subtask| subtask.freeze().unwrap()).collect()
    }

    /// A counter's value, summed over topics.
    pub(crate) fn counted(&self, name: &str) -> u64 {
        let families = self.metrics.registry().gather();
        let of_name = families.iter().filter(|family| family.name() == name);
        of_name
            .flat_map(|family| family.get_metric())
            .map(|metric| metric.get_counter().get_value() as u64)
            .sum()
    }
}

impl Running<KafkaRecord> {
    /// The values in the order in which they came, as text; null as "null".
    pub(crate) fn values(&self) -> Vec<String> {
        let text = |value: &Option<Vec<u8>>| match value {
            Some(bytes) => String::from_utf8(bytes.clone()).unwrap(),
            None => "null".to_owned(),
        };
        self.output.records.iter().map(|record| text(&record.value.value)).collect()
    }
}
