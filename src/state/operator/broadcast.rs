//! `BroadcastState`: a map that is the same on every subtask.
//!
//! It is the same because every subtask is given the same records and does the same with them; nothing else makes it so.
//! Hence it may be written only where every subtask sees the same: in `open`, and where a broadcast record is processed.
//! That right is a value, [`WriteRight`], which the contexts of these two places hold. One subtask writes its copy into
//! the checkpoint, and all begin with that one.

use crate::model::key_group::hash_key;
use crate::model::{Data, Key};
use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Shards of a map; the first write to one after a freeze copies that one.
const SHARDS: usize = 256;

/// The right to change broadcast state: every subtask is doing the same right now.
#[derive(Debug)]
pub struct WriteRight(());

impl WriteRight {
    /// For the contexts of `open` and of broadcast records.
    pub(crate) fn new() -> Self {
        Self(())
    }
}

#[cfg(test)]
impl AsRef<WriteRight> for WriteRight {
    fn as_ref(&self) -> &WriteRight {
        self
    }
}

/// Values by the canonical bytes of their keys. A clone shares every shard until one of the two writes to it.
#[derive(Clone)]
pub(super) struct Shards<V> {
    shards: Vec<Arc<BTreeMap<Vec<u8>, V>>>,
    /// The bytes of the key that is looked up, so that a record's look-up allocates nothing.
    wanted: Vec<u8>,
}

impl<V: Clone> Shards<V> {
    pub(super) fn new() -> Self {
        Self { shards: (0..SHARDS).map(|_| Arc::default()).collect(), wanted: Vec::new() }
    }

    fn number(key: &[u8]) -> usize {
        hash_key(key) as usize % SHARDS
    }

    fn get<K: Key + ?Sized>(&mut self, key: &K) -> Option<&V> {
        self.wanted.clear();
        key.encode(&mut self.wanted);
        self.shards[Self::number(&self.wanted)].get(&self.wanted)
    }

    pub(super) fn insert(&mut self, key: Vec<u8>, value: V) -> Option<V> {
        Arc::make_mut(&mut self.shards[Self::number(&key)]).insert(key, value)
    }

    fn remove(&mut self, key: &[u8]) -> Option<V> {
        let shard = &mut self.shards[Self::number(key)];
        if shard.contains_key(key) { Arc::make_mut(shard).remove(key) } else { None }
    }

    fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.len()).sum()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&Vec<u8>, &V)> {
        self.shards.iter().flat_map(|shard| shard.iter())
    }
}

/// A map that every subtask has alike: read anywhere, written only where every subtask does the same.
///
/// A clone is another handle to the same map. See `BroadcastProcessFunction` for an example.
///
/// Writing is for `open` and for broadcast records; the context of other records does not hold the right to it:
///
/// ```compile_fail
/// use tidegate::api::prelude::*;
/// fn process(limits: &BroadcastState<str, u64>, context: &Context<'_>) {
///     limits.put(context, "a", 1);
/// }
/// ```
pub struct BroadcastState<K: ?Sized, V> {
    pub(super) shards: Arc<Mutex<Shards<V>>>,
    pub(super) of: PhantomData<fn(&K)>,
}

impl<K: ?Sized, V> Clone for BroadcastState<K, V> {
    fn clone(&self) -> Self {
        Self { shards: Arc::clone(&self.shards), of: PhantomData }
    }
}

fn bytes_of<K: Key + ?Sized>(key: &K) -> Vec<u8> {
    let mut bytes = Vec::new();
    key.encode(&mut bytes);
    bytes
}

impl<K: Key + ?Sized, V: Data + Sync> BroadcastState<K, V> {
    fn lock(&self) -> MutexGuard<'_, Shards<V>> {
        self.shards.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The value of a key.
    pub fn get(&self, key: &K) -> Option<V> {
        self.read(key, |value| value.cloned())
    }

    /// Looks at the value of a key where it lies; the closure must not use this state.
    pub fn read<R>(&self, key: &K, look: impl FnOnce(Option<&V>) -> R) -> R {
        look(self.lock().get(key))
    }

    /// Whether the key has a value.
    pub fn contains(&self, key: &K) -> bool {
        self.read(key, |value| value.is_some())
    }

    /// All keys with their values, in an order that is the same on every subtask.
    pub fn entries(&self) -> Vec<(K::Owned, V)> {
        let shards = self.lock();
        let owned =
            |bytes| K::decode(bytes).expect("these bytes are a key's: they were encoded or decoded before");
        shards.iter().map(|(key, value)| (owned(key), value.clone())).collect()
    }

    /// How many keys have a value.
    pub fn len(&self) -> usize {
        self.lock().len()
    }

    /// Whether no key has a value.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Gives the key a value, and returns the one that it had.
    pub fn put(&self, _right: &impl AsRef<WriteRight>, key: &K, value: V) -> Option<V> {
        self.lock().insert(bytes_of(key), value)
    }

    /// Takes the key's value away.
    pub fn remove(&self, _right: &impl AsRef<WriteRight>, key: &K) -> Option<V> {
        self.lock().remove(&bytes_of(key))
    }

    /// Takes all values away.
    pub fn clear(&self, _right: &impl AsRef<WriteRight>) {
        *self.lock() = Shards::new();
    }
}
