//! How a store is used: typed settings, each with a default that is right for most.
//!
//! Every setting has one dotted name, such as `memory.limit_bytes`, in configuration files and on command lines alike; the names are
//! those of the serialized form, so there is no second list of them.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Settings of all kinds of stores; those of other kinds than the URI's do nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// How many blobs the cleaner of a job deletes in a second, 1 or more.
    pub deletions_per_second: u32,
    /// Of `memory://name`.
    pub memory: MemoryOptions,
}

impl Default for Options {
    fn default() -> Self {
        Self { deletions_per_second: 2_000, memory: MemoryOptions::default() }
    }
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
    /// Sets one property by its dotted name, as in `memory.limit_bytes` and `1000`.
    ///
    /// # Errors
    /// In words, when there is no such property, or the value is none for it.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        let mut tree = serde_json::to_value(&*self).expect("options are plain data");
        let names = names_in(&tree);
        if !names.iter().any(|known| known == name) {
            return Err(unknown(name, &names));
        }
        let place = tree.pointer_mut(&format!("/{}", name.replace('.', "/")));
        // Numbers and truth values are themselves; everything else is text, also where it looks like a number.
        let readings = [serde_json::from_str(value).ok(), Some(Value::String(value.to_owned()))];
        let place = place.expect("every name leads to its place");
        let mut problem = String::new();
        let before = place.clone();
        for reading in readings.into_iter().flatten().filter(|v| !v.is_object() && !v.is_array()) {
            let mut changed = serde_json::to_value(&*self).expect("options are plain data");
            if let Some(place) = changed.pointer_mut(&format!("/{}", name.replace('.', "/"))) {
                *place = reading;
            }
            match serde_json::from_value::<Self>(changed) {
                Ok(options) => {
                    *self = options;
                    return Ok(());
                }
                Err(e) => problem = e.to_string(),
            }
        }
        Err(format!("storage property {name} cannot be {value:?}: {problem}; it is {before} now"))
    }

    /// Everything that is out of range, in words.
    pub fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        if self.deletions_per_second == 0 {
            problems.push("storage property deletions_per_second must be 1 or more, found 0".to_owned());
        }
        problems
    }
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
        options.set("deletions_per_second", "7").unwrap();
        options.set("memory.limit_bytes", "10").unwrap();
        assert_eq!(options.deletions_per_second, 7);
        assert_eq!(options.memory.limit_bytes, 10);
    }

    #[test]
    fn an_unknown_property_is_refused_with_the_nearest() {
        let problem = Options::default().set("memory.limit_byte", "1").unwrap_err();
        assert!(problem.ends_with("did you mean memory.limit_bytes?"), "{problem}");
        let problem = Options::default().set("memory", "{}").unwrap_err();
        assert!(problem.contains("no storage property memory"), "{problem}");
        let problem = Options::default().set("zzz", "1").unwrap_err();
        assert!(problem.contains("there are ") && problem.contains("deletions_per_second"), "{problem}");
    }

    #[test]
    fn a_value_of_another_kind_is_refused() {
        let problem = Options::default().set("deletions_per_second", "many").unwrap_err();
        assert!(problem.contains("deletions_per_second") && problem.contains("many"), "{problem}");
    }

    #[test]
    fn what_is_out_of_range_is_told() {
        let options = Options { deletions_per_second: 0, ..Options::default() };
        assert_eq!(options.problems().len(), 1, "{:?}", options.problems());
        assert!(Options::default().problems().is_empty());
    }
}
