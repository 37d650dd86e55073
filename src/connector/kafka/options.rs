//! The connection to a Kafka cluster: one set of librdkafka properties for data and recovery alike.

use super::raw;
use crate::model::Failure;
use std::collections::BTreeMap;

/// How a cluster is reached.
#[derive(Clone, PartialEq, Eq)]
pub struct Connection {
    properties: BTreeMap<String, String>,
}

impl Connection {
    /// Brokers as `host:port`, separated by commas.
    pub fn new(bootstrap: impl Into<String>) -> Self {
        Self { properties: BTreeMap::from([("bootstrap.servers".to_owned(), bootstrap.into())]) }
    }

    /// Sets a librdkafka property, such as `security.protocol`. The properties that exactly-once depends on are set by
    /// source and sink and win over these.
    #[must_use]
    pub fn property(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.properties.insert(name.into(), value.into());
        self
    }

    /// The brokers, for messages.
    pub fn bootstrap(&self) -> &str {
        self.properties.get("bootstrap.servers").map_or("", String::as_str)
    }

    /// Who connects, for messages.
    pub(super) fn user(&self) -> String {
        match self.properties.get("sasl.username") {
            Some(user) => format!("user {user:?}"),
            None => "this user".to_owned(),
        }
    }

    pub(super) fn properties(&self) -> &BTreeMap<String, String> {
        &self.properties
    }

    /// A client for the raw protocol with the same security settings.
    pub(super) fn raw(&self) -> Result<raw::Client, Failure> {
        let settings = raw::Settings::from_librdkafka(&self.properties).map_err(raw_failure)?;
        Ok(raw::Client::new(settings))
    }
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Other properties may hold secrets.
        f.debug_struct("Connection").field("bootstrap", &self.bootstrap()).finish_non_exhaustive()
    }
}

/// An error of the raw client as a failure of the job.
pub(super) fn raw_failure(e: raw::Error) -> Failure {
    use crate::model::Advice;
    let advice = match e.kind() {
        raw::ErrorKind::Configuration | raw::ErrorKind::Unsupported => Advice::FixConfiguration,
        _ => Advice::Restart,
    };
    Failure::new(advice, e.to_string())
}
