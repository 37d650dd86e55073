//! Authenticating a fresh connection: SaslHandshake, then the mechanism's tokens in SaslAuthenticate.

use std::time::{Duration, Instant};

use bytes::Bytes;
use kafka_protocol::messages::{SaslAuthenticateRequest, SaslHandshakeRequest};
use kafka_protocol::protocol::StrBytes;
use openssl::base64::encode_block;
use openssl::hash::MessageDigest;
use openssl::rand::rand_bytes;

use super::connection::Connection;
use super::scram;
use super::settings::{Mechanism, SaslSettings};
use super::{Code, Deadline, Error, versions};
use crate::host::clock;

/// Authenticates; says when the session should be replaced by a new one, if the broker limits its life
/// (`connections.max.reauth.ms`).
pub(super) fn authenticate(
    connection: &mut Connection,
    settings: &SaslSettings,
    deadline: Deadline,
) -> Result<Option<Instant>, Error> {
    let mechanism = settings.mechanism.name();
    let request = SaslHandshakeRequest::default().with_mechanism(StrBytes::from_static_str(mechanism));
    let answer = connection.call(&request, versions::SASL_HANDSHAKE, deadline)?;
    if let Some(code) = Code::of(answer.error_code) {
        if code == Code::UNSUPPORTED_SASL_MECHANISM {
            return Err(Error::Mechanism {
                broker: connection.broker().to_owned(),
                mechanism,
                offered: answer.mechanisms.iter().map(|name| name.to_string()).collect(),
            });
        }
        return Err(refused(connection, settings, format!("SaslHandshake: {code}")));
    }
    let lifetime = match settings.mechanism {
        Mechanism::Plain => {
            let token = format!("\0{}\0{}", settings.user, settings.password.0);
            send_token(connection, settings, token, deadline)?.1
        }
        Mechanism::ScramSha256 => scram(connection, settings, MessageDigest::sha256(), deadline)?,
        Mechanism::ScramSha512 => scram(connection, settings, MessageDigest::sha512(), deadline)?,
    };
    // A fifth of the life is left for the request under way when the time comes.
    Ok((!lifetime.is_zero()).then(|| clock::now() + lifetime.mul_f64(0.8)))
}

fn scram(
    connection: &mut Connection,
    settings: &SaslSettings,
    digest: MessageDigest,
    deadline: Deadline,
) -> Result<Duration, Error> {
    // From the TLS library, not from the host's generator: a nonce must be hard to guess.
    let mut random = [0; 24];
    rand_bytes(&mut random).map_err(|e| refused(connection, settings, format!("no random bytes: {e}")))?;
    let nonce = encode_block(&random);
    let start = scram::Start { digest, user: &settings.user, password: &settings.password.0, nonce: &nonce };
    let (challenge, _) = send_token(connection, settings, start.first(), deadline)?;
    let (last, proven) =
        start.answer(&challenge).map_err(|problem| refused(connection, settings, problem))?;
    let (proof, lifetime) = send_token(connection, settings, last, deadline)?;
    proven.verify(&proof).map_err(|problem| refused(connection, settings, problem))?;
    Ok(lifetime)
}

/// Sends one token; gives the broker's and the life of the session (zero: unlimited or not yet known).
fn send_token(
    connection: &mut Connection,
    settings: &SaslSettings,
    token: String,
    deadline: Deadline,
) -> Result<(Bytes, Duration), Error> {
    let request = SaslAuthenticateRequest::default().with_auth_bytes(Bytes::from(token));
    let answer = connection.call(&request, versions::SASL_AUTHENTICATE, deadline)?;
    match Code::of(answer.error_code) {
        None => {
            let lifetime = u64::try_from(answer.session_lifetime_ms).unwrap_or(0);
            Ok((answer.auth_bytes, Duration::from_millis(lifetime)))
        }
        Some(code) => {
            let text = answer.error_message.as_deref().unwrap_or("without a text").to_owned();
            Err(refused(connection, settings, format!("{code}: {text}")))
        }
    }
}

fn refused(connection: &Connection, settings: &SaslSettings, problem: String) -> Error {
    Error::Authentication {
        broker: connection.broker().to_owned(),
        mechanism: settings.mechanism.name(),
        user: settings.user.clone(),
        problem,
    }
}
