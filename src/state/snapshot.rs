//! The format of a keyed snapshot file.
//!
//! Inside an envelope (`TGKS`, version 1) stand the entries of one key group of one state after another, each as
//! length and bytes of the key, length and bytes of the value; then the index as postcard, and its length as
//! u32, big endian. The index says where each key group lies, so that a rescaled subtask reads what is its own.

use super::Error;
use super::memory::Frozen;
use crate::model::serializer::SerializerId;
use crate::model::{KeyGroup, KeyGroupRange, envelope};
use serde::{Deserialize, Serialize};

const MAGIC: [u8; 4] = *b"TGKS";
const VERSION: u16 = 1;

/// A file is closed when it has reached this size; one key group of one state is never split. 16 MiB.
pub const FILE_TARGET_BYTES: usize = 16 * 1024 * 1024;

/// What a file holds.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Index {
    pub(super) range: KeyGroupRange,
    pub(super) states: Vec<StateIndex>,
}

/// One state in a file.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct StateIndex {
    pub(super) name: String,
    pub(super) kind: String,
    pub(super) serializer: SerializerId,
    pub(super) groups: Vec<Section>,
}

/// One key group of one state in a file.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Section {
    pub(super) group: KeyGroup,
    offset: u64,
    length: u64,
}

impl Section {
    /// Its bytes within the body.
    pub(super) fn of<'a>(&self, file: &str, body: &'a [u8]) -> Result<&'a [u8], Error> {
        let range = self.offset as usize..(self.offset.saturating_add(self.length)) as usize;
        body.get(range).ok_or_else(|| malformed(file, "its index points past its end"))
    }
}

pub(super) fn malformed(file: &str, problem: impl Into<String>) -> Error {
    Error::Malformed { file: file.to_owned(), problem: problem.into() }
}

/// Opens a file: its index and the bytes that the index points into.
pub(super) fn read_file<'a>(file: &str, bytes: &'a [u8]) -> Result<(Index, &'a [u8]), Error> {
    let body = envelope::open(MAGIC, VERSION, bytes)
        .map_err(|problem| Error::Envelope { file: file.to_owned(), problem })?;
    let (rest, length) = body.split_last_chunk::<4>().ok_or_else(|| malformed(file, "it has no index"))?;
    let length = u32::from_be_bytes(*length) as usize;
    let at =
        rest.len().checked_sub(length).ok_or_else(|| malformed(file, "its index is longer than itself"))?;
    let index = postcard::from_bytes(&rest[at..]).map_err(|e| malformed(file, format!("its index: {e}")))?;
    Ok((index, &rest[..at]))
}

/// One state in a file, for whoever looks from outside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Contained {
    /// Its name.
    pub name: String,
    /// Its kind.
    pub kind: String,
    /// The first key group that has entries.
    pub first: KeyGroup,
    /// The last one.
    pub last: KeyGroup,
    /// The size of all its entries.
    pub bytes: u64,
}

/// The states in a file; those without entries in it are left out. `file` is what it is called in errors.
///
/// # Errors
/// When it is damaged.
pub fn contents(file: &str, bytes: &[u8]) -> Result<Vec<Contained>, Error> {
    let (index, _) = read_file(file, bytes)?;
    let contained = |state: StateIndex| {
        let (first, last) = (state.groups.first()?.group, state.groups.last()?.group);
        let bytes = state.groups.iter().map(|section| section.length).sum();
        Some(Contained { name: state.name, kind: state.kind, first, last, bytes })
    };
    Ok(index.states.into_iter().filter_map(contained).collect())
}

/// Makes the files of a snapshot, one at a time.
pub(super) struct Files {
    range: KeyGroupRange,
    tables: Vec<Box<dyn Frozen>>,
    table: usize,
    group: u32,
}

impl Files {
    pub(super) fn new(range: KeyGroupRange, tables: Vec<Box<dyn Frozen>>) -> Self {
        Self { range, tables, table: 0, group: u32::from(range.first) }
    }

    fn next_file(&mut self) -> Result<Option<Vec<u8>>, Error> {
        let mut body = Vec::new();
        let mut states: Vec<StateIndex> = Vec::new();
        while let Some(table) = self.tables.get(self.table) {
            let mut groups = Vec::new();
            while self.group <= u32::from(self.range.last) && body.len() < FILE_TARGET_BYTES {
                let group = KeyGroup(self.group as u16);
                let offset = body.len();
                table.write_group(group, &mut body)?;
                if body.len() > offset {
                    let (offset, length) = (offset as u64, (body.len() - offset) as u64);
                    groups.push(Section { group, offset, length });
                }
                self.group += 1;
            }
            if !groups.is_empty() {
                let (name, kind) = (table.name().to_owned(), table.kind().to_owned());
                states.push(StateIndex { name, kind, serializer: table.serializer(), groups });
            }
            if self.group > u32::from(self.range.last) {
                self.table += 1;
                self.group = u32::from(self.range.first);
            }
            if body.len() >= FILE_TARGET_BYTES {
                break;
            }
        }
        if states.is_empty() {
            return Ok(None);
        }
        let index = postcard::to_stdvec(&Index { range: self.range, states })
            .map_err(|e| malformed("being written", e.to_string()))?;
        let length = u32::try_from(index.len()).expect("an index has a few bytes a key group");
        body.extend_from_slice(&index);
        body.extend_from_slice(&length.to_be_bytes());
        Ok(Some(envelope::seal(MAGIC, VERSION, &body)))
    }
}

impl Iterator for Files {
    type Item = Result<Vec<u8>, Error>;
    fn next(&mut self) -> Option<Self::Item> {
        self.next_file().transpose()
    }
}

/// Appends a length as LEB128, seven bits a byte, the lowest first.
pub(super) fn write_length(mut n: usize, out: &mut Vec<u8>) {
    while n >= 0x80 {
        out.push(n as u8 | 0x80);
        n >>= 7;
    }
    out.push(n as u8);
}

/// Takes a length and that many bytes off the front.
pub(super) fn read_bytes<'a>(bytes: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (mut length, mut shift) = (0usize, 0u32);
    loop {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        length |= usize::from(byte & 0x7f).checked_shl(shift)?;
        if byte < 0x80 {
            break;
        }
        shift += 7;
    }
    let (taken, rest) = bytes.split_at_checked(length)?;
    *bytes = rest;
    Some(taken)
}
