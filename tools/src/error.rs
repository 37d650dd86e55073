//! What can go wrong while feeding or judging a topic. A failed judgement is no error: it is a report.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Duration;

use rdkafka::error::KafkaError;

/// Why a tool could not do its work.
#[derive(Debug)]
pub enum Error {
    /// The broker or librdkafka refused something.
    Kafka {
        /// What was being done, naming the topic or group.
        doing: String,
        /// What librdkafka said.
        source: KafkaError,
    },
    /// No broker answers.
    Unreachable {
        /// The addresses that were tried.
        bootstrap: String,
        /// What librdkafka said.
        source: KafkaError,
    },
    /// A topic that should be there is not.
    NoTopic {
        /// Its name.
        topic: String,
    },
    /// The end of a topic was not reached, and nothing came any more.
    Stalled {
        /// The topic or what else was waited for.
        waiting_for: String,
        /// How long it was waited for.
        patience: Duration,
    },
    /// A record is not what the oracle can read.
    Unreadable {
        /// Topic, partition and offset of the record.
        place: String,
        /// What was expected and found.
        problem: String,
    },
    /// A file, a process or the terminal refused.
    Io {
        /// What was being done.
        doing: String,
        /// What the system said.
        source: io::Error,
    },
    /// A program under test is not there.
    NotBuilt {
        /// Its name.
        program: String,
        /// Where it was looked for.
        places: Vec<String>,
    },
    /// A program under test ended when it should not, or with a code that is not 0.
    Ended {
        /// Its name.
        program: String,
        /// How it ended.
        status: ExitStatus,
        /// Its log.
        log: PathBuf,
        /// The last lines of the log.
        tail: String,
    },
    /// SIGTERM or SIGINT came.
    Interrupted,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kafka { doing, source } => write!(f, "{doing}: {source}"),
            Self::Unreachable { bootstrap, source } => {
                write!(
                    f,
                    "no Kafka answers at {bootstrap}: {source}; is it running, and is the address right?"
                )
            }
            Self::NoTopic { topic } => {
                write!(f, "topic {topic} does not exist: create it first or check its name")
            }
            Self::Stalled { waiting_for, patience } => {
                write!(f, "waited {} s for {waiting_for} in vain", patience.as_secs())
            }
            Self::Io { doing, source } => write!(f, "{doing}: {source}"),
            Self::NotBuilt { program, places } => {
                write!(f, "{program} is not built: looked for {}", places.join(" and "))
            }
            Self::Ended { program, status, log, tail } => {
                write!(f, "{program} ended unexpectedly ({status}), log {}:\n{tail}", log.display())
            }
            Self::Interrupted => f.write_str("interrupted"),
            Self::Unreadable { place, problem } => write!(f, "{place}: {problem}"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Kafka { source, .. } | Self::Unreachable { source, .. } => Some(source),
            Self::Io { source, .. } => Some(source),
            _ => None,
        }
    }
}

impl Error {
    /// Wraps what librdkafka said with what was being done.
    pub fn kafka(doing: impl Into<String>) -> impl FnOnce(KafkaError) -> Self {
        let doing = doing.into();
        move |source| Self::Kafka { doing, source }
    }

    /// Wraps what the system said with what was being done.
    pub fn io(doing: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let doing = doing.into();
        move |source| Self::Io { doing, source }
    }
}
