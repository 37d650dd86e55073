//! TLS by OpenSSL, the library that librdkafka uses too, so that the same files and names work.
//!
//! The context is made anew for every connection: connections are few, and renewed certificates are
//! then picked up without a restart.

use std::fs;
use std::io;
use std::net::TcpStream;
use std::path::Path;

use openssl::error::ErrorStack;
use openssl::pkcs12::Pkcs12;
use openssl::pkey::{PKey, Private};
use openssl::ssl::{
    self, HandshakeError, MidHandshakeSslStream, SslConnector, SslConnectorBuilder, SslFiletype, SslMethod,
    SslStream, SslVerifyMode,
};
use openssl::x509::store::{X509Lookup, X509StoreBuilder};
use openssl::x509::{X509, X509VerifyResult};

use super::settings::{Pem, Secret, TlsSettings};
use super::{Deadline, Error};

/// Shakes hands over an open TCP connection whose socket timeouts are set by the caller.
pub(super) fn connect(
    broker: &str,
    stream: TcpStream,
    settings: &TlsSettings,
    deadline: Deadline,
) -> Result<SslStream<TcpStream>, Error> {
    let host = broker.rsplit_once(':').map_or(broker, |(host, _)| host);
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let refused = |problem| Error::Tls { broker: broker.to_owned(), problem };
    let mut configuration = connector(settings)?
        .configure()
        .map_err(|error| refused(error.to_string()))?
        .verify_hostname(!settings.any_host_name);
    if settings.any_certificate {
        configuration.set_verify(SslVerifyMode::NONE);
    }
    let mut outcome = configuration.connect(host, stream);
    loop {
        match outcome {
            Ok(stream) => return Ok(stream),
            Err(HandshakeError::SetupFailure(error)) => return Err(refused(error.to_string())),
            Err(HandshakeError::WouldBlock(unfinished)) => {
                if deadline.passed() {
                    let source = io::ErrorKind::TimedOut.into();
                    return Err(Error::Connect { broker: broker.to_owned(), source });
                }
                outcome = unfinished.handshake();
            }
            Err(HandshakeError::Failure(failed)) => return Err(explain(broker, &failed)),
        }
    }
}

/// Tells a handshake that can never succeed from one that was cut off.
fn explain(broker: &str, failed: &MidHandshakeSslStream<TcpStream>) -> Error {
    let verified = failed.ssl().verify_result();
    if verified != X509VerifyResult::OK {
        let hint = "check ssl.ca.location, and that the certificate bears the name by which the broker is \
                    addressed";
        let problem = format!("the broker's certificate is not trusted: {}; {hint}", verified.error_string());
        return Error::Tls { broker: broker.to_owned(), problem };
    }
    match failed.error().ssl_error() {
        Some(stack) if !cut_off(stack) => {
            let hint = if has_reason(stack, &["wrong version number", "packet length too long"]) {
                "; the listener does not speak TLS: check security.protocol and the port"
            } else {
                ""
            };
            Error::Tls { broker: broker.to_owned(), problem: format!("{stack}{hint}") }
        }
        _ => Error::Connect {
            broker: broker.to_owned(),
            source: io::Error::other(format!(
                "TLS handshake: {} (so it ends with a listener that does not speak TLS, too)",
                failed.error()
            )),
        },
    }
}

/// Whether an error of an established connection is the broker's refusal of our certificate, which TLS
/// 1.3 says only after the handshake.
pub(super) fn refuses_certificate(error: &io::Error) -> bool {
    let error = error.get_ref().and_then(|inner| inner.downcast_ref::<ssl::Error>());
    let reasons = ["certificate", "unknown ca", "access denied", "handshake failure"];
    error.and_then(ssl::Error::ssl_error).is_some_and(|stack| has_reason(stack, &reasons))
}

fn cut_off(stack: &ErrorStack) -> bool {
    has_reason(stack, &["unexpected eof"])
}

fn has_reason(stack: &ErrorStack, reasons: &[&str]) -> bool {
    let found = stack.errors().iter().filter_map(|error| error.reason());
    found.map(str::to_lowercase).any(|text| reasons.iter().any(|reason| text.contains(reason)))
}

/// Reads all files and makes a context of them.
fn connector(settings: &TlsSettings) -> Result<SslConnector, Error> {
    let mut builder =
        SslConnector::builder(SslMethod::tls_client()).map_err(|e| bad("security.protocol", &e))?;
    if let Some(authorities) = &settings.authorities {
        trust(&mut builder, authorities)?;
    }
    identify(&mut builder, settings)?;
    if let Some(ciphers) = &settings.ciphers {
        builder.set_cipher_list(ciphers).map_err(|e| bad("ssl.cipher.suites", &e))?;
    }
    if let Some(curves) = &settings.curves {
        builder.set_groups_list(curves).map_err(|e| bad("ssl.curves.list", &e))?;
    }
    if let Some(algorithms) = &settings.signature_algorithms {
        builder.set_sigalgs_list(algorithms).map_err(|e| bad("ssl.sigalgs.list", &e))?;
    }
    Ok(builder.build())
}

/// Trusts these authorities instead of the system's.
fn trust(builder: &mut SslConnectorBuilder, authorities: &Pem) -> Result<(), Error> {
    let key = key_of(authorities, "ssl.ca.pem", "ssl.ca.location");
    let fail = |e: ErrorStack| bad(key, &e);
    let mut store = X509StoreBuilder::new().map_err(fail)?;
    match authorities {
        Pem::File(path) if path.is_dir() => {
            let lookup = store.add_lookup(X509Lookup::hash_dir()).map_err(fail)?;
            lookup.add_dir(text(path, key)?, SslFiletype::PEM).map_err(fail)?;
        }
        pem => {
            for certificate in certificates(pem, key)? {
                store.add_cert(certificate).map_err(fail)?;
            }
        }
    }
    builder.set_cert_store(store.build());
    Ok(())
}

/// Sets our own certificate chain and key, if the settings have them.
fn identify(builder: &mut SslConnectorBuilder, settings: &TlsSettings) -> Result<(), Error> {
    let (chain, key, name) = if let Some((path, password)) = &settings.keystore {
        let name = "ssl.keystore.location";
        let store = Pkcs12::from_der(&read(path, name)?).map_err(|e| bad(name, &e))?;
        let password = password.as_ref().map_or("", |secret| secret.0.as_str());
        let parsed = store.parse2(password).map_err(|e| bad("ssl.keystore.password", &e))?;
        let chain = parsed.cert.into_iter().chain(parsed.ca.into_iter().flatten()).collect();
        (chain, parsed.pkey, name)
    } else {
        let name = "ssl.certificate.location";
        let certificate = settings.certificate.as_ref();
        let chain = certificate.map(|pem| certificates(pem, key_of(pem, "ssl.certificate.pem", name)));
        let key = settings.key.as_ref().map(|pem| private_key(pem, settings.key_password.as_ref()));
        (chain.transpose()?.unwrap_or_default(), key.transpose()?, name)
    };
    let fail = |e: ErrorStack| bad(name, &e);
    let mut chain = chain.into_iter();
    match (chain.next(), key) {
        (None, None) => Ok(()),
        (Some(own), Some(key)) => {
            builder.set_certificate(&own).map_err(fail)?;
            for issuer in chain {
                builder.add_extra_chain_cert(issuer).map_err(fail)?;
            }
            builder.set_private_key(&key).map_err(fail)?;
            builder.check_private_key().map_err(fail)
        }
        (Some(_), None) => Err(Error::Settings {
            key: "ssl.key.location",
            problem: "is missing beside the certificate".to_owned(),
        }),
        (None, Some(_)) => {
            Err(Error::Settings { key: name, problem: "is missing beside the private key".to_owned() })
        }
    }
}

fn private_key(pem: &Pem, password: Option<&Secret>) -> Result<PKey<Private>, Error> {
    let key = key_of(pem, "ssl.key.pem", "ssl.key.location");
    let bytes = contents(pem, key)?;
    match password {
        Some(secret) => PKey::private_key_from_pem_passphrase(&bytes, secret.0.as_bytes())
            .map_err(|e| bad("ssl.key.password", &e)),
        // With an empty password instead of none OpenSSL does not ask on the terminal.
        None => PKey::private_key_from_pem_passphrase(&bytes, b"").map_err(|e| bad(key, &e)),
    }
}

fn certificates(pem: &Pem, key: &'static str) -> Result<Vec<X509>, Error> {
    let found = X509::stack_from_pem(&contents(pem, key)?).map_err(|e| bad(key, &e))?;
    if found.is_empty() {
        return Err(Error::Settings { key, problem: format!("holds no PEM certificate: {pem:?}") });
    }
    Ok(found)
}

fn contents(pem: &Pem, key: &'static str) -> Result<Vec<u8>, Error> {
    match pem {
        Pem::File(path) => read(path, key),
        Pem::Text(text) => Ok(text.clone().into_bytes()),
    }
}

fn read(path: &Path, key: &'static str) -> Result<Vec<u8>, Error> {
    fs::read(path)
        .map_err(|e| Error::Settings { key, problem: format!("cannot read {}: {e}", path.display()) })
}

fn text<'a>(path: &'a Path, key: &'static str) -> Result<&'a str, Error> {
    path.to_str().ok_or_else(|| Error::Settings { key, problem: format!("{} is not UTF-8", path.display()) })
}

fn key_of(pem: &Pem, of_text: &'static str, of_file: &'static str) -> &'static str {
    match pem {
        Pem::File(_) => of_file,
        Pem::Text(_) => of_text,
    }
}

fn bad(key: &'static str, error: &ErrorStack) -> Error {
    Error::Settings { key, problem: format!("is not usable: {error}") }
}
