//! A blob that somebody else refers to: by name, with what its bytes must be.

use super::{Error, Storage};
use serde::{Deserialize, Serialize};

/// A reference to a whole blob.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct FileRef {
    /// Its name in the store.
    pub name: String,
    /// Its size.
    pub bytes: u64,
    /// CRC-32 over all its bytes.
    pub crc32: u32,
}

impl FileRef {
    /// Writes a blob and refers to it.
    ///
    /// # Errors
    /// The store's.
    pub fn write(store: &dyn Storage, name: String, bytes: &[u8]) -> Result<Self, Error> {
        store.put(&name, bytes)?;
        Ok(Self { name, bytes: bytes.len() as u64, crc32: crc32fast::hash(bytes) })
    }

    fn is(&self, bytes: &[u8]) -> bool {
        bytes.len() as u64 == self.bytes && crc32fast::hash(bytes) == self.crc32
    }

    /// Reads the blob and checks that it is what was written.
    ///
    /// # Errors
    /// [`Error::Changed`] if it is not; else the store's.
    pub fn read(&self, store: &dyn Storage) -> Result<Vec<u8>, Error> {
        let mut bytes = store.get(&self.name)?;
        if !self.is(&bytes) && store.distrust(&self.name) {
            bytes = store.get(&self.name)?;
        }
        let (found_bytes, found_crc32) = (bytes.len() as u64, crc32fast::hash(&bytes));
        if !self.is(&bytes) {
            return Err(Error::Changed {
                location: store.location(),
                name: self.name.clone(),
                expected: format!("{} bytes with CRC-32 {:08x}", self.bytes, self.crc32),
                found: format!("{found_bytes} bytes with CRC-32 {found_crc32:08x}"),
            });
        }
        Ok(bytes)
    }
}
