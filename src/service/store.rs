//! How a command on the command line reaches the store that a job uses.

use crate::storage::Options;

/// What a store needs beyond its location.
#[derive(Debug, Default, clap::Args)]
pub(super) struct StoreArguments {
    /// A property of the store, such as s3.endpoint=http://127.0.0.1:7070; may be repeated
    #[arg(long = "storage-property", value_name = "NAME=VALUE", value_parser = property)]
    storage_properties: Vec<(String, String)>,
}

impl StoreArguments {
    /// The settings that they make.
    pub(super) fn options(&self) -> Options {
        let mut options = Options::default();
        for (name, value) in &self.storage_properties {
            options.set(name, value).expect("each property was tried when it was read");
        }
        options
    }
}

fn property(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("expected NAME=VALUE")?;
    let mut options = Options::default();
    options.set(name.trim(), value)?;
    match options.problems().into_iter().next() {
        Some(problem) => Err(problem),
        None => Ok((name.trim().to_owned(), value.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_property_is_tried_when_it_is_read() {
        assert_eq!(property("s3.region=eu").unwrap(), ("s3.region".to_owned(), "eu".to_owned()));
        assert!(property("s3.region").unwrap_err().contains("NAME=VALUE"));
        assert!(property("s3.regoin=eu").unwrap_err().contains("did you mean s3.region?"));
        assert!(property("parallelism=0").unwrap_err().contains("1 to 1024"));
    }
}
