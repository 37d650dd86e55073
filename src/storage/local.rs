//! A folder of the local file system.
//!
//! A blob is written to a temporary file beside its place, synced, and only then given its name; then the
//! folder is synced, so that the name survives a power cut too. Publishing uses `link`, which the kernel
//! refuses when the name exists: a rename would replace it.

use super::{Error, Put, Storage, is_older};
use crate::host::random;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

/// Temporary files begin so; [`Storage::list`] leaves them out.
const TEMPORARY: &str = ".tmp-";

/// Blobs as files below a root folder.
pub struct Local {
    root: PathBuf,
}

impl Local {
    /// Uses the folder, making it if it does not exist.
    ///
    /// # Errors
    /// [`Error`], when it cannot be made.
    pub fn open(root: impl Into<PathBuf>) -> Result<Self, Error> {
        let root = root.into();
        let made = fs::create_dir_all(&root);
        let store = Self { root };
        made.map_err(|source| Error::NoFolder { location: store.location(), source })?;
        Ok(store)
    }

    fn error(&self, action: &'static str, name: &str, e: io::Error) -> Error {
        Error::io(&self.location(), action, name, e)
    }

    /// Writes and syncs a temporary file beside where `name` will be.
    fn stage(&self, name: &str, bytes: &[u8]) -> Result<(PathBuf, PathBuf), Error> {
        let path = self.root.join(name);
        let folder = path.parent().unwrap_or(&self.root).to_owned();
        let temporary = folder.join(format!("{TEMPORARY}{}", random::token()));
        let write = || {
            if !folder.is_dir() {
                fs::create_dir_all(&folder)?;
                sync_folder(folder.parent().unwrap_or(&folder))?;
            }
            let mut file = File::create_new(&temporary)?;
            file.write_all(bytes)?;
            file.sync_all()
        };
        write().map_err(|e| {
            // Best effort: the blob's own error is what matters.
            let _ = fs::remove_file(&temporary);
            self.error("writing", name, e)
        })?;
        Ok((temporary, path))
    }

    /// The blobs directly in a folder for whose file this holds.
    fn list_if(&self, folder: &str, is_wanted: impl Fn(&fs::DirEntry) -> bool) -> Result<Vec<String>, Error> {
        let entries = match fs::read_dir(self.root.join(folder)) {
            Ok(entries) => entries,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(e) => return Err(self.error("listing", folder, e)),
        };
        let mut names = Vec::new();
        for entry in entries {
            let entry = entry.map_err(|e| self.error("listing", folder, e))?;
            if let Ok(name) = entry.file_name().into_string()
                && !name.starts_with('.')
                && entry.file_type().is_ok_and(|t| t.is_file())
                && is_wanted(&entry)
            {
                names.push(name);
            }
        }
        names.sort_unstable();
        Ok(names)
    }
}

/// A file that is gone by now was not.
fn was_written_before(entry: &fs::DirEntry, than: Duration) -> bool {
    entry.metadata().and_then(|m| m.modified()).is_ok_and(|written| {
        let written = written.duration_since(UNIX_EPOCH).unwrap_or_default();
        is_older(u64::try_from(written.as_millis()).unwrap_or(u64::MAX), than)
    })
}

fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

impl Storage for Local {
    fn location(&self) -> String {
        format!("file://{}", self.root.display())
    }

    fn put(&self, name: &str, bytes: &[u8]) -> Result<(), Error> {
        let (temporary, path) = self.stage(name, bytes)?;
        fs::rename(&temporary, &path)
            .and_then(|()| sync_folder(path.parent().unwrap_or(&self.root)))
            .map_err(|e| self.error("naming", name, e))
    }

    fn put_if_absent(&self, name: &str, bytes: &[u8]) -> Result<Put, Error> {
        let (temporary, path) = self.stage(name, bytes)?;
        let linked = fs::hard_link(&temporary, &path);
        // What stays behind here is left out of listings and harms nobody.
        let _ = fs::remove_file(&temporary);
        match linked {
            Ok(()) => {
                // Whatever the error is, the name may be there: nobody may take it for a refusal.
                sync_folder(path.parent().unwrap_or(&self.root)).map_err(|source| Error::Io {
                    location: self.location(),
                    action: "syncing the folder of",
                    name: name.to_owned(),
                    source,
                })?;
                Ok(Put::Created)
            }
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(Put::Exists),
            Err(e) => Err(self.error("publishing", name, e)),
        }
    }

    fn get(&self, name: &str) -> Result<Vec<u8>, Error> {
        fs::read(self.root.join(name)).map_err(|e| self.error("reading", name, e))
    }

    fn list(&self, folder: &str) -> Result<Vec<String>, Error> {
        self.list_if(folder, |_| true)
    }

    fn list_older(&self, folder: &str, than: Duration) -> Result<Vec<String>, Error> {
        self.list_if(folder, |file| was_written_before(file, than))
    }

    fn delete(&self, name: &str) -> Result<(), Error> {
        match fs::remove_file(self.root.join(name)) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(self.error("deleting", name, e)),
            _ => Ok(()),
        }
    }

    fn sweep(&self, older_than: Duration) -> Result<usize, Error> {
        let entries = |folder: &Path| fs::read_dir(folder).into_iter().flatten().flatten();
        let mut swept = 0;
        for entry in entries(&self.root).flat_map(|folder| entries(&folder.path())) {
            let name = entry.file_name().to_string_lossy().into_owned();
            if name.starts_with(TEMPORARY) && was_written_before(&entry, older_than) {
                match fs::remove_file(entry.path()) {
                    // Its writer lives, and has just given it its name.
                    Err(e) if e.kind() == io::ErrorKind::NotFound => {}
                    removed => removed.map(|()| swept += 1).map_err(|e| self.error("deleting", &name, e))?,
                }
            }
        }
        Ok(swept)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_published_blob_is_never_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let store = Local::open(dir.path()).unwrap();
        assert_eq!(store.put_if_absent("m/1", b"first").unwrap(), Put::Created);
        assert_eq!(store.put_if_absent("m/1", b"second").unwrap(), Put::Exists);
        assert_eq!(store.get("m/1").unwrap(), b"first");
        assert_eq!(store.list("m").unwrap(), ["1"]);
    }

    #[test]
    fn what_a_dead_writer_left_is_deleted_when_it_is_old() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("state")).unwrap();
        let [old, young, blob] = [".tmp-old", ".tmp-young", "blob"].map(|name| {
            let path = dir.path().join("state").join(name);
            fs::write(&path, b"x").unwrap();
            path
        });
        for path in [&old, &blob] {
            let file = File::options().write(true).open(path).unwrap();
            file.set_modified(UNIX_EPOCH).unwrap();
        }
        let store = Local::open(dir.path()).unwrap();
        assert_eq!(store.sweep(super::super::ABANDONED).unwrap(), 1);
        assert!(!old.exists() && young.exists() && blob.exists());
    }

    #[test]
    fn what_is_missing_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let store = Local::open(dir.path()).unwrap();
        let error = store.get("state/x").unwrap_err();
        assert!(matches!(&error, Error::NotFound { name, .. } if name == "state/x"), "{error}");
        assert!(store.list("nowhere").unwrap().is_empty());
        store.delete("nowhere/x").unwrap();
    }
}
