//! Keyed snapshot files under another number of key groups, without knowing any type: an entry's key group follows from
//! its key's bytes alone.

use super::Error;
use super::memory::Frozen;
use super::snapshot::{Files, malformed, read_bytes, read_file, write_length};
use crate::model::key_group::{hash_key, key_group_of};
use crate::model::serializer::SerializerId;
use crate::model::{KeyGroup, KeyGroupRange, MaxParallelism};
use std::collections::BTreeMap;

/// Collects what one subtask has of many files, when the key groups are counted anew.
pub struct Regrouped {
    range: KeyGroupRange,
    max: MaxParallelism,
    states: Vec<State>,
}

struct State {
    name: String,
    kind: String,
    serializer: SerializerId,
    groups: BTreeMap<KeyGroup, Vec<u8>>,
}

impl Regrouped {
    /// For the key groups of one subtask out of `max`.
    pub fn new(range: KeyGroupRange, max: MaxParallelism) -> Self {
        Self { range, max, states: Vec::new() }
    }

    /// Takes out of a file what belongs to the subtask now.
    ///
    /// # Errors
    /// [`Error::Envelope`], [`Error::Malformed`] for damage.
    pub fn add(&mut self, file: &str, bytes: &[u8]) -> Result<(), Error> {
        let (index, body) = read_file(file, bytes)?;
        for state in &index.states {
            let same =
                |s: &State| s.name == state.name && s.kind == state.kind && s.serializer == state.serializer;
            let at = self.states.iter().position(same).unwrap_or_else(|| {
                let (name, kind, serializer) =
                    (state.name.clone(), state.kind.clone(), state.serializer.clone());
                self.states.push(State { name, kind, serializer, groups: BTreeMap::new() });
                self.states.len() - 1
            });
            for section in &state.groups {
                let mut rest = section.of(file, body)?;
                while !rest.is_empty() {
                    let (Some(key), Some(value)) = (read_bytes(&mut rest), read_bytes(&mut rest)) else {
                        return Err(malformed(file, format!("key group {} is cut off", section.group.0)));
                    };
                    let group = key_group_of(hash_key(key), self.max);
                    if self.range.contains(group) {
                        let out = self.states[at].groups.entry(group).or_default();
                        for part in [key, value] {
                            write_length(part.len(), out);
                            out.extend_from_slice(part);
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// What was taken, as files of about [`super::FILE_TARGET_BYTES`]; none if there is no entry.
    pub fn into_files(self) -> impl Iterator<Item = Result<Vec<u8>, Error>> {
        let states = self.states.into_iter().map(|s| Box::new(s) as Box<dyn Frozen>).collect();
        Files::new(self.range, states)
    }
}

impl Frozen for State {
    fn name(&self) -> &str {
        &self.name
    }

    fn kind(&self) -> &str {
        &self.kind
    }

    fn serializer(&self) -> SerializerId {
        self.serializer.clone()
    }

    fn write_group(&self, group: KeyGroup, out: &mut Vec<u8>) -> Result<(), Error> {
        out.extend_from_slice(self.groups.get(&group).map_or(&[], Vec::as_slice));
        Ok(())
    }
}
