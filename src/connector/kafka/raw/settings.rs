//! The connection settings, read from the same librdkafka properties that carry the data.
//!
//! One set of names for both clients: what a user wrote for librdkafka must mean the same here, and
//! what this client cannot do is refused at start instead of being ignored.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use super::Error;

/// Where the brokers are and how to talk to them.
#[derive(Debug, Clone)]
pub struct Settings {
    /// `host:port` of every bootstrap server, at least one.
    pub(super) bootstrap: Vec<String>,
    /// The name shown in the brokers' logs and quotas.
    pub(super) client_id: String,
    /// TLS, if the security protocol asks for it.
    pub(super) tls: Option<TlsSettings>,
    /// SASL, if the security protocol asks for it.
    pub(super) sasl: Option<SaslSettings>,
    /// How long one connection may take to open, TLS and SASL included.
    pub(super) connect_timeout: Duration,
    /// How long one request may stay unanswered before it is asked again on another connection.
    pub(super) request_timeout: Duration,
}

/// A certificate, a key or an authority: in a file or in the settings themselves.
#[derive(Clone, PartialEq, Eq)]
pub(super) enum Pem {
    /// The path of a PEM file (for authorities also of a folder of hashed certificates).
    File(PathBuf),
    /// PEM text.
    Text(String),
}

/// A text that is never printed.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Secret(pub(super) String);

/// How to speak TLS.
#[derive(Debug, Clone, Default)]
pub(super) struct TlsSettings {
    /// Trusted authorities; `None`: those of the system.
    pub(super) authorities: Option<Pem>,
    /// The client's own certificate chain.
    pub(super) certificate: Option<Pem>,
    /// The client's private key.
    pub(super) key: Option<Pem>,
    /// The password of the private key or of the key store.
    pub(super) key_password: Option<Secret>,
    /// A PKCS#12 file with certificate chain and key, and its password.
    pub(super) keystore: Option<(PathBuf, Option<Secret>)>,
    /// OpenSSL's cipher list for TLS 1.2.
    pub(super) ciphers: Option<String>,
    /// Supported groups.
    pub(super) curves: Option<String>,
    /// Supported signature algorithms.
    pub(super) signature_algorithms: Option<String>,
    /// Do not compare the broker's name with its certificate.
    pub(super) any_host_name: bool,
    /// Do not verify the broker's certificate at all.
    pub(super) any_certificate: bool,
}

/// The SASL mechanisms that this client speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mechanism {
    /// Name and password in one token (RFC 4616).
    Plain,
    /// Salted challenge and response with SHA-256 (RFC 5802, RFC 7677).
    ScramSha256,
    /// The same with SHA-512.
    ScramSha512,
}

impl Mechanism {
    /// The name on the wire and in the settings.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Plain => "PLAIN",
            Self::ScramSha256 => "SCRAM-SHA-256",
            Self::ScramSha512 => "SCRAM-SHA-512",
        }
    }
}

/// How to authenticate.
#[derive(Debug, Clone)]
pub(super) struct SaslSettings {
    pub(super) mechanism: Mechanism,
    pub(super) user: String,
    pub(super) password: Secret,
}

/// Settings of these two families that are understood; any other one is refused, since ignoring a
/// security setting could mean less security than the user asked for.
const UNDERSTOOD: &[&str] = &[
    "sasl.mechanism",
    "sasl.mechanisms",
    "sasl.username",
    "sasl.password",
    "ssl.ca.location",
    "ssl.ca.pem",
    "ssl.certificate.location",
    "ssl.certificate.pem",
    "ssl.cipher.suites",
    "ssl.curves.list",
    "ssl.endpoint.identification.algorithm",
    "ssl.key.location",
    "ssl.key.password",
    "ssl.key.pem",
    "ssl.keystore.location",
    "ssl.keystore.password",
    "ssl.sigalgs.list",
];

impl Settings {
    /// Reads librdkafka properties. Those that say nothing about connections and security are none of
    /// this client's business and are skipped.
    ///
    /// # Errors
    /// [`Error::Settings`] for the first property that is missing, malformed, or asks for what only
    /// librdkafka can do (Kerberos, OAUTHBEARER, revocation lists, engines).
    pub fn from_librdkafka(properties: &BTreeMap<String, String>) -> Result<Self, Error> {
        for name in properties.keys().filter(|k| k.starts_with("ssl.") || k.starts_with("sasl.")) {
            if !UNDERSTOOD.contains(&name.as_str()) {
                return Err(Error::Settings {
                    key: "security",
                    problem: format!("{name} is not supported by the transaction client; remove it"),
                });
            }
        }
        let get = |name: &str| properties.get(name).map(|v| v.trim().to_owned()).filter(|v| !v.is_empty());
        let protocol = get("security.protocol").unwrap_or_else(|| "plaintext".to_owned()).to_lowercase();
        let (tls, sasl) = match protocol.as_str() {
            "plaintext" => (false, false),
            "ssl" => (true, false),
            "sasl_plaintext" => (false, true),
            "sasl_ssl" => (true, true),
            other => {
                return Err(Error::Settings {
                    key: "security.protocol",
                    problem: format!("{other:?} is not one of plaintext, ssl, sasl_plaintext, sasl_ssl"),
                });
            }
        };
        Ok(Self {
            bootstrap: bootstrap(get("bootstrap.servers").or_else(|| get("metadata.broker.list")))?,
            client_id: get("client.id").unwrap_or_else(|| "tidegate".to_owned()),
            tls: if tls { Some(TlsSettings::read(&get)?) } else { None },
            sasl: if sasl { Some(SaslSettings::read(&get, properties)?) } else { None },
            connect_timeout: Duration::from_secs(5),
            request_timeout: Duration::from_secs(5),
        })
    }

    /// Sets how long one connection may take to open, TLS and SASL included. Default: 5 s.
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// Sets how long one request may stay unanswered before it is asked again on another connection.
    /// Default: 5 s.
    pub fn request_timeout(mut self, timeout: Duration) -> Self {
        self.request_timeout = timeout;
        self
    }
}

impl TlsSettings {
    fn read(get: &impl Fn(&str) -> Option<String>) -> Result<Self, Error> {
        let pem = |text: &str, file: &str| {
            get(text).map(Pem::Text).or_else(|| get(file).map(|path| Pem::File(PathBuf::from(path))))
        };
        let any_host_name = match get("ssl.endpoint.identification.algorithm").as_deref() {
            None | Some("https") => false,
            Some("none") => true,
            Some(other) => {
                return Err(Error::Settings {
                    key: "ssl.endpoint.identification.algorithm",
                    problem: format!("{other:?} is neither https nor none"),
                });
            }
        };
        let any_certificate = match get("enable.ssl.certificate.verification").as_deref() {
            None | Some("true" | "t" | "1") => false,
            Some("false" | "f" | "0") => true,
            Some(other) => {
                return Err(Error::Settings {
                    key: "enable.ssl.certificate.verification",
                    problem: format!("{other:?} is neither true nor false"),
                });
            }
        };
        let keystore_password = get("ssl.keystore.password").map(Secret);
        Ok(Self {
            // "probe" is librdkafka's word for the system's authorities, which is the default here.
            authorities: pem("ssl.ca.pem", "ssl.ca.location")
                .filter(|ca| *ca != Pem::File(PathBuf::from("probe"))),
            certificate: pem("ssl.certificate.pem", "ssl.certificate.location"),
            key: pem("ssl.key.pem", "ssl.key.location"),
            key_password: get("ssl.key.password").map(Secret),
            keystore: get("ssl.keystore.location").map(|path| (PathBuf::from(path), keystore_password)),
            ciphers: get("ssl.cipher.suites"),
            curves: get("ssl.curves.list"),
            signature_algorithms: get("ssl.sigalgs.list"),
            any_host_name,
            any_certificate,
        })
    }
}

impl SaslSettings {
    fn read(
        get: &impl Fn(&str) -> Option<String>,
        properties: &BTreeMap<String, String>,
    ) -> Result<Self, Error> {
        let wanted = get("sasl.mechanism").or_else(|| get("sasl.mechanisms"));
        let mechanism = match wanted.as_deref() {
            Some("PLAIN") => Mechanism::Plain,
            Some("SCRAM-SHA-256") => Mechanism::ScramSha256,
            Some("SCRAM-SHA-512") => Mechanism::ScramSha512,
            other => {
                return Err(Error::Settings {
                    key: "sasl.mechanism",
                    problem: format!(
                        "{} is not supported: use PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512",
                        other.unwrap_or("GSSAPI (the default of librdkafka)")
                    ),
                });
            }
        };
        let user = get("sasl.username").ok_or_else(|| Error::Settings {
            key: "sasl.username",
            problem: format!("is missing, but {} needs it", mechanism.name()),
        })?;
        // Not trimmed: blanks may belong to a password.
        let password = properties.get("sasl.password").filter(|p| !p.is_empty());
        let password = password.cloned().map(Secret).ok_or_else(|| Error::Settings {
            key: "sasl.password",
            problem: format!("is missing, but {} needs it", mechanism.name()),
        })?;
        Ok(Self { mechanism, user, password })
    }
}

/// Splits the list of servers; a scheme is dropped and the port defaults to 9092, as in librdkafka.
fn bootstrap(value: Option<String>) -> Result<Vec<String>, Error> {
    let problem = |problem: String| Error::Settings { key: "bootstrap.servers", problem };
    let value = value.ok_or_else(|| problem("is missing: give host:port, comma-separated".to_owned()))?;
    let servers = value
        .split(',')
        .map(str::trim)
        .filter(|server| !server.is_empty())
        .map(|server| {
            let address = server.split_once("://").map_or(server, |(_, rest)| rest);
            let has_port = match address.rfind(']') {
                Some(end) => address[end..].contains(':'),
                None => address.contains(':'),
            };
            let full = if has_port { address.to_owned() } else { format!("{address}:9092") };
            match full.rsplit_once(':') {
                Some((host, port)) if !host.is_empty() && port.parse::<u16>().is_ok() => Ok(full),
                _ => Err(problem(format!("{server:?} is not host:port"))),
            }
        })
        .collect::<Result<Vec<_>, _>>()?;
    if servers.is_empty() { Err(problem("names no server".to_owned())) } else { Ok(servers) }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(not shown)")
    }
}

impl fmt::Debug for Pem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "file {}", path.display()),
            Self::Text(_) => f.write_str("PEM text (not shown)"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pairs: &[(&str, &str)]) -> Result<Settings, Error> {
        Settings::from_librdkafka(&pairs.iter().map(|(k, v)| ((*k).into(), (*v).into())).collect())
    }

    #[test]
    fn servers_may_lack_a_port_and_carry_a_scheme() {
        let settings = read(&[("bootstrap.servers", "a, SSL://b:19092 ,[::1],[::1]:7")]).unwrap();
        assert_eq!(settings.bootstrap, ["a:9092", "b:19092", "[::1]:9092", "[::1]:7"]);
        assert!(settings.tls.is_none() && settings.sasl.is_none());
    }

    #[test]
    fn what_cannot_work_is_refused_by_name() {
        let sasl = [("bootstrap.servers", "a"), ("security.protocol", "SASL_PLAINTEXT")];
        let cases: &[(&[(&str, &str)], &str)] = &[
            (&[], "bootstrap.servers: is missing"),
            (&[("bootstrap.servers", " , ")], "names no server"),
            (&[("bootstrap.servers", "a:port")], "\"a:port\" is not host:port"),
            (&[("bootstrap.servers", "a"), ("security.protocol", "tls")], "\"tls\" is not one of"),
            (&[("bootstrap.servers", "a"), ("ssl.crl.location", "x")], "ssl.crl.location is not supported"),
            (&sasl, "GSSAPI (the default of librdkafka) is not supported"),
            (&[sasl[0], sasl[1], ("sasl.mechanism", "OAUTHBEARER")], "OAUTHBEARER is not supported"),
            (&[sasl[0], sasl[1], ("sasl.mechanisms", "PLAIN")], "sasl.username: is missing"),
            (
                &[sasl[0], sasl[1], ("sasl.mechanisms", "PLAIN"), ("sasl.username", "u")],
                "sasl.password: is missing",
            ),
        ];
        for (pairs, expected) in cases {
            let text = read(pairs).unwrap_err().to_string();
            assert!(text.contains(expected), "{pairs:?}: {text}");
        }
    }

    #[test]
    fn secrets_are_not_printed() {
        let settings = read(&[
            ("bootstrap.servers", "a"),
            ("security.protocol", "sasl_ssl"),
            ("sasl.mechanism", "SCRAM-SHA-512"),
            ("sasl.username", "u"),
            ("sasl.password", "hunter2"),
            ("ssl.key.pem", "hunter2"),
            ("ssl.key.password", "hunter2"),
        ])
        .unwrap();
        assert!(!format!("{settings:?}").contains("hunter2"));
        assert_eq!(settings.sasl.unwrap().mechanism, Mechanism::ScramSha512);
    }
}
