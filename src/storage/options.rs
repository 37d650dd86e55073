//! How a store is reached and how hard it is tried: typed settings, each with a default that is right for most.
//!
//! Every setting has one dotted name, `s3.path_style`, in configuration files and on command lines alike; the names are
//! those of the serialized form, so there is no second list of them.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Settings of all kinds of stores; those of other kinds than the URI's do nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// How long one request to a remote store is tried again before the operation fails, in milliseconds, 100 or more.
    /// A blob in many parts has this time for each part.
    pub timeout_ms: u64,
    /// How long one try of a request may take, in milliseconds, 10 or more; not beyond the end of `timeout_ms`.
    pub attempt_timeout_ms: u64,
    /// Requests to a remote store that may be under way at once, 1 to 1024.
    pub parallelism: usize,
    /// How many blobs the cleaner of a job deletes in a second, 1 or more.
    pub deletions_per_second: u32,
    /// Of `s3://bucket/prefix`.
    pub s3: S3Options,
    /// Of `hdfs://host:port/folder`.
    pub hdfs: HdfsOptions,
    /// Of `memory://name`.
    pub memory: MemoryOptions,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            timeout_ms: 20_000,
            attempt_timeout_ms: 10_000,
            parallelism: 16,
            deletions_per_second: 2_000,
            s3: S3Options::default(),
            hdfs: HdfsOptions::default(),
            memory: MemoryOptions::default(),
        }
    }
}

/// What an S3 store needs beyond its bucket. Keys are never settings: they come from the chain that every AWS program
/// uses (environment, profile, web identity, container, instance).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct S3Options {
    /// Where the server is, such as `http://127.0.0.1:7070`; AWS without it.
    pub endpoint: Option<String>,
    /// The region; without it the environment's or the profile's, and `us-east-1` at an endpoint of one's own.
    pub region: Option<String>,
    /// Whether the bucket stands in the path instead of in the host's name; without it, at an endpoint of one's own.
    pub path_style: Option<bool>,
    /// Whether checksums are sent and verified where the protocol does not demand them; without it, at AWS alone, since
    /// stores that are not AWS often refuse them.
    pub checksums: Option<Checksums>,
    /// A blob above this size goes in parts of this size, in bytes, 5 MiB to 5 GiB.
    pub part_bytes: usize,
    /// Blobs that one request deletes, 1 to 1000; 1 for stores that know no batches.
    pub delete_batch: usize,
}

impl Default for S3Options {
    fn default() -> Self {
        Self {
            endpoint: None,
            region: None,
            path_style: None,
            checksums: None,
            part_bytes: 8 << 20,
            delete_batch: 1000,
        }
    }
}

/// When checksums travel with a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Checksums {
    /// Wherever the protocol knows them.
    WhenSupported,
    /// Only where the protocol demands them.
    WhenRequired,
}

/// What an HDFS store needs beyond its address.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HdfsOptions {
    /// Copies of each block, 1 or more; without it, the server's default.
    pub replication: Option<u32>,
    /// The user in whose name files are written; without it, the one that runs this process.
    pub user: Option<String>,
}

/// What a store in memory needs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MemoryOptions {
    /// What all its blobs may take together, in bytes.
    pub limit_bytes: usize,
}

impl Default for MemoryOptions {
    fn default() -> Self {
        Self { limit_bytes: 64 << 20 }
    }
}

impl Options {
    /// Sets one property by its dotted name, as in `s3.path_style` and `true`.
    ///
    /// # Errors
    /// In words, when there is no such property, or the value is none for it.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        let names = Self::names();
        if !names.iter().any(|known| known == name) {
            return Err(unknown(name, &names));
        }
        let mut tree = serde_json::to_value(&*self).expect("options are plain data");
        let mut set = |reading: Value| {
            let place = tree.pointer_mut(&format!("/{}", name.replace('.', "/")));
            *place.expect("every name leads to its place") = reading;
            serde_json::from_value(tree.clone())
        };
        // Numbers and truth values are themselves; everything else is text, also where it looks like a number. Of a value
        // that is none either way the first problem says more.
        let plain = serde_json::from_str(value).ok().filter(|v: &Value| v.is_number() || v.is_boolean());
        let first = set(plain.unwrap_or_else(|| Value::String(value.to_owned())));
        match first.or_else(|e| set(Value::String(value.to_owned())).map_err(|_| e)) {
            Ok(options) => {
                *self = options;
                Ok(())
            }
            Err(e) => Err(format!("storage property {name} cannot be {value:?}: {e}")),
        }
    }

    /// The names of all properties.
    pub fn names() -> Vec<String> {
        names_in(&serde_json::to_value(Self::default()).expect("options are plain data"))
    }

    /// Everything that is out of range, in words.
    pub fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        let mut check = |name: &str, expected: &str, found: u64, good: bool| {
            if !good {
                problems.push(format!("storage property {name} must be {expected}, found {found}"));
            }
        };
        check("timeout_ms", "100 or more", self.timeout_ms, self.timeout_ms >= 100);
        let attempt = self.attempt_timeout_ms;
        check("attempt_timeout_ms", "10 or more", attempt, attempt >= 10);
        let parallelism = self.parallelism as u64;
        check("parallelism", "1 to 1024", parallelism, (1..=1024).contains(&parallelism));
        let rate = u64::from(self.deletions_per_second);
        check("deletions_per_second", "1 or more", rate, rate > 0);
        let part = self.s3.part_bytes as u64;
        check("s3.part_bytes", "5242880 to 5368709120", part, (5 << 20..=5 << 30).contains(&part));
        let batch = self.s3.delete_batch as u64;
        check("s3.delete_batch", "1 to 1000", batch, (1..=1000).contains(&batch));
        check("hdfs.replication", "1 or more", 0, self.hdfs.replication != Some(0));
        problems.extend(self.s3.endpoint.as_deref().and_then(endpoint_problem));
        problems
    }
}

/// What is wrong with the address of a server, if anything is. A user in it is not repeated, for it may be a key.
fn endpoint_problem(endpoint: &str) -> Option<String> {
    let told = "storage property s3.endpoint must be http:// or https:// and a host";
    let Some((scheme, rest)) = endpoint.split_once("://") else {
        return Some(format!("{told}, found {endpoint:?}"));
    };
    let host = rest.split('/').next().unwrap_or_default();
    if host.contains('@') {
        return Some(format!("{told}, found a user in it; keys come from the environment or a profile"));
    }
    let good = matches!(scheme, "http" | "https") && !host.is_empty() && !host.starts_with(':');
    (!good).then(|| format!("{told}, found {endpoint:?}"))
}

/// The dotted names of all leaves.
fn names_in(tree: &Value) -> Vec<String> {
    let Value::Object(fields) = tree else { return Vec::new() };
    let mut names = Vec::new();
    for (name, below) in fields {
        let inner = names_in(below);
        if inner.is_empty() {
            names.push(name.clone());
        }
        names.extend(inner.into_iter().map(|inner| format!("{name}.{inner}")));
    }
    names
}

fn unknown(name: &str, names: &[String]) -> String {
    let near =
        names.iter().max_by(|a, b| strsim::jaro_winkler(a, name).total_cmp(&strsim::jaro_winkler(b, name)));
    match near.filter(|near| strsim::jaro_winkler(near, name) > 0.8) {
        Some(near) => format!("there is no storage property {name}; did you mean {near}?"),
        None => format!("there is no storage property {name}; there are {}", names.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_property_is_set_by_its_name() {
        let mut options = Options::default();
        for (name, value) in [
            ("timeout_ms", "5000"),
            ("s3.endpoint", "http://127.0.0.1:1"),
            ("s3.region", "7"),
            ("s3.path_style", "true"),
            ("s3.checksums", "when_required"),
            ("hdfs.replication", "1"),
            ("memory.limit_bytes", "10"),
        ] {
            options.set(name, value).unwrap();
        }
        assert_eq!(options.timeout_ms, 5000);
        assert_eq!(options.s3.region.as_deref(), Some("7"), "a text that looks like a number stays a text");
        assert_eq!(options.s3.path_style, Some(true));
        assert_eq!(options.s3.checksums, Some(Checksums::WhenRequired));
        assert_eq!(options.hdfs.replication, Some(1));
        assert_eq!(options.memory.limit_bytes, 10);
    }

    #[test]
    fn an_unknown_property_is_refused_with_the_nearest() {
        let problem = Options::default().set("s3.pathstyle", "true").unwrap_err();
        assert!(problem.ends_with("did you mean s3.path_style?"), "{problem}");
        let problem = Options::default().set("s3", "{}").unwrap_err();
        assert!(problem.contains("no storage property s3"), "{problem}");
        let problem = Options::default().set("zzz", "1").unwrap_err();
        assert!(problem.contains("there are ") && problem.contains("hdfs.user"), "{problem}");
    }

    #[test]
    fn a_value_of_another_kind_is_refused() {
        let problem = Options::default().set("parallelism", "many").unwrap_err();
        assert!(problem.contains("parallelism") && problem.contains("many"), "{problem}");
        assert!(Options::default().set("s3.checksums", "always").is_err());
    }

    #[test]
    fn what_is_out_of_range_is_told_at_once() {
        let mut options = Options { timeout_ms: 1, parallelism: 0, ..Options::default() };
        options.s3.delete_batch = 2000;
        assert_eq!(options.problems().len(), 3, "{:?}", options.problems());
        assert!(Options::default().problems().is_empty());
    }

    #[test]
    fn an_endpoint_is_a_server_without_a_user() {
        for good in ["http://127.0.0.1:9000", "https://s3.example.org/prefix"] {
            assert_eq!(endpoint_problem(good), None, "{good}");
        }
        for bad in ["127.0.0.1:9000", "ftp://a", "http://", "http://:80", "localhost"] {
            assert!(endpoint_problem(bad).is_some_and(|text| text.contains(bad)), "{bad}");
        }
        let problem = endpoint_problem("http://me:hidden@host").unwrap();
        assert!(problem.contains("a user") && !problem.contains("hidden"), "{problem}");
    }
}
