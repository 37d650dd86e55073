//! The bytes of operator state: inside an envelope (`TGOS`, version 1) one entry after another, each as its length and
//! what the state's serializer wrote. An entry is never one of several things together, so any of them can move alone.

use crate::model::envelope;
use crate::state::snapshot::{malformed, read_bytes, write_length};
use crate::state::{Error, FILE_TARGET_BYTES};

const MAGIC: [u8; 4] = *b"TGOS";
const VERSION: u16 = 1;

/// Collects entries into pieces of about [`FILE_TARGET_BYTES`].
#[derive(Default)]
pub(super) struct Pieces {
    open: Vec<u8>,
    /// The entry that is being written: its length stands before it.
    entry: Vec<u8>,
    entries: u64,
    done: Vec<(u64, Vec<u8>)>,
}

impl Pieces {
    /// Adds the entry that the closure appends.
    pub(super) fn add(
        &mut self,
        write: impl FnOnce(&mut Vec<u8>) -> Result<(), String>,
    ) -> Result<(), String> {
        self.entry.clear();
        write(&mut self.entry)?;
        write_length(self.entry.len(), &mut self.open);
        self.open.extend_from_slice(&self.entry);
        self.entries += 1;
        if self.open.len() >= FILE_TARGET_BYTES {
            self.close();
        }
        Ok(())
    }

    fn close(&mut self) {
        if self.entries > 0 {
            self.done.push((self.entries, envelope::seal(MAGIC, VERSION, &self.open)));
            self.open.clear();
            self.entries = 0;
        }
    }

    /// How many entries each piece holds, and its bytes.
    pub(super) fn finish(mut self) -> Vec<(u64, Vec<u8>)> {
        self.close();
        self.done
    }
}

/// The entries of a piece, of which the manifest says that there are so many.
pub(super) fn entries<'a>(file: &str, bytes: &'a [u8], expected: u64) -> Result<Vec<&'a [u8]>, Error> {
    let mut rest = envelope::open(MAGIC, VERSION, bytes)
        .map_err(|problem| Error::Envelope { file: file.to_owned(), problem })?;
    let mut found = Vec::new();
    while !rest.is_empty() {
        found.push(read_bytes(&mut rest).ok_or_else(|| malformed(file, "an entry is cut off"))?);
    }
    if found.len() as u64 != expected {
        let problem = format!("it has {} entries, its checkpoint says {expected}", found.len());
        return Err(malformed(file, problem));
    }
    Ok(found)
}
