//! From a URI to a store.

use super::{Error, Local, Storage};
use std::sync::Arc;

/// Opens the folder `below` of the store that the URI names.
///
/// # Errors
/// [`Error::Uri`] for a URI of no known kind; else the store's own.
pub fn open(uri: &str, below: &str) -> Result<Arc<dyn Storage>, Error> {
    let refuse = |problem: &str| Error::Uri { uri: uri.to_owned(), problem: problem.to_owned() };
    let Some((scheme, rest)) = uri.split_once("://") else {
        return Err(refuse("it has no scheme"));
    };
    match scheme {
        "file" if rest.starts_with('/') => {
            let root = std::path::Path::new(rest).join(below);
            Ok(Arc::new(Local::open(root)?))
        }
        "file" => Err(refuse("the folder is not absolute")),
        other => Err(refuse(&format!("{other} is no kind of store that this program knows"))),
    }
}
