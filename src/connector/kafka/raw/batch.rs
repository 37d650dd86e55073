//! Headers of record batches, read from a log's bytes without touching what is inside.
//!
//! A marker is a control batch: its header names the producer, its only record's key says commit or
//! abort. Everything else that recovery asks of a log (who wrote which offsets, how many records) is in
//! the headers too, so batches are neither decompressed nor decoded here. The checksum is not verified
//! either: the broker did that when it took the batch.
//!
//! Pure, and total: any bytes give headers, an end, or an error.

/// Bytes of a header up to and including the length field.
const LENGTH_END: usize = 12;
/// Bytes of a header of format 2, after which the records follow.
const HEADER: usize = 61;

/// The header of one batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Batch {
    /// The first offset.
    pub(super) base_offset: i64,
    /// The last offset; it stays when compaction removes records.
    pub(super) last_offset: i64,
    /// The producer's id; -1 if it has none.
    pub(super) producer_id: i64,
    /// The producer's epoch.
    pub(super) producer_epoch: i16,
    /// How many records are inside now.
    pub(super) records: i32,
    /// What it says, if it is a control batch.
    pub(super) control: Option<Control>,
}

/// What a control batch says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Control {
    /// The producer's transaction was aborted.
    Abort,
    /// The producer's transaction was committed.
    Commit,
    /// Something else, such as a change of leader, or nothing at all: compaction took the record.
    Other,
}

/// Walks over the batches in some bytes of a log. It ends before a batch that is cut off.
pub(super) struct Batches<'a> {
    rest: &'a [u8],
}

impl<'a> Batches<'a> {
    /// Over these bytes, which begin with a batch.
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// How many bytes the next batch has, if its length can be seen.
    pub(super) fn next_size(&self) -> Option<usize> {
        let length = i32::from_be_bytes(field(self.rest, 8)?);
        usize::try_from(length).ok().map(|length| LENGTH_END + length)
    }
}

impl Iterator for Batches<'_> {
    type Item = Result<Batch, String>;

    fn next(&mut self) -> Option<Self::Item> {
        let length: [u8; 4] = field(self.rest, 8)?;
        let Some(size) = self.next_size() else {
            let problem = format!("a batch of length {}", i32::from_be_bytes(length));
            self.rest = &[];
            return Some(Err(problem));
        };
        if size > self.rest.len() {
            return None;
        }
        let (bytes, rest) = self.rest.split_at(size);
        let parsed = parse(bytes);
        // After nonsense there is no telling where the next batch begins.
        self.rest = if parsed.is_ok() { rest } else { &[] };
        Some(parsed)
    }
}

/// Reads the header of exactly one batch.
fn parse(bytes: &[u8]) -> Result<Batch, String> {
    let short = || format!("a batch of {} bytes", bytes.len());
    let base_offset = i64::from_be_bytes(field(bytes, 0).ok_or_else(short)?);
    let [magic] = field(bytes, 16).ok_or_else(short)?;
    match magic {
        // Messages from before 0.11 have no producer, so they can be neither marker nor ours. A
        // compressed set bears the offset of its last message.
        0 | 1 => Ok(Batch {
            base_offset,
            last_offset: base_offset,
            producer_id: -1,
            producer_epoch: -1,
            records: 1,
            control: None,
        }),
        2 => parse_format_2(bytes, base_offset).ok_or_else(short)?,
        other => Err(format!("a batch of unknown format {other} at offset {base_offset}")),
    }
}

/// `None` if the bytes end too early.
fn parse_format_2(bytes: &[u8], base_offset: i64) -> Option<Result<Batch, String>> {
    let attributes = i16::from_be_bytes(field(bytes, 21)?);
    let last_offset_delta = i32::from_be_bytes(field(bytes, 23)?);
    let records = i32::from_be_bytes(field(bytes, 57)?);
    if base_offset < 0 || last_offset_delta < 0 || records < 0 {
        return Some(Err(format!(
            "a batch at offset {base_offset} with last offset delta {last_offset_delta} and {records} records"
        )));
    }
    let is_control = attributes & 0x20 != 0;
    Some(Ok(Batch {
        base_offset,
        last_offset: base_offset.saturating_add(i64::from(last_offset_delta)),
        producer_id: i64::from_be_bytes(field(bytes, 43)?),
        producer_epoch: i16::from_be_bytes(field(bytes, 51)?),
        records,
        control: is_control.then(|| control(&bytes[HEADER..], records)),
    }))
}

/// Reads the key of a control batch's first record: two bytes of version, two of type.
fn control(mut record: &[u8], records: i32) -> Control {
    let mut kind = || {
        if records == 0 {
            return None;
        }
        varint(&mut record)?;
        record = record.get(1..)?;
        varint(&mut record)?;
        varint(&mut record)?;
        let length = varint(&mut record)?;
        if length < 4 { None } else { Some(i16::from_be_bytes(field(record, 2)?)) }
    };
    match kind() {
        Some(0) => Control::Abort,
        Some(1) => Control::Commit,
        _ => Control::Other,
    }
}

/// A zigzag-encoded number of up to 64 bits.
fn varint(bytes: &mut &[u8]) -> Option<i64> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some((value >> 1) as i64 ^ -((value & 1) as i64));
        }
    }
    None
}

fn field<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at + N)?.try_into().ok()
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The bytes of a batch with this header; a control batch says commit or abort.
    pub(in super::super) fn bytes_of(batch: &Batch, payload: usize) -> Vec<u8> {
        let body = match batch.control {
            None => vec![7; payload],
            // length, attributes, timestamp delta, offset delta, key length, key, value length, no headers
            Some(control) => {
                let kind = match control {
                    Control::Abort => 0,
                    Control::Commit => 1,
                    Control::Other => 2,
                };
                vec![20, 0, 0, 0, 8, 0, 0, 0, kind, 1, 0]
            }
        };
        let mut bytes = Vec::new();
        bytes.extend(batch.base_offset.to_be_bytes());
        bytes.extend(i32::try_from(HEADER - LENGTH_END + body.len()).unwrap().to_be_bytes());
        bytes.extend(3i32.to_be_bytes());
        bytes.push(2);
        bytes.extend(0u32.to_be_bytes());
        bytes.extend((if batch.control.is_some() { 0x30i16 } else { 0x10 }).to_be_bytes());
        bytes.extend(i32::try_from(batch.last_offset - batch.base_offset).unwrap().to_be_bytes());
        bytes.extend([0; 16]);
        bytes.extend(batch.producer_id.to_be_bytes());
        bytes.extend(batch.producer_epoch.to_be_bytes());
        bytes.extend(0i32.to_be_bytes());
        bytes.extend(batch.records.to_be_bytes());
        bytes.extend(body);
        bytes
    }

    fn any_batch() -> impl Strategy<Value = Batch> {
        let control = prop_oneof![
            Just(None),
            Just(Some(Control::Abort)),
            Just(Some(Control::Commit)),
            Just(Some(Control::Other))
        ];
        (0..i64::MAX / 2, 0..1000i64, -1..i64::MAX, -1..i16::MAX, control).prop_map(
            |(base_offset, delta, producer_id, producer_epoch, control)| Batch {
                base_offset,
                last_offset: base_offset + delta,
                producer_id,
                producer_epoch,
                records: 1 + delta as i32,
                control,
            },
        )
    }

    proptest! {
        #[test]
        fn every_whole_batch_is_read_and_a_cut_one_is_left(
            batches in proptest::collection::vec((any_batch(), 0..200usize), 0..6),
            cut in any::<proptest::sample::Index>(),
        ) {
            let parts: Vec<Vec<u8>> = batches.iter().map(|(b, payload)| bytes_of(b, *payload)).collect();
            let all = parts.concat();
            let end = cut.index(all.len() + 1);
            let mut walk = Batches::new(&all[..end]);
            let found: Vec<Batch> = walk.by_ref().collect::<Result<_, _>>().unwrap();
            let mut whole = 0;
            let mut at = 0;
            while whole < parts.len() && at + parts[whole].len() <= end {
                at += parts[whole].len();
                whole += 1;
            }
            let expected: Vec<Batch> = batches[..whole].iter().map(|(b, _)| *b).collect();
            prop_assert_eq!(found, expected);
            if end - at >= LENGTH_END {
                prop_assert_eq!(walk.next_size(), Some(parts[whole].len()));
            } else {
                prop_assert_eq!(walk.next_size(), None);
            }
        }

        #[test]
        fn no_bytes_make_it_panic_or_run_for_ever(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            prop_assert!(Batches::new(&bytes).count() <= bytes.len());
        }

        #[test]
        fn no_damage_makes_it_panic(batch in any_batch(), at in any::<proptest::sample::Index>(), byte: u8) {
            let mut bytes = bytes_of(&batch, 20);
            let at = at.index(bytes.len());
            bytes[at] = byte;
            prop_assert!(Batches::new(&bytes).count() <= 2);
        }
    }

    #[test]
    fn nonsense_is_named_and_ends_the_walk() {
        let good = Batch {
            base_offset: 5,
            last_offset: 6,
            producer_id: 1,
            producer_epoch: 0,
            records: 2,
            control: None,
        };
        let damage: [(usize, &[u8], &str); 4] = [
            (8, &[0xff], "a batch of length"),
            (8, &[0, 0, 0, 3], "a batch of 15 bytes"),
            (16, &[9], "unknown format 9 at offset 5"),
            (23, &[0xff], "last offset delta -"),
        ];
        for (at, with, expected) in damage {
            let mut bytes = bytes_of(&good, 0);
            bytes[at..at + with.len()].copy_from_slice(with);
            bytes.extend(bytes_of(&good, 0));
            let found: Vec<_> = Batches::new(&bytes).collect();
            assert_eq!(found.len(), 1, "{found:?}");
            let problem = found[0].as_ref().unwrap_err();
            assert!(problem.contains(expected), "{problem}");
        }
    }

    #[test]
    fn an_emptied_control_batch_says_nothing() {
        let marker = Batch {
            base_offset: 9,
            last_offset: 9,
            producer_id: 4,
            producer_epoch: 1,
            records: 0,
            control: Some(Control::Other),
        };
        let mut bytes = bytes_of(&Batch { control: Some(Control::Commit), ..marker }, 0);
        bytes.truncate(HEADER);
        bytes[8..12].copy_from_slice(&49i32.to_be_bytes());
        assert_eq!(Batches::new(&bytes).next(), Some(Ok(marker)));
    }
}
