//! Tries at start whether the store can publish: a store that lets two writers win one name would let two
//! processes own one job.

use super::{Error, Put, Storage};
use crate::host::{random, thread};
use std::sync::{Arc, Barrier};

/// How many writers race for one name.
const RACERS: usize = 4;

/// Races [`RACERS`] writers for a fresh name, reads the winner's bytes back, and deletes them.
///
/// # Errors
/// [`Error::NoConditionalPut`] if not exactly one won; else the store's own error, which also says that the
/// folder cannot be written.
pub fn probe(store: &Arc<dyn Storage>) -> Result<(), Error> {
    let name = format!("probe/{}", random::token());
    let gate = Arc::new(Barrier::new(RACERS));
    let mut racers = Vec::new();
    for racer in 0..RACERS {
        let (store, name, gate) = (Arc::clone(store), name.clone(), Arc::clone(&gate));
        let race = move || {
            gate.wait();
            (racer, store.put_if_absent(&name, &[racer as u8]))
        };
        let started = thread::spawn("probe", race);
        racers.push(started.map_err(|e| Error::io(&store_name(), "starting a thread for", "probe", e))?);
    }
    let mut winners = Vec::new();
    let mut failed = None;
    for racer in racers {
        match racer.join().expect("a racer does not panic") {
            (number, Ok(Put::Created)) => winners.push(number as u8),
            (_, Ok(Put::Exists)) => {}
            (_, Err(e)) => failed = Some(e),
        }
    }
    let found = store.get(&name);
    let deleted = store.delete(&name);
    if let Some(e) = failed {
        return Err(e);
    }
    if winners.len() != 1 || found? != winners {
        return Err(Error::NoConditionalPut {
            location: store.location(),
            winners: winners.len(),
            racers: RACERS,
        });
    }
    deleted
}

fn store_name() -> String {
    "this process".to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::Local;

    /// A store whose conditional put looks first and writes afterwards.
    struct Careless(Local);

    impl Storage for Careless {
        fn location(&self) -> String {
            "careless".into()
        }
        fn put(&self, name: &str, bytes: &[u8]) -> Result<(), Error> {
            self.0.put(name, bytes)
        }
        fn put_if_absent(&self, name: &str, bytes: &[u8]) -> Result<Put, Error> {
            if self.0.get(name).is_ok() {
                return Ok(Put::Exists);
            }
            std::thread::sleep(std::time::Duration::from_millis(50));
            self.0.put(name, bytes)?;
            Ok(Put::Created)
        }
        fn get(&self, name: &str) -> Result<Vec<u8>, Error> {
            self.0.get(name)
        }
        fn list(&self, folder: &str) -> Result<Vec<String>, Error> {
            self.0.list(folder)
        }
        fn delete(&self, name: &str) -> Result<(), Error> {
            self.0.delete(name)
        }
    }

    #[test]
    fn a_local_folder_passes_and_is_left_clean() {
        let dir = tempfile::tempdir().unwrap();
        let store: Arc<dyn Storage> = Arc::new(Local::open(dir.path()).unwrap());
        probe(&store).unwrap();
        assert!(store.list("probe").unwrap().is_empty());
    }

    #[test]
    fn a_store_that_cannot_publish_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let store: Arc<dyn Storage> = Arc::new(Careless(Local::open(dir.path()).unwrap()));
        assert!(matches!(probe(&store), Err(Error::NoConditionalPut { winners: 2.., .. })));
    }
}
