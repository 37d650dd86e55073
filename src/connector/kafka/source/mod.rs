//! Kafka topics as a source that rewinds.
//!
//! Its laws: the position is state, with a concrete offset for every partition, also for the one that has given
//! nothing yet; where reading begins and ends is decided once and published before the first record is read;
//! nothing is skipped or lost without a policy that says so, a counter and a line in the log. The consumer group is
//! told how far completed checkpoints are, and asked at most where to begin.

mod options;
mod topics;
mod split;
mod decode;
mod cluster;
mod range;
mod check;
mod start;
mod reconcile;
mod breaker;
mod meters;
mod lag;
mod slot;
mod reader;
mod trouble;
mod discovery;
mod offsets;

pub use decode::{Decoder, KafkaRecord, RawHeader, RawHeaders, RawMessage};
pub use options::{Breaker, Otherwise, OutOfRange, Recreated, Start, Undecodable};
pub use split::{Position, position_of};

use super::Connection;
use crate::connector::{OffsetCommitter, ReaderSeat, SourceControl, SourceReader};
use crate::host::metrics::Metrics;
use crate::model::Failure;
use options::Settings;
use reader::Reader;
use serde::de::DeserializeOwned;
use split::Split;
use std::sync::Arc;
use std::time::Duration;
use topics::Topics;

type MakeReader<T> =
    Arc<dyn Fn(&Settings, ReaderSeat) -> Result<Box<dyn SourceReader<T>>, Failure> + Send + Sync>;

/// A source of values of type `T`: what to read, from where to where, and what to do when something is wrong.
///
/// ```
/// use tidegate::connector::kafka::Connection;
/// use tidegate::connector::kafka::source::{KafkaSource, Start, Undecodable};
///
/// #[derive(serde::Deserialize)]
/// struct Click {
///     user: String,
/// }
///
/// let clicks = KafkaSource::json::<Click>(Connection::new("localhost:9092"), "clicks-per-user")
///     .topics(["clicks"])
///     .start(Start::Earliest)
///     .on_undecodable(Undecodable::Skip);
/// ```
#[derive(Clone)]
pub struct KafkaSource<T> {
    settings: Settings,
    make: MakeReader<T>,
}

impl KafkaSource<()> {
    /// Values as JSON. A null value reads as JSON's `null`: `Option<T>` takes it, another type refuses it.
    pub fn json<T>(connection: Connection, group: impl Into<String>) -> KafkaSource<T>
    where
        T: DeserializeOwned + Send + 'static,
    {
        Self::with_decoder(connection, group, decode::Json::new())
    }

    /// Values as UTF-8 text.
    pub fn string(connection: Connection, group: impl Into<String>) -> KafkaSource<String> {
        Self::with_decoder(connection, group, decode::Text)
    }

    /// Whole records: key, value, headers, timestamp and place, with nulls as they are.
    pub fn bytes(connection: Connection, group: impl Into<String>) -> KafkaSource<KafkaRecord> {
        Self::with_decoder(connection, group, decode::Bytes)
    }

    /// Values as a decoder of your own makes them; each subtask has a clone of it.
    pub fn with_decoder<T, D>(connection: Connection, group: impl Into<String>, decoder: D) -> KafkaSource<T>
    where
        T: Send + 'static,
        D: Decoder<T>,
    {
        let make = move |settings: &Settings, seat: ReaderSeat| {
            let reader = Reader::new(Arc::new(settings.clone()), decoder.clone(), seat)?;
            Ok(Box::new(reader) as Box<dyn SourceReader<T>>)
        };
        KafkaSource { settings: Settings::new(connection, group.into()), make: Arc::new(make) }
    }
}

impl<T> KafkaSource<T> {
    /// Reads these topics.
    #[must_use]
    pub fn topics<S: Into<String>>(mut self, names: impl IntoIterator<Item = S>) -> Self {
        self.settings.topics = Topics::Named(names.into_iter().map(Into::into).collect());
        self
    }

    /// Reads every topic whose whole name matches this regular expression, also those that are made later; never
    /// Kafka's own, whose names begin with two underscores.
    #[must_use]
    pub fn topic_pattern(mut self, pattern: impl Into<String>) -> Self {
        self.settings.topics = Topics::pattern(pattern.into());
        self
    }

    /// Where a job without a checkpoint begins; by default at [`Start::Earliest`].
    #[must_use]
    pub fn start(mut self, start: Start) -> Self {
        self.settings.start = start;
        self
    }

    /// Whether to end at the ends that the partitions have at the job's first start, or when it is first started so
    /// after it ran without an end: at the last stable offset, so that what is committed then is read and nothing else.
    /// By default a source never ends.
    #[must_use]
    pub fn bounded(mut self, bounded: bool) -> Self {
        self.settings.bounded = bounded;
        self
    }

    /// What to do about records that cannot be decoded; by default the job fails.
    #[must_use]
    pub fn on_undecodable(mut self, policy: Undecodable) -> Self {
        self.settings.undecodable = policy;
        self
    }

    /// When there are so many of them that the job fails anyhow.
    #[must_use]
    pub fn breaker(mut self, breaker: Breaker) -> Self {
        self.settings.breaker = breaker;
        self
    }

    /// What to do when a partition does not hold the next offset; by default the job fails.
    #[must_use]
    pub fn on_out_of_range(mut self, policy: OutOfRange) -> Self {
        self.settings.out_of_range = policy;
        self
    }

    /// What to do when a topic was deleted and created again; by default the job fails.
    #[must_use]
    pub fn on_recreated_topic(mut self, policy: Recreated) -> Self {
        self.settings.recreated = policy;
        self
    }

    /// How often new partitions and topics are looked for, 100 ms or more; by default every 30 s. `None` never looks,
    /// and a bounded source does not either.
    #[must_use]
    pub fn discovery_interval(mut self, interval: Option<Duration>) -> Self {
        self.settings.discovery = interval;
        self
    }

    /// Reads records of open and of aborted transactions, too. Without it only what is committed is read.
    #[must_use]
    pub fn read_uncommitted(mut self) -> Self {
        self.settings.uncommitted = true;
        self
    }

    /// The reader of one subtask.
    ///
    /// # Errors
    /// When the restored positions cannot be read, or librdkafka refuses the connection's properties.
    pub fn reader(&self, seat: ReaderSeat) -> Result<Box<dyn SourceReader<T>>, Failure> {
        (self.make)(&self.settings, seat)
    }

    fn encoded(splits: &[Split]) -> Vec<Vec<u8>> {
        splits.iter().map(Split::encode).collect()
    }
}

impl<T> SourceControl for KafkaSource<T> {
    fn check(&self) -> Result<(), Failure> {
        check::check(&self.settings, &mut self.settings.connection.raw()?)
    }

    fn has_dead_letters(&self) -> bool {
        self.settings.undecodable == Undecodable::DeadLetter
    }

    fn resolve_start(&self) -> Result<Vec<Vec<u8>>, Failure> {
        let splits = start::resolve(&self.settings, &mut self.settings.connection.raw()?)?;
        Ok(Self::encoded(&splits))
    }

    fn reconcile(&self, splits: Vec<Vec<u8>>, metrics: &Metrics) -> Result<Vec<Vec<u8>>, Failure> {
        let restored = Split::decode_all(&splits)?;
        let client = &mut self.settings.connection.raw()?;
        let splits = reconcile::reconcile(&self.settings, client, restored, metrics)?;
        Ok(Self::encoded(&splits))
    }

    fn offset_committer(&self, metrics: &Metrics) -> Result<Box<dyn OffsetCommitter>, Failure> {
        Ok(Box::new(offsets::GroupCommitter::start(&self.settings, metrics)?))
    }
}
