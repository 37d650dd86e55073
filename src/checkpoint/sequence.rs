//! The sequence of manifests, and how a process comes to own it.
//!
//! Problem: two processes may believe that they run the job, for one was paused, or cut off, or started twice.
//! Asking "am I alone?" and acting afterwards fails, since the answer is old when the act comes. So every step that
//! matters is the publication of the next manifest by put-if-absent: of two processes that want the same slot one
//! wins, and the other learns by the attempt itself that it is fenced. A start *claims*: it publishes the newest
//! content under its own, higher generation, and only the winner goes on to touch transactions.
//!
//! A publication whose answer was lost is repeated under the same slot and nonce until the store says what stands
//! there. Old manifests are deleted, so a slot far behind could be taken again by a process that slept through many
//! checkpoints; therefore the publisher also looks whether a higher slot exists, and if so is fenced.

use super::{Cause, Error, Manifest};
use crate::host::{clock, random};
use crate::model::{CheckpointId, Generation, JobId};
use crate::storage::{self, Put, Storage};
use std::sync::Arc;
use std::time::Duration;

/// How many checkpoint ids a manifest reserves beyond its own.
pub(super) const RESERVE: u64 = 100;

/// How often a claim is tried against other claimants, and an unanswered publication is repeated.
const TRIES: u32 = 20;

const PAUSE: Duration = Duration::from_millis(250);

/// After this time an unanswered publication is not asked for again. A remote store tries each question for a while by
/// itself, and transactions that wait for the manifest have their deadlines.
const PATIENCE: Duration = Duration::from_secs(30);

/// How a publication ended.
#[derive(Debug)]
pub enum Publication {
    /// It stands in the sequence and is the newest.
    Mine,
    /// Another process's manifest stands there, or a higher one exists.
    Fenced {
        /// The generation of that process.
        by: Generation,
    },
    /// The store refused before anything was written.
    Refused(storage::Error),
    /// It is not known, and the store does not answer.
    Unknown(storage::Error),
}

/// What a process remembers of its own claims, so that it knows a newer owner from itself: also a claim whose answer was
/// lost may stand in the sequence.
#[derive(Debug, Default)]
pub struct Claims {
    newest: Option<Generation>,
    nonces: Vec<String>,
    /// What the job shall begin with, if it has not started yet.
    from: Option<String>,
}

impl Claims {
    /// A job that has not started yet shall begin with this savepoint: its claim says so, and until it has begun no start
    /// without one is mistaken for its first.
    pub fn begin_with(&mut self, from: Option<&str>) {
        self.from = from.map(str::to_owned);
    }

    /// Whether this process has ever owned the job.
    pub fn any(&self) -> bool {
        self.newest.is_some()
    }

    /// The generation of another process, if the manifest shows that it has taken the job over from this one.
    fn taken_over(&self, newest: &Manifest) -> Option<Generation> {
        let ours = self.newest?;
        (newest.generation > ours && !self.nonces.contains(&newest.nonce)).then_some(newest.generation)
    }

    /// The generation of this process, if what it published is not in the sequence any more: manifests are deleted only
    /// when newer ones are there.
    fn gone(&self, newest: Option<&Manifest>) -> Option<Generation> {
        let ours = self.newest?;
        newest.is_none_or(|m| m.generation < ours).then_some(ours)
    }
}

/// A job's manifests in a store.
#[derive(Clone)]
pub struct Sequence {
    store: Arc<dyn Storage>,
    job: JobId,
}

impl Sequence {
    /// The manifests of the job below a checkpoint location, which is made if it does not exist.
    ///
    /// # Errors
    /// The store's.
    pub fn open(location: &str, job: &JobId) -> Result<Self, Error> {
        Self::open_with(location, job, &storage::Options::default())
    }

    /// As [`open`](Self::open), with settings for the store.
    ///
    /// # Errors
    /// The store's.
    pub fn open_with(location: &str, job: &JobId, options: &storage::Options) -> Result<Self, Error> {
        Ok(Self::new(storage::open_with(location, &folder_of(job), options)?, job.clone()))
    }

    /// The manifests of the job below a checkpoint location; `None` if it has no folder there.
    ///
    /// # Errors
    /// The store's.
    pub fn existing(location: &str, job: &JobId, options: &storage::Options) -> Result<Option<Self>, Error> {
        let store = storage::open_existing_with(location, &folder_of(job), options)?;
        Ok(store.map(|store| Self::new(store, job.clone())))
    }

    /// The manifests of the job in this store.
    pub fn new(store: Arc<dyn Storage>, job: JobId) -> Self {
        Self { store, job }
    }

    /// The store.
    pub fn store(&self) -> &Arc<dyn Storage> {
        &self.store
    }

    /// All slots that are taken, in order.
    ///
    /// # Errors
    /// The store's.
    pub fn slots(&self) -> Result<Vec<u64>, Error> {
        Ok(self.store.list("manifest")?.iter().filter_map(|name| name.parse().ok()).collect())
    }

    /// Reads one manifest.
    ///
    /// # Errors
    /// [`Error::Unreadable`] for damage, [`Error::OtherJob`], or the store's.
    pub fn read(&self, slot: u64) -> Result<Manifest, Error> {
        let name = Manifest::name_of(slot);
        let bytes = self.store.get(&name)?;
        let manifest = Manifest::decode(&bytes)
            .map_err(|problem| Error::unreadable(self.store.location(), &name, &problem))?;
        if manifest.job != self.job {
            return Err(Error::OtherJob {
                location: self.store.location(),
                expected: self.job.to_string(),
                found: manifest.job.to_string(),
            });
        }
        Ok(manifest)
    }

    /// The newest manifest, if there is any.
    ///
    /// # Errors
    /// As [`Sequence::read`].
    pub fn newest(&self) -> Result<Option<Manifest>, Error> {
        self.slots()?.last().map(|slot| self.read(*slot)).transpose()
    }

    /// Takes the job over: publishes the newest content under a higher generation.
    ///
    /// With `fresh` the content is dropped, and an unreadable newest manifest is no obstacle.
    ///
    /// # Errors
    /// [`Error::Unreadable`], [`Error::OtherJob`], the store's, or [`Error::Unknown`].
    pub fn claim(&self, fresh: bool) -> Result<Manifest, Error> {
        self.claim_again(&mut Claims::default(), fresh)
    }

    /// As [`Sequence::claim`], by a process that may have owned the job before: if another has taken it over since, it is
    /// not claimed back.
    ///
    /// # Errors
    /// As [`Sequence::claim`], [`Error::Fenced`], and [`Error::Gone`].
    pub fn claim_again(&self, claims: &mut Claims, fresh: bool) -> Result<Manifest, Error> {
        let mut last = None;
        for _ in 0..TRIES {
            let newest = match self.slots()?.last() {
                None => None,
                Some(&slot) => Some(match self.read(slot) {
                    Err(Error::Unreadable { .. }) if fresh => {
                        // Its generation cannot be read; generations never exceed slots.
                        Manifest {
                            slot,
                            generation: Generation(slot + 1),
                            ..Manifest::unborn(self.job.clone())
                        }
                    }
                    other => other?,
                }),
            };
            if let (Some(by), Some(ours)) =
                (newest.as_ref().and_then(|m| claims.taken_over(m)), claims.newest)
            {
                return Err(self.fenced(ours, by));
            }
            if let Some(ours) = claims.gone(newest.as_ref()) {
                return Err(Error::Gone {
                    location: self.store.location(),
                    job: self.job.to_string(),
                    ours: ours.0,
                    found: newest.as_ref().map_or(0, |m| m.generation.0),
                });
            }
            let mut claim = match &newest {
                Some(newest) if !fresh => newest.clone(),
                Some(newest) => Manifest { reserved: newest.reserved, ..Manifest::unborn(self.job.clone()) },
                None => Manifest::unborn(self.job.clone()),
            };
            claim.cause = Cause::Claim;
            if let Some(from) = claims.from.as_ref().filter(|_| !claim.started) {
                claim.restored_from.clone_from(from);
            }
            claim.slot = newest.as_ref().map_or(0, |m| m.slot + 1);
            claim.generation = newest.as_ref().map_or(Generation(1), |m| m.generation.next());
            claim.reserved = CheckpointId(claim.reserved.0.max(claim.checkpoint.0 + 1));
            claim.reserved = CheckpointId(claim.reserved.0 + RESERVE);
            let claim = self.stamp(claim);
            claims.nonces.push(claim.nonce.clone());
            match self.publish(&claim) {
                Publication::Mine => {
                    *claims = Claims {
                        newest: Some(claim.generation),
                        nonces: Vec::new(),
                        from: claims.from.take(),
                    };
                    return Ok(claim);
                }
                Publication::Fenced { .. } => {}
                Publication::Refused(e) => return Err(e.into()),
                Publication::Unknown(e) => {
                    return Err(Error::Unknown {
                        location: self.store.location(),
                        name: Manifest::name_of(claim.slot),
                        problem: e.to_string(),
                    });
                }
            }
            last = Some(claim.slot);
        }
        Err(Error::Unknown {
            location: self.store.location(),
            name: Manifest::name_of(last.unwrap_or_default()),
            problem: format!(
                "{TRIES} claims in a row were taken by other processes; is the job started in a loop?"
            ),
        })
    }

    /// The first checkpoint id that the owner of a claim may use: nobody before may have used it.
    pub fn first_id(claim: &Manifest) -> CheckpointId {
        CheckpointId(claim.reserved.0 - RESERVE)
    }

    /// The manifest that follows `before` in the sequence, by the same owner, ready to be filled and published.
    pub fn next(&self, before: &Manifest, cause: Cause, checkpoint: CheckpointId) -> Manifest {
        let mut next = before.clone();
        next.slot += 1;
        next.cause = cause;
        next.checkpoint = checkpoint;
        next.reserved = CheckpointId(before.reserved.0.max(checkpoint.0 + 1 + RESERVE));
        self.stamp(next)
    }

    fn stamp(&self, mut manifest: Manifest) -> Manifest {
        manifest.nonce = random::token();
        manifest.published_at_ms = clock::unix_millis();
        manifest
    }

    /// Publishes a manifest and finds out how that ended; repeats while the store gives no answer.
    pub fn publish(&self, manifest: &Manifest) -> Publication {
        let (name, bytes) = (Manifest::name_of(manifest.slot), manifest.encode());
        let (mut unknown, give_up) = (None, clock::now() + PATIENCE);
        for attempt in 0..TRIES {
            if attempt > 0 {
                if clock::until(give_up).is_zero() {
                    break;
                }
                std::thread::sleep(PAUSE);
            }
            let e = match self.store.put_if_absent(&name, &bytes) {
                Ok(Put::Created) => return self.or_fenced(manifest),
                Ok(Put::Exists) => match self.whose(&name, manifest) {
                    Ok(None) => return self.or_fenced(manifest),
                    Ok(Some(by)) => return Publication::Fenced { by },
                    Err(e) => e,
                },
                // Only the first try proves that nothing was written: an earlier one may still land.
                Err(e) if attempt == 0 && !e.is_transient() => return Publication::Refused(e),
                Err(storage::Error::Full { location, name }) if attempt == 0 => {
                    return Publication::Refused(storage::Error::Full { location, name });
                }
                Err(e) => match self.whose(&name, manifest) {
                    Ok(None) => return self.or_fenced(manifest),
                    Ok(Some(by)) => return Publication::Fenced { by },
                    Err(_) => e,
                },
            };
            tracing::warn!(manifest = name, error = %e, "publication unanswered, asking again");
            unknown = Some(e);
        }
        Publication::Unknown(unknown.expect("every try that goes on has an error"))
    }

    /// Publishes a manifest where nothing can go on without it.
    ///
    /// # Errors
    /// [`Error::Fenced`], [`Error::Unknown`], or the store's.
    pub fn must_publish(&self, manifest: &Manifest) -> Result<(), Error> {
        match self.publish(manifest) {
            Publication::Mine => Ok(()),
            Publication::Fenced { by } => Err(self.fenced(manifest.generation, by)),
            Publication::Refused(e) => Err(e.into()),
            Publication::Unknown(e) => Err(Error::Unknown {
                location: self.store.location(),
                name: Manifest::name_of(manifest.slot),
                problem: e.to_string(),
            }),
        }
    }

    /// `None` if the manifest in the slot is this one, else the generation of the other.
    fn whose(&self, name: &str, manifest: &Manifest) -> Result<Option<Generation>, storage::Error> {
        let bytes = self.store.get(name)?;
        Ok(match Manifest::decode(&bytes) {
            Ok(found) if found.nonce == manifest.nonce => None,
            Ok(found) => Some(found.generation),
            // Not ours, since ours is whole.
            Err(_) => Some(manifest.generation.next()),
        })
    }

    /// A published manifest counts only if no higher one exists.
    fn or_fenced(&self, manifest: &Manifest) -> Publication {
        let give_up = clock::now() + PATIENCE;
        for attempt in 0..TRIES {
            if attempt > 0 && clock::until(give_up).is_zero() {
                break;
            }
            match self.slots() {
                Ok(slots) => {
                    let Some(&higher) = slots.last().filter(|slot| **slot > manifest.slot) else {
                        return Publication::Mine;
                    };
                    let by = self.read(higher).map_or(manifest.generation.next(), |m| m.generation);
                    return Publication::Fenced { by };
                }
                Err(e) => {
                    tracing::warn!(error = %e, "cannot see whether a newer manifest exists, asking again");
                    std::thread::sleep(PAUSE);
                }
            }
        }
        Publication::Unknown(storage::Error::NotFound {
            location: self.store.location(),
            name: "manifest".to_owned(),
        })
    }

    /// The error of being fenced.
    pub fn fenced(&self, ours: Generation, theirs: Generation) -> Error {
        Error::Fenced {
            location: self.store.location(),
            job: self.job.to_string(),
            ours: ours.0,
            theirs: theirs.0,
        }
    }
}

/// The job's folder below the checkpoint location: its name, with everything that a file name or a URI could take
/// amiss as a percent code.
fn folder_of(job: &JobId) -> String {
    let mut folder = String::new();
    for byte in job.as_str().bytes() {
        if byte.is_ascii_alphanumeric() || b"-_".contains(&byte) || (byte == b'.' && !folder.is_empty()) {
            folder.push(char::from(byte));
        } else {
            folder.push_str(&format!("%{byte:02x}"));
        }
    }
    folder
}

#[cfg(test)]
#[path = "sequence_tests.rs"]
mod tests;
