//! From a URI to a store.

use super::{Error, Local, Storage};
use std::path::Path;
use std::sync::Arc;

/// Opens the folder `below` of the store that the URI names, making it if it does not exist.
///
/// # Errors
/// [`Error::Uri`] for a URI of no known kind; else the store's own.
pub fn open(uri: &str, below: &str) -> Result<Arc<dyn Storage>, Error> {
    Ok(Arc::new(Local::open(local_folder(uri)?.join(below))?))
}

/// Opens the folder `below` of the store that the URI names, if there is one.
///
/// # Errors
/// As [`open`].
pub fn open_existing(uri: &str, below: &str) -> Result<Option<Arc<dyn Storage>>, Error> {
    let folder = local_folder(uri)?.join(below);
    if folder.is_dir() { Ok(Some(Arc::new(Local::open(folder)?))) } else { Ok(None) }
}

fn local_folder(uri: &str) -> Result<&Path, Error> {
    let refuse = |problem: &str| Error::Uri { uri: uri.to_owned(), problem: problem.to_owned() };
    let Some((scheme, rest)) = uri.split_once("://") else {
        return Err(refuse("it has no scheme"));
    };
    match scheme {
        "file" if rest.starts_with('/') => Ok(Path::new(rest)),
        "file" => Err(refuse("the folder is not absolute")),
        other => Err(refuse(&format!("{other} is no kind of store that this program knows"))),
    }
}
