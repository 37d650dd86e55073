//! What a user decides about a Kafka source, and the consumer's properties that follow from it.

use super::topics::Topics;
use crate::connector::kafka::Connection;
use std::collections::BTreeMap;
use std::time::Duration;

/// Where a job begins to read when it has no checkpoint. It is decided once, before the first record, and published:
/// no restart decides again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Start {
    /// At the first record that each partition still holds.
    Earliest,
    /// At the end: only what is written from now on.
    Latest,
    /// At the first record of each partition whose timestamp is this or later, in milliseconds since the Unix epoch;
    /// at the end, where there is none.
    Timestamp(i64),
    /// Where the consumer group stands.
    Committed {
        /// What to do about partitions in which it does not.
        otherwise: Otherwise,
    },
    /// At these next offsets, by topic and partition. Every partition must be named.
    Given(BTreeMap<(String, i32), i64>),
}

/// Where to begin in a partition in which the group has committed nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Otherwise {
    /// At its first record.
    Earliest,
    /// At its end.
    Latest,
    /// Not at all: the job does not start.
    Fail,
}

/// What to do about a record that the decoder refuses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Undecodable {
    /// The job fails and says where the record stands.
    Fail,
    /// It is counted and left out.
    Skip,
    /// It goes to the stream of dead letters as it was read, which a sink must take.
    DeadLetter,
}

/// When so many records are refused that the decoder must be wrong and not the records: the job fails, whatever the
/// policy for a single one is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Breaker {
    /// The job fails at so many refused records in a row within one subtask, 1 or more.
    pub consecutive: u32,
    /// It also fails when more than this part of a window was refused, `0.0..=1.0`; at 1.0 never.
    pub ratio: f64,
    /// The records in a window, 1 or more.
    pub window: u32,
}

impl Default for Breaker {
    /// A thousand in a row, or more than half of ten thousand.
    fn default() -> Self {
        Self { consecutive: 1_000, ratio: 0.5, window: 10_000 }
    }
}

/// What to do when a partition does not hold the next offset any more, or not yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutOfRange {
    /// The job fails and says how many offsets are gone.
    Fail,
    /// It goes on at the first record that the partition holds.
    Earliest,
    /// It goes on at the partition's end.
    Latest,
}

/// What to do when a topic was deleted and created again under the same name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recreated {
    /// The job fails: offsets of the old topic mean nothing in the new one.
    Fail,
    /// The new topic is read from its beginning.
    Earliest,
}

/// All of it.
#[derive(Clone)]
pub(super) struct Settings {
    pub(super) connection: Connection,
    pub(super) group: String,
    pub(super) topics: Topics,
    pub(super) start: Start,
    pub(super) bounded: bool,
    pub(super) undecodable: Undecodable,
    pub(super) breaker: Breaker,
    pub(super) out_of_range: OutOfRange,
    pub(super) recreated: Recreated,
    pub(super) discovery: Option<Duration>,
    pub(super) uncommitted: bool,
}

/// How often new partitions are looked for, unless the user says otherwise.
const DISCOVERY: Duration = Duration::from_secs(30);

/// What the user may override: measured with the clicks of the benchmark, for little memory and no idle fetcher.
const TUNING: &[(&str, &str)] = &[
    ("queued.min.messages", "20000"),
    ("fetch.queue.backoff.ms", "10"),
    ("fetch.wait.max.ms", "50"),
    ("fetch.error.backoff.ms", "100"),
    ("check.crcs", "true"),
    ("reconnect.backoff.max.ms", "2000"),
];

/// The most that librdkafka keeps fetched for one subtask, and for all subtasks of a source together, in KiB.
const SUBTASK_BUFFER_KIB: u32 = 16_384;
const SOURCE_BUFFER_KIB: u32 = 65_536;
/// Less than this would fetch in crumbs.
const LEAST_BUFFER_KIB: u32 = 1_024;

impl Settings {
    pub(super) fn new(connection: Connection, group: String) -> Self {
        Self {
            connection,
            group,
            topics: Topics::Named(Vec::new()),
            start: Start::Earliest,
            bounded: false,
            undecodable: Undecodable::Fail,
            breaker: Breaker::default(),
            out_of_range: OutOfRange::Fail,
            recreated: Recreated::Fail,
            discovery: Some(DISCOVERY),
            uncommitted: false,
        }
    }

    /// The properties of the consumer of one of so many subtasks. Those that correctness rests on come last and win: offsets are the checkpoint's
    /// matter, and a position that does not exist must be an error, never a silent jump.
    pub(super) fn consumer(&self, parallelism: u32) -> BTreeMap<String, String> {
        let share = SOURCE_BUFFER_KIB / parallelism.max(1);
        let buffer = share.clamp(LEAST_BUFFER_KIB, SUBTASK_BUFFER_KIB).to_string();
        let isolation = if self.uncommitted { "read_uncommitted" } else { "read_committed" };
        let fixed = [
            ("group.id", self.group.as_str()),
            ("enable.auto.commit", "false"),
            ("enable.auto.offset.store", "false"),
            ("isolation.level", isolation),
            ("auto.offset.reset", "error"),
            ("enable.partition.eof", "true"),
            ("statistics.interval.ms", "0"),
        ];
        let mut properties = own(TUNING);
        properties.insert("queued.max.messages.kbytes".to_owned(), buffer);
        properties.extend(self.connection.properties().clone());
        properties.extend(own(&fixed));
        properties
    }

    /// How often new partitions are looked for; a bounded source has all its partitions from the start.
    pub(super) fn discovery_interval(&self) -> Option<Duration> {
        self.discovery.filter(|_| !self.bounded)
    }

    /// Everything that is wrong with the settings by themselves.
    pub(super) fn problems(&self) -> Vec<String> {
        let mut problems = self.topics.problems();
        if self.group.is_empty() {
            problems.push("the source's consumer group is empty: give it a name".to_owned());
        }
        if self.breaker.consecutive == 0 || self.breaker.window == 0 {
            problems.push(format!(
                "the breaker's numbers must be 1 or more, found {} in a row and a window of {}",
                self.breaker.consecutive, self.breaker.window
            ));
        }
        if !(0.0..=1.0).contains(&self.breaker.ratio) {
            problems.push(format!("the breaker's ratio must be 0.0 to 1.0, found {}", self.breaker.ratio));
        }
        if self.discovery.is_some_and(|interval| interval < Duration::from_millis(100)) {
            problems
                .push("the discovery interval must be 100 ms or more: each look asks the brokers".to_owned());
        }
        problems
    }
}

fn own(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tuning_gives_way_to_the_user_and_correctness_does_not() {
        let connection = Connection::new("localhost:9092")
            .property("fetch.wait.max.ms", "500")
            .property("enable.auto.commit", "true")
            .property("auto.offset.reset", "latest")
            .property("isolation.level", "read_uncommitted");
        let properties = Settings::new(connection, "g".to_owned()).consumer(8);
        let expected = [
            ("fetch.wait.max.ms", "500"),
            ("enable.auto.commit", "false"),
            ("auto.offset.reset", "error"),
            ("isolation.level", "read_committed"),
            ("queued.min.messages", "20000"),
            ("queued.max.messages.kbytes", "8192"),
            ("group.id", "g"),
        ];
        for (name, value) in expected {
            assert_eq!(properties[name], value, "{name}");
        }
    }

    #[test]
    fn all_that_is_wrong_is_told_at_once() {
        let mut settings = Settings::new(Connection::new("localhost:9092"), String::new());
        settings.breaker = Breaker { consecutive: 0, ratio: 2.0, window: 1 };
        settings.discovery = Some(Duration::ZERO);
        assert_eq!(settings.problems().len(), 5, "{:?}", settings.problems());
    }
}
