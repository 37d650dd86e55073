//! The keyed state of one operator subtask: its declared states, its key groups, and the current key.

use super::memory::{Frozen, Table};
use super::snapshot::{Files, read_file};
use super::{Error, ValueState};
use crate::model::key_group::{hash_key, key_group_of};
use crate::model::serializer::Postcard;
use crate::model::{Data, KeyGroup, KeyGroupRange, MaxParallelism};
use std::any::Any;
use std::marker::PhantomData;
use std::sync::Arc;

/// Longest key in bytes, 64 KiB.
pub(super) const MAX_KEY_BYTES: usize = 64 * 1024;

/// The key that state is read and written for.
#[derive(Debug)]
pub struct CurrentKey {
    /// Its canonical bytes.
    pub bytes: Vec<u8>,
    /// Their stable hash.
    pub hash: u64,
    /// Its key group.
    pub group: KeyGroup,
    /// Grows whenever another key becomes current, so that a table can remember where it found this one.
    pub turn: u64,
}

/// A state of one type, seen without the type.
pub(super) trait AnyTable: Any + Send {
    fn name(&self) -> &str;
    fn freeze(&self) -> Box<dyn Frozen>;
    fn restore(
        &mut self,
        group: KeyGroup,
        bytes: &[u8],
        written: &super::snapshot::StateIndex,
    ) -> Result<(), Error>;
    fn as_any(&mut self) -> &mut dyn Any;
    fn len(&self) -> usize;
}

/// All keyed state of one operator subtask.
pub struct KeyedState {
    range: KeyGroupRange,
    max: MaxParallelism,
    tables: Vec<Box<dyn AnyTable>>,
    key: CurrentKey,
    has_key: bool,
}

impl AsMut<KeyedState> for KeyedState {
    fn as_mut(&mut self) -> &mut KeyedState {
        self
    }
}

impl KeyedState {
    /// Empty, for the key groups of one subtask.
    pub fn new(range: KeyGroupRange, max: MaxParallelism) -> Self {
        let key = CurrentKey { bytes: Vec::new(), hash: 0, group: KeyGroup(0), turn: 0 };
        Self { range, max, tables: Vec::new(), key, has_key: false }
    }

    /// Declares a state of one value per key.
    ///
    /// # Errors
    /// [`Error::DeclaredTwice`].
    pub fn value<V: Data + Sync>(&mut self, name: &str) -> Result<ValueState<V>, Error> {
        if self.tables.iter().any(|t| t.name() == name) {
            return Err(Error::DeclaredTwice { state: name.to_owned() });
        }
        let table = Table::<V>::new(name, self.range, Arc::new(Postcard::default()));
        self.tables.push(Box::new(table));
        Ok(ValueState { index: self.tables.len() - 1, of: PhantomData })
    }

    /// Makes a key current.
    ///
    /// # Panics
    /// If its key group is not this subtask's: a record was sent to the wrong one.
    pub fn set_key(&mut self, encode: impl FnOnce(&mut Vec<u8>)) {
        self.key.bytes.clear();
        encode(&mut self.key.bytes);
        self.key.hash = hash_key(&self.key.bytes);
        self.key.group = key_group_of(self.key.hash, self.max);
        self.key.turn += 1;
        self.has_key = true;
        assert!(
            self.range.contains(self.key.group),
            "key group {} came to the subtask of {}..={}",
            self.key.group.0,
            self.range.first,
            self.range.last
        );
    }

    /// The current key, if a record is being processed.
    pub fn key(&self) -> Option<&CurrentKey> {
        self.has_key.then_some(&self.key)
    }

    /// No key is current any more.
    pub fn clear_key(&mut self) {
        self.has_key = false;
    }

    /// How many entries all states hold together.
    pub fn entries(&self) -> usize {
        self.tables.iter().map(|t| t.len()).sum()
    }

    pub(super) fn table<V: Data + Sync>(
        &mut self,
        index: usize,
    ) -> Result<(&mut Table<V>, &CurrentKey), Error> {
        let table = self.tables.get_mut(index).ok_or(Error::ForeignHandle { index })?;
        if !self.has_key {
            return Err(Error::NoKey { state: table.name().to_owned() });
        }
        let table = table.as_any().downcast_mut().ok_or(Error::ForeignHandle { index })?;
        Ok((table, &self.key))
    }

    /// A picture of everything as it is now. Costs one reference count a page; entries are copied only when
    /// they are next written to while the picture still exists.
    pub fn freeze(&self) -> FrozenKeyed {
        FrozenKeyed {
            range: self.range,
            max: self.max,
            tables: self.tables.iter().map(|t| t.freeze()).collect(),
        }
    }

    /// Adds what a snapshot file holds for this subtask's key groups.
    ///
    /// # Errors
    /// [`Error::Envelope`], [`Error::Malformed`] for damage, [`Error::Undeclared`] for state without a home,
    /// [`Error::Serializer`] for values of another type.
    pub fn restore(&mut self, file: &str, bytes: &[u8]) -> Result<(), Error> {
        let (index, body) = read_file(file, bytes)?;
        for state in &index.states {
            let undeclared = || Error::Undeclared { file: file.to_owned(), state: state.name.clone() };
            let table = self.tables.iter_mut().find(|t| t.name() == state.name).ok_or_else(undeclared)?;
            for section in &state.groups {
                if self.range.contains(section.group) {
                    table.restore(section.group, section.of(file, body)?, state)?;
                }
            }
        }
        Ok(())
    }
}

/// A picture of keyed state, ready to be written by another thread.
pub struct FrozenKeyed {
    range: KeyGroupRange,
    max: MaxParallelism,
    tables: Vec<Box<dyn Frozen>>,
}

impl FrozenKeyed {
    /// The key groups that it covers.
    pub fn range(&self) -> KeyGroupRange {
        self.range
    }

    /// The number of key groups of the job.
    pub fn max_parallelism(&self) -> MaxParallelism {
        self.max
    }

    /// The snapshot as a list of files of about [`super::FILE_TARGET_BYTES`], made one at a time; none if
    /// there is no entry.
    pub fn into_files(self) -> impl Iterator<Item = Result<Vec<u8>, Error>> {
        Files::new(self.range, self.tables)
    }
}
