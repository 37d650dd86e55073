//! A savepoint: everything that a start needs in one folder, which may be moved, copied and kept.
//!
//! Its law: the folder refers to nothing outside of itself. Beside the files of state, under the names that the manifest
//! has for them, stands the manifest as `savepoint`, written last: without it the folder is no savepoint. It is outside
//! of every job's sequence, so it makes nothing complete and permits no commit.

use super::{Cause, Error, Manifest, rewrite, state_files};
use crate::host::random;
use crate::model::{CheckpointId, MaxParallelism};
use crate::state::StateHandle;
use crate::storage::{self, FileRef, Storage};
use std::sync::Arc;

/// The manifest's name in the folder.
const MANIFEST: &str = "savepoint";

/// How the names of their folders begin.
const FOLDER: &str = "savepoint-";

/// What a start can begin with: a savepoint, or the newest checkpoint in a job's folder.
pub struct Snapshot {
    /// Where its files are.
    pub store: Arc<dyn Storage>,
    /// What it says.
    pub manifest: Manifest,
    /// Whether it is a savepoint.
    pub is_savepoint: bool,
}

/// A plain absolute path is a folder of the local file system.
fn uri(place: &str) -> String {
    if place.starts_with('/') { format!("file://{place}") } else { place.to_owned() }
}

/// Whether savepoints can be written below this place, as far as its text tells.
///
/// # Errors
/// The store's, for a location of no known kind.
pub fn check_place(place: &str) -> Result<(), storage::Error> {
    storage::check_location(&uri(place))
}

/// Writes a savepoint into a new folder below `target` and gives that folder's URI. What was written is taken back if it
/// cannot be finished.
///
/// # Errors
/// The stores'.
pub fn write(
    from: &dyn Storage,
    manifest: &Manifest,
    target: &str,
    options: &storage::Options,
) -> Result<String, Error> {
    let mut folder = NewFolder::below(target, manifest.checkpoint, options)?;
    let copied = manifest.files().try_for_each(|file| folder.put(&file.name, &file.read(from)?));
    crate::fault_point!("savepoint.after_files");
    let place = folder.finish(copied.map(|()| manifest.clone()).map_err(Error::from))?;
    crate::fault_point!("savepoint.after_manifest");
    Ok(place)
}

/// A folder that becomes a savepoint with its last file.
struct NewFolder {
    place: String,
    store: Arc<dyn Storage>,
    written: Vec<String>,
}

impl NewFolder {
    fn below(target: &str, checkpoint: CheckpointId, options: &storage::Options) -> Result<Self, Error> {
        let folder = format!("{FOLDER}{checkpoint}-{}", random::token());
        let place = format!("{}/{folder}", uri(target).trim_end_matches('/'));
        let store = storage::open_with(&place, "", options)?;
        Ok(Self { place, store, written: Vec::new() })
    }

    fn put(&mut self, name: &str, bytes: &[u8]) -> Result<(), storage::Error> {
        self.store.put(name, bytes)?;
        self.written.push(name.to_owned());
        Ok(())
    }

    /// Writes the manifest, or takes back what was written, and gives the folder's URI.
    fn finish(self, manifest: Result<Manifest, Error>) -> Result<String, Error> {
        let finished = manifest.and_then(|manifest| {
            let manifest = Manifest { cause: Cause::Savepoint, ..manifest };
            Ok(self.store.put(MANIFEST, &manifest.encode())?)
        });
        if let Err(e) = finished {
            // The manifest first, which may be there although its answer was lost: what stays is no savepoint without it.
            if self.store.delete(MANIFEST).is_ok() {
                let _ = self.store.delete_all(&self.written);
            }
            return Err(e);
        }
        Ok(self.place)
    }
}

/// Opens a savepoint, or the newest checkpoint in a job's folder.
///
/// # Errors
/// [`Error::NoSnapshot`] if there is neither, [`Error::Damaged`], or the store's.
pub fn open(place: &str, options: &storage::Options) -> Result<Snapshot, Error> {
    let missing = || Error::NoSnapshot { location: place.to_owned() };
    let store = storage::open_existing_with(&uri(place), "", options)?.ok_or_else(missing)?;
    let (name, bytes, is_savepoint) = match store.get(MANIFEST) {
        Ok(bytes) => (MANIFEST.to_owned(), bytes, true),
        Err(storage::Error::NotFound { .. }) => {
            let newest = store.list("manifest")?.pop().ok_or_else(missing)?;
            let name = format!("manifest/{newest}");
            let bytes = store.get(&name)?;
            (name, bytes, false)
        }
        Err(e) => return Err(e.into()),
    };
    let manifest = Manifest::decode(&bytes).map_err(|problem| {
        let (location, problem) = (store.location(), problem.to_string());
        Error::Damaged { location, name, problem }
    })?;
    Ok(Snapshot { store, manifest, is_savepoint })
}

/// Deletes the files of a savepoint that was never finished: its writer died before the manifest.
///
/// # Errors
/// [`Error::Finished`] for anything else, or the store's.
pub fn dispose_unfinished(place: &str, options: &storage::Options) -> Result<(), Error> {
    let Some(store) = storage::open_existing_with(&uri(place), "", options)? else {
        return Err(Error::NoSnapshot { location: place.to_owned() });
    };
    let own_folder = place.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
    let is_finished = match store.get(MANIFEST) {
        Ok(_) => true,
        Err(storage::Error::NotFound { .. }) => !store.list("manifest")?.is_empty(),
        Err(e) => return Err(e.into()),
    };
    if is_finished || !own_folder.starts_with(FOLDER) {
        return Err(Error::Finished { location: store.location() });
    }
    Ok(store.delete_all(&state_files(store.list("state")?))?)
}

impl Snapshot {
    /// What a job remembers that it has begun with. The checkpoints of another job are one thing, however many come.
    pub fn origin(&self) -> String {
        match self.is_savepoint {
            true => self.manifest.nonce.clone(),
            false => format!("checkpoints of {} in {}", self.manifest.job, self.store.location()),
        }
    }

    /// Copies its files into the store of the job that begins with it, under names of that job's generation, and gives
    /// the operators that refer to the copies.
    ///
    /// # Errors
    /// The stores'; a file that was changed is named.
    pub fn adopt(&self, by: &Manifest, into: &dyn Storage) -> Result<Manifest, Error> {
        let mut adopted = self.manifest.clone();
        for handle in adopted.operators.iter_mut().flat_map(|o| &mut o.subtasks).flat_map(|s| s.handles_mut())
        {
            if let StateHandle::File(file) = handle {
                let bytes = file.read(&*self.store)?;
                let name = format!("state/{}-0-{}", by.generation, random::token());
                *file = FileRef::write(into, name, &bytes)?;
            }
        }
        if adopted.job != by.job {
            adopted = adopted.without_committables();
        }
        Ok(adopted)
    }

    /// Writes it anew as a savepoint below `target`, with `max` key groups for every keyed operator, and gives the new
    /// folder's URI.
    ///
    /// # Errors
    /// The stores', or [`Error::Regroup`] if state is damaged or missing.
    pub fn rescale(
        &self,
        max: MaxParallelism,
        target: &str,
        options: &storage::Options,
    ) -> Result<String, Error> {
        let mut folder = NewFolder::below(target, self.manifest.checkpoint, options)?;
        let mut write = |bytes: &[u8]| {
            let name = format!("state/rescaled-{}-{}", folder.written.len(), random::token());
            let file = FileRef::write(&*folder.store, name, bytes)?;
            folder.written.push(file.name.clone());
            Ok(StateHandle::File(file))
        };
        let rewritten = rewrite(&*self.store, &self.manifest, max, &mut write);
        crate::fault_point!("rescale.after_files");
        // A job that has begun with the old one can begin with this.
        let place = folder.finish(rewritten.map(|m| Manifest { nonce: random::token(), ..m }))?;
        crate::fault_point!("rescale.after_manifest");
        Ok(place)
    }

    /// Deletes a savepoint: its manifest first, so that nobody begins with half of it.
    ///
    /// # Errors
    /// The store's, or [`Error::NoSnapshot`] for the checkpoint of a job, which only that job deletes.
    pub fn dispose(&self) -> Result<(), Error> {
        if !self.is_savepoint {
            return Err(Error::NoSnapshot { location: self.store.location() });
        }
        self.store.delete(MANIFEST)?;
        let files: Vec<String> = self.manifest.files().map(|file| file.name.clone()).collect();
        Ok(self.store.delete_all(&files)?)
    }

    /// Everything that is wrong with it, one text each: files that are missing or changed, key groups that no subtask or
    /// more than one covers.
    pub fn problems(&self) -> Vec<String> {
        let damaged =
            self.manifest.files().filter_map(|file| Some(file.read(&*self.store).err()?.to_string()));
        let mut found: Vec<String> = damaged.collect();
        for operator in &self.manifest.operators {
            let uid = &operator.uid;
            if let Some(max) = operator.max_parallelism {
                let mut next = 0;
                for range in operator.subtasks.iter().filter_map(|s| s.range) {
                    if u32::from(range.first) != next {
                        found.push(format!(
                            "operator {uid}: key group {next} should come next, a subtask begins with {}",
                            range.first
                        ));
                    }
                    next = u32::from(range.last) + 1;
                }
                if next != max.get() {
                    found.push(format!("operator {uid}: {next} of {} key groups are covered", max.get()));
                }
            }
        }
        found
    }
}

/// The first of a savepoint's facts, for people.
impl std::fmt::Display for Snapshot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let kind = if self.is_savepoint { "savepoint" } else { "checkpoint" };
        let CheckpointId(id) = self.manifest.checkpoint;
        write!(f, "{kind} {id} of job {} in {}", self.manifest.job, self.store.location())
    }
}

#[cfg(test)]
mod tests {
    use super::super::{OperatorSnapshot, SubtaskSnapshot};
    use super::*;
    use crate::connector::Committable;
    use crate::model::{JobId, OperatorUid};
    use crate::storage::Local;

    fn manifest(store: &Local, job: &str) -> Manifest {
        let file = FileRef::write(store, "state/1-1-x".into(), b"state").unwrap();
        let mut manifest = Manifest::unborn(JobId::new(job).unwrap());
        manifest.operators.push(OperatorSnapshot {
            uid: OperatorUid("sink".into()),
            name: "sink".into(),
            max_parallelism: None,
            subtasks: vec![SubtaskSnapshot {
                keyed: vec![StateHandle::File(file)],
                committables: vec![Committable { sequence: 7, deadline_ms: 0, evidence: vec![1] }],
                ..SubtaskSnapshot::default()
            }],
        });
        manifest
    }

    fn plain() -> storage::Options {
        storage::Options::default()
    }

    fn scene() -> (tempfile::TempDir, Local, String) {
        let dir = tempfile::tempdir().unwrap();
        let store = Local::open(dir.path().join("job")).unwrap();
        let target = dir.path().join("savepoints").display().to_string();
        (dir, store, target)
    }

    #[test]
    fn a_savepoint_that_was_moved_still_opens_and_a_flipped_byte_is_found() {
        let (dir, store, target) = scene();
        let place = write(&store, &manifest(&store, "orders"), &target, &plain()).unwrap();
        let moved = dir.path().join("moved");
        std::fs::rename(place.strip_prefix("file://").unwrap(), &moved).unwrap();
        store.delete("state/1-1-x").unwrap();
        let moved = moved.display().to_string();
        assert_eq!(open(&moved, &plain()).unwrap().problems(), Vec::<String>::new());
        std::fs::write(format!("{moved}/state/1-1-x"), b"stale").unwrap();
        let problems = open(&moved, &plain()).unwrap().problems();
        assert!(problems.len() == 1 && problems[0].contains("state/1-1-x"), "{problems:?}");
        std::fs::write(format!("{moved}/savepoint"), b"TGMF or not").unwrap();
        assert!(matches!(open(&moved, &plain()), Err(Error::Damaged { .. })));
    }

    #[test]
    fn a_flip_of_any_byte_of_any_file_is_found_with_the_files_name() {
        let (_dir, store, target) = scene();
        let place = write(&store, &manifest(&store, "orders"), &target, &plain()).unwrap();
        let folder = place.strip_prefix("file://").unwrap();
        for name in ["savepoint", "state/1-1-x"] {
            let path = format!("{folder}/{name}");
            let whole = std::fs::read(&path).unwrap();
            for at in 0..whole.len() {
                let mut flipped = whole.clone();
                flipped[at] ^= 1 << (at % 8);
                std::fs::write(&path, flipped).unwrap();
                let told = match open(&place, &plain()) {
                    Ok(opened) => opened.problems().join("\n"),
                    Err(e) => e.to_string(),
                };
                assert!(told.contains(name), "byte {at} of {name}: {told}");
            }
            std::fs::write(&path, whole).unwrap();
        }
    }

    #[test]
    fn a_fork_owns_no_transaction_and_the_job_itself_does() {
        let (_dir, store, target) = scene();
        let saved =
            open(&write(&store, &manifest(&store, "orders"), &target, &plain()).unwrap(), &plain()).unwrap();
        for (job, owns) in [("orders", true), ("fork", false)] {
            let by = Manifest::unborn(JobId::new(job).unwrap());
            let adopted = saved.adopt(&by, &store).unwrap();
            assert_eq!(adopted.has_committables(), owns, "{job}");
            assert!(adopted.files().all(|file| file.read(&store).is_ok()));
        }
    }

    #[test]
    fn what_was_never_finished_can_be_disposed_of_and_nothing_else() {
        let (dir, store, target) = scene();
        let place = write(&store, &manifest(&store, "orders"), &target, &plain()).unwrap();
        assert!(matches!(dispose_unfinished(&place, &plain()), Err(Error::Finished { .. })));
        let elsewhere = dir.path().join("job").display().to_string();
        assert!(matches!(dispose_unfinished(&elsewhere, &plain()), Err(Error::Finished { .. })));
        let folder = place.strip_prefix("file://").unwrap();
        std::fs::remove_file(format!("{folder}/savepoint")).unwrap();
        dispose_unfinished(&place, &plain()).unwrap();
        assert_eq!(std::fs::read_dir(format!("{folder}/state")).unwrap().count(), 0);
    }

    #[test]
    fn what_is_disposed_of_is_gone() {
        let (_dir, store, target) = scene();
        let place = write(&store, &manifest(&store, "orders"), &target, &plain()).unwrap();
        open(&place, &plain()).unwrap().dispose().unwrap();
        assert!(matches!(open(&place, &plain()), Err(Error::NoSnapshot { .. })));
    }
}
