//! The settings of a program that runs one job: from raw texts to typed values, with everything that is wrong at once.
//!
//! `config/tidegate.toml` is their reference; a test compares it with the defaults here. A setting is declared in
//! [`Settings::read`] and nowhere else: its key, its flag and its words.

mod layers;
mod reading;

use super::kafka::{Property, properties_file};
use crate::api::{Connection, Delivery, JobOptions, Start};
use crate::host::metrics::Metrics;
use crate::model::{Failure, JobId};
use crate::{checkpoint, runtime, storage};
use layers::Variables;
pub(super) use reading::duration;
use reading::{Reading, number};
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

/// All of them.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// `[kafka]`
    pub kafka: Kafka,
    /// `[job]`
    pub job: JobSettings,
    /// `[source]`
    pub source: SourceSettings,
    /// `[sink]`
    pub sink: SinkSettings,
    /// `[checkpoint]`: where checkpoints are kept, such as `file:///var/lib/tidegate`.
    pub storage: String,
    /// `[checkpoint.storage_properties]`: how that store is reached and how hard it is tried.
    pub storage_properties: storage::Options,
    /// `[checkpoint]`: when they are taken and what is tolerated.
    pub checkpoint: checkpoint::Settings,
    /// `[savepoint]`
    pub savepoint: SavepointSettings,
    /// `[restart]`
    pub restart: runtime::RestartPolicy,
    /// `[http]`
    pub http: Http,
    /// `[log]`
    pub log: Log,
}

/// How the cluster is reached.
#[derive(Debug, Clone, Default)]
pub struct Kafka {
    /// `host:port[,host:port…]`
    pub bootstrap: String,
    /// From the file of properties, then from the settings: the later wins. Values may be secrets.
    properties: Vec<Property>,
}

/// Which job, and how wide.
#[derive(Debug, Clone)]
pub struct JobSettings {
    /// Name of the job and of its consumer group.
    pub name: String,
    /// Subtasks of every operator, 1 or more.
    pub parallelism: u32,
    /// Whether to begin anew.
    pub fresh: bool,
    /// Batches that may wait in one channel between two tasks, 1 or more.
    pub channel_capacity: usize,
}

impl Default for JobSettings {
    fn default() -> Self {
        Self { name: String::new(), parallelism: 1, fresh: false, channel_capacity: 8 }
    }
}

/// What is read.
#[derive(Debug, Clone, Default)]
pub struct SourceSettings {
    /// The topic.
    pub topic: String,
    /// Whether to end at the end that the topic has at the first start with this.
    pub until_end: bool,
}

/// What is written.
#[derive(Debug, Clone)]
pub struct SinkSettings {
    /// The topic.
    pub topic: String,
    /// What is promised.
    pub delivery: Delivery,
    /// After this the broker aborts a transaction that was not committed.
    pub transaction_timeout: Duration,
}

impl Default for SinkSettings {
    fn default() -> Self {
        Self {
            topic: String::new(),
            delivery: Delivery::default(),
            transaction_timeout: Duration::from_secs(600),
        }
    }
}

/// Savepoints: where they go, and whether the job begins with one.
#[derive(Debug, Clone, Default)]
pub struct SavepointSettings {
    /// Below this folder they are written when a command names none: a URI or an absolute path.
    pub folder: Option<String>,
    /// Begin with this one, or with the newest checkpoint in the folder of another job.
    pub from: Option<String>,
    /// Delete it once the job has begun with it.
    pub claim: bool,
    /// Drop state of operators that the job does not have, instead of refusing it.
    pub allow_unclaimed_state: bool,
}

/// Where metrics, health and commands are served.
#[derive(Debug, Clone)]
pub struct Http {
    /// Address and port; port 0 is any free one, which the log names.
    pub address: SocketAddr,
}

impl Default for Http {
    fn default() -> Self {
        Self { address: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)) }
    }
}

/// How the log is written, to standard error.
#[derive(Debug, Clone)]
pub struct Log {
    /// In which form.
    pub format: LogFormat,
    /// Levels, as `tracing_subscriber::EnvFilter` takes them.
    pub level: String,
}

impl Default for Log {
    fn default() -> Self {
        Self { format: LogFormat::Text, level: "info".to_owned() }
    }
}

/// For whose eyes the log is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// A person's.
    Text,
    /// A machine's: an object a line.
    Json,
}

impl Settings {
    /// From the command line's file, the environment and the command line. Asked for help or the version, or given
    /// flags that are none, the process ends here, with code 0 or 2.
    ///
    /// # Errors
    /// Everything that is wrong, a text each.
    pub(super) fn load() -> Result<Self, Vec<String>> {
        Self::from(std::env::args_os(), &layers::environment())
    }

    fn from<A: Into<std::ffi::OsString> + Clone>(
        arguments: impl IntoIterator<Item = A>,
        variables: &Variables,
    ) -> Result<Self, Vec<String>> {
        let mut description = Reading::default();
        Self::default().read(&mut description);
        let declared = description.declared;
        let matches = layers::command(&declared).try_get_matches_from(arguments).unwrap_or_else(|e| e.exit());
        let mut reading = layers::merge(&matches, variables, &declared)?;
        let mut settings = Self::default();
        settings.read(&mut reading);
        settings.check(&mut reading);
        if reading.problems.is_empty() { Ok(settings) } else { Err(reading.problems) }
    }

    fn read(&mut self, from: &mut Reading) {
        from.text(
            "kafka.bootstrap",
            "bootstrap",
            "Kafka brokers, host:port[,host:port…]",
            &mut self.kafka.bootstrap,
        );
        from.parsed(
            "kafka.client_properties",
            "client-properties",
            "A file of librdkafka properties for all clients, NAME=VALUE a line",
            &mut self.kafka.properties,
            |path| properties_file(path).map_err(|e| format!("{path}: {e}")),
        );
        let properties = from.all_below("kafka.properties");
        self.kafka.properties.extend(properties.into_iter().map(|(name, value)| Property { name, value }));
        let job = &mut self.job;
        from.text("job.name", "group", "Consumer group, and name of the job", &mut job.name);
        let width = number(1..=32_768);
        from.parsed(
            "job.parallelism",
            "parallelism",
            "Subtasks of every operator",
            &mut job.parallelism,
            width,
        );
        from.switch(
            "job.fresh",
            "fresh",
            "Begin anew: drop the state of earlier runs, abort their transactions",
            &mut job.fresh,
        );
        from.parsed(
            "job.channel_capacity",
            "channel-capacity",
            "Batches that may wait in one channel between two tasks",
            &mut job.channel_capacity,
            number(1..=1024),
        );
        from.text("source.topic", "input", "Topic to read", &mut self.source.topic);
        from.switch(
            "source.until_end",
            "until-end",
            "End at the end that the topic has when the job is first started with this",
            &mut self.source.until_end,
        );
        let sink = &mut self.sink;
        from.text("sink.topic", "output", "Topic to write", &mut sink.topic);
        let what = "exactly-once, at-least-once or none";
        from.parsed("sink.delivery", "delivery", what, &mut sink.delivery, str::parse);
        from.duration(
            "sink.transaction_timeout",
            "transaction-timeout",
            "After this time the broker aborts a transaction that was not committed",
            &mut sink.transaction_timeout,
        );
        self.read_checkpoint(from);
        self.read_savepoint(from);
        self.read_restart(from);
        from.parsed(
            "http.address",
            "http-address",
            "Where metrics, health and commands are served; port 0 is any free one",
            &mut self.http.address,
            |text| {
                text.parse()
                    .map_err(|_| format!("expected an address such as 127.0.0.1:8080, found {text:?}"))
            },
        );
        from.parsed("log.format", "log-format", "text or json", &mut self.log.format, |text| match text {
            "text" => Ok(LogFormat::Text),
            "json" => Ok(LogFormat::Json),
            other => Err(format!("expected text or json, found {other:?}")),
        });
        let help = "error, warn, info, debug or trace, also by module; TIDEGATE_LOG wins";
        from.text("log.level", "log-level", help, &mut self.log.level);
    }

    fn read_checkpoint(&mut self, from: &mut Reading) {
        from.text(
            "checkpoint.storage",
            "checkpoints",
            "Where checkpoints are kept, such as file:///var/lib/tidegate, s3://bucket/prefix or hdfs://host:port/folder",
            &mut self.storage,
        );
        for (name, value) in from.all_below("checkpoint.storage_properties") {
            if let Err(e) = self.storage_properties.set(&name, &value) {
                from.problems.push(format!("checkpoint.storage_properties.{name}: {e}"));
            }
        }
        let checkpoint = &mut self.checkpoint;
        from.duration(
            "checkpoint.interval",
            "interval",
            "Time between two checkpoints",
            &mut checkpoint.interval,
        );
        from.duration(
            "checkpoint.timeout",
            "checkpoint-timeout",
            "Give a checkpoint up after this time",
            &mut checkpoint.timeout,
        );
        from.duration(
            "checkpoint.minimum_pause",
            "minimum-pause",
            "At least this long from the end of one checkpoint to the next",
            &mut checkpoint.minimum_pause,
        );
        from.parsed(
            "checkpoint.mode",
            "checkpoint-mode",
            "exactly-once, or at-least-once: no input waits for a barrier on another one",
            &mut checkpoint.mode,
            str::parse,
        );
        from.parsed(
            "checkpoint.maximum_concurrent",
            "maximum-concurrent",
            "Checkpoints that may be under way at once",
            &mut checkpoint.maximum_concurrent,
            number(0..=u32::MAX),
        );
        from.switch(
            "checkpoint.unaligned",
            "unaligned",
            "Barriers may overtake records, which then become part of the checkpoint",
            &mut checkpoint.unaligned,
        );
        from.duration(
            "checkpoint.aligned_timeout",
            "aligned-timeout",
            "Unaligned: barriers overtake only after this time",
            &mut checkpoint.aligned_timeout,
        );
        from.parsed(
            "checkpoint.on_cancellation",
            "on-cancellation",
            "retain or delete: what becomes of checkpoints when the job is cancelled",
            &mut checkpoint.on_cancellation,
            str::parse,
        );
        from.parsed(
            "checkpoint.inline_below_bytes",
            "inline-below-bytes",
            "State of fewer bytes than this is kept in the manifest",
            &mut checkpoint.inline_below_bytes,
            number(0..=u64::MAX),
        );
        from.parsed(
            "checkpoint.local_recovery",
            "local-recovery",
            "Folder of this machine for second copies of state files, to restore from",
            &mut checkpoint.local_recovery,
            |text| Ok((!text.is_empty()).then(|| text.into())),
        );
        from.parsed(
            "checkpoint.tolerable_failures",
            "tolerable-failures",
            "Failed checkpoints in a row that are tolerated",
            &mut checkpoint.tolerable_failures,
            number(0..=u32::MAX),
        );
        from.parsed(
            "checkpoint.retained",
            "retained",
            "Complete checkpoints that are kept",
            &mut checkpoint.retained,
            number(0..=usize::MAX),
        );
        from.duration(
            "checkpoint.restart_budget",
            "restart-budget",
            "How long a restart may take before prepared transactions are in danger",
            &mut checkpoint.restart_budget,
        );
    }

    fn read_savepoint(&mut self, from: &mut Reading) {
        let savepoint = &mut self.savepoint;
        let some = |text: &str| match checkpoint::savepoint::check_place(text) {
            _ if text.is_empty() => Err("expected a URI or an absolute path, found nothing".to_owned()),
            Ok(()) => Ok(Some(text.to_owned())),
            Err(e) => Err(e.to_string()),
        };
        from.parsed(
            "savepoint.folder",
            "savepoints",
            "Where savepoints are written unless a command names another place",
            &mut savepoint.folder,
            some,
        );
        from.parsed(
            "savepoint.from",
            "from",
            "Begin with this savepoint, or with the newest checkpoint in the folder of another job",
            &mut savepoint.from,
            some,
        );
        from.switch(
            "savepoint.claim",
            "claim",
            "Delete the savepoint once the job has begun with it",
            &mut savepoint.claim,
        );
        from.switch(
            "savepoint.allow_unclaimed_state",
            "allow-unclaimed-state",
            "Drop state of operators that the job does not have, instead of refusing it",
            &mut savepoint.allow_unclaimed_state,
        );
    }

    fn read_restart(&mut self, from: &mut Reading) {
        let restart = &mut self.restart;
        from.duration(
            "restart.initial_delay",
            "restart-delay",
            "Wait before the first restart after a failure; it grows with each failure in a row",
            &mut restart.initial_delay,
        );
        from.duration(
            "restart.maximum_delay",
            "restart-maximum-delay",
            "The longest wait",
            &mut restart.maximum_delay,
        );
        from.parsed(
            "restart.multiplier",
            "restart-multiplier",
            "Each wait is this many times the one before",
            &mut restart.multiplier,
            number(1.0..=100.0),
        );
        from.parsed(
            "restart.jitter",
            "restart-jitter",
            "Each wait is made longer or shorter by up to this part of itself",
            &mut restart.jitter,
            number(0.0..=1.0),
        );
        from.duration(
            "restart.reset_after",
            "restart-reset-after",
            "A job that ran this long starts counting anew",
            &mut restart.reset_after,
        );
        from.parsed(
            "restart.limit",
            "restart-limit",
            "Restarts in a row before the job gives up; none for no limit",
            &mut restart.limit,
            |text| match text {
                "none" => Ok(None),
                text => number(0..=u32::MAX)(text).map(Some),
            },
        );
    }

    /// What no single value shows.
    fn check(&self, reading: &mut Reading) {
        let needed = [
            ("kafka.bootstrap", &self.kafka.bootstrap),
            ("job.name", &self.job.name),
            ("source.topic", &self.source.topic),
            ("sink.topic", &self.sink.topic),
            ("checkpoint.storage", &self.storage),
        ];
        for (key, value) in needed {
            reading.require(key, !value.is_empty());
        }
        if !self.job.name.is_empty()
            && let Err(e) = JobId::new(&self.job.name)
        {
            reading.problems.push(format!("job.name: {e}"));
        }
        if self.savepoint.claim && self.savepoint.from.is_none() {
            let text = "savepoint.claim needs savepoint.from: there is nothing to claim";
            reading.problems.push(text.to_owned());
        }
        let problems = self.checkpoint.problems();
        reading.problems.extend(problems.into_iter().map(|p| format!("checkpoint: {p}")));
        let problems = self.storage_properties.problems();
        reading.problems.extend(problems.into_iter().map(|p| format!("checkpoint.storage_properties: {p}")));
        if let Err(e) = tracing_subscriber::EnvFilter::try_new(&self.log.level) {
            reading.problems.push(format!("log.level: {e}"));
        }
        reading.refuse_the_rest();
    }

    /// How the cluster is reached.
    pub fn connection(&self) -> Connection {
        let first = Connection::new(&self.kafka.bootstrap);
        self.kafka.properties.iter().fold(first, |c, p| c.property(&p.name, &p.value))
    }

    /// Where reading begins without a checkpoint.
    pub fn start(&self) -> Start {
        Start::Earliest
    }

    /// How the job is run.
    pub(super) fn options(&self, metrics: Metrics) -> Result<JobOptions, Failure> {
        let job = JobId::new(&self.job.name).map_err(Failure::configuration)?;
        let mut options = JobOptions::new(job, &self.storage);
        options.fresh = self.job.fresh;
        options.parallelism = self.job.parallelism;
        options.from = self.savepoint.from.clone();
        options.claim = self.savepoint.claim;
        options.allow_unclaimed_state = self.savepoint.allow_unclaimed_state;
        options.channel_capacity = self.job.channel_capacity;
        options.storage = self.storage_properties.clone();
        options.checkpoint = self.checkpoint.clone();
        options.restart = self.restart.clone();
        options.metrics = metrics;
        Ok(options)
    }
}

#[cfg(test)]
mod tests;
