//! Which broker decides about a transactional id or a consumer group.
//!
//! After a coordinator's death the cluster goes on naming the dead broker for some 10 s, and a new one
//! is named before it has loaded its log: what is found here is a hint, which the next answer may
//! contradict.

use kafka_protocol::messages::FindCoordinatorRequest;
use kafka_protocol::protocol::{Request, StrBytes};

use super::client::{Answered, Client, refuse};
use super::connection::Versions;
use super::{Deadline, Error, Subject, versions};

/// The two kinds of coordinators; the numbers are those of FindCoordinator's key types.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Coordinator {
    /// Of a consumer group.
    Group = 0,
    /// Of a transactional id.
    Transaction = 1,
}

impl Coordinator {
    pub(super) fn subject(self, key: &str) -> Subject {
        match self {
            Self::Group => Subject::Group(key.to_owned()),
            Self::Transaction => Subject::TransactionalId(key.to_owned()),
        }
    }
}

impl Client {
    /// The node id of the broker that decides about a transactional id.
    ///
    /// # Errors
    /// When none is known within the deadline, or for a reason that does not pass.
    pub fn find_transaction_coordinator(&mut self, id: &str, deadline: Deadline) -> Result<i32, Error> {
        self.coordinators.remove(&(Coordinator::Transaction, id.to_owned()));
        self.retry(
            || format!("FindCoordinator on transactional id {id:?}"),
            deadline,
            |client| client.coordinator(Coordinator::Transaction, id, deadline),
        )
    }

    /// Sends a request to the coordinator of `key`, finding it first if it is not known.
    pub(super) fn call_coordinator<R: Request>(
        &mut self,
        kind: Coordinator,
        key: &str,
        request: &R,
        versions: Versions,
        deadline: Deadline,
    ) -> Result<Answered<R::Response>, Error> {
        let node_id = self.coordinator(kind, key, deadline)?;
        self.call_broker(node_id, request, versions, deadline)
    }

    pub(super) fn coordinator(
        &mut self,
        kind: Coordinator,
        key: &str,
        deadline: Deadline,
    ) -> Result<i32, Error> {
        if let Some(&node_id) = self.coordinators.get(&(kind, key.to_owned())) {
            return Ok(node_id);
        }
        let request = FindCoordinatorRequest::default()
            .with_key(StrBytes::from_string(key.to_owned()))
            .with_key_type(kind as i8);
        let Answered { answer, broker } = self.call_any(&request, versions::FIND_COORDINATOR, deadline)?;
        let text = answer.error_message.map(|text| text.to_string());
        refuse::<FindCoordinatorRequest>(&broker, || kind.subject(key), answer.error_code, text)?;
        let node_id = answer.node_id.0;
        // The answer carries the address too, but one way of learning addresses is enough.
        if !self.brokers.contains_key(&node_id) {
            self.refresh_brokers(deadline)?;
        }
        self.coordinators.insert((kind, key.to_owned()), node_id);
        Ok(node_id)
    }
}
