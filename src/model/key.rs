//! What can be a key: a type whose canonical bytes decide equality.
//!
//! Two keys are equal if and only if their bytes are. So floats and unordered collections are no keys, and a
//! changed encoding is an incompatible change. State is looked up, and key groups are derived, by these bytes
//! alone.

/// A type with a canonical encoding.
///
/// Composite keys are tuples; each part but the last is preceded by its length, so that `("a", "bc")` and
/// `("ab", "c")` differ.
pub trait Key {
    /// What [`Key::decode`] gives back.
    type Owned: Send + 'static;

    /// Appends the canonical bytes.
    fn encode(&self, out: &mut Vec<u8>);

    /// The key with these bytes; `None` if no key has them.
    fn decode(bytes: &[u8]) -> Option<Self::Owned>;
}

impl Key for str {
    type Owned = String;
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.as_bytes());
    }
    fn decode(bytes: &[u8]) -> Option<String> {
        String::from_utf8(bytes.to_vec()).ok()
    }
}

impl Key for String {
    type Owned = String;
    fn encode(&self, out: &mut Vec<u8>) {
        self.as_str().encode(out);
    }
    fn decode(bytes: &[u8]) -> Option<String> {
        str::decode(bytes)
    }
}

impl Key for [u8] {
    type Owned = Vec<u8>;
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self);
    }
    fn decode(bytes: &[u8]) -> Option<Vec<u8>> {
        Some(bytes.to_vec())
    }
}

impl Key for Vec<u8> {
    type Owned = Vec<u8>;
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self);
    }
    fn decode(bytes: &[u8]) -> Option<Vec<u8>> {
        Some(bytes.to_vec())
    }
}

impl Key for () {
    type Owned = ();
    fn encode(&self, _out: &mut Vec<u8>) {}
    fn decode(bytes: &[u8]) -> Option<()> {
        bytes.is_empty().then_some(())
    }
}

impl Key for bool {
    type Owned = bool;
    fn encode(&self, out: &mut Vec<u8>) {
        out.push(u8::from(*self));
    }
    fn decode(bytes: &[u8]) -> Option<bool> {
        match bytes {
            [0] => Some(false),
            [1] => Some(true),
            _ => None,
        }
    }
}

// Big endian, signed ones with the sign bit flipped: the bytes sort as the numbers do.
macro_rules! integer_keys {
    ($($t:ty, $flip:expr);* $(;)?) => { $(
        impl Key for $t {
            type Owned = $t;
            fn encode(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&(*self ^ $flip).to_be_bytes());
            }
            fn decode(bytes: &[u8]) -> Option<$t> {
                Some(<$t>::from_be_bytes(bytes.try_into().ok()?) ^ $flip)
            }
        }
    )* };
}
integer_keys!(u8, 0; u16, 0; u32, 0; u64, 0; u128, 0; i8, i8::MIN; i16, i16::MIN; i32, i32::MIN; i64, i64::MIN; i128, i128::MIN);

impl<T: Key + ?Sized> Key for &T {
    type Owned = T::Owned;
    fn encode(&self, out: &mut Vec<u8>) {
        (**self).encode(out);
    }
    fn decode(bytes: &[u8]) -> Option<T::Owned> {
        T::decode(bytes)
    }
}

fn encode_part(part: &(impl Key + ?Sized), out: &mut Vec<u8>) {
    let at = out.len();
    out.extend_from_slice(&[0; 4]);
    part.encode(out);
    let length = u32::try_from(out.len() - at - 4).expect("a part of a key is shorter than 4 GiB");
    out[at..at + 4].copy_from_slice(&length.to_be_bytes());
}

fn split_part(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk::<4>()?;
    rest.split_at_checked(u32::from_be_bytes(*length) as usize)
}

impl<A: Key, B: Key> Key for (A, B) {
    type Owned = (A::Owned, B::Owned);
    fn encode(&self, out: &mut Vec<u8>) {
        encode_part(&self.0, out);
        self.1.encode(out);
    }
    fn decode(bytes: &[u8]) -> Option<Self::Owned> {
        let (a, rest) = split_part(bytes)?;
        Some((A::decode(a)?, B::decode(rest)?))
    }
}

impl<A: Key, B: Key, C: Key> Key for (A, B, C) {
    type Owned = (A::Owned, B::Owned, C::Owned);
    fn encode(&self, out: &mut Vec<u8>) {
        encode_part(&self.0, out);
        encode_part(&self.1, out);
        self.2.encode(out);
    }
    fn decode(bytes: &[u8]) -> Option<Self::Owned> {
        let (a, rest) = split_part(bytes)?;
        let (b, rest) = split_part(rest)?;
        Some((A::decode(a)?, B::decode(b)?, C::decode(rest)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bytes<K: Key + ?Sized>(k: &K) -> Vec<u8> {
        let mut out = Vec::new();
        k.encode(&mut out);
        out
    }

    #[test]
    fn parts_of_a_composite_key_do_not_run_together() {
        assert_ne!(bytes(&("a", "bc")), bytes(&("ab", "c")));
        assert_ne!(bytes(&("", "", "x")), bytes(&("", "x", "")));
    }

    proptest! {
        #[test]
        fn composite_keys_come_back(a in ".*", b in any::<i64>(), c in any::<Vec<u8>>()) {
            let key = (a.clone(), b, c.clone());
            prop_assert_eq!(<(String, i64, Vec<u8>)>::decode(&bytes(&key)), Some((a, b, c)));
        }

        #[test]
        fn integers_sort_as_their_bytes(a in any::<i64>(), b in any::<i64>()) {
            prop_assert_eq!(a.cmp(&b), bytes(&a).cmp(&bytes(&b)));
        }
    }
}
