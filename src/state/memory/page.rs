//! A page: up to [`ENTRIES`] keys with their values, copied as a whole when a snapshot still holds it.
//!
//! The keys of a page lie one behind the other in one buffer, so that copying a page costs two allocations
//! however many keys it has.

/// Most entries of a page.
pub(super) const ENTRIES: usize = 256;

/// A page takes no further key once its keys have this many bytes (16 KiB): long keys make pages of few entries.
const KEY_BYTES: usize = 16 * 1024;

#[derive(Clone)]
struct Entry<V> {
    start: u32,
    length: u32,
    value: Option<V>,
}

/// Keys and values of one page.
#[derive(Clone)]
pub(super) struct Page<V> {
    keys: Vec<u8>,
    entries: Vec<Entry<V>>,
    live: u32,
}

impl<V> Page<V> {
    pub(super) fn new() -> Self {
        Self { keys: Vec::new(), entries: Vec::new(), live: 0 }
    }

    /// Whether another key may be added.
    pub(super) fn has_room(&self) -> bool {
        self.entries.len() < ENTRIES && self.keys.len() < KEY_BYTES
    }

    /// Adds an entry and returns its place.
    pub(super) fn push(&mut self, key: &[u8], value: V) -> usize {
        let start = u32::try_from(self.keys.len()).expect("a page's keys are bounded");
        self.keys.extend_from_slice(key);
        self.entries.push(Entry { start, length: key.len() as u32, value: Some(value) });
        self.live += 1;
        self.entries.len() - 1
    }

    #[inline]
    pub(super) fn key(&self, at: usize) -> &[u8] {
        let entry = &self.entries[at];
        &self.keys[entry.start as usize..(entry.start + entry.length) as usize]
    }

    #[inline]
    pub(super) fn value(&self, at: usize) -> Option<&V> {
        self.entries[at].value.as_ref()
    }

    #[inline]
    pub(super) fn set(&mut self, at: usize, value: V) {
        self.entries[at].value = Some(value);
    }

    /// Takes the value out; the place stays unused until the page is emptied or rewritten.
    pub(super) fn remove(&mut self, at: usize) {
        if self.entries[at].value.take().is_some() {
            self.live -= 1;
        }
    }

    /// How many of its places hold no value any more.
    pub(super) fn dead(&self) -> usize {
        self.entries.len() - self.live as usize
    }

    /// How many values it holds.
    pub(super) fn live(&self) -> usize {
        self.live as usize
    }

    /// The living entries with their places.
    pub(super) fn iter(&self) -> impl Iterator<Item = (usize, &[u8], &V)> {
        self.entries.iter().enumerate().filter_map(|(at, e)| Some((at, self.key(at), e.value.as_ref()?)))
    }
}
