//! The format of captured records.
//!
//! Inside an envelope (`TGIF`, version 1) stand the records of one channel in their order, each as its event time
//! (i64), the length of its value (u32), both big endian, and the value as the edge's serializer writes it. Where a
//! record was read is not kept: its number would mean nothing to the next process.

use crate::model::serializer::{Serializer, SerializerId};
use crate::model::{Origin, Record, envelope};

const MAGIC: [u8; 4] = *b"TGIF";
const VERSION: u16 = 1;

/// Records as bytes.
pub(super) fn encode<T>(
    batches: &[Vec<Record<T>>],
    serializer: &dyn Serializer<T>,
) -> Result<Vec<u8>, String> {
    let mut body = Vec::new();
    let mut value = Vec::new();
    for record in batches.iter().flatten() {
        value.clear();
        serializer.write(&record.value, &mut value)?;
        let length = u32::try_from(value.len()).map_err(|_| "a record of 4 GiB or more".to_owned())?;
        body.extend_from_slice(&record.timestamp.to_be_bytes());
        body.extend_from_slice(&length.to_be_bytes());
        body.extend_from_slice(&value);
    }
    Ok(envelope::seal(MAGIC, VERSION, &body))
}

/// Bytes as records.
///
/// # Errors
/// A text, when the bytes were changed or do not make sense.
pub(super) fn decode<T>(
    bytes: &[u8],
    written_by: &SerializerId,
    serializer: &dyn Serializer<T>,
) -> Result<Vec<Record<T>>, String> {
    let mut body = envelope::open(MAGIC, VERSION, bytes).map_err(|e| e.to_string())?;
    let mut records = Vec::new();
    while !body.is_empty() {
        let cut = || "it ends within a record".to_owned();
        let (timestamp, rest) = body.split_first_chunk::<8>().ok_or_else(cut)?;
        let (length, rest) = rest.split_first_chunk::<4>().ok_or_else(cut)?;
        let (value, rest) = rest.split_at_checked(u32::from_be_bytes(*length) as usize).ok_or_else(cut)?;
        let value = serializer.read(written_by, value)?;
        records.push(Record { value, timestamp: i64::from_be_bytes(*timestamp), origin: Origin::NONE });
        body = rest;
    }
    Ok(records)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::serializer::Postcard;
    use proptest::prelude::*;

    fn records(values: &[(String, i64)]) -> Vec<Vec<Record<String>>> {
        let record = |(value, timestamp): &(String, i64)| Record {
            value: value.clone(),
            timestamp: *timestamp,
            origin: Origin::NONE,
        };
        values.chunks(3).map(|c| c.iter().map(record).collect()).collect()
    }

    #[test]
    fn the_bytes_of_version_1_never_change() {
        let bytes = encode(&records(&[("a".into(), 7), ("bc".into(), -1)]), &Postcard::default()).unwrap();
        let body = [
            &[0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 2, 1, b'a'][..],
            &[255, 255, 255, 255, 255, 255, 255, 255, 0, 0, 0, 3, 2, b'b', b'c'],
        ]
        .concat();
        assert_eq!(bytes, envelope::seal(*b"TGIF", 1, &body));
    }

    proptest! {
        #[test]
        fn records_come_back_in_order_and_a_flipped_bit_is_found(
            values in prop::collection::vec(any::<(String, i64)>(), 0..20),
            at in any::<prop::sample::Index>(),
        ) {
            let serializer = Postcard::default();
            let bytes = encode(&records(&values), &serializer).unwrap();
            let back = decode(&bytes, &serializer.id(), &serializer).unwrap();
            let back: Vec<(String, i64)> = back.into_iter().map(|r| (r.value, r.timestamp)).collect();
            prop_assert_eq!(back, values);
            let mut broken = bytes.clone();
            broken[at.index(bytes.len())] ^= 4;
            prop_assert!(decode::<String>(&broken, &serializer.id(), &serializer).is_err());
        }
    }
}
