//! Durable blobs under a folder: the only place where a job's truth is kept.
//!
//! Its law: a blob is durable before [`Storage::put`] returns, and [`Storage::put_if_absent`] has one winner
//! among any number of racers, on every kind of store; [`probe()`] tries that before a job relies on it.
//! Nothing here knows what a checkpoint is.

mod error;
mod options;
mod file;
mod local;
mod memory;
mod remote;
mod s3;
mod hdfs;
mod probe;
mod uri;

pub use error::Error;
pub use file::FileRef;
pub use hdfs::Hdfs;
pub use local::Local;
pub use memory::Memory;
pub use options::{Checksums, HdfsOptions, MemoryOptions, Options, S3Options};
pub use probe::probe;
pub use s3::S3;
pub use uri::{check_location, open, open_existing, open_existing_with, open_with};

use crate::host::clock;
use std::time::Duration;

/// How a conditional put ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Put {
    /// The blob is there and holds what was given.
    Created,
    /// A blob of that name was there before; it is untouched.
    Exists,
}

/// A folder of blobs. Names are relative, `/` separates their parts, and no part begins with a dot.
pub trait Storage: Send + Sync {
    /// Where this is, for messages.
    fn location(&self) -> String;

    /// Writes a blob under a name that nobody else uses; it is durable when this returns.
    ///
    /// # Errors
    /// [`Error`]; whether anything was written is then unknown.
    fn put(&self, name: &str, bytes: &[u8]) -> Result<(), Error>;

    /// Writes a blob if none of that name exists; it is durable when this returns [`Put::Created`].
    ///
    /// # Errors
    /// [`Error`]; whether the blob was written is then unknown, so read it back.
    fn put_if_absent(&self, name: &str, bytes: &[u8]) -> Result<Put, Error>;

    /// Reads a whole blob.
    ///
    /// # Errors
    /// [`Error::NotFound`] if there is none.
    fn get(&self, name: &str) -> Result<Vec<u8>, Error>;

    /// The names of all blobs directly in a folder, sorted; empty if the folder does not exist.
    ///
    /// # Errors
    /// [`Error`], when the folder cannot be read.
    fn list(&self, folder: &str) -> Result<Vec<String>, Error>;

    /// As [`list`](Self::list), with those alone that were written longer than this ago. A store that knows no times has
    /// none of them.
    ///
    /// # Errors
    /// As [`list`](Self::list).
    fn list_older(&self, _folder: &str, _than: Duration) -> Result<Vec<String>, Error> {
        Ok(Vec::new())
    }

    /// Deletes a blob; one that is not there is deleted already.
    ///
    /// # Errors
    /// [`Error`], when the blob may still be there.
    fn delete(&self, name: &str) -> Result<(), Error>;

    /// Deletes many blobs, in whatever order the store is quickest with; one that fails does not keep the others.
    ///
    /// # Errors
    /// [`Error::Left`] with those that may still be there.
    fn delete_all(&self, names: &[String]) -> Result<(), Error> {
        let failed = names.iter().filter_map(|name| Some((name.clone(), self.delete(name).err()?)));
        left(self.location(), names.len(), failed.collect())
    }

    /// Its bytes were not what they must be. Whether asking again may bring others: a copy that was used is given up then.
    fn distrust(&self, _name: &str) -> bool {
        false
    }

    /// Removes what writers have left behind that died while they wrote, and that no reader sees: temporary files, and
    /// uploads that were never completed. What is younger may belong to a writer that lives. Returns how many there were:
    /// none, where a write is done in one step.
    ///
    /// # Errors
    /// [`Error`], when something may be left.
    fn sweep(&self, _older_than: Duration) -> Result<usize, Error> {
        Ok(0)
    }
}

/// A temporary file that was not written to for so long was left behind by a process that died while it wrote: no
/// blob takes an hour.
pub const ABANDONED: Duration = Duration::from_secs(60 * 60);

/// Whether something of this time, in milliseconds since the Unix epoch, is older than that.
fn is_older(written_ms: u64, than: Duration) -> bool {
    let now = Duration::from_millis(u64::try_from(clock::unix_millis()).unwrap_or(0));
    now.saturating_sub(Duration::from_millis(written_ms)) >= than
}

/// The result of deleting `of` blobs, of which these failed.
fn left(location: String, of: usize, failed: Vec<(String, Error)>) -> Result<(), Error> {
    let (names, errors): (Vec<_>, Vec<_>) = failed.into_iter().unzip();
    match errors.into_iter().next() {
        Some(first) => Err(Error::Left { location, names, of, first: Box::new(first) }),
        None => Ok(()),
    }
}
