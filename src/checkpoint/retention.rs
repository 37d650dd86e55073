//! What may be deleted after a manifest was published: decided by reference, from a list of names.

use super::Manifest;
use crate::model::Generation;
use crate::storage::FileRef;
use std::collections::HashSet;

/// State files are in this folder.
const STATE: &str = "state/";

/// A manifest that is still in the store, and what it refers to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    /// Its slot.
    pub slot: u64,
    /// Its checkpoint; several manifests (claims, resolutions) may carry the same.
    pub checkpoint: u64,
    /// The files that it needs.
    pub files: Vec<FileRef>,
}

impl Held {
    /// What a manifest holds.
    pub fn of(manifest: &Manifest) -> Self {
        Self {
            slot: manifest.slot,
            checkpoint: manifest.checkpoint.0,
            files: manifest.files().cloned().collect(),
        }
    }
}

/// What may go.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Deletions {
    /// Slots of manifests.
    pub slots: Vec<u64>,
    /// Names of files that no kept manifest refers to.
    pub files: Vec<String>,
}

/// Keeps the manifests of the newest `retained` checkpoints, and every file that one of them refers to; takes the
/// others out of `held`, which is in order of slots.
pub fn superseded(held: &mut Vec<Held>, retained: usize) -> Deletions {
    let mut kept_checkpoints: Vec<u64> = held.iter().map(|h| h.checkpoint).collect();
    kept_checkpoints.dedup();
    let first_kept =
        kept_checkpoints[kept_checkpoints.len().saturating_sub(retained.max(1))..].first().copied();
    let at = held.iter().position(|h| Some(h.checkpoint) == first_kept).unwrap_or(0);
    let gone: Vec<Held> = held.drain(..at).collect();
    let needed: HashSet<&FileRef> = held.iter().flat_map(|h| &h.files).collect();
    let mut deletions = Deletions { slots: gone.iter().map(|h| h.slot).collect(), files: Vec::new() };
    let mut seen = HashSet::new();
    for file in gone.iter().flat_map(|h| &h.files).filter(|f| !needed.contains(f)) {
        if seen.insert(&file.name) {
            deletions.files.push(file.name.clone());
        }
    }
    deletions
}

/// The files of a folder that nobody will ever refer to: written under an older generation, whose owner is fenced, and in
/// no manifest. `names` are as [`state_file_generation`] reads them; all manifests in the store must be in `held`. Without
/// any manifest nothing is known, and nothing is an orphan.
pub fn orphans(names: &[String], held: &[Held], generation: Generation) -> Vec<String> {
    if held.is_empty() {
        return Vec::new();
    }
    let needed: HashSet<&str> = held.iter().flat_map(|h| &h.files).map(|f| f.name.as_str()).collect();
    let old = |name: &&String| state_file_generation(name).is_some_and(|g| g < generation);
    names.iter().filter(old).filter(|name| !needed.contains(name.as_str())).cloned().collect()
}

/// The names of files in a store's folder of state files, as manifests have them.
pub fn state_files(listed: Vec<String>) -> Vec<String> {
    listed.into_iter().map(|name| format!("{STATE}{name}")).collect()
}

/// The generation under which a state file was written: its name begins with it, as in `state/7-…`.
fn state_file_generation(name: &str) -> Option<Generation> {
    name.strip_prefix(STATE)?.split('-').next()?.parse().ok().map(Generation)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(slot: u64, checkpoint: u64, files: &[&str]) -> Held {
        let file = |name: &&str| FileRef { name: (*name).to_owned(), bytes: 1, crc32: 0 };
        Held { slot, checkpoint, files: files.iter().map(file).collect() }
    }

    #[test]
    fn only_what_an_older_generation_left_and_no_manifest_needs_is_an_orphan() {
        let names: Vec<String> = ["state/1-5-x", "state/1-6-y", "state/2-7-z", "state/foreign", "other/1-1"]
            .map(str::to_owned)
            .into();
        let kept = [held(3, 5, &["state/1-5-x"])];
        assert_eq!(orphans(&names, &kept, Generation(2)), ["state/1-6-y"]);
        assert_eq!(orphans(&names, &kept, Generation(1)), Vec::<String>::new());
        assert_eq!(orphans(&names, &[], Generation(9)), Vec::<String>::new());
    }

    #[test]
    fn a_file_goes_only_with_the_last_manifest_that_needs_it() {
        let all = [
            held(0, 0, &[]),
            held(1, 1, &["a", "shared"]),
            held(2, 1, &["a", "shared"]),
            held(3, 2, &["b", "shared"]),
            held(4, 3, &["c"]),
        ];
        let table: &[(usize, &[u64], &[&str])] = &[
            (1, &[0, 1, 2, 3], &["a", "shared", "b"]),
            (2, &[0, 1, 2], &["a"]),
            (3, &[0], &[]),
            (9, &[], &[]),
            (0, &[0, 1, 2, 3], &["a", "shared", "b"]),
        ];
        for (retained, slots, files) in table {
            let mut now = all.to_vec();
            let deletions = superseded(&mut now, *retained);
            assert_eq!(deletions.slots, *slots, "retained {retained}");
            assert_eq!(deletions.files, *files, "retained {retained}");
            assert_eq!(now.len() + slots.len(), all.len());
        }
    }
}
