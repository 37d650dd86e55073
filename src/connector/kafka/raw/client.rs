//! The client: one connection per broker, and asking again until a deadline.
//!
//! Its law: nothing is remembered that a failure could have made wrong. After a failed attempt the
//! coordinator is looked up again and the leaders are read from fresh metadata.

use std::collections::BTreeMap;
use std::thread;
use std::time::Duration;

use kafka_protocol::protocol::Request;
use tracing::debug;

use super::connection::{Connection, Versions, request_name};
use super::coordinator::Coordinator;
use super::{Code, Deadline, Error, Settings, Subject};
use crate::host::random;

/// The first pause between two attempts; it doubles up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(20);
/// The longest pause between two attempts.
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// A blocking Kafka client for the few requests of recovery, checks and group commits.
///
/// It opens connections when they are needed. It is `Send`, and every method takes `&mut self`: a
/// thread that needs one makes its own.
pub struct Client {
    pub(super) settings: Settings,
    /// `host:port` by node id, as the newest metadata says.
    pub(super) brokers: BTreeMap<i32, String>,
    /// Open connections by `host:port`.
    connections: BTreeMap<String, Connection>,
    /// Coordinators found and not yet doubted.
    pub(super) coordinators: BTreeMap<(Coordinator, String), i32>,
}

/// A broker's answer and where it came from.
pub(super) struct Answered<T> {
    /// The answer.
    pub(super) answer: T,
    /// `host:port` of the broker.
    pub(super) broker: String,
}

impl Client {
    /// A client that has not connected to anything yet.
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            brokers: BTreeMap::new(),
            connections: BTreeMap::new(),
            coordinators: BTreeMap::new(),
        }
    }

    /// Sends a request to the broker with this node id.
    pub(super) fn call_broker<R: Request>(
        &mut self,
        node_id: i32,
        request: &R,
        versions: Versions,
        deadline: Deadline,
    ) -> Result<Answered<R::Response>, Error> {
        if !self.brokers.contains_key(&node_id) {
            self.refresh_brokers(deadline)?;
        }
        let address = self.brokers.get(&node_id).cloned().ok_or_else(|| Error::Answer {
            broker: "of the last metadata".to_owned(),
            request: request_name::<R>(),
            subject: Subject::Broker(node_id),
            code: Code::BROKER_NOT_AVAILABLE,
            text: Some("metadata does not list it".to_owned()),
        })?;
        self.call_address(&address, request, versions, deadline)
    }

    /// Sends a request to whichever broker answers, those with an open connection first.
    pub(super) fn call_any<R: Request>(
        &mut self,
        request: &R,
        versions: Versions,
        deadline: Deadline,
    ) -> Result<Answered<R::Response>, Error> {
        let known = self.brokers.values().chain(&self.settings.bootstrap);
        let mut candidates: Vec<String> = self.connections.keys().cloned().collect();
        for address in known {
            if !candidates.contains(address) {
                candidates.push(address.clone());
            }
        }
        let mut last = None;
        let mut left = u32::try_from(candidates.len()).unwrap_or(u32::MAX);
        for address in candidates {
            // One that swallows everything must not use up the time of the others.
            let share = deadline.at_most(deadline.left() / left);
            left -= 1;
            match self.call_address(&address, request, versions, share) {
                Err(error) if error.passes() && !deadline.passed() => last = Some(error),
                other => return other,
            }
        }
        Err(last.expect("because settings hold at least one bootstrap server"))
    }

    fn call_address<R: Request>(
        &mut self,
        address: &str,
        request: &R,
        versions: Versions,
        deadline: Deadline,
    ) -> Result<Answered<R::Response>, Error> {
        // The time to connect does not count: it has a limit of its own.
        let limit = self.settings.request_timeout;
        self.with_connection(address, deadline, |connection| {
            let answer = connection.call(request, versions, deadline.at_most(limit))?;
            Ok(Answered { answer, broker: connection.broker().to_owned() })
        })
    }

    /// Uses the connection to `address`, which is opened if there is none.
    pub(super) fn with_connection<T>(
        &mut self,
        address: &str,
        deadline: Deadline,
        body: impl FnOnce(&mut Connection) -> Result<T, Error>,
    ) -> Result<T, Error> {
        // Taken out and put back only after success: a connection in doubt is never used again.
        let mut connection = match self.connections.remove(address) {
            Some(open) if !open.worn_out() => open,
            _ => Connection::open(address, &self.settings, deadline)?,
        };
        match body(&mut connection) {
            Err(error) if error.breaks_connection() => Err(error),
            result => {
                self.connections.insert(address.to_owned(), connection);
                result
            }
        }
    }

    /// Takes over the brokers of fresh metadata and closes connections to those that left.
    pub(super) fn know_brokers(&mut self, brokers: BTreeMap<i32, String>) {
        let bootstrap = &self.settings.bootstrap;
        self.connections.retain(|address, _| {
            bootstrap.contains(address) || brokers.values().any(|known| known == address)
        });
        self.brokers = brokers;
    }

    /// Attempts something until it succeeds, fails for a reason that does not pass, or `deadline` is
    /// over. `what` names it in the error.
    pub(super) fn retry<T>(
        &mut self,
        what: impl Fn() -> String,
        deadline: Deadline,
        mut attempt: impl FnMut(&mut Self) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let mut pause = FIRST_PAUSE;
        let mut last = None;
        while !deadline.passed() {
            match attempt(self) {
                Err(error) if error.passes() => {
                    debug!(operation = what(), %error, "will ask again");
                    if error.code() != Some(Code::CONCURRENT_TRANSACTIONS) {
                        self.coordinators.clear();
                    }
                    last = Some(Box::new(error));
                }
                other => return other,
            }
            thread::sleep(pause.mul_f64(0.5 + random::fraction() / 2.0).min(deadline.left()));
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
        Err(Error::Deadline { what: what(), budget: deadline.budget(), last })
    }
}

/// Turns an error code of an answer into an error.
pub(super) fn refuse<R: Request>(
    broker: &str,
    subject: impl FnOnce() -> Subject,
    code: i16,
    text: Option<String>,
) -> Result<(), Error> {
    match Code::of(code) {
        None => Ok(()),
        Some(code) => Err(Error::Answer {
            broker: broker.to_owned(),
            request: request_name::<R>(),
            subject: subject(),
            code,
            text,
        }),
    }
}
