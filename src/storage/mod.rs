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
mod probe;
mod uri;

pub use error::Error;
pub use file::FileRef;
pub use local::Local;
pub use memory::Memory;
pub use options::{MemoryOptions, Options};
pub use probe::probe;
pub use uri::{open, open_existing, open_existing_with, open_with};

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
}

/// The result of deleting `of` blobs, of which these failed.
fn left(location: String, of: usize, failed: Vec<(String, Error)>) -> Result<(), Error> {
    let (names, errors): (Vec<_>, Vec<_>) = failed.into_iter().unzip();
    match errors.into_iter().next() {
        Some(first) => Err(Error::Left { location, names, of, first: Box::new(first) }),
        None => Ok(()),
    }
}
