//! SCRAM: proving a password without sending it (RFC 5802, with SHA-256 of RFC 7677 or SHA-512).
//!
//! Pure: messages in, messages out. The three steps are three types, so that none can be left out: the
//! broker has to prove that it knows the password too, or the connection is refused. As in Kafka's own
//! client, names and passwords are taken as UTF-8 without further normalization.

use openssl::base64::{decode_block, encode_block};
use openssl::error::ErrorStack;
use openssl::hash::{MessageDigest, hash};
use openssl::memcmp;
use openssl::pkcs5::pbkdf2_hmac;
use openssl::pkey::PKey;
use openssl::sign::Signer;

/// Fewer rounds than this would make the password cheap to guess for a false broker; Kafka asks for no
/// fewer.
const FEWEST_ITERATIONS: usize = 4096;
/// More rounds than this would keep a thread busy for seconds; Kafka allows 16384.
const MOST_ITERATIONS: usize = 1 << 20;

/// No channel binding, no other identity: the header before every first message.
const HEADER: &str = "n,,";

/// Before anything was sent.
pub(super) struct Start<'a> {
    pub(super) digest: MessageDigest,
    pub(super) user: &'a str,
    pub(super) password: &'a str,
    /// Random, printable, without a comma.
    pub(super) nonce: &'a str,
}

/// After the client's proof: what the broker must prove in return.
#[derive(Debug)]
pub(super) struct Proven {
    server_signature: Vec<u8>,
}

impl Start<'_> {
    /// The client's first message.
    pub(super) fn first(&self) -> String {
        format!("{HEADER}{}", self.first_bare())
    }

    fn first_bare(&self) -> String {
        let user = self.user.replace('=', "=3D").replace(',', "=2C");
        format!("n={user},r={}", self.nonce)
    }

    /// Answers the broker's challenge with the final message.
    pub(super) fn answer(&self, challenge: &[u8]) -> Result<(String, Proven), String> {
        let challenge =
            std::str::from_utf8(challenge).map_err(|_| "the challenge is not UTF-8".to_owned())?;
        let part = |name: char| {
            let mut parts = challenge.split(',');
            parts
                .find_map(|part| part.strip_prefix(name)?.strip_prefix('='))
                .ok_or_else(|| format!("the challenge has no {name:?} part"))
        };
        if challenge.starts_with("m=") {
            return Err("the challenge needs an extension that is not known".to_owned());
        }
        let nonce = part('r')?;
        if !nonce.starts_with(self.nonce) || nonce.len() == self.nonce.len() {
            return Err("the broker's nonce does not extend ours".to_owned());
        }
        let salt = decode_block(part('s')?).map_err(|_| "the salt is not base64".to_owned())?;
        let iterations: usize = part('i')?.parse().map_err(|_| "the iterations are no number".to_owned())?;
        if !(FEWEST_ITERATIONS..=MOST_ITERATIONS).contains(&iterations) {
            return Err(format!(
                "{iterations} iterations, expected {FEWEST_ITERATIONS} to {MOST_ITERATIONS}"
            ));
        }
        let unproved = format!("c={},r={nonce}", encode_block(HEADER.as_bytes()));
        let signed = format!("{},{challenge},{unproved}", self.first_bare());
        self.prove(&salt, iterations, signed.as_bytes())
            .map(|(proof, proven)| (format!("{unproved},p={}", encode_block(&proof)), proven))
            .map_err(|error| format!("the TLS library cannot compute it: {error}"))
    }

    fn prove(&self, salt: &[u8], iterations: usize, signed: &[u8]) -> Result<(Vec<u8>, Proven), ErrorStack> {
        let mut salted = vec![0; self.digest.size()];
        pbkdf2_hmac(self.password.as_bytes(), salt, iterations, self.digest, &mut salted)?;
        let client_key = self.hmac(&salted, b"Client Key")?;
        let stored_key = hash(self.digest, &client_key)?;
        let client_signature = self.hmac(&stored_key, signed)?;
        let proof = client_key.iter().zip(&client_signature).map(|(a, b)| a ^ b).collect();
        let server_key = self.hmac(&salted, b"Server Key")?;
        Ok((proof, Proven { server_signature: self.hmac(&server_key, signed)? }))
    }

    fn hmac(&self, key: &[u8], data: &[u8]) -> Result<Vec<u8>, ErrorStack> {
        let key = PKey::hmac(key)?;
        Signer::new(self.digest, &key)?.sign_oneshot_to_vec(data)
    }
}

impl Proven {
    /// Checks the broker's proof.
    pub(super) fn verify(&self, last: &[u8]) -> Result<(), String> {
        let last = std::str::from_utf8(last).map_err(|_| "the last message is not UTF-8".to_owned())?;
        if let Some(error) = last.strip_prefix("e=") {
            return Err(format!("the broker refused: {error}"));
        }
        let found = last.strip_prefix("v=").and_then(|rest| rest.split(',').next());
        let found = found.and_then(|text| decode_block(text).ok()).unwrap_or_default();
        // Compared in constant time, and only at equal lengths.
        if found.len() == self.server_signature.len() && memcmp::eq(&found, &self.server_signature) {
            Ok(())
        } else {
            Err("the broker could not prove that it knows the password: is it the right cluster?".to_owned())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of RFC 7677, section 3.
    #[test]
    fn sha_256_gives_what_the_rfc_says() {
        let start = Start {
            digest: MessageDigest::sha256(),
            user: "user",
            password: "pencil",
            nonce: "rOprNGfwEbeRWgbNEkqO",
        };
        assert_eq!(start.first(), "n,,n=user,r=rOprNGfwEbeRWgbNEkqO");
        let challenge =
            "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";
        let (last, proven) = start.answer(challenge.as_bytes()).unwrap();
        assert_eq!(
            last,
            "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
             p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
        );
        proven.verify(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=").unwrap();
        for wrong in ["v=7rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=", "v=", "", "v=!"] {
            assert!(proven.verify(wrong.as_bytes()).is_err(), "{wrong}");
        }
        let refused = proven.verify(b"e=other-error").unwrap_err();
        assert!(refused.contains("other-error"), "{refused}");
    }

    /// No RFC has an example; this one was computed with Python's hashlib and hmac.
    #[test]
    fn sha_512_gives_what_another_implementation_says() {
        let start =
            Start { digest: MessageDigest::sha512(), user: "us,er=", password: "pencil", nonce: "abc" };
        assert_eq!(start.first(), "n,,n=us=2Cer=3D,r=abc");
        let (last, proven) = start.answer(b"r=abcdef,s=c2FsdHNhbHQ=,i=8192").unwrap();
        assert_eq!(
            last,
            "c=biws,r=abcdef,p=q8pC8oyq8S2wgEyBRHt/AhmmkQDp1o06i6RRlvZ1cXD+NpvPZ79TS9MjeU0wowhO9AJuNVhR19fpERaGvxlV2Q=="
        );
        proven
            .verify(
                b"v=a/Tp+PQy1G4eHlojIOalw82wEGNDeZYJTeYWa2GNrhB6wgOrA+D+eNJaKTfiCBO7c9oqjYbF735g7GAWQEZ5qA==",
            )
            .unwrap();
    }

    #[test]
    fn a_challenge_that_cheats_is_refused() {
        let start = Start { digest: MessageDigest::sha256(), user: "u", password: "p", nonce: "abc" };
        let cases = [
            ("r=abd,s=AAAA,i=4096", "does not extend"),
            ("r=abc,s=AAAA,i=4096", "does not extend"),
            ("s=AAAA,i=4096", "no 'r' part"),
            ("r=abcd,i=4096", "no 's' part"),
            ("r=abcd,s=AAAA", "no 'i' part"),
            ("r=abcd,s=A,i=4096", "not base64"),
            ("r=abcd,s=AAAA,i=x", "no number"),
            ("r=abcd,s=AAAA,i=1", "1 iterations"),
            ("r=abcd,s=AAAA,i=2000000000", "2000000000 iterations"),
            ("m=x,r=abcd,s=AAAA,i=4096", "extension"),
        ];
        for (challenge, expected) in cases {
            let problem = start.answer(challenge.as_bytes()).unwrap_err();
            assert!(problem.contains(expected), "{challenge}: {problem}");
        }
        assert!(start.answer(&[0xff]).is_err());
    }
}
