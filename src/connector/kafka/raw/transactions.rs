//! Transactions seen and ended from outside of their producer.
//!
//! DescribeTransactions is the witness: same producer id and same start time, and the state itself is
//! proof. EndTxn's answers are not: several mean "commit or abort, look yourself", and after a lost
//! answer there is none. So an end is tried once and its outcome handed to the caller, who describes.
//!
//! Two requests are never sent. EndTxn version 5, since on a cluster without the feature
//! `transaction.version` it wedges the id although the broker advertises it. WriteTxnMarkers, since it
//! aborts the records behind the coordinator's back.

use std::fmt;
use std::time::Duration;

use kafka_protocol::messages::{
    DescribeTransactionsRequest, EndTxnRequest, InitProducerIdRequest, ListTransactionsRequest, ProducerId,
    TransactionalId,
};
use kafka_protocol::protocol::StrBytes;

use super::client::{Answered, Client, refuse};
use super::coordinator::Coordinator;
use super::{Code, Deadline, Error, ErrorKind, Subject, TopicPartition, versions};

/// The states of a transactional id at its coordinator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TransactionState {
    /// No transaction since the last initialisation.
    Empty,
    /// Records were sent, nothing is decided.
    Ongoing,
    /// Commit is decided, markers are being written.
    PrepareCommit,
    /// Abort is decided, markers are being written.
    PrepareAbort,
    /// Committed.
    CompleteCommit,
    /// Aborted.
    CompleteAbort,
    /// The id is about to be removed.
    Dead,
    /// A newer producer is being let in; an open transaction is aborted first.
    PrepareEpochFence,
    /// A state that this client does not know.
    Unknown(String),
}

impl TransactionState {
    /// The name on the wire.
    pub fn name(&self) -> &str {
        match self {
            Self::Empty => "Empty",
            Self::Ongoing => "Ongoing",
            Self::PrepareCommit => "PrepareCommit",
            Self::PrepareAbort => "PrepareAbort",
            Self::CompleteCommit => "CompleteCommit",
            Self::CompleteAbort => "CompleteAbort",
            Self::Dead => "Dead",
            Self::PrepareEpochFence => "PrepareEpochFence",
            Self::Unknown(name) => name,
        }
    }

    fn from_name(name: &str) -> Self {
        [
            Self::Empty,
            Self::Ongoing,
            Self::PrepareCommit,
            Self::PrepareAbort,
            Self::CompleteCommit,
            Self::CompleteAbort,
            Self::Dead,
            Self::PrepareEpochFence,
        ]
        .into_iter()
        .find(|state| state.name() == name)
        .unwrap_or_else(|| Self::Unknown(name.to_owned()))
    }
}

impl fmt::Display for TransactionState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What the coordinator says about a transactional id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Described {
    /// The state of the current or of the last transaction.
    pub state: TransactionState,
    /// The producer id that the transactional id has now.
    pub producer_id: i64,
    /// Its epoch.
    pub producer_epoch: i16,
    /// When the first record of the transaction arrived, in milliseconds since 1970 by the
    /// coordinator's clock; -1 if there was none since the last initialisation. It names the
    /// transaction: compare it for equality only.
    pub start_ms: i64,
    /// The transaction timeout, in milliseconds.
    pub timeout_ms: i32,
    /// The partitions in the transaction; those of topics that we may not see are left out.
    pub partitions: Vec<TopicPartition>,
}

/// What came of an EndTxn. No outcome is a verdict: describe afterwards.
#[derive(Debug)]
pub enum EndOutcome {
    /// 0: decided and durable, or decided alike before.
    Accepted,
    /// 51: a decision, perhaps the opposite one, is being carried out or not yet replicated.
    UnderWay,
    /// 48: ended the other way, or nothing was open.
    OtherState,
    /// 47, 90: the epoch has moved on, by a newer producer or by the transaction timeout.
    Fenced,
    /// 49: the id is unknown, expired, or has another producer id.
    OtherProducer,
    /// 14, 15, 16: the coordinator loads, lacks replicas or has moved; the request may yet have been
    /// written.
    CoordinatorMoved(Code),
    /// Any other code.
    Other(Code),
    /// The connection broke, or no answer came in time; the request may have been carried out.
    NoAnswer(Error),
}

/// A producer id and its epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Producer {
    /// The id.
    pub id: i64,
    /// The epoch.
    pub epoch: i16,
}

/// A transactional id in a broker's list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// The transactional id.
    pub transactional_id: String,
    /// Its producer id.
    pub producer_id: i64,
    /// Its state.
    pub state: TransactionState,
    /// The node id of the coordinator that listed it.
    pub coordinator: i32,
}

fn id_of(id: &str) -> TransactionalId {
    TransactionalId(StrBytes::from_string(id.to_owned()))
}

impl Client {
    /// Asks the coordinator about a transactional id; `None` if it knows none of this name (it never
    /// was, or it expired).
    ///
    /// # Errors
    /// When no coordinator answers within the deadline, or for a reason that does not pass.
    pub fn describe_transaction(&mut self, id: &str, deadline: Deadline) -> Result<Option<Described>, Error> {
        self.retry(
            || format!("DescribeTransactions on transactional id {id:?}"),
            deadline,
            |client| client.describe_once(id, deadline),
        )
    }

    fn describe_once(&mut self, id: &str, deadline: Deadline) -> Result<Option<Described>, Error> {
        let subject = || Subject::TransactionalId(id.to_owned());
        let request = DescribeTransactionsRequest::default().with_transactional_ids(vec![id_of(id)]);
        let Answered { answer, broker } = self.call_coordinator(
            Coordinator::Transaction,
            id,
            &request,
            versions::DESCRIBE_TRANSACTIONS,
            deadline,
        )?;
        let Some(found) = answer.transaction_states.into_iter().find(|s| s.transactional_id.0 == *id) else {
            return Err(Error::Malformed {
                broker,
                request: "DescribeTransactions",
                problem: format!("the answer does not mention {id:?}"),
            });
        };
        // With an error every other field is zero and means nothing.
        if Code::of(found.error_code) == Some(Code::TRANSACTIONAL_ID_NOT_FOUND) {
            return Ok(None);
        }
        refuse::<DescribeTransactionsRequest>(&broker, subject, found.error_code, None)?;
        let mut partitions: Vec<TopicPartition> = found
            .topics
            .iter()
            .flat_map(|topic| topic.partitions.iter().map(|&p| TopicPartition::new(&**topic.topic, p)))
            .collect();
        partitions.sort_unstable();
        Ok(Some(Described {
            state: TransactionState::from_name(&found.transaction_state),
            producer_id: found.producer_id.0,
            producer_epoch: found.producer_epoch,
            start_ms: found.transaction_start_time_ms,
            timeout_ms: found.transaction_timeout_ms,
            partitions,
        }))
    }

    /// Asks the coordinator, once, to commit or abort the open transaction of an id. Look at the
    /// transaction before (its start time tells which one is open) and after.
    ///
    /// # Errors
    /// When no coordinator is found within the deadline, and for missing rights or an unsupported
    /// broker. Everything else is an [`EndOutcome`].
    pub fn end_transaction(
        &mut self,
        id: &str,
        producer: Producer,
        commit: bool,
        deadline: Deadline,
    ) -> Result<EndOutcome, Error> {
        self.retry(
            || format!("FindCoordinator on transactional id {id:?}"),
            deadline,
            |client| client.coordinator(Coordinator::Transaction, id, deadline),
        )?;
        let request = EndTxnRequest::default()
            .with_transactional_id(id_of(id))
            .with_producer_id(ProducerId(producer.id))
            .with_producer_epoch(producer.epoch)
            .with_committed(commit);
        let called =
            self.call_coordinator(Coordinator::Transaction, id, &request, versions::END_TXN, deadline);
        let answered = match called {
            Ok(answered) => answered,
            Err(error) if error.passes() => {
                self.coordinators.clear();
                return Ok(EndOutcome::NoAnswer(error));
            }
            Err(error) => return Err(error),
        };
        let Some(code) = Code::of(answered.answer.error_code) else { return Ok(EndOutcome::Accepted) };
        match code {
            Code::CONCURRENT_TRANSACTIONS => Ok(EndOutcome::UnderWay),
            Code::INVALID_TXN_STATE => Ok(EndOutcome::OtherState),
            Code::INVALID_PRODUCER_ID_MAPPING => Ok(EndOutcome::OtherProducer),
            Code::INVALID_PRODUCER_EPOCH | Code::PRODUCER_FENCED => Ok(EndOutcome::Fenced),
            other => match other.kind() {
                ErrorKind::Configuration | ErrorKind::Unsupported => {
                    let subject = Subject::TransactionalId(id.to_owned());
                    Err(Error::Answer {
                        broker: answered.broker,
                        request: "EndTxn",
                        subject,
                        code,
                        text: None,
                    })
                }
                ErrorKind::CoordinatorMoved => {
                    self.coordinators.clear();
                    Ok(EndOutcome::CoordinatorMoved(code))
                }
                _ => Ok(EndOutcome::Other(code)),
            },
        }
    }

    /// Takes a transactional id over: aborts what is open on it and fences its former producer.
    ///
    /// # Errors
    /// When it is not done within the deadline, or for a reason that does not pass, such as a timeout
    /// above the broker's maximum (50).
    pub fn init_producer_id(
        &mut self,
        id: &str,
        timeout: Duration,
        deadline: Deadline,
    ) -> Result<Producer, Error> {
        let request = InitProducerIdRequest::default()
            .with_transactional_id(Some(id_of(id)))
            .with_transaction_timeout_ms(i32::try_from(timeout.as_millis()).unwrap_or(i32::MAX))
            .with_producer_id(ProducerId(-1))
            .with_producer_epoch(-1);
        self.retry(
            || format!("InitProducerId on transactional id {id:?}"),
            deadline,
            |client| {
                let Answered { answer, broker } = client.call_coordinator(
                    Coordinator::Transaction,
                    id,
                    &request,
                    versions::INIT_PRODUCER_ID,
                    deadline,
                )?;
                let subject = || Subject::TransactionalId(id.to_owned());
                refuse::<InitProducerIdRequest>(&broker, subject, answer.error_code, None)?;
                Ok(Producer { id: answer.producer_id.0, epoch: answer.producer_epoch })
            },
        )
    }

    /// Lists the transactional ids in some states (none given: in any), asking every broker, since each
    /// knows its own only. The caller picks those that are its own by comparing parsed names. What we
    /// have no right to see is left out without an error, and so may be an id whose coordinator moves
    /// between two brokers' answers.
    ///
    /// # Errors
    /// When not every broker has answered within the deadline, or for a reason that does not pass.
    pub fn list_transactions(
        &mut self,
        states: &[TransactionState],
        deadline: Deadline,
    ) -> Result<Vec<Listed>, Error> {
        let filters = states.iter().map(|state| StrBytes::from_string(state.name().to_owned())).collect();
        let request = ListTransactionsRequest::default().with_state_filters(filters).with_duration_filter(-1);
        self.retry(
            || "ListTransactions".to_owned(),
            deadline,
            |client| {
                client.refresh_brokers(deadline)?;
                let mut listed = Vec::new();
                for node_id in client.brokers.keys().copied().collect::<Vec<_>>() {
                    let Answered { answer, broker } =
                        client.call_broker(node_id, &request, versions::LIST_TRANSACTIONS, deadline)?;
                    refuse::<ListTransactionsRequest>(
                        &broker,
                        || Subject::Broker(node_id),
                        answer.error_code,
                        None,
                    )?;
                    listed.extend(answer.transaction_states.into_iter().map(|found| Listed {
                        transactional_id: found.transactional_id.0.to_string(),
                        producer_id: found.producer_id.0,
                        state: TransactionState::from_name(&found.transaction_state),
                        coordinator: node_id,
                    }));
                }
                Ok(listed)
            },
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_keeps_its_name_also_when_it_is_unknown() {
        for name in ["Empty", "Ongoing", "PrepareEpochFence", "CompleteAbort", "SomethingNew"] {
            assert_eq!(TransactionState::from_name(name).name(), name);
        }
        assert_eq!(TransactionState::from_name("Ongoing"), TransactionState::Ongoing);
    }
}
