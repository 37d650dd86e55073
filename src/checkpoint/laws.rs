//! The laws of the agreement as named predicates, over a small world of a store, owners and transactions.
//!
//! The deciding parts are the real ones: [`Protocol`], [`superseded`], [`orphans`]. The rest is as simple as it can be:
//! a transaction is prepared with each barrier, writing and answering of a publication are two steps, and any owner may
//! be cut off, die, or be taken over between any two steps. [`super::histories`] walks through it at random,
//! [`super::exploration`] visits every state of a small one.

use super::sequence::RESERVE;
use super::{Action, Event, Held, Protocol, SavepointRequest, Settings, orphans, superseded};
use crate::model::{Attempt, BarrierKind, CheckpointId, Generation, SubtaskIndex, TaskId};
use crate::storage::FileRef;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// The tasks of every owner.
pub(super) const TASKS: [TaskId; 2] =
    [TaskId { chain: 0, subtask: SubtaskIndex(0) }, TaskId { chain: 1, subtask: SubtaskIndex(0) }];

/// A transaction, by the generation and the barrier that prepared it.
type Transaction = (u64, u64);

/// A manifest, as far as the laws speak of it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Truth {
    slot: u64,
    generation: u64,
    checkpoint: u64,
    reserved: u64,
    files: BTreeSet<String>,
    listed: BTreeSet<Transaction>,
}

impl Truth {
    fn held(&self) -> Held {
        let file = |name: &String| FileRef { name: name.clone(), bytes: 1, crc32: 0 };
        Held { slot: self.slot, checkpoint: self.checkpoint, files: self.files.iter().map(file).collect() }
    }
}

/// A publication that is under way.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Publishing {
    truth: Truth,
    /// Whether it goes into the sequence; a savepoint does not.
    in_sequence: bool,
    /// What the store has done, once it has: whether the manifest stands there.
    written: Option<bool>,
}

/// A process that has claimed the job.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Owner {
    protocol: Protocol,
    newest: Truth,
    /// By checkpoint: who owes his acknowledgement, and what would be listed.
    owing: BTreeMap<u64, (BTreeSet<TaskId>, BTreeSet<Transaction>)>,
    acknowledged: BTreeMap<u64, BTreeSet<TaskId>>,
    kinds: BTreeMap<u64, (BarrierKind, bool)>,
    publishing: Option<Publishing>,
    pending: BTreeSet<Transaction>,
    ended: bool,
}

/// What can happen next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Move {
    /// So many intervals go by for the owner of this number.
    Wait(usize, u32),
    Acknowledge(usize, u64, TaskId),
    Decline(usize, u64, TaskId),
    /// A message of another attempt, or of a checkpoint that may be over.
    Stale(usize, u64, u64, TaskId),
    /// The store does what it was asked: writes, or refuses if the flag says so.
    Store(usize, bool),
    /// The store's word arrives.
    Answer(usize),
    End(usize),
    Savepoint(usize, bool),
    Die(usize),
    /// Another process claims the job, whether or not somebody owns it.
    Claim,
}

/// Everything there is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct World {
    settings: Settings,
    now: Instant,
    manifests: BTreeMap<u64, Truth>,
    files: BTreeSet<String>,
    owners: Vec<Option<Owner>>,
    savepoints: u64,
    // What the laws look back on.
    published: Vec<Truth>,
    answered: Vec<(u64, u64)>,
    completed: Vec<(u64, u64)>,
    triggered: Vec<(u64, u64)>,
    committed: BTreeSet<Transaction>,
    aborted: BTreeSet<Transaction>,
    incomplete_published: bool,
    published_twice_at_once: bool,
    triggered_after_the_end: bool,
}

impl World {
    pub(super) fn new(settings: Settings, now: Instant) -> Self {
        Self {
            settings,
            now,
            manifests: BTreeMap::new(),
            files: BTreeSet::new(),
            owners: Vec::new(),
            savepoints: 0,
            published: Vec::new(),
            answered: Vec::new(),
            completed: Vec::new(),
            triggered: Vec::new(),
            committed: BTreeSet::new(),
            aborted: BTreeSet::new(),
            incomplete_published: false,
            published_twice_at_once: false,
            triggered_after_the_end: false,
        }
    }

    /// How many checkpoints were triggered so far.
    pub(super) fn triggered(&self) -> usize {
        self.triggered.len()
    }

    /// How many claims there were.
    pub(super) fn claims(&self) -> usize {
        self.owners.len()
    }

    /// How many savepoints were asked for.
    pub(super) fn savepoints(&self) -> u64 {
        self.savepoints
    }

    /// What can happen now; without what is only noise.
    pub(super) fn moves(&self) -> Vec<Move> {
        let mut moves = vec![Move::Claim];
        for (at, owner) in self.owners.iter().enumerate() {
            let Some(owner) = owner else { continue };
            moves.extend([Move::Wait(at, 1), Move::Wait(at, 8), Move::End(at), Move::Die(at)]);
            moves.extend([Move::Savepoint(at, false), Move::Savepoint(at, true)]);
            for (checkpoint, (tasks, _)) in &owner.owing {
                moves.extend(tasks.iter().map(|task| Move::Acknowledge(at, *checkpoint, *task)));
                moves.extend(tasks.iter().map(|task| Move::Decline(at, *checkpoint, *task)));
            }
            match &owner.publishing {
                Some(Publishing { written: None, .. }) => {
                    moves.extend([Move::Store(at, true), Move::Store(at, false)]);
                }
                Some(_) => moves.push(Move::Answer(at)),
                None => {}
            }
        }
        moves
    }

    /// Lets it happen.
    pub(super) fn apply(&mut self, this: Move) {
        match this {
            Move::Claim => self.claim(),
            Move::Die(at) => self.owners[at] = None,
            Move::Store(at, writes) => self.store(at, writes),
            Move::Answer(at) => self.answer(at),
            Move::Wait(at, intervals) => {
                self.now += self.settings.interval * intervals;
                self.step(at, Event::Tick);
            }
            Move::End(at) => self.step(at, Event::EndRequested),
            Move::Savepoint(at, stop) => {
                self.savepoints += 1;
                let request = SavepointRequest(self.savepoints);
                let kind = if stop { BarrierKind::Last } else { BarrierKind::Periodic };
                self.step(at, Event::SavepointRequested { request, kind });
            }
            Move::Acknowledge(at, checkpoint, task) => {
                let Some(owner) = &mut self.owners[at] else { return };
                let owes = owner.owing.get_mut(&checkpoint).is_some_and(|(tasks, _)| tasks.remove(&task));
                if owes {
                    self.files.insert(file_of(owner.newest.generation, checkpoint, task));
                    if owner.protocol.waits_for(CheckpointId(checkpoint), task) {
                        owner.acknowledged.entry(checkpoint).or_default().insert(task);
                    }
                }
                let checkpoint = CheckpointId(checkpoint);
                self.step(at, Event::Acknowledged { attempt: Attempt(1), checkpoint, task });
            }
            Move::Decline(at, checkpoint, task) => {
                if let Some(owner) = &mut self.owners[at]
                    && let Some((tasks, _)) = owner.owing.get_mut(&checkpoint)
                {
                    tasks.remove(&task);
                }
                let (attempt, checkpoint, reason) = (Attempt(1), CheckpointId(checkpoint), "full".to_owned());
                self.step(at, Event::Declined { attempt, checkpoint, task, reason });
            }
            Move::Stale(at, attempt, checkpoint, task) => {
                let (attempt, checkpoint) = (Attempt(attempt), CheckpointId(checkpoint));
                let is_stale = self.owners[at].as_ref().is_some_and(|owner| {
                    attempt != Attempt(1) || !owner.protocol.waits_for(checkpoint, task)
                });
                if is_stale {
                    self.step(at, Event::Acknowledged { attempt, checkpoint, task });
                }
            }
        }
    }

    /// As `Sequence::claim` and what follows it: resolve, fence, sweep.
    fn claim(&mut self) {
        let newest = self.manifests.last_key_value().map(|(_, truth)| truth.clone());
        let mut claim = newest.unwrap_or_else(|| Truth {
            slot: 0,
            generation: 0,
            checkpoint: 0,
            reserved: 1,
            files: BTreeSet::new(),
            listed: BTreeSet::new(),
        });
        if !self.manifests.is_empty() {
            claim.slot += 1;
        }
        claim.generation += 1;
        let first_id = claim.reserved.max(claim.checkpoint + 1);
        claim.reserved = first_id + RESERVE;
        self.publish(claim.clone());
        for transaction in claim.listed.clone() {
            self.commit(transaction);
        }
        if !claim.listed.is_empty() {
            claim.slot += 1;
            claim.listed.clear();
            self.publish(claim.clone());
        }
        // Every former owner is fenced at the brokers: what is not committed by now never will be.
        let fenced = |t: &&(u64, u64)| t.0 < claim.generation && !self.committed.contains(*t);
        let stray: Vec<Transaction> = self.triggered.iter().filter(fenced).copied().collect();
        self.aborted.extend(stray);
        let held: Vec<Held> = self.manifests.values().map(Truth::held).collect();
        let names: Vec<String> = self.files.iter().cloned().collect();
        for name in orphans(&names, &held, Generation(claim.generation)) {
            self.files.remove(&name);
        }
        let protocol = Protocol::new(
            self.settings.clone(),
            Attempt(1),
            TASKS.into(),
            CheckpointId(first_id),
            CheckpointId(claim.reserved),
            self.now,
        );
        self.owners.push(Some(Owner {
            protocol,
            newest: claim,
            owing: BTreeMap::new(),
            acknowledged: BTreeMap::new(),
            kinds: BTreeMap::new(),
            publishing: None,
            pending: BTreeSet::new(),
            ended: false,
        }));
    }

    fn publish(&mut self, truth: Truth) {
        self.published.push(truth.clone());
        self.manifests.insert(truth.slot, truth);
    }

    /// A commit of a transaction that was aborted would be an output that is lost.
    fn commit(&mut self, transaction: Transaction) {
        self.committed.insert(transaction);
    }

    /// The store's part of `Sequence::publish`: put if absent.
    fn store(&mut self, at: usize, writes: bool) {
        let Some(Publishing { truth, in_sequence, written }) =
            self.owners[at].as_mut().and_then(|o| o.publishing.as_mut())
        else {
            return;
        };
        *written = Some(writes);
        let truth = truth.clone();
        // One far behind, whose slot is free again, does not count: its publisher sees what stands above it.
        if writes && *in_sequence && self.manifests.keys().all(|slot| *slot < truth.slot) {
            self.publish(truth);
        }
    }

    /// The owner learns what stands in its slot, and whether anything stands above it.
    fn answer(&mut self, at: usize) {
        let Some(owner) = &mut self.owners[at] else { return };
        let Some(Publishing { truth, in_sequence, written }) = owner.publishing.take() else { return };
        let checkpoint = CheckpointId(truth.checkpoint);
        let newest = self.manifests.last_key_value().map(|(_, newest)| newest);
        if in_sequence && newest.is_some_and(|newest| newest.generation != truth.generation) {
            // Fenced: it does nothing any more.
            self.owners[at] = None;
        } else if written == Some(true) {
            if in_sequence {
                self.answered.push((truth.generation, truth.checkpoint));
                owner.newest = truth;
            }
            self.step(at, Event::Published { checkpoint });
        } else {
            for name in &truth.files {
                self.files.remove(name);
            }
            self.step(at, Event::NotPublished { checkpoint, reason: "full".to_owned() });
        }
    }

    fn step(&mut self, at: usize, event: Event) {
        let Some(owner) = &mut self.owners[at] else { return };
        for action in owner.protocol.step(event, self.now) {
            self.carry_out(at, action);
        }
    }

    /// As the driver does.
    fn carry_out(&mut self, at: usize, action: Action) {
        let Some(owner) = &mut self.owners[at] else { return };
        let generation = owner.newest.generation;
        match action {
            Action::Trigger { checkpoint, kind, savepoint } => {
                self.triggered_after_the_end |= owner.ended;
                self.triggered.push((generation, checkpoint.0));
                owner.pending.insert((generation, checkpoint.0));
                owner.owing.insert(checkpoint.0, (TASKS.into(), owner.pending.clone()));
                owner.acknowledged.insert(checkpoint.0, BTreeSet::new());
                owner.kinds.insert(checkpoint.0, (kind, savepoint.is_some()));
            }
            Action::Publish { checkpoint } => {
                self.published_twice_at_once |= owner.publishing.is_some();
                let parts = owner.acknowledged.remove(&checkpoint.0).unwrap_or_default();
                self.incomplete_published |= parts.len() < TASKS.len();
                let (kind, savepoint) = owner.kinds[&checkpoint.0];
                let truth = Truth {
                    slot: owner.newest.slot + 1,
                    generation,
                    checkpoint: checkpoint.0,
                    reserved: owner.newest.reserved.max(checkpoint.0 + 1 + RESERVE),
                    files: parts.iter().map(|task| file_of(generation, checkpoint.0, *task)).collect(),
                    listed: owner.owing[&checkpoint.0].1.clone(),
                };
                let in_sequence = !savepoint || kind.is_last();
                owner.publishing = Some(Publishing { truth, in_sequence, written: None });
            }
            Action::Complete { checkpoint, kind, savepoint } => {
                let (_, listed) = owner.owing.remove(&checkpoint.0).unwrap_or_default();
                owner.kinds.remove(&checkpoint.0);
                owner.ended |= kind.is_last();
                if savepoint.is_some() && !kind.is_last() {
                    return;
                }
                owner.pending.retain(|transaction| !listed.contains(transaction));
                self.completed.push((generation, checkpoint.0));
                let deletions = {
                    let mut held: Vec<Held> = self.manifests.values().map(Truth::held).collect();
                    superseded(&mut held, self.settings.retained)
                };
                listed.into_iter().for_each(|transaction| self.commit(transaction));
                for slot in deletions.slots {
                    self.manifests.remove(&slot);
                }
                for name in deletions.files {
                    self.files.remove(&name);
                }
            }
            Action::Subsume { checkpoint } | Action::GiveUp { checkpoint, .. } => {
                owner.owing.remove(&checkpoint.0);
                owner.kinds.remove(&checkpoint.0);
                for task in owner.acknowledged.remove(&checkpoint.0).unwrap_or_default() {
                    self.files.remove(&file_of(generation, checkpoint.0, task));
                }
            }
            Action::Refuse { .. } | Action::RefuseSavepoint { .. } => {}
            Action::FailAttempt { .. } => self.owners[at] = None,
        }
    }

    fn newest_generation(&self) -> u64 {
        self.published.last().map_or(0, |truth| truth.generation)
    }
}

fn file_of(generation: u64, checkpoint: u64, task: TaskId) -> String {
    format!("state/{generation}-{checkpoint}-{task}")
}

/// Holds in every world, or something is wrong with the agreement.
type Law = fn(&World) -> bool;

/// Every law with its name.
pub(super) const LAWS: &[(&str, Law)] = &[
    ("complete_if_and_only_if_published", complete_if_and_only_if_published),
    ("published_only_with_every_part", published_only_with_every_part),
    ("commits_only_what_a_published_manifest_lists", commits_only_what_a_published_manifest_lists),
    ("nothing_listed_is_lost", nothing_listed_is_lost),
    ("ids_only_grow", ids_only_grow),
    ("published_checkpoints_only_grow", published_checkpoints_only_grow),
    ("one_publication_at_a_time", one_publication_at_a_time),
    ("nothing_needed_is_deleted", nothing_needed_is_deleted),
    ("slots_have_no_gap_and_generations_grow", slots_have_no_gap_and_generations_grow),
    ("nothing_follows_the_last_checkpoint", nothing_follows_the_last_checkpoint),
];

/// A checkpoint is complete for its owner exactly when its manifest is known to be in the sequence, and once.
fn complete_if_and_only_if_published(world: &World) -> bool {
    let published: BTreeSet<_> = world.published.iter().map(|t| (t.generation, t.checkpoint)).collect();
    let once: BTreeSet<_> = world.completed.iter().collect();
    once.len() == world.completed.len()
        && world.completed == world.answered
        && world.completed.iter().all(|complete| published.contains(complete))
}

fn published_only_with_every_part(world: &World) -> bool {
    !world.incomplete_published
}

fn commits_only_what_a_published_manifest_lists(world: &World) -> bool {
    world.committed.iter().all(|t| world.published.iter().any(|truth| truth.listed.contains(t)))
}

/// What some owner has promised to commit was not aborted before.
fn nothing_listed_is_lost(world: &World) -> bool {
    world.committed.is_disjoint(&world.aborted)
}

/// No id is used twice, and later ones are larger for each owner.
fn ids_only_grow(world: &World) -> bool {
    let ids: BTreeSet<u64> = world.triggered.iter().map(|(_, id)| *id).collect();
    let mut last: BTreeMap<u64, u64> = BTreeMap::new();
    ids.len() == world.triggered.len()
        && world.triggered.iter().all(|(generation, id)| last.insert(*generation, *id) < Some(*id))
}

fn published_checkpoints_only_grow(world: &World) -> bool {
    world.published.windows(2).all(|pair| pair[0].checkpoint <= pair[1].checkpoint)
}

fn one_publication_at_a_time(world: &World) -> bool {
    !world.published_twice_at_once
}

/// Every manifest in the store has its files, and so has one that its owner, while he is the newest, is publishing.
fn nothing_needed_is_deleted(world: &World) -> bool {
    let newest = world.newest_generation();
    let publishing = world.owners.iter().flatten().filter_map(|o| o.publishing.as_ref());
    let publishing = publishing.map(|p| &p.truth).filter(|truth| truth.generation == newest);
    world.manifests.values().chain(publishing).all(|truth| truth.files.is_subset(&world.files))
}

fn slots_have_no_gap_and_generations_grow(world: &World) -> bool {
    world
        .published
        .windows(2)
        .all(|pair| pair[0].slot + 1 == pair[1].slot && pair[0].generation <= pair[1].generation)
}

fn nothing_follows_the_last_checkpoint(world: &World) -> bool {
    !world.triggered_after_the_end
}

/// What all histories share, unless they say otherwise.
pub(super) fn settings() -> Settings {
    let interval = Duration::from_secs(1);
    Settings { interval, timeout: 5 * interval, tolerable_failures: 1, retained: 2, ..Settings::default() }
}
