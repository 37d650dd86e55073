//! Kafka's error codes, and what each of them asks of us.
//!
//! The table is of the requests that *this* client sends. It is stricter than Kafka's own "retriable"
//! column: that one counts a fenced producer and a missing right alike as "not retriable", while the
//! first means that somebody else took over and the second that an operator has to act.

use std::fmt;

use kafka_protocol::error::ResponseError;

use super::ErrorKind;

/// An error code of a broker's answer; never 0.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Code(i16);

/// Codes that the rest of the client names.
impl Code {
    /// The offset asked for is outside of the log.
    pub const OFFSET_OUT_OF_RANGE: Code = Code(1);
    /// The broker does not know the topic or the partition.
    pub const UNKNOWN_TOPIC_OR_PARTITION: Code = Code(3);
    /// The partition has no leader at the moment.
    pub const LEADER_NOT_AVAILABLE: Code = Code(5);
    /// The broker is not there.
    pub const BROKER_NOT_AVAILABLE: Code = Code(8);
    /// The coordinator is loading its log.
    pub const COORDINATOR_LOAD_IN_PROGRESS: Code = Code(14);
    /// The coordinator cannot be reached, or has too few replicas to write its decision.
    pub const COORDINATOR_NOT_AVAILABLE: Code = Code(15);
    /// The broker asked is not the coordinator.
    pub const NOT_COORDINATOR: Code = Code(16);
    /// The user may not do this to the topic.
    pub const TOPIC_AUTHORIZATION_FAILED: Code = Code(29);
    /// The broker does not enable the SASL mechanism.
    pub const UNSUPPORTED_SASL_MECHANISM: Code = Code(33);
    /// The version of the request is unknown to the broker.
    pub const UNSUPPORTED_VERSION: Code = Code(35);
    /// The producer epoch is not the current one (old versions of EndTxn).
    pub const INVALID_PRODUCER_EPOCH: Code = Code(47);
    /// The transaction is in no state that allows this.
    pub const INVALID_TXN_STATE: Code = Code(48);
    /// The transactional id is unknown, or belongs to another producer id.
    pub const INVALID_PRODUCER_ID_MAPPING: Code = Code(49);
    /// A decision on the transaction is being carried out.
    pub const CONCURRENT_TRANSACTIONS: Code = Code(51);
    /// A new leader does not know yet how far the log is replicated.
    pub const OFFSET_NOT_AVAILABLE: Code = Code(78);
    /// Wrong credentials.
    pub const SASL_AUTHENTICATION_FAILED: Code = Code(58);
    /// A newer producer has taken the transactional id.
    pub const PRODUCER_FENCED: Code = Code(90);
    /// The coordinator has never heard of the transactional id, or has let it expire.
    pub const TRANSACTIONAL_ID_NOT_FOUND: Code = Code(105);

    /// The code of an answer; `None` for 0, which is no error.
    pub fn of(code: i16) -> Option<Self> {
        (code != 0).then_some(Self(code))
    }

    /// The number on the wire.
    pub fn number(self) -> i16 {
        self.0
    }

    /// Whether the user lacks a right: on a topic, a group, the cluster, a transactional id, delegation.
    pub fn is_refusal(self) -> bool {
        matches!(self.0, 29..=31 | 53 | 65)
    }

    /// What the caller has to do about it.
    pub fn kind(self) -> ErrorKind {
        match self.0 {
            14..=16 => ErrorKind::CoordinatorMoved,
            // What passes by itself: elections, replicas that catch up, disks that come back, the
            // decision on a transaction that is being carried out.
            2 | 3 | 5..=9 | 13 | 19 | 20 | 51 | 56 | 72 | 74 | 75 | 78 | 88 | 89 | 100 | 103 => {
                ErrorKind::Retriable
            }
            47 | 90 => ErrorKind::Fenced,
            // 12, 28: offset metadata; 17, 24: names; 22, 25, 27: somebody subscribes with this group;
            // 29 to 31, 53, 65: rights; 33, 34, 54, 58: SASL; 50: the transaction timeout.
            12 | 17 | 22 | 24 | 25 | 27..=31 | 33 | 34 | 50 | 53 | 54 | 58 | 65 => ErrorKind::Configuration,
            35 | 43 | 76 => ErrorKind::Unsupported,
            _ => ErrorKind::Fatal,
        }
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match ResponseError::try_from_code(self.0) {
            Some(ResponseError::Unknown(_)) | None => write!(f, "error {}", self.0),
            Some(named) => write!(f, "error {} ({named})", self.0),
        }
    }
}

impl fmt::Debug for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_that_recovery_met_has_its_kind() {
        let table: &[(&[i16], ErrorKind)] = &[
            (&[14, 15, 16], ErrorKind::CoordinatorMoved),
            (&[3, 5, 6, 7, 51, 74, 75, 78, 88], ErrorKind::Retriable),
            (&[47, 90], ErrorKind::Fenced),
            (&[25, 29, 30, 31, 33, 34, 50, 53, 58], ErrorKind::Configuration),
            (&[35], ErrorKind::Unsupported),
            (&[-1, 1, 48, 49, 105, 999], ErrorKind::Fatal),
        ];
        for (codes, kind) in table {
            for &code in *codes {
                assert_eq!(Code::of(code).expect("not 0").kind(), *kind, "code {code}");
            }
        }
    }

    #[test]
    fn zero_is_no_error_and_the_text_has_number_and_name() {
        assert_eq!(Code::of(0), None);
        assert_eq!(Code::CONCURRENT_TRANSACTIONS.to_string(), "error 51 (ConcurrentTransactions)");
        assert_eq!(Code(999).to_string(), "error 999");
    }
}
