//! Topics of a test's own, numbers in and lines out.

use rdkafka::ClientConfig;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use std::time::Duration;
use tidegate::api::prelude::*;
use tidegate_tools::offsets::Isolation;
use tidegate_tools::reader::{OwnedRecord, read_all};
use tidegate_tools::topics::{Topics, token};

/// A pair of topics and a folder, removed at the end.
pub(crate) struct Bench {
    pub(crate) bootstrap: String,
    pub(crate) input: String,
    pub(crate) output: String,
    pub(crate) job: String,
    pub(crate) folder: tempfile::TempDir,
    topics: Topics,
}

impl Bench {
    pub(crate) fn new(partitions: i32) -> Self {
        let bootstrap = std::env::var("KAFKA_BOOTSTRAP")
            .expect("KAFKA_BOOTSTRAP is not set: run these tests with `make test`");
        let topics = Topics::new(&bootstrap).unwrap();
        let name = token();
        let (input, output, job) = (format!("{name}-in"), format!("{name}-out"), format!("{name}-job"));
        topics.create(&input, partitions).unwrap();
        topics.create(&output, partitions).unwrap();
        Self { bootstrap, input, output, job, folder: tempfile::tempdir().unwrap(), topics }
    }

    /// A further topic.
    pub(crate) fn topic(&self, suffix: &str, settings: &[(&str, &str)]) -> String {
        let name = format!("{}-{suffix}", self.job);
        self.topics.create_with(&name, 2, settings).unwrap();
        name
    }

    /// Writes values, with the number as key.
    pub(crate) fn feed<V: AsRef<[u8]>>(&self, values: impl IntoIterator<Item = V>) {
        let producer: BaseProducer = ClientConfig::new()
            .set("bootstrap.servers", &self.bootstrap)
            .set("linger.ms", "5")
            .create()
            .unwrap();
        for (n, value) in values.into_iter().enumerate() {
            let key = n.to_string();
            producer.send(BaseRecord::to(&self.input).key(&key).payload(value.as_ref())).unwrap();
        }
        producer.flush(Duration::from_secs(30)).unwrap();
    }

    pub(crate) fn kafka(&self) -> Connection {
        Connection::new(&self.bootstrap)
    }

    /// The input's values as numbers, up to the end that it has now.
    pub(crate) fn numbers(&self) -> KafkaSource<u64> {
        KafkaSource::json::<u64>(self.kafka(), &self.job).topics([&self.input]).bounded(true)
    }

    /// Writes text lines to the output.
    pub(crate) fn lines(&self) -> KafkaSink<String> {
        KafkaSink::new(self.kafka(), &self.output, |line: &String, record| {
            record.value(line.as_bytes());
            Ok(())
        })
    }

    pub(crate) fn options(&self, parallelism: u32) -> JobOptions {
        let checkpoints = format!("file://{}", self.folder.path().display());
        let mut options = JobOptions::new(JobId::new(&self.job).unwrap(), checkpoints);
        options.parallelism = parallelism;
        options.checkpoint.interval = Duration::from_millis(200);
        options.restart.initial_delay = Duration::from_millis(10);
        options.restart.limit = Some(2);
        options
    }

    pub(crate) fn read(&self, topic: &str) -> Vec<OwnedRecord> {
        read_all(&self.bootstrap, topic, Isolation::Committed).unwrap()
    }

    /// The output's lines, sorted.
    pub(crate) fn output_lines(&self) -> Vec<String> {
        let text = |r: OwnedRecord| String::from_utf8(r.value.unwrap()).unwrap();
        let mut lines: Vec<String> = self.read(&self.output).into_iter().map(text).collect();
        lines.sort();
        lines
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        // Best effort: the broker of a test run is thrown away anyway.
        let _ = self.topics.delete(&self.input);
        let _ = self.topics.delete(&self.output);
    }
}
