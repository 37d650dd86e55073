//! What the store holds when an attempt begins: the manifests that retention counts, and files that nobody will list.
//!
//! Its law: what is not known is not deleted. A manifest whose content is not known may need any file, so with one of
//! those no file counts as left behind; and an answer without the manifest that this process has just published is none.

use crate::checkpoint::{Error, Held, Manifest, Sequence, orphans, state_files};
use crate::model::Failure;
use crate::storage;

/// What there is.
#[derive(Debug)]
pub(super) struct Inventory {
    /// Every manifest that can be read, in order of slots.
    pub(super) held: Vec<Held>,
    /// Files that a former owner wrote and listed nowhere.
    pub(super) left: Vec<String>,
}

impl Inventory {
    /// Of the sequence whose newest manifest is `own`.
    ///
    /// # Errors
    /// When the store does not answer, or does not show what was just published.
    pub(super) fn of(sequence: &Sequence, own: &Manifest) -> Result<Self, Failure> {
        let (mut held, mut all_known) = (Vec::new(), true);
        for slot in sequence.slots()? {
            match sequence.read(slot) {
                Ok(manifest) => held.push(Held::of(&manifest)),
                // The cleaner of a former owner may have been here.
                Err(Error::Storage(storage::Error::NotFound { .. })) => {}
                Err(e @ (Error::Unreadable { .. } | Error::OtherJob { .. })) => {
                    tracing::warn!("nothing is deleted that an older manifest may need: {e}");
                    all_known = false;
                }
                Err(e) => return Err(e.into()),
            }
        }
        if held.iter().all(|h| h.slot != own.slot) {
            return Err(Failure::restart(format!(
                "{}: a list of the manifests does not show {}, which this process has published",
                sequence.store().location(),
                Manifest::name_of(own.slot),
            )));
        }
        let names = state_files(sequence.store().list("state").map_err(Error::from)?);
        let left = if all_known { orphans(&names, &held, own.generation) } else { Vec::new() };
        Ok(Self { held, left })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkpoint::{OperatorSnapshot, SubtaskSnapshot};
    use crate::model::{JobId, OperatorUid};
    use crate::state::StateHandle;
    use crate::storage::{FileRef, Memory, Put, Storage};
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::{Arc, Mutex};

    /// A store whose lists of one folder fail, or leave one name out.
    struct Hurt {
        inner: Memory,
        folder: Mutex<&'static str>,
        leaves_out: AtomicBool,
    }

    impl Storage for Hurt {
        fn location(&self) -> String {
            self.inner.location()
        }
        fn put(&self, name: &str, bytes: &[u8]) -> Result<(), storage::Error> {
            self.inner.put(name, bytes)
        }
        fn put_if_absent(&self, name: &str, bytes: &[u8]) -> Result<Put, storage::Error> {
            self.inner.put_if_absent(name, bytes)
        }
        fn get(&self, name: &str) -> Result<Vec<u8>, storage::Error> {
            self.inner.get(name)
        }
        fn list(&self, folder: &str) -> Result<Vec<String>, storage::Error> {
            let mut names = self.inner.list(folder)?;
            if *self.folder.lock().unwrap() == folder {
                if !self.leaves_out.load(Ordering::SeqCst) {
                    let (location, name) = (self.location(), folder.to_owned());
                    let problem = "503".to_owned();
                    return Err(storage::Error::Unavailable { location, action: "listing", name, problem });
                }
                names.pop();
            }
            Ok(names)
        }
        fn delete(&self, name: &str) -> Result<(), storage::Error> {
            self.inner.delete(name)
        }
    }

    /// A former owner's checkpoint, its orphan, and our claim.
    fn scene(name: &str) -> (Arc<Hurt>, Sequence, Manifest) {
        let inner = Memory::open(name, "", 1 << 20);
        let store = Arc::new(Hurt { inner, folder: Mutex::new(""), leaves_out: AtomicBool::new(false) });
        let sequence = Sequence::new(Arc::clone(&store) as Arc<dyn Storage>, JobId::new("orders").unwrap());
        let mut first = sequence.claim(false).unwrap();
        let file = FileRef::write(&*store, "state/1-1-needed".into(), b"state").unwrap();
        store.put("state/1-2-orphan", b"state").unwrap();
        first.operators.push(OperatorSnapshot {
            uid: OperatorUid("count".into()),
            name: "count".into(),
            max_parallelism: None,
            subtasks: vec![SubtaskSnapshot {
                keyed: vec![StateHandle::File(file)],
                ..SubtaskSnapshot::default()
            }],
        });
        let checkpoint = Sequence::first_id(&first);
        let next = sequence.next(&first, crate::checkpoint::Cause::Checkpoint, checkpoint);
        sequence.must_publish(&next).unwrap();
        let own = sequence.claim(false).unwrap();
        (store, sequence, own)
    }

    #[test]
    fn what_no_manifest_lists_is_left_behind() {
        let (_, sequence, own) = scene("inventory-plain");
        let found = Inventory::of(&sequence, &own).unwrap();
        assert_eq!(found.left, ["state/1-2-orphan"]);
        assert_eq!(found.held.len(), 3);
    }

    #[test]
    fn a_list_that_fails_or_is_short_deletes_nothing() {
        let (store, sequence, own) = scene("inventory-hurt");
        for folder in ["manifest", "state"] {
            *store.folder.lock().unwrap() = folder;
            let failure = Inventory::of(&sequence, &own).unwrap_err();
            assert!(failure.to_string().contains("503"), "{folder}: {failure}");
        }
        store.leaves_out.store(true, Ordering::SeqCst);
        *store.folder.lock().unwrap() = "manifest";
        let failure = Inventory::of(&sequence, &own).unwrap_err();
        assert!(failure.to_string().contains("does not show"), "{failure}");
    }

    #[test]
    fn with_a_manifest_that_cannot_be_read_nothing_is_left_behind() {
        let (store, sequence, own) = scene("inventory-damaged");
        store.put(&Manifest::name_of(0), b"TGMF or not").unwrap();
        let found = Inventory::of(&sequence, &own).unwrap();
        assert_eq!((found.left.len(), found.held.len()), (0, 2));
    }
}
