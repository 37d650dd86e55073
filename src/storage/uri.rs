//! From a URI to a store.

use super::{Error, Local, Memory, Options, Storage};
use std::path::Path;
use std::sync::Arc;

/// Opens the folder `below` of the store that the URI names, making it if it does not exist.
///
/// # Errors
/// [`Error::Uri`] for a URI of no known kind; else the store's own.
pub fn open(uri: &str, below: &str) -> Result<Arc<dyn Storage>, Error> {
    open_with(uri, below, &Options::default())
}

/// As [`open`], with settings.
///
/// # Errors
/// As [`open`].
pub fn open_with(uri: &str, below: &str, options: &Options) -> Result<Arc<dyn Storage>, Error> {
    Ok(match Place::of(uri)? {
        Place::Local(folder) => Arc::new(Local::open(folder.join(below))?),
        Place::Memory(store) => Arc::new(Memory::open(store, below, options.memory.limit_bytes)),
    })
}

/// Opens the folder `below` of the store that the URI names, if there is one.
///
/// # Errors
/// As [`open`].
pub fn open_existing(uri: &str, below: &str) -> Result<Option<Arc<dyn Storage>>, Error> {
    open_existing_with(uri, below, &Options::default())
}

/// As [`open_existing`], with settings.
///
/// # Errors
/// As [`open`].
pub fn open_existing_with(
    uri: &str,
    below: &str,
    options: &Options,
) -> Result<Option<Arc<dyn Storage>>, Error> {
    Ok(match Place::of(uri)? {
        Place::Local(folder) => {
            let folder = folder.join(below);
            if folder.is_dir() { Some(Arc::new(Local::open(folder)?)) } else { None }
        }
        Place::Memory(store) => {
            let store = Memory::open(store, below, options.memory.limit_bytes);
            if store.exists() { Some(Arc::new(store)) } else { None }
        }
    })
}

/// What a URI names.
#[derive(Debug, PartialEq, Eq)]
enum Place<'a> {
    Local(&'a Path),
    Memory(&'a str),
}

impl<'a> Place<'a> {
    fn of(uri: &'a str) -> Result<Self, Error> {
        let refuse = |problem: &str| Error::Uri { uri: uri.to_owned(), problem: problem.to_owned() };
        let Some((scheme, rest)) = uri.split_once("://") else {
            return Err(refuse("it has no scheme"));
        };
        match scheme {
            "file" if rest.starts_with('/') => Ok(Self::Local(Path::new(rest))),
            "file" => Err(refuse("the folder is not absolute")),
            "memory" if rest.is_empty() || rest.contains('/') => Err(refuse("it is not one name")),
            "memory" => Ok(Self::Memory(rest)),
            other => Err(refuse(&format!("{other} is no kind of store that this program knows"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_has_its_form() {
        let place = |uri| Place::of(uri).unwrap();
        assert_eq!(place("file:///a/b"), Place::Local(Path::new("/a/b")));
        assert_eq!(place("memory://m"), Place::Memory("m"));
    }

    #[test]
    fn what_is_no_store_is_refused() {
        for uri in ["a", "file://a", "memory://", "memory://a/b", "gs://b"] {
            assert!(matches!(Place::of(uri), Err(Error::Uri { .. })), "{uri}");
        }
    }
}
