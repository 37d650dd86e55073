//! Blobs in this process's memory, with a limit, for tests: what is under a name lives until the process ends.

use super::{Error, Put, Storage};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard};

type Blobs = Arc<Mutex<BTreeMap<String, Vec<u8>>>>;

/// All stores of this process by the name in their URI.
static STORES: LazyLock<Mutex<HashMap<String, Blobs>>> = LazyLock::new(Mutex::default);

/// A folder of one named store.
pub struct Memory {
    store: String,
    prefix: String,
    blobs: Blobs,
    limit_bytes: usize,
}

impl Memory {
    /// Uses the folder `below` of the store with this name; both are made by the first blob.
    pub fn open(store: &str, below: &str, limit_bytes: usize) -> Self {
        let mut stores = STORES.lock().expect("nobody panics with the lock");
        let blobs = Arc::clone(stores.entry(store.to_owned()).or_default());
        let prefix = if below.is_empty() { String::new() } else { format!("{below}/") };
        Self { store: store.to_owned(), prefix, blobs, limit_bytes }
    }

    /// Whether anything is in the folder.
    pub(super) fn exists(&self) -> bool {
        self.lock().keys().any(|key| key.starts_with(&self.prefix))
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Vec<u8>>> {
        self.blobs.lock().expect("nobody panics with the lock")
    }

    fn key(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    fn check_room(&self, blobs: &BTreeMap<String, Vec<u8>>, name: &str, bytes: usize) -> Result<(), Error> {
        let key = self.key(name);
        let used: usize = blobs.iter().filter(|(k, _)| **k != key).map(|(_, blob)| blob.len()).sum();
        if used + bytes > self.limit_bytes {
            return Err(Error::Full { location: self.location(), name: name.to_owned() });
        }
        Ok(())
    }
}

impl Storage for Memory {
    fn location(&self) -> String {
        format!("memory://{}/{}", self.store, self.prefix.trim_end_matches('/'))
    }

    fn put(&self, name: &str, bytes: &[u8]) -> Result<(), Error> {
        let mut blobs = self.lock();
        self.check_room(&blobs, name, bytes.len())?;
        blobs.insert(self.key(name), bytes.to_vec());
        Ok(())
    }

    fn put_if_absent(&self, name: &str, bytes: &[u8]) -> Result<Put, Error> {
        let mut blobs = self.lock();
        self.check_room(&blobs, name, bytes.len())?;
        match blobs.entry(self.key(name)) {
            Entry::Occupied(_) => Ok(Put::Exists),
            Entry::Vacant(place) => {
                place.insert(bytes.to_vec());
                Ok(Put::Created)
            }
        }
    }

    fn get(&self, name: &str) -> Result<Vec<u8>, Error> {
        let missing = || Error::NotFound { location: self.location(), name: name.to_owned() };
        self.lock().get(&self.key(name)).cloned().ok_or_else(missing)
    }

    fn list(&self, folder: &str) -> Result<Vec<String>, Error> {
        let folder = self.key(&format!("{folder}/"));
        let blobs = self.lock();
        let names = blobs.keys().filter_map(|key| key.strip_prefix(&folder));
        Ok(names.filter(|name| !name.contains('/')).map(str::to_owned).collect())
    }

    fn delete(&self, name: &str) -> Result<(), Error> {
        self.lock().remove(&self.key(name));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_holds_for_all_blobs_together() {
        let store = Memory::open("limit", "job", 10);
        store.put("a", b"12345").unwrap();
        store.put("a", b"123456").unwrap();
        assert!(matches!(store.put("b", b"12345"), Err(Error::Full { name, .. }) if name == "b"));
        store.put("b", b"1234").unwrap();
        store.delete("a").unwrap();
        store.put("c", b"123456").unwrap();
    }
}
