//! All operator state of one subtask: what was restored until it is declared, what is declared, and its freeze.

use super::broadcast::{BroadcastState, Shards};
use super::codec::{Pieces, entries};
use super::list::ListState;
use super::pages::Pages;
use super::share::StateShare;
use super::union::UnionState;
use crate::model::serializer::SerializerId;
use crate::model::{Data, Key, Serializer};
use crate::state::snapshot::{malformed, read_bytes, write_length};
use crate::state::{Error, Redistribution};
use crate::storage::Storage;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, PoisonError};

/// An entry that waits for its declaration, with what wrote it.
struct Waiting {
    serializer: SerializerId,
    bytes: Vec<u8>,
}

struct Restored {
    share: StateShare,
    entries: Vec<Waiting>,
}

/// Encodes every entry of a frozen state.
type WriteAll = Box<dyn FnOnce(&mut Pieces) -> Result<(), Error> + Send>;

struct Declared {
    name: String,
    redistribution: Redistribution,
    serializer: SerializerId,
    freeze: Box<dyn Fn() -> WriteAll + Send>,
}

/// The operator state of one subtask.
pub struct OperatorStates {
    subtask: u32,
    restored: Vec<Restored>,
    declared: Vec<Declared>,
}

impl OperatorStates {
    /// Without anything restored.
    pub fn new(subtask: u32) -> Self {
        Self { subtask, restored: Vec::new(), declared: Vec::new() }
    }

    /// Reads what the subtask begins with; the entries wait for their states to be declared.
    ///
    /// # Errors
    /// [`Error::Storage`], [`Error::Envelope`], [`Error::Malformed`].
    pub fn load(&mut self, shares: Vec<StateShare>, store: &dyn Storage) -> Result<(), Error> {
        for share in shares {
            let mut found = Vec::new();
            for part in &share.parts {
                let file = part.handle.describe();
                let bytes = part.handle.read(store)?;
                let all = entries(&file, &bytes, part.entries)?;
                let taken = all.get(part.take.start as usize..part.take.end as usize);
                let taken =
                    taken.ok_or_else(|| malformed(&file, "it has fewer entries than are asked for"))?;
                let wait = |e: &&[u8]| Waiting { serializer: part.serializer.clone(), bytes: e.to_vec() };
                found.extend(taken.iter().map(wait));
            }
            self.restored.push(Restored { share, entries: found });
        }
        Ok(())
    }

    /// Declares a list that is dealt out.
    ///
    /// # Errors
    /// [`Error::DeclaredTwice`], [`Error::Redistributed`], [`Error::Serializer`].
    pub fn list<T: Data + Sync>(
        &mut self,
        name: &str,
        serializer: Arc<dyn Serializer<T>>,
    ) -> Result<ListState<T>, Error> {
        let (values, _) = self.values(name, Redistribution::Split, &*serializer)?;
        let list = ListState(Arc::new(Mutex::new(Pages::from_iter(values))));
        self.declare_list(name, Redistribution::Split, &list, serializer);
        Ok(list)
    }

    /// Declares a list of which everybody sees everything.
    ///
    /// # Errors
    /// As [`OperatorStates::list`].
    pub fn union<T: Data + Sync>(
        &mut self,
        name: &str,
        serializer: Arc<dyn Serializer<T>>,
    ) -> Result<UnionState<T>, Error> {
        let (values, own) = self.values(name, Redistribution::Union, &*serializer)?;
        let own =
            values.get(own.start as usize..own.end as usize).unwrap_or_default().iter().cloned().collect();
        let union = UnionState::new(own, values);
        self.declare_list(name, Redistribution::Union, &union.own, serializer);
        Ok(union)
    }

    /// Declares a map that is the same on every subtask.
    ///
    /// # Errors
    /// As [`OperatorStates::list`].
    pub fn broadcast<K: Key + ?Sized + 'static, V: Data + Sync>(
        &mut self,
        name: &str,
        serializer: Arc<dyn Serializer<V>>,
    ) -> Result<BroadcastState<K, V>, Error> {
        let mut shards = Shards::new();
        let restored = self.take(name, Redistribution::Broadcast)?;
        for Waiting { serializer: written, bytes } in restored.into_iter().flat_map(|r| r.entries) {
            let problem = |problem| unreadable(name, problem);
            let mut value = &bytes[..];
            let key = read_bytes(&mut value).filter(|key| K::decode(key).is_some());
            let key = key.ok_or_else(|| problem("a key is none of the declared type".to_owned()))?;
            shards.insert(key.to_vec(), serializer.read(&written, value).map_err(problem)?);
        }
        let shards = Arc::new(Mutex::new(shards));
        self.declare(name, Redistribution::Broadcast, serializer.id(), &shards, move |shards, pieces| {
            shards.iter().try_for_each(|(key, value)| {
                pieces.add(|entry| {
                    write_length(key.len(), entry);
                    entry.extend_from_slice(key);
                    serializer.write(value, entry)
                })
            })
        });
        Ok(BroadcastState { shards, of: PhantomData })
    }

    fn declare_list<T: Data + Sync>(
        &mut self,
        name: &str,
        redistribution: Redistribution,
        list: &ListState<T>,
        serializer: Arc<dyn Serializer<T>>,
    ) {
        self.declare(name, redistribution, serializer.id(), &list.0, move |pages, pieces| {
            pages.iter().try_for_each(|value| pieces.add(|entry| serializer.write(value, entry)))
        });
    }

    /// Freezes `content` from now on: a clone of it is encoded by `write`, on another thread.
    fn declare<C: Clone + Send + 'static>(
        &mut self,
        name: &str,
        redistribution: Redistribution,
        serializer: SerializerId,
        content: &Arc<Mutex<C>>,
        write: impl Fn(&C, &mut Pieces) -> Result<(), String> + Send + Sync + 'static,
    ) {
        let (content, write, state) = (Arc::clone(content), Arc::new(write), name.to_owned());
        let freeze = move || -> WriteAll {
            let frozen = content.lock().unwrap_or_else(PoisonError::into_inner).clone();
            let (write, state) = (Arc::clone(&write), state.clone());
            Box::new(move |pieces| write(&frozen, pieces).map_err(|problem| unwritable(state, problem)))
        };
        let (name, freeze) = (name.to_owned(), Box::new(freeze));
        self.declared.push(Declared { name, redistribution, serializer, freeze });
    }

    /// What was restored for a declaration, which takes it.
    fn take(&mut self, name: &str, redistribution: Redistribution) -> Result<Option<Restored>, Error> {
        if self.declared.iter().any(|d| d.name == name) {
            return Err(Error::DeclaredTwice { state: name.to_owned() });
        }
        let Some(at) = self.restored.iter().position(|r| r.share.name == name) else { return Ok(None) };
        let restored = self.restored.swap_remove(at);
        if restored.share.redistribution != redistribution {
            return Err(Error::Redistributed {
                state: name.to_owned(),
                found: restored.share.redistribution,
                declared: redistribution,
            });
        }
        Ok(Some(restored))
    }

    fn values<T>(
        &mut self,
        name: &str,
        redistribution: Redistribution,
        serializer: &dyn Serializer<T>,
    ) -> Result<(Vec<T>, std::ops::Range<u64>), Error> {
        let Some(Restored { share, entries }) = self.take(name, redistribution)? else {
            return Ok((Vec::new(), 0..0));
        };
        let read = |waiting: Waiting| {
            let value = serializer.read(&waiting.serializer, &waiting.bytes);
            value.map_err(|problem| unreadable(name, problem))
        };
        Ok((entries.into_iter().map(read).collect::<Result<_, _>>()?, share.own))
    }

    /// To be asked when `open` has returned: every restored state has found its declaration.
    ///
    /// # Errors
    /// [`Error::UndeclaredOperatorState`].
    pub fn all_declared(&self) -> Result<(), Error> {
        match self.restored.first() {
            None => Ok(()),
            Some(Restored { share, .. }) => Err(Error::UndeclaredOperatorState {
                state: share.name.clone(),
                redistribution: share.redistribution,
            }),
        }
    }

    /// A picture of everything as it is now, at the price of one reference count for each page or shard.
    pub fn freeze(&self) -> FrozenStates {
        // Every subtask has the same broadcast state, so the first one's copy stands for all.
        let mine = |d: &&Declared| d.redistribution != Redistribution::Broadcast || self.subtask == 0;
        let freeze = |d: &Declared| (d.name.clone(), d.redistribution, d.serializer.clone(), (d.freeze)());
        FrozenStates(self.declared.iter().filter(mine).map(freeze).collect())
    }
}

fn unreadable(state: &str, problem: String) -> Error {
    Error::Serializer { state: state.to_owned(), action: "read", problem }
}

fn unwritable(state: String, problem: String) -> Error {
    Error::Serializer { state, action: "written", problem }
}

/// A picture of operator state, ready to be written by another thread.
pub struct FrozenStates(Vec<(String, Redistribution, SerializerId, WriteAll)>);

/// Some entries of one state, as bytes.
#[derive(Debug)]
pub struct FrozenEntries {
    /// The state's name.
    pub name: String,
    /// How it is given to subtasks.
    pub redistribution: Redistribution,
    /// What the entries are encoded with.
    pub serializer: SerializerId,
    /// How many entries there are.
    pub entries: u64,
    /// They themselves.
    pub bytes: Vec<u8>,
}

impl FrozenStates {
    /// Everything as bytes, in pieces of about [`crate::state::FILE_TARGET_BYTES`]; a state without entries gives none.
    ///
    /// # Errors
    /// [`Error::Serializer`].
    pub fn into_entries(self) -> Result<Vec<FrozenEntries>, Error> {
        let mut all = Vec::new();
        for (name, redistribution, serializer, write) in self.0 {
            let mut pieces = Pieces::default();
            write(&mut pieces)?;
            all.extend(pieces.finish().into_iter().map(|(entries, bytes)| {
                let (name, serializer) = (name.clone(), serializer.clone());
                FrozenEntries { name, redistribution, serializer, entries, bytes }
            }));
        }
        Ok(all)
    }
}
