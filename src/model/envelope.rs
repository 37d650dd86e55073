//! The frame around everything that is written to storage.
//!
//! ```text
//! magic [4] | format version u16 | length of the body u64 | body | CRC-32 of all before u32    (big endian)
//! ```
//!
//! A reader learns what a file is, whether this program can read it, and that no byte of it has changed.

const HEAD: usize = 4 + 2 + 8;
const TAIL: usize = 4;

/// Why some bytes are not an envelope that this program can open.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EnvelopeError {
    /// Another kind of file.
    #[error("it begins with {found:02x?}, expected {expected:02x?}")]
    Magic {
        /// What was looked for.
        expected: [u8; 4],
        /// What stands there.
        found: Vec<u8>,
    },
    /// A format of another release.
    #[error("its format is version {found}, this program reads version {supported}")]
    Version {
        /// What this program reads.
        supported: u16,
        /// What stands there.
        found: u16,
    },
    /// Too short or too long.
    #[error("it has {found} bytes, expected {expected}")]
    Length {
        /// By the header.
        expected: u64,
        /// In fact.
        found: u64,
    },
    /// Changed since it was written.
    #[error(
        "its checksum is {found:08x}, expected {expected:08x}: the bytes have changed since they were written"
    )]
    Checksum {
        /// As written.
        expected: u32,
        /// As computed now.
        found: u32,
    },
}

/// Puts a body into an envelope.
pub fn seal(magic: [u8; 4], version: u16, body: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(HEAD + body.len() + TAIL);
    out.extend_from_slice(&magic);
    out.extend_from_slice(&version.to_be_bytes());
    out.extend_from_slice(&(body.len() as u64).to_be_bytes());
    out.extend_from_slice(body);
    let sum = crc32fast::hash(&out);
    out.extend_from_slice(&sum.to_be_bytes());
    out
}

/// Takes the body out of an envelope.
///
/// # Errors
/// [`EnvelopeError`], in the order magic, version, length, checksum.
pub fn open(magic: [u8; 4], version: u16, bytes: &[u8]) -> Result<&[u8], EnvelopeError> {
    let found = bytes.len() as u64;
    if bytes.get(..4) != Some(&magic[..]) {
        let found = bytes[..bytes.len().min(4)].to_vec();
        return Err(EnvelopeError::Magic { expected: magic, found });
    }
    let Some((head, rest)) = bytes.split_first_chunk::<HEAD>() else {
        return Err(EnvelopeError::Length { expected: (HEAD + TAIL) as u64, found });
    };
    let format = u16::from_be_bytes([head[4], head[5]]);
    if format != version {
        return Err(EnvelopeError::Version { supported: version, found: format });
    }
    let length = u64::from_be_bytes(head[6..].try_into().expect("a head has 14 bytes"));
    let expected = length.saturating_add((HEAD + TAIL) as u64);
    if expected != found {
        return Err(EnvelopeError::Length { expected, found });
    }
    let (body, tail) = rest.split_at(rest.len() - TAIL);
    let expected = u32::from_be_bytes(tail.try_into().expect("a tail has 4 bytes"));
    let sum = crc32fast::hash(&bytes[..bytes.len() - TAIL]);
    if sum != expected {
        return Err(EnvelopeError::Checksum { expected, found: sum });
    }
    Ok(body)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_changed_byte_anywhere_is_found(body in any::<Vec<u8>>(), at in any::<prop::sample::Index>(), bit in 0u8..8) {
            let sealed = seal(*b"TEST", 3, &body);
            prop_assert_eq!(open(*b"TEST", 3, &sealed).unwrap(), &body[..]);
            let mut broken = sealed.clone();
            broken[at.index(sealed.len())] ^= 1 << bit;
            prop_assert!(open(*b"TEST", 3, &broken).is_err());
        }

        #[test]
        fn a_cut_is_found(body in any::<Vec<u8>>(), at in any::<prop::sample::Index>()) {
            let sealed = seal(*b"TEST", 3, &body);
            prop_assert!(open(*b"TEST", 3, &sealed[..at.index(sealed.len())]).is_err());
        }
    }
}
