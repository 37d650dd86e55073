//! From a URI to a store.

use super::{Error, Hdfs, Local, Memory, Options, S3, Storage};
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
        Place::S3 { bucket, prefix } => Arc::new(S3::open(bucket, &join(prefix, below), options)?),
        Place::Hdfs { server, folder } => Arc::new(Hdfs::open(server, &join(folder, below), options)?),
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
        Place::S3 { bucket, prefix } => {
            let store = S3::open(bucket, &join(prefix, below), options)?;
            if store.exists()? { Some(Arc::new(store)) } else { None }
        }
        Place::Hdfs { server, folder } => {
            let store = Hdfs::open(server, &join(folder, below), options)?;
            if store.exists()? { Some(Arc::new(store)) } else { None }
        }
        Place::Memory(store) => {
            let store = Memory::open(store, below, options.memory.limit_bytes);
            if store.exists() { Some(Arc::new(store)) } else { None }
        }
    })
}

/// Whether the URI names a store, as far as its text tells.
///
/// # Errors
/// [`Error::Uri`].
pub fn check_location(uri: &str) -> Result<(), Error> {
    Place::of(uri).map(drop)
}

/// A folder below a folder; either may be the root.
fn join(folder: &str, below: &str) -> String {
    let parts = [folder.trim_matches('/'), below.trim_matches('/')];
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("/")
}

/// What a URI names.
#[derive(Debug, PartialEq, Eq)]
enum Place<'a> {
    Local(&'a Path),
    S3 { bucket: &'a str, prefix: &'a str },
    Hdfs { server: &'a str, folder: &'a str },
    Memory(&'a str),
}

impl<'a> Place<'a> {
    fn of(uri: &'a str) -> Result<Self, Error> {
        let refuse = |problem: &str| Error::Uri { uri: uri.to_owned(), problem: problem.to_owned() };
        let Some((scheme, rest)) = uri.split_once("://") else {
            return Err(refuse("it has no scheme"));
        };
        let (first, folder) = rest.split_once('/').unwrap_or((rest, ""));
        if scheme != "file" && first.contains('@') {
            // The text must not repeat what may be a key.
            let uri = format!("{scheme}://…@{}", first.rsplit('@').next().unwrap_or_default());
            return Err(Error::Uri {
                uri,
                problem: "a location has no user and no keys; storage property hdfs.user names the user of an HDFS, and keys \
                          for S3 come from the environment or a profile"
                    .to_owned(),
            });
        }
        if folder.split('/').any(|part| part == "." || part == "..") {
            return Err(refuse("a part of its path is . or .."));
        }
        match scheme {
            "file" if rest.starts_with('/') => Ok(Self::Local(Path::new(rest))),
            "file" => Err(refuse("the folder is not absolute")),
            "s3" if first.is_empty() => Err(refuse("it names no bucket")),
            "s3" => Ok(Self::S3 { bucket: first, prefix: folder }),
            "hdfs" if first.is_empty() => Err(refuse("it names no server")),
            "hdfs" => Ok(Self::Hdfs { server: first, folder }),
            "memory" if first.is_empty() || !folder.is_empty() => Err(refuse("it is not one name")),
            "memory" => Ok(Self::Memory(first)),
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
        assert_eq!(place("s3://b"), Place::S3 { bucket: "b", prefix: "" });
        assert_eq!(place("s3://b/x/y/"), Place::S3 { bucket: "b", prefix: "x/y/" });
        assert_eq!(place("hdfs://n:9000/t"), Place::Hdfs { server: "n:9000", folder: "t" });
        assert_eq!(place("memory://m"), Place::Memory("m"));
        assert_eq!(join("x/y/", "job"), "x/y/job");
        assert_eq!(join("", "job"), "job");
    }

    #[test]
    fn what_is_no_store_is_refused() {
        for uri in
            ["a", "file://a", "s3://", "hdfs:///x", "memory://", "memory://a/b", "s3://b/../c", "gs://b"]
        {
            assert!(matches!(Place::of(uri), Err(Error::Uri { .. })), "{uri}");
        }
    }

    #[test]
    fn keys_in_a_location_are_refused_and_not_repeated() {
        let text = Place::of("s3://AKIA:hidden@bucket/x").unwrap_err().to_string();
        assert!(
            text.contains("s3://…@bucket") && !text.contains("hidden") && !text.contains("AKIA"),
            "{text}"
        );
    }
}
