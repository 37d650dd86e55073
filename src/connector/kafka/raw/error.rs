//! What can go wrong between this client and the brokers, and what the caller has to do about it.

use std::fmt;
use std::io;
use std::time::Duration;

use super::{Code, TopicPartition};

/// What the caller has to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// It passes by itself: ask again.
    Retriable,
    /// The coordinator is loading, moved or short of replicas: ask again, from FindCoordinator on.
    CoordinatorMoved,
    /// Somebody else took over the transactional id.
    Fenced,
    /// A person has to change settings, credentials, rights or broker configuration.
    Configuration,
    /// The broker is too old, or a mechanism is not built in.
    Unsupported,
    /// The answer makes no sense here: stop and report.
    Fatal,
    /// The time given to the operation is over.
    Deadline,
}

/// What a request was about, for the text of an error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Subject {
    /// The cluster as a whole.
    Cluster,
    /// One broker, by node id.
    Broker(i32),
    /// One topic.
    Topic(String),
    /// One partition.
    Partition(TopicPartition),
    /// One transactional id.
    TransactionalId(String),
    /// One consumer group.
    Group(String),
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cluster => write!(f, "the cluster"),
            Self::Broker(id) => write!(f, "broker {id}"),
            Self::Topic(name) => write!(f, "topic {name:?}"),
            Self::Partition(at) => write!(f, "topic {:?} partition {}", at.topic, at.partition),
            Self::TransactionalId(id) => write!(f, "transactional id {id:?}"),
            Self::Group(group) => write!(f, "consumer group {group:?}"),
        }
    }
}

/// An error of the raw client. Passwords never appear in its text.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A setting is missing, malformed or not supported.
    #[error("Kafka client setting {key}: {problem}")]
    Settings {
        /// The librdkafka name of the setting.
        key: &'static str,
        /// What is wrong and what to do.
        problem: String,
    },
    /// No connection could be made.
    #[error("connecting to Kafka broker {broker}: {source}")]
    Connect {
        /// `host:port`.
        broker: String,
        /// The operating system's reason.
        source: io::Error,
    },
    /// The TLS handshake failed for a reason that time does not heal.
    #[error("TLS handshake with Kafka broker {broker}: {problem}")]
    Tls {
        /// `host:port`.
        broker: String,
        /// The TLS library's reason, with a hint.
        problem: String,
    },
    /// The broker does not enable the SASL mechanism of the settings.
    #[error(
        "Kafka broker {broker} does not enable SASL mechanism {mechanism}; it offers {}: change \
         sasl.mechanism, or enable the mechanism on the broker's listener",
        list(offered)
    )]
    Mechanism {
        /// `host:port`.
        broker: String,
        /// The mechanism asked for.
        mechanism: &'static str,
        /// Those that the broker names.
        offered: Vec<String>,
    },
    /// The broker, or the broker's proof, was refused.
    #[error(
        "SASL {mechanism} authentication with Kafka broker {broker} as user {user:?}: {problem}; check sasl.username and \
         sasl.password"
    )]
    Authentication {
        /// `host:port`.
        broker: String,
        /// The mechanism in use.
        mechanism: &'static str,
        /// The user name of the settings.
        user: String,
        /// The broker's text, or what was wrong with its answer.
        problem: String,
    },
    /// The connection broke while a request was under way.
    #[error("{request} to Kafka broker {broker}: {source}")]
    Network {
        /// `host:port`.
        broker: String,
        /// The request's name.
        request: &'static str,
        /// The operating system's or the TLS library's reason.
        source: io::Error,
    },
    /// One request was not answered in time; the connection was given up.
    #[error("{request}: no answer from Kafka broker {broker} within {waited:?}")]
    NoAnswer {
        /// `host:port`.
        broker: String,
        /// The request's name.
        request: &'static str,
        /// How long it was waited for.
        waited: Duration,
    },
    /// The broker does not speak a version of the request that recovery needs.
    #[error(
        "Kafka broker {broker} {}, but versions {}..={} are needed: Tidegate needs Apache Kafka 3.0 or later",
        spoken(request, *offered),
        needed.0,
        needed.1
    )]
    Version {
        /// `host:port`.
        broker: String,
        /// The request's name.
        request: &'static str,
        /// First and last version that this client can use.
        needed: (i16, i16),
        /// First and last version of the broker, if it knows the request at all.
        offered: Option<(i16, i16)>,
    },
    /// The bytes of an answer are not what the protocol says.
    #[error("{request}: Kafka broker {broker} answered what the protocol does not allow: {problem}")]
    Malformed {
        /// `host:port`.
        broker: String,
        /// The request's name.
        request: &'static str,
        /// What was expected and what was found.
        problem: String,
    },
    /// The broker answered with an error code.
    #[error("{request} on {subject}: Kafka broker {broker} answered {code}{}", and(text.as_ref()))]
    Answer {
        /// `host:port`.
        broker: String,
        /// The request's name.
        request: &'static str,
        /// What it was about.
        subject: Subject,
        /// The code.
        code: Code,
        /// The broker's own words, where the protocol has a place for them.
        text: Option<String>,
    },
    /// Metadata names no leader for a partition, or does not list it.
    #[error("topic {:?} partition {} has no leader{}", at.topic, at.partition, and(code.as_ref()))]
    NoLeader {
        /// The partition.
        at: TopicPartition,
        /// The error that metadata gave for the topic or the partition, if any.
        code: Option<Code>,
    },
    /// Some offsets of a group were not committed.
    #[error("OffsetCommit of consumer group {group:?}: {}", refusals(failures))]
    OffsetsRefused {
        /// The group.
        group: String,
        /// Every partition whose offset was refused.
        failures: Vec<(TopicPartition, Code)>,
    },
    /// Everything was tried until the time was over.
    #[error("{what}: not done within {budget:?}{}", and(last.as_ref()))]
    Deadline {
        /// The operation.
        what: String,
        /// The time there was.
        budget: Duration,
        /// What the last attempt said; `None` if there was no time for one.
        last: Option<Box<Error>>,
    },
}

fn list(items: &[String]) -> String {
    if items.is_empty() { "none".to_owned() } else { items.join(", ") }
}

fn spoken(request: &str, offered: Option<(i16, i16)>) -> String {
    match offered {
        Some((first, last)) => format!("speaks versions {first}..={last} of {request}"),
        None => format!("does not know the request {request}"),
    }
}

/// The rest of a sentence, if there is one.
fn and(reason: Option<impl fmt::Display>) -> String {
    reason.map(|reason| format!(": {reason}")).unwrap_or_default()
}

fn refusals(failures: &[(TopicPartition, Code)]) -> String {
    list(&failures.iter().map(|(at, code)| format!("{at}: {code}")).collect::<Vec<_>>())
}

impl Error {
    /// What the caller has to do.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Settings { .. } | Self::Tls { .. } => ErrorKind::Configuration,
            Self::Mechanism { .. } | Self::Authentication { .. } => ErrorKind::Configuration,
            Self::Connect { .. } | Self::Network { .. } | Self::NoAnswer { .. } => ErrorKind::Retriable,
            Self::Version { .. } => ErrorKind::Unsupported,
            Self::Malformed { .. } => ErrorKind::Fatal,
            Self::Answer { code, .. } => code.kind(),
            Self::NoLeader { code, .. } => code.map_or(ErrorKind::Retriable, Code::kind),
            Self::OffsetsRefused { failures, .. } => worst(failures.iter().map(|(_, code)| code.kind())),
            Self::Deadline { .. } => ErrorKind::Deadline,
        }
    }

    /// The Kafka error code behind it, also behind a deadline.
    pub fn code(&self) -> Option<Code> {
        match self {
            Self::Answer { code, .. } => Some(*code),
            Self::NoLeader { code, .. } => *code,
            Self::OffsetsRefused { failures, .. } => failures.first().map(|(_, code)| *code),
            Self::Deadline { last, .. } => last.as_deref().and_then(Self::code),
            _ => None,
        }
    }

    /// Whether asking again may help.
    pub(super) fn passes(&self) -> bool {
        matches!(self.kind(), ErrorKind::Retriable | ErrorKind::CoordinatorMoved)
    }

    /// Whether the connection on which it happened cannot be used again: everything but a proper answer.
    pub(super) fn breaks_connection(&self) -> bool {
        !matches!(self, Self::Answer { .. } | Self::Version { .. })
    }
}

/// What to do about several failures at once: a person's work comes first, waiting comes last.
fn worst(kinds: impl Iterator<Item = ErrorKind>) -> ErrorKind {
    let rank = |kind: &ErrorKind| match kind {
        ErrorKind::Retriable => 0,
        ErrorKind::CoordinatorMoved => 1,
        ErrorKind::Deadline => 2,
        ErrorKind::Fatal => 3,
        ErrorKind::Unsupported => 4,
        ErrorKind::Configuration => 5,
        ErrorKind::Fenced => 6,
    };
    kinds.max_by_key(rank).unwrap_or(ErrorKind::Fatal)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(codes: &[i16]) -> Error {
        let at = |partition| TopicPartition { topic: "orders".to_owned(), partition };
        let failures = codes.iter().zip(0..).map(|(&c, p)| (at(p), Code::of(c).expect("an error"))).collect();
        Error::OffsetsRefused { group: "g".to_owned(), failures }
    }

    #[test]
    fn of_several_refused_offsets_the_one_that_needs_a_person_decides() {
        assert_eq!(refused(&[14, 30, 14]).kind(), ErrorKind::Configuration);
        assert_eq!(refused(&[14, 7]).kind(), ErrorKind::CoordinatorMoved);
        assert!(refused(&[16]).passes());
        assert!(!refused(&[16, 29]).passes());
    }

    #[test]
    fn the_code_is_found_behind_a_deadline() {
        let last = Some(Box::new(refused(&[51])));
        let error = Error::Deadline { what: "x".to_owned(), budget: Duration::from_secs(1), last };
        assert_eq!(error.code(), Some(Code::CONCURRENT_TRANSACTIONS));
        assert_eq!(error.kind(), ErrorKind::Deadline);
        assert!(error.to_string().contains("orders/0: error 51 (ConcurrentTransactions)"), "{error}");
    }
}
