//! The rehearsal at start: what recovery will need is tried while nothing depends on it yet.
//!
//! librdkafka says nothing about a wrong password or a missing right for as long as one waits; here
//! both are errors with a name, before the first record is read.

use kafka_protocol::messages::{
    DescribeConfigsRequest, DescribeTransactionsRequest, EndTxnRequest, FetchRequest, FindCoordinatorRequest,
    InitProducerIdRequest, ListOffsetsRequest, ListTransactionsRequest, MetadataRequest, OffsetCommitRequest,
    OffsetFetchRequest,
};

use super::client::Client;
use super::connection::Connection;
use super::metadata::Broker;
use super::{Deadline, Error, TopicPartition, versions};
use std::time::Duration;
use tracing::warn;

/// How long a listed broker may take before it counts as away.
const REACHABLE_WITHIN: Duration = Duration::from_secs(5);

/// What the rehearsal found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checked {
    /// The brokers that were connected to with the job's settings.
    pub brokers: Vec<Broker>,
    /// The level of the feature `transaction.version`.
    pub transaction_version: i16,
}

impl Client {
    /// Connects to every broker with TLS and SASL as set, compares the versions of all requests that
    /// recovery may need, and reads the beginning of each of `logs`. Whoever owns transactional ids
    /// describes each one besides.
    ///
    /// A broker that has just died is still listed for some seconds, and a job must be able to start while
    /// one is away: one that cannot be reached is logged, as long as another can.
    ///
    /// # Errors
    /// The first thing that does not work.
    pub fn check(&mut self, logs: &[TopicPartition], deadline: Deadline) -> Result<Checked, Error> {
        let listed = self.metadata(Some(&[]), deadline)?.brokers;
        let mut brokers = Vec::with_capacity(listed.len());
        let mut away = None;
        for broker in listed {
            let patience = deadline.at_most(REACHABLE_WITHIN.min(deadline.left() / 2));
            let met = self.retry(
                || format!("connecting to broker {} at {}", broker.id, broker.address),
                patience,
                |client| client.with_connection(&broker.address, patience, speaks_everything),
            );
            match met {
                Ok(()) => brokers.push(broker),
                Err(error @ Error::Deadline { .. }) => {
                    warn!(broker = broker.id, address = broker.address, "a broker is away: {error}");
                    away = Some(error);
                }
                Err(error) => return Err(error),
            }
        }
        if let Some(error) = away.filter(|_| brokers.is_empty()) {
            return Err(error);
        }
        for at in logs {
            self.retry(
                || format!("reading topic {:?} partition {}", at.topic, at.partition),
                deadline,
                |client| client.try_fetch(at, deadline),
            )?;
        }
        Ok(Checked { brokers, transaction_version: self.transaction_version(deadline)? })
    }
}

fn speaks_everything(connection: &mut Connection) -> Result<(), Error> {
    connection.version::<MetadataRequest>(versions::METADATA)?;
    connection.version::<FindCoordinatorRequest>(versions::FIND_COORDINATOR)?;
    connection.version::<DescribeTransactionsRequest>(versions::DESCRIBE_TRANSACTIONS)?;
    connection.version::<EndTxnRequest>(versions::END_TXN)?;
    connection.version::<InitProducerIdRequest>(versions::INIT_PRODUCER_ID)?;
    connection.version::<ListTransactionsRequest>(versions::LIST_TRANSACTIONS)?;
    connection.version::<ListOffsetsRequest>(versions::LIST_OFFSETS)?;
    connection.version::<FetchRequest>(versions::FETCH)?;
    connection.version::<DescribeConfigsRequest>(versions::DESCRIBE_CONFIGS)?;
    connection.version::<OffsetCommitRequest>(versions::OFFSET_COMMIT)?;
    connection.version::<OffsetFetchRequest>(versions::OFFSET_FETCH)?;
    Ok(())
}
