//! One connection to one broker: frames, correlation ids, versions.
//!
//! Its law: one request at a time, and after any failure the connection is closed, so that a late
//! answer can never be taken for the answer to a later request.

use std::collections::BTreeMap;
use std::io;
use std::time::Instant;

use bytes::{BufMut, Bytes, BytesMut};
use kafka_protocol::messages::{ApiVersionsRequest, RequestHeader, ResponseHeader};
use kafka_protocol::protocol::{Decodable, Encodable, HeaderVersion, Request, StrBytes};

use super::transport::Transport;
use super::{Code, Deadline, Error, Settings, Subject, sasl, tls, versions};
use crate::host::clock;

/// The longest answer taken, in bytes. Brokers accept requests of up to 100 MiB by default, so that
/// no batch in a log can be longer; a "length" above this comes from a listener that speaks TLS or
/// something else altogether.
const LONGEST_ANSWER: usize = 128 << 20;

/// First and last version of a request that this client can use.
pub(super) type Versions = (i16, i16);

/// An open connection that has shaken hands.
pub(super) struct Connection {
    broker: String,
    client_id: StrBytes,
    transport: Transport,
    next_correlation_id: i32,
    /// By API key: first and last version that the broker speaks.
    offered: BTreeMap<i16, Versions>,
    /// When the SASL session nears its end, after which the broker closes the connection in silence.
    replace_at: Option<Instant>,
}

impl Connection {
    /// Connects to `broker` (`host:port`), asks for its versions and authenticates.
    pub(super) fn open(broker: &str, settings: &Settings, deadline: Deadline) -> Result<Self, Error> {
        let deadline = deadline.at_most(settings.connect_timeout);
        let mut connection = Self {
            broker: broker.to_owned(),
            client_id: StrBytes::from_string(settings.client_id.clone()),
            transport: Transport::open(broker, settings, deadline)?,
            next_correlation_id: 0,
            offered: BTreeMap::new(),
            replace_at: None,
        };
        connection.ask_versions(deadline)?;
        if let Some(sasl) = &settings.sasl {
            connection.replace_at = sasl::authenticate(&mut connection, sasl, deadline)?;
        }
        Ok(connection)
    }

    /// `host:port` of the broker.
    pub(super) fn broker(&self) -> &str {
        &self.broker
    }

    /// Whether a new connection should take over, since this one's SASL session ends soon.
    pub(super) fn worn_out(&self) -> bool {
        self.replace_at.is_some_and(|at| clock::until(at).is_zero())
    }

    /// Sends a request in the newest version that both sides know and waits for the answer.
    pub(super) fn call<R: Request>(
        &mut self,
        request: &R,
        usable: Versions,
        deadline: Deadline,
    ) -> Result<R::Response, Error> {
        let version = self.version::<R>(usable)?;
        self.call_in_version(request, version, deadline)
    }

    /// The newest version of a request that both sides know.
    pub(super) fn version<R: Request>(&self, usable: Versions) -> Result<i16, Error> {
        let offered = self.offered.get(&R::KEY).copied();
        let newest = offered.map(|(min, max)| (usable.0.max(min), usable.1.min(max)));
        match newest {
            Some((min, max)) if min <= max => Ok(max),
            _ => Err(Error::Version {
                broker: self.broker.clone(),
                request: request_name::<R>(),
                needed: usable,
                offered,
            }),
        }
    }

    fn ask_versions(&mut self, deadline: Deadline) -> Result<(), Error> {
        let answer = self.call_in_version(&versions_request(), versions::API_VERSIONS.1, deadline)?;
        self.offered =
            answer.api_keys.iter().map(|api| (api.api_key, (api.min_version, api.max_version))).collect();
        match Code::of(answer.error_code) {
            None => Ok(()),
            Some(Code::UNSUPPORTED_VERSION) => Err(Error::Version {
                broker: self.broker.clone(),
                request: "ApiVersions",
                needed: versions::API_VERSIONS,
                offered: self.offered.get(&ApiVersionsRequest::KEY).copied(),
            }),
            Some(code) => Err(Error::Answer {
                broker: self.broker.clone(),
                request: "ApiVersions",
                subject: Subject::Cluster,
                code,
                text: None,
            }),
        }
    }

    fn call_in_version<R: Request>(
        &mut self,
        request: &R,
        version: i16,
        deadline: Deadline,
    ) -> Result<R::Response, Error> {
        let name = request_name::<R>();
        let correlation_id = self.next_correlation_id;
        self.next_correlation_id = correlation_id.wrapping_add(1);
        let frame = encode(request, version, correlation_id, &self.client_id)
            .map_err(|problem| Error::Malformed { broker: self.broker.clone(), request: name, problem })?;
        let mut answer = self
            .exchange(&frame, deadline)
            .map_err(|failure| failure.into_error(&self.broker, name, deadline))?;
        let malformed = |problem| Error::Malformed { broker: self.broker.clone(), request: name, problem };
        let header = ResponseHeader::decode(&mut answer, R::Response::header_version(version))
            .map_err(|e| malformed(format!("header: {e}")))?;
        if header.correlation_id != correlation_id {
            return Err(malformed(format!(
                "correlation id {} instead of {correlation_id}",
                header.correlation_id
            )));
        }
        // An answer in version 0 is how a broker says that it does not know this ApiVersions version.
        if R::KEY == ApiVersionsRequest::KEY && answer.len() >= 2 && answer[..2] == 35i16.to_be_bytes() {
            return R::Response::decode(&mut answer, 0).map_err(|e| malformed(e.to_string()));
        }
        R::Response::decode(&mut answer, version).map_err(|e| malformed(e.to_string()))
    }

    /// Sends a frame and reads one.
    fn exchange(&mut self, frame: &[u8], deadline: Deadline) -> Result<Bytes, Failure> {
        self.transport.send(frame, deadline)?;
        let mut length = [0; 4];
        self.transport.receive(&mut length, deadline)?;
        let found = i32::from_be_bytes(length);
        let length = usize::try_from(found).ok().filter(|n| (4..=LONGEST_ANSWER).contains(n));
        let Some(length) = length else {
            return Err(Failure::Length(found));
        };
        let mut body = BytesMut::zeroed(length);
        self.transport.receive(&mut body, deadline)?;
        Ok(body.freeze())
    }
}

/// The request for versions and cluster features.
pub(super) fn versions_request() -> ApiVersionsRequest {
    ApiVersionsRequest::default()
        .with_client_software_name(StrBytes::from_static_str("tidegate"))
        .with_client_software_version(StrBytes::from_static_str(env!("CARGO_PKG_VERSION")))
}

/// Why an exchange failed.
enum Failure {
    Io(io::Error),
    Length(i32),
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl Failure {
    fn into_error(self, broker: &str, request: &'static str, deadline: Deadline) -> Error {
        let broker = broker.to_owned();
        match self {
            Self::Io(source) if source.kind() == io::ErrorKind::TimedOut => {
                Error::NoAnswer { broker, request, waited: deadline.budget() }
            }
            Self::Io(source) if tls::refuses_certificate(&source) => {
                Error::Tls { broker, problem: format!("the broker refused our certificate: {source}") }
            }
            Self::Io(source) => Error::Network { broker, request, source },
            Self::Length(found) => Error::Malformed {
                broker,
                request,
                problem: format!(
                    "a frame of {found} bytes, expected 4 to {LONGEST_ANSWER}; a listener that speaks TLS \
                     looks like this to a client without TLS: check security.protocol"
                ),
            },
        }
    }
}

fn encode<R: Request>(
    request: &R,
    version: i16,
    correlation_id: i32,
    client_id: &StrBytes,
) -> Result<BytesMut, String> {
    let header = RequestHeader::default()
        .with_request_api_key(R::KEY)
        .with_request_api_version(version)
        .with_correlation_id(correlation_id)
        .with_client_id(Some(client_id.clone()));
    let mut frame = BytesMut::with_capacity(256);
    frame.put_i32(0);
    header.encode(&mut frame, R::header_version(version)).map_err(|e| format!("request header: {e}"))?;
    request.encode(&mut frame, version).map_err(|e| format!("request version {version}: {e}"))?;
    let length = i32::try_from(frame.len() - 4).map_err(|_| "a request above 2 GiB".to_owned())?;
    frame[..4].as_mut().put_i32(length);
    Ok(frame)
}

/// The name of a request, as the protocol's documentation spells it.
pub(super) fn request_name<R: Request>() -> &'static str {
    let full = std::any::type_name::<R>();
    let short = full.rsplit("::").next().unwrap_or(full);
    short.strip_suffix("Request").unwrap_or(short)
}
