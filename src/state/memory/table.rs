//! One named state: for each key group an index and pages.

use super::page::{ENTRIES, Page};
use crate::model::key_group::hash_key;
use crate::model::serializer::SerializerId;
use crate::model::{Data, KeyGroup, KeyGroupRange, Serializer};
use crate::state::Error;
use crate::state::keyed::{AnyTable, CurrentKey, MAX_KEY_BYTES};
use crate::state::snapshot::{StateIndex, malformed, read_bytes, write_length};
use hashbrown::HashTable;
use std::any::Any;
use std::sync::Arc;

/// A picture of one state, ready to be written by another thread.
pub(crate) trait Frozen: Send {
    fn name(&self) -> &str;
    /// What it holds for a key, such as `value`.
    fn kind(&self) -> &str;
    fn serializer(&self) -> SerializerId;
    /// Appends all entries of a key group.
    fn write_group(&self, group: KeyGroup, out: &mut Vec<u8>) -> Result<(), Error>;
}

/// An entry's place: the page's number times [`ENTRIES`], plus the place within the page.
type Slot = u32;

struct Group<V> {
    index: HashTable<Slot>,
    pages: Vec<Arc<Page<V>>>,
    /// The page that takes new keys.
    open: usize,
    /// Pages without any entry, to be used again.
    empty: Vec<usize>,
}

impl<V: Data + Sync> Group<V> {
    fn new() -> Self {
        Self { index: HashTable::new(), pages: Vec::new(), open: 0, empty: Vec::new() }
    }

    #[inline]
    fn find(&self, hash: u64, key: &[u8]) -> Option<Slot> {
        let same = |slot: &Slot| self.pages[*slot as usize / ENTRIES].key(*slot as usize % ENTRIES) == key;
        self.index.find(hash, same).copied()
    }

    fn page(&mut self, slot: Slot) -> &mut Page<V> {
        Arc::make_mut(&mut self.pages[slot as usize / ENTRIES])
    }

    fn insert(&mut self, hash: u64, key: &[u8], value: V) -> Slot {
        if !self.pages.get(self.open).is_some_and(|p| p.has_room()) {
            self.open = self.empty.pop().unwrap_or(self.pages.len());
            if self.open == self.pages.len() {
                self.pages.push(Arc::new(Page::new()));
            } else {
                self.pages[self.open] = Arc::new(Page::new());
            }
        }
        let at = Arc::make_mut(&mut self.pages[self.open]).push(key, value);
        let slot = Slot::try_from(self.open * ENTRIES + at).expect("a key group has less than 2^32 entries");
        let pages = &self.pages;
        let hash_of = |s: &Slot| hash_key(pages[*s as usize / ENTRIES].key(*s as usize % ENTRIES));
        self.index.insert_unique(hash, slot, hash_of);
        slot
    }

    fn remove(&mut self, hash: u64, slot: Slot) {
        if let Ok(found) = self.index.find_entry(hash, |s| *s == slot) {
            found.remove();
        }
        let number = slot as usize / ENTRIES;
        let page = self.page(slot);
        page.remove(slot as usize % ENTRIES);
        let (live, dead) = (page.live(), page.dead());
        // A page of long keys is full with few entries.
        let half_dead = dead >= ENTRIES / 2 || (!page.has_room() && dead >= live);
        if live == 0 && number != self.open {
            self.pages[number] = Arc::new(Page::new());
            self.empty.push(number);
        } else if half_dead {
            self.rewrite(number);
        }
    }

    /// Moves the living entries of a page to the open one, so that removed keys give their memory back.
    fn rewrite(&mut self, number: usize) {
        let old = std::mem::replace(&mut self.pages[number], Arc::new(Page::new()));
        // All out of the index before the first goes in again: places in the new page repeat those of the old.
        for (at, key, _) in old.iter() {
            let slot = (number * ENTRIES + at) as Slot;
            if let Ok(found) = self.index.find_entry(hash_key(key), |s| *s == slot) {
                found.remove();
            }
        }
        for (_, key, value) in old.iter() {
            self.insert(hash_key(key), key, value.clone());
        }
        if number != self.open {
            self.empty.push(number);
        }
    }
}

/// All entries of one named state.
pub(crate) struct Table<V> {
    name: String,
    range: KeyGroupRange,
    groups: Vec<Group<V>>,
    serializer: Arc<dyn Serializer<V>>,
    /// Where the current key was found last, by the key's turn.
    last: Option<(u64, Slot)>,
}

impl<V: Data + Sync> Table<V> {
    pub(crate) fn new(name: &str, range: KeyGroupRange, serializer: Arc<dyn Serializer<V>>) -> Self {
        let groups = (0..range.count()).map(|_| Group::new()).collect();
        Self { name: name.to_owned(), range, groups, serializer, last: None }
    }

    fn number(&self, group: KeyGroup) -> usize {
        usize::from(group.0 - self.range.first)
    }

    #[inline]
    fn slot(&mut self, key: &CurrentKey) -> Option<Slot> {
        match self.last {
            Some((turn, slot)) if turn == key.turn => Some(slot),
            _ => {
                let slot = self.groups[self.number(key.group)].find(key.hash, &key.bytes)?;
                self.last = Some((key.turn, slot));
                Some(slot)
            }
        }
    }

    #[inline]
    pub(crate) fn get(&mut self, key: &CurrentKey) -> Option<&V> {
        let slot = self.slot(key)? as usize;
        self.groups[self.number(key.group)].pages[slot / ENTRIES].value(slot % ENTRIES)
    }

    #[inline]
    pub(crate) fn set(&mut self, key: &CurrentKey, value: V) -> Result<(), Error> {
        let found = self.slot(key);
        let number = self.number(key.group);
        let group = &mut self.groups[number];
        if let Some(slot) = found {
            group.page(slot).set(slot as usize % ENTRIES, value);
            return Ok(());
        }
        if key.bytes.len() > MAX_KEY_BYTES {
            let (bytes, limit) = (key.bytes.len(), MAX_KEY_BYTES);
            return Err(Error::KeyTooLong { state: self.name.clone(), bytes, limit });
        }
        self.last = Some((key.turn, group.insert(key.hash, &key.bytes, value)));
        Ok(())
    }

    pub(crate) fn remove(&mut self, key: &CurrentKey) {
        if let Some(slot) = self.slot(key) {
            let number = self.number(key.group);
            self.groups[number].remove(key.hash, slot);
            self.last = None;
        }
    }
}

impl<V: Data + Sync> AnyTable for Table<V> {
    fn name(&self) -> &str {
        &self.name
    }

    fn freeze(&self) -> Box<dyn Frozen> {
        Box::new(FrozenTable {
            name: self.name.clone(),
            first: self.range.first,
            groups: self.groups.iter().map(|g| g.pages.clone()).collect(),
            serializer: Arc::clone(&self.serializer),
        })
    }

    fn restore(&mut self, group: KeyGroup, mut bytes: &[u8], written: &StateIndex) -> Result<(), Error> {
        let number = self.number(group);
        while !bytes.is_empty() {
            let (Some(key), Some(value)) = (read_bytes(&mut bytes), read_bytes(&mut bytes)) else {
                return Err(malformed(&self.name, format!("key group {} is cut off", group.0)));
            };
            let problem = |problem| Error::Serializer { state: self.name.clone(), action: "read", problem };
            let value = self.serializer.read(&written.serializer, value).map_err(problem)?;
            self.groups[number].insert(hash_key(key), key, value);
        }
        Ok(())
    }

    fn as_any(&mut self) -> &mut dyn Any {
        self
    }

    fn len(&self) -> usize {
        self.groups.iter().map(|g| g.index.len()).sum()
    }
}

struct FrozenTable<V> {
    name: String,
    first: u16,
    groups: Vec<Vec<Arc<Page<V>>>>,
    serializer: Arc<dyn Serializer<V>>,
}

impl<V: Data + Sync> Frozen for FrozenTable<V> {
    fn name(&self) -> &str {
        &self.name
    }

    fn kind(&self) -> &str {
        "value"
    }

    fn serializer(&self) -> SerializerId {
        self.serializer.id()
    }

    fn write_group(&self, group: KeyGroup, out: &mut Vec<u8>) -> Result<(), Error> {
        let mut encoded = Vec::new();
        for page in &self.groups[usize::from(group.0 - self.first)] {
            for (_, key, value) in page.iter() {
                encoded.clear();
                self.serializer.write(value, &mut encoded).map_err(|problem| Error::Serializer {
                    state: self.name.clone(),
                    action: "written",
                    problem,
                })?;
                write_length(key.len(), out);
                out.extend_from_slice(key);
                write_length(encoded.len(), out);
                out.extend_from_slice(&encoded);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::model::{KeyGroupRange, MaxParallelism};
    use crate::state::KeyedState;
    use proptest::prelude::*;
    use std::collections::HashMap;

    fn state() -> (KeyedState, MaxParallelism) {
        let max = MaxParallelism::new(16).unwrap();
        (KeyedState::new(KeyGroupRange::of_subtask(0, 1, max), max), max)
    }

    #[derive(Debug, Clone)]
    enum Op {
        Set(u16, u64),
        Clear(u16),
        Freeze,
    }

    fn op() -> impl Strategy<Value = Op> {
        prop_oneof![
            6 => (0u16..600, any::<u64>()).prop_map(|(k, v)| Op::Set(k, v)),
            4 => (0u16..600).prop_map(Op::Clear),
            1 => Just(Op::Freeze),
        ]
    }

    fn all(state: &mut KeyedState, handle: &crate::state::ValueState<u64>) -> HashMap<u16, u64> {
        let mut found = HashMap::new();
        for k in 0u16..600 {
            state.set_key(|out| out.extend_from_slice(&k.to_be_bytes()));
            if let Some(v) = handle.get(state).unwrap() {
                found.insert(k, v);
            }
        }
        found
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn any_history_agrees_with_a_plain_map_and_every_freeze_keeps_its_moment(
            ops in prop::collection::vec(op(), 1..3000),
        ) {
            let (mut state, max) = state();
            let handle = state.value::<u64>("v").unwrap();
            let mut model = HashMap::new();
            let mut frozen = Vec::new();
            for op in ops {
                match op {
                    Op::Set(k, v) => {
                        state.set_key(|out| out.extend_from_slice(&k.to_be_bytes()));
                        handle.set(&mut state, v).unwrap();
                        prop_assert_eq!(handle.get(&mut state).unwrap(), Some(v));
                        model.insert(k, v);
                    }
                    Op::Clear(k) => {
                        state.set_key(|out| out.extend_from_slice(&k.to_be_bytes()));
                        handle.clear(&mut state).unwrap();
                        prop_assert_eq!(handle.get(&mut state).unwrap(), None);
                        model.remove(&k);
                    }
                    Op::Freeze if frozen.len() < 4 => frozen.push((state.freeze(), model.clone())),
                    Op::Freeze => {}
                }
                prop_assert_eq!(state.entries(), model.len());
            }
            prop_assert_eq!(&all(&mut state, &handle), &model);
            for (picture, then) in frozen {
                // Restored at another parallelism: the two halves together are the whole.
                let files: Vec<_> = picture.into_files().map(|f| f.unwrap()).collect();
                let mut found = HashMap::new();
                for subtask in 0..2 {
                    let range = KeyGroupRange::of_subtask(subtask, 2, max);
                    let mut half = KeyedState::new(range, max);
                    let handle = half.value::<u64>("v").unwrap();
                    for (i, file) in files.iter().enumerate() {
                        half.restore(&format!("f{i}"), file).unwrap();
                    }
                    for k in 0u16..600 {
                        let bytes = k.to_be_bytes();
                        let hash = crate::model::key_group::hash_key(&bytes);
                        if range.contains(crate::model::key_group::key_group_of(hash, max)) {
                            half.set_key(|out| out.extend_from_slice(&bytes));
                            if let Some(v) = handle.get(&mut half).unwrap() {
                                found.insert(k, v);
                            }
                        }
                    }
                }
                prop_assert_eq!(found, then);
            }
        }
    }

    /// Keys come and go: what they took is used again, however long they are.
    #[test]
    fn memory_of_removed_keys_is_used_again() {
        for key_bytes in [2usize, 100, 1000, 20_000] {
            let mut group = super::Group::<u64>::new();
            for round in 0..3000u64 {
                let mut key = vec![0; key_bytes];
                key[0] = round as u8;
                key[1] = (round >> 8) as u8;
                let hash = crate::model::key_group::hash_key(&key);
                let slot = group.insert(hash, &key, round);
                group.remove(hash, slot);
            }
            assert!(group.pages.len() <= 2, "{key_bytes}: {} pages for no key", group.pages.len());
        }
    }

    #[test]
    fn state_without_a_key_is_refused_with_a_hint() {
        let (mut state, _) = state();
        let handle = state.value::<u64>("count").unwrap();
        let error = handle.get(&mut state).unwrap_err().to_string();
        assert!(error.contains("\"count\"") && error.contains("process"), "{error}");
        assert!(state.value::<u8>("count").is_err());
    }
}
