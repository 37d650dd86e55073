//! Transactional ids: deterministic, bounded in number and length, and never those of another job.
//!
//! `tidegate:JOB:UID:SUBTASK:SLOT`. Job and uid are escaped so that neither contains the separator, so `orders` can
//! never be taken for `orders-eu`, and an ACL on the prefix `tidegate:JOB:` covers this job alone.

use crate::model::JobId;
use crate::model::key_group::hash_key;

/// Longest escaped name in bytes; a longer one is cut and given its hash.
const NAME: usize = 100;

/// Which transaction of a subtask's pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum IdSlot {
    /// One of those that take turns.
    Turn(u32),
    /// One of the two that salvages write with.
    Salvage(u32),
}

/// Whom an id belongs to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct IdOwner {
    /// The escaped job.
    pub job: String,
    /// The escaped uid of the sink.
    pub uid: String,
    /// The subtask.
    pub subtask: u32,
    /// The place in its pool.
    pub slot: IdSlot,
}

/// A name as it stands in an id.
pub(super) fn escape(name: &str) -> String {
    let mut escaped = String::with_capacity(name.len());
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.".contains(&byte) {
            escaped.push(char::from(byte));
        } else {
            escaped.push_str(&format!("%{byte:02x}"));
        }
    }
    if escaped.len() > NAME {
        escaped.truncate(NAME - 17);
        escaped.push_str(&format!("~{:016x}", hash_key(name.as_bytes())));
    }
    escaped
}

/// What all ids of a job begin with.
pub(super) fn prefix_of(job: &JobId) -> String {
    format!("tidegate:{}:", escape(job.as_str()))
}

/// The id of a place in a subtask's pool.
pub(super) fn id_of(job: &JobId, uid: &str, subtask: u32, slot: IdSlot) -> String {
    let slot = match slot {
        IdSlot::Turn(n) => n.to_string(),
        IdSlot::Salvage(n) => format!("s{n}"),
    };
    format!("{}{}:{subtask}:{slot}", prefix_of(job), escape(uid))
}

/// Whom an id belongs to, if it is one of Tidegate's.
pub fn parse_id(id: &str) -> Option<IdOwner> {
    let mut parts = id.split(':');
    let (tidegate, job, uid) = (parts.next()?, parts.next()?, parts.next()?);
    let (subtask, slot) = (parts.next()?.parse().ok()?, parts.next()?);
    if tidegate != "tidegate" || parts.next().is_some() {
        return None;
    }
    let slot = match slot.strip_prefix('s') {
        Some(n) => IdSlot::Salvage(n.parse().ok()?),
        None => IdSlot::Turn(slot.parse().ok()?),
    };
    Some(IdOwner { job: job.to_owned(), uid: uid.to_owned(), subtask, slot })
}

/// The name that stands escaped in an id; `None` if it was too long to stand there in full.
fn unescape(escaped: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(escaped.len());
    let mut rest = escaped.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        match byte {
            b'~' => return None,
            b'%' => {
                let code = std::str::from_utf8(after.get(..2)?).ok()?;
                bytes.push(u8::from_str_radix(code, 16).ok()?);
                rest = &after[2..];
            }
            plain => bytes.push(plain),
        }
    }
    String::from_utf8(bytes).ok()
}

impl IdOwner {
    /// The job's name; `None` if it was too long to stand in the id in full.
    pub fn job_name(&self) -> Option<JobId> {
        JobId::new(unescape(&self.job)?).ok()
    }

    /// The sink's uid; `None` if it was too long to stand in the id in full.
    pub fn uid_name(&self) -> Option<String> {
        unescape(&self.uid)
    }

    /// Whether the id is of this job.
    pub fn is_of_job(&self, job: &JobId) -> bool {
        self.job == escape(job.as_str())
    }

    /// Whether the id is of this sink of this job.
    pub(super) fn is_of(&self, job: &JobId, uid: &str) -> bool {
        self.is_of_job(job) && self.uid == escape(uid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn an_id_names_its_owner_and_no_other(job in ".{1,150}", uid in ".{0,200}", n in 0u32..99, slot in 0u32..9) {
            let job = match JobId::new(job) { Ok(j) => j, Err(_) => return Ok(()) };
            for slot in [IdSlot::Turn(slot), IdSlot::Salvage(slot)] {
                let id = id_of(&job, &uid, n, slot);
                prop_assert!(id.len() < 249, "{}", id.len());
                let owner = parse_id(&id).unwrap();
                prop_assert!(owner.is_of(&job, &uid));
                prop_assert_eq!((owner.subtask, owner.slot), (n, slot));
                let names = (owner.job_name(), owner.uid_name());
                prop_assert!(names.0.is_none_or(|name| name == job), "{}", id);
                prop_assert_eq!(names.1.is_some(), !owner.uid.contains('~'));
                prop_assert!(names.1.is_none_or(|name| name == uid), "{}", id);
            }
        }
    }

    #[test]
    fn a_job_never_owns_what_only_begins_with_its_name() {
        let (orders, europe) = (JobId::new("orders").unwrap(), JobId::new("orders-eu").unwrap());
        let id = id_of(&europe, "out", 0, IdSlot::Turn(0));
        assert!(!parse_id(&id).unwrap().is_of(&orders, "out"));
        assert_eq!(id, "tidegate:orders-eu:out:0:0");
        for foreign in ["orders", "tidegate:a:b:c:0", "tidegate:a:b:0", "tidegate:a:b:0:0:0", "x:a:b:0:0"] {
            assert_eq!(parse_id(foreign), None, "{foreign}");
        }
    }
}
