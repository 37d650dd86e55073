//! How an attempt begins: claim, resolve what the newest manifest lists, fence former owners, fix the start.
//!
//! The order is the point. Nothing is asked of a transaction before the claim, no id is initialised before what is
//! listed under it is resolved, and nothing is read before the start positions are published.

use super::job::Setup;
use super::pending;
use crate::checkpoint::{
    self, Cause, Manifest, OperatorSnapshot, Planned, RestorePlan, Sequence, SubtaskSnapshot, plan, savepoint,
};
use crate::connector::{SinkControl, SinkFacts};
use crate::graph::{Kind, NodeId};
use crate::host::clock;
use crate::model::{Advice, CheckpointId, Failure, OperatorUid};
use crate::operator::KeyGroups;
use std::sync::Arc;
use std::time::Duration;

/// How long somebody is looked for who runs the job elsewhere, and how often.
const SIGNS_OF_LIFE: Duration = Duration::from_secs(3);
const LOOK: Duration = Duration::from_millis(200);

/// What an attempt begins with.
pub(super) struct Beginning {
    /// The newest manifest, our own.
    pub(super) manifest: Manifest,
    /// The first checkpoint id to use.
    pub(super) first_id: CheckpointId,
    /// What each subtask restores.
    pub(super) restore: RestorePlan,
}

/// Checks everything that can be checked before the job is claimed.
pub(super) fn check(setup: &Setup) -> Result<(), Failure> {
    for (id, control) in setup.sources() {
        control.check().map_err(|e| e.at(setup.place(id)))?;
    }
    for (id, control) in setup.sinks() {
        control.check(&setup.sink_facts(id)).map_err(|e| e.at(setup.place(id)))?;
    }
    crate::storage::probe(setup.sequence.store())
        .map_err(|e| Failure::from(crate::checkpoint::Error::from(e)))?;
    match setup.sequence.store().sweep(crate::storage::ABANDONED) {
        Ok(0) => {}
        Ok(swept) => tracing::info!(swept, "removed what died with its writer"),
        // It takes room and harms nobody.
        Err(e) => tracing::warn!(error = %e, "what died with its writer stays behind"),
    }
    let newest = setup.sequence.newest().map_err(Failure::from);
    if let Some(from) = &setup.options.from {
        let newest = newest?;
        let begun = newest.as_ref().is_some_and(|m| m.started && !m.restored_from.is_empty());
        let snapshot = match savepoint::open(from, &setup.options.storage) {
            // It was claimed, and so deleted when the job had begun with it.
            Err(checkpoint::Error::NoSnapshot { .. }) if begun => return Ok(()),
            opened => opened?,
        };
        // A claim in the sequence fences whoever runs the job there, and nobody who runs it elsewhere.
        let is_new_here = !newest.is_some_and(|m| m.started);
        return if is_new_here { nobody_else_runs(setup, from, &snapshot.manifest) } else { Ok(()) };
    }
    if setup.options.fresh {
        return Ok(());
    }
    match newest? {
        Some(newest) if !newest.started && !newest.restored_from.is_empty() => {
            return Err(Failure::configuration(format!(
                "job {} was about to begin with {} and did not come to it, so it has no state yet; start it with --from \
                 again, or with --fresh if it shall begin anew",
                setup.options.job, newest.restored_from
            )));
        }
        Some(_) => return Ok(()),
        None => {}
    }
    for (id, control) in setup.sinks() {
        let known = control.known_ids(&setup.options.job).map_err(|e| e.at(setup.place(id)))?;
        if let Some(first) = known.first() {
            return Err(Failure::configuration(format!(
                "{} has no checkpoint of job {}, but the broker knows {} transactional ids of it, such as {first}: the job \
                 has run before, and starting it without its checkpoints would repeat or lose output. Point \
                 --checkpoints at the folder that it used, or start with --fresh if it shall begin anew",
                setup.sequence.store().location(),
                setup.options.job,
                known.len(),
            )));
        }
    }
    Ok(())
}

/// Two processes that run one job with checkpoints in two places would fence each other in turns, and repeat output. What
/// is open beside what the savepoint lists is a sign of the other.
fn nobody_else_runs(setup: &Setup, from: &str, saved: &Manifest) -> Result<(), Failure> {
    if saved.job != setup.options.job {
        return Ok(());
    }
    let subtasks = saved.operators.iter().flat_map(|o| &o.subtasks);
    let listed: Vec<_> = subtasks.flat_map(|s| s.committables.iter().cloned()).collect();
    // Between two transactions nothing is open for a moment.
    let until = clock::now() + SIGNS_OF_LIFE;
    loop {
        for (id, control) in setup.sinks() {
            let open = control.open_beside(&setup.options.job, &listed).map_err(|e| e.at(setup.place(id)))?;
            if let Some(first) = open.first() {
                return Err(runs_elsewhere(setup, from, first, open.len()));
            }
        }
        if clock::until(until).is_zero() {
            return Ok(());
        }
        std::thread::sleep(LOOK);
    }
}

fn runs_elsewhere(setup: &Setup, from: &str, first: &str, open: usize) -> Failure {
    Failure::configuration(format!(
        "{} has no checkpoint of job {}, but {open} of its transactional ids have open transactions that {from} does not list, \
         such as {first}: the job still runs with its checkpoints elsewhere, or died there. If it runs, stop it, or begin \
         with the savepoint under another name; if it died, point --checkpoints at the folder that it used, or end what it \
         left with `tidegate txn abort`",
        setup.sequence.store().location(),
        setup.options.job,
    ))
}

/// Claims the job and brings everything into the state that the newest manifest promises.
///
/// A process that owned the job before and meets a newer owner is fenced; it does not claim the job back.
pub(super) fn begin(setup: &Setup) -> Result<Beginning, Failure> {
    setup.settled.set(false);
    let mut manifest = claim(setup)?;
    crate::fault_point!("start.after_claim");
    let first_id = Sequence::first_id(&manifest);
    tracing::info!(
        job = %setup.options.job, generation = manifest.generation.0, checkpoint = manifest.checkpoint.0,
        slot = manifest.slot, "claimed the job"
    );
    manifest = resolve(setup, manifest)?;
    if let Some(from) = &setup.options.from {
        manifest = begin_with(setup, manifest, from)?;
    }
    fence(setup)?;
    setup.settled.set(true);
    if let Some(copies) = &setup.copies {
        copies.keep_only(manifest.files().map(|file| file.name.as_str()));
    }
    if manifest.finished {
        // Nothing is read any more, so nothing of what was read needs to be there still.
        return Ok(Beginning { manifest, first_id, restore: RestorePlan::default() });
    }
    manifest = fix_start(setup, manifest)?;
    choose_key_groups(setup, &manifest)?;
    let planned: Vec<Planned> = setup.planned();
    let mut claimed = manifest.clone();
    if setup.options.allow_unclaimed_state {
        claimed.operators.retain(|o| planned.iter().any(|p| p.uid == o.uid && p.stateful));
    }
    let mut restore = plan(&claimed, &planned).map_err(|problem| {
        Failure::from(crate::checkpoint::Error::Mismatch { checkpoint: manifest.checkpoint.0, problem })
    })?;
    for (id, control) in setup.sources() {
        if let Some(subtasks) = restore.operators.get_mut(&setup.graph.uid(id))
            && let Some(first) = subtasks.first()
        {
            let splits = control
                .reconcile(first.splits.clone(), &setup.options.metrics)
                .map_err(|e| e.at(setup.place(id)))?;
            subtasks.iter_mut().for_each(|s| s.splits = splits.clone());
        }
    }
    setup.settled.set(false);
    Ok(Beginning { manifest, first_id, restore })
}

pub(super) fn claim(setup: &Setup) -> Result<Manifest, Failure> {
    let mut claims = setup.claims.borrow_mut();
    let fresh = setup.options.fresh && !claims.any();
    claims.begin_with(setup.options.from.as_deref());
    Ok(setup.sequence.claim_again(&mut claims, fresh)?)
}

/// Commits what is listed, aborts what is not, and fences every former owner of the ids.
pub(super) fn settle(setup: &Setup, manifest: Manifest) -> Result<Manifest, Failure> {
    let manifest = resolve(setup, manifest)?;
    fence(setup)?;
    Ok(manifest)
}

fn resolve(setup: &Setup, manifest: Manifest) -> Result<Manifest, Failure> {
    pending::resolve(&setup.sequence, manifest, |uid| sink_for(setup, uid))
}

/// Puts the content of a savepoint, or of another job's checkpoint, into the sequence, with copies of its files. What the
/// job's own newest manifest lists is resolved by then; what the savepoint lists is the job's only if it is of the same
/// job.
fn begin_with(setup: &Setup, manifest: Manifest, from: &str) -> Result<Manifest, Failure> {
    let claimed = manifest.started && !manifest.restored_from.is_empty();
    let snapshot = match savepoint::open(from, &setup.options.storage) {
        Err(checkpoint::Error::NoSnapshot { .. }) if claimed => return Ok(manifest),
        opened => opened?,
    };
    let dispose = || if setup.options.claim && snapshot.is_savepoint { snapshot.dispose() } else { Ok(()) };
    if manifest.started && manifest.restored_from == snapshot.origin() {
        tracing::info!(from, "the job has begun with this before and goes on from its own checkpoints");
        dispose()?;
        return Ok(manifest);
    }
    if manifest.started {
        tracing::warn!(
            from,
            checkpoint = manifest.checkpoint.0,
            "the job's own checkpoints are left for this one"
        );
    }
    let adopted = snapshot.adopt(&manifest, &**setup.sequence.store())?;
    crate::fault_point!("restore.after_copy");
    let next = Manifest {
        started: true,
        finished: false,
        restored_from: snapshot.origin(),
        operators: adopted.operators,
        ..setup.sequence.next(&manifest, Cause::Restore, manifest.checkpoint)
    };
    setup.sequence.must_publish(&next)?;
    crate::fault_point!("restore.after_manifest");
    tracing::info!("begins with {snapshot}");
    let next = resolve(setup, next)?;
    dispose()?;
    Ok(next)
}

fn fence(setup: &Setup) -> Result<(), Failure> {
    for (id, control) in setup.sinks() {
        crate::fault_point!("init.before");
        control.initialise(&setup.sink_facts(id)).map_err(|e| e.at(setup.place(id)))?;
    }
    Ok(())
}

/// Before a process gives up: as [`tidy`], and best effort, for the next start does the same.
pub(super) fn leave_tidy(setup: &Setup, failure: &Failure) {
    if let Err(e) = tidy(setup, failure) {
        tracing::warn!("pending transactions are left to the next start: {e}");
    }
}

/// What is covered is committed and the rest aborted, so that no reader of the output waits for a timeout. A fenced
/// process touches nothing, and one that has done it and not run since has nothing to do.
pub(super) fn tidy(setup: &Setup, failure: &Failure) -> Result<(), Failure> {
    if failure.advice == Advice::Fenced || setup.settled.get() {
        return Ok(());
    }
    let manifest = claim(setup)?;
    settle(setup, manifest)?;
    setup.settled.set(true);
    Ok(())
}

/// The control that can resolve transactions of a sink; those of a sink that the job no longer has are resolved by
/// any other, since their evidence says everything.
fn sink_for(setup: &Setup, uid: &OperatorUid) -> Result<Arc<dyn SinkControl>, Failure> {
    let sinks: Vec<_> = setup.sinks().collect();
    sinks
        .iter()
        .find(|(id, _)| setup.graph.uid(*id) == *uid)
        .or_else(|| sinks.first())
        .map(|(_, control)| Arc::clone(control))
        .ok_or_else(|| {
            Failure::configuration(format!(
                "the newest checkpoint has pending transactions of sink {uid}, and this job has no sink that could resolve \
                 them; start the job once with its former sink"
            ))
        })
}

/// Fixes the start positions of every source that has none yet, and publishes them before anything is read.
fn fix_start(setup: &Setup, manifest: Manifest) -> Result<Manifest, Failure> {
    let mut next = setup.sequence.next(&manifest, Cause::Start, manifest.checkpoint);
    let mut fixed = false;
    for (id, control) in setup.sources() {
        let uid = setup.graph.uid(id);
        if next.operators.iter().any(|o| o.uid == uid) {
            continue;
        }
        let splits = control.resolve_start().map_err(|e| e.at(setup.place(id)))?;
        next.operators.push(OperatorSnapshot {
            uid,
            name: setup.graph.node(id).name.clone(),
            max_parallelism: None,
            subtasks: vec![SubtaskSnapshot { splits, ..SubtaskSnapshot::default() }],
        });
        fixed = true;
    }
    if !fixed && manifest.started {
        return Ok(manifest);
    }
    next.started = true;
    setup.sequence.must_publish(&next)?;
    crate::fault_point!("start.after_first_manifest");
    Ok(next)
}

/// Fixes the number of key groups of every keyed operator.
fn choose_key_groups(setup: &Setup, manifest: &Manifest) -> Result<(), Failure> {
    for (at, node) in setup.graph.nodes.iter().enumerate() {
        let (id, Some(groups)) = (NodeId(at), &node.key_groups) else { continue };
        let uid = setup.graph.uid(id);
        let then = manifest.operators.iter().find(|o| o.uid == uid).and_then(|o| o.max_parallelism);
        groups
            .choose(then, setup.plan.parallelism(id))
            .map_err(|problem| Failure::configuration(problem).at(setup.place(id)))?;
    }
    Ok(())
}

impl Setup {
    /// The sources with their controls.
    pub(super) fn sources(&self) -> impl Iterator<Item = (NodeId, Arc<dyn crate::connector::SourceControl>)> {
        self.graph.nodes.iter().enumerate().filter_map(|(at, node)| match &node.kind {
            Kind::Source(_, control) => Some((NodeId(at), Arc::clone(control))),
            _ => None,
        })
    }

    /// The sinks with their controls.
    pub(super) fn sinks(&self) -> impl Iterator<Item = (NodeId, Arc<dyn SinkControl>)> {
        self.graph.nodes.iter().enumerate().filter_map(|(at, node)| match &node.kind {
            Kind::Sink(_, control) => Some((NodeId(at), Arc::clone(control))),
            _ => None,
        })
    }

    /// What a sink must know of the job.
    pub(super) fn sink_facts(&self, id: NodeId) -> SinkFacts {
        let (least_timeout, arithmetic) = self.options.checkpoint.least_transaction_timeout();
        SinkFacts {
            job: self.options.job.clone(),
            uid: self.graph.uid(id),
            sinks: self.sinks().map(|(id, _)| self.graph.uid(id)).collect(),
            parallelism: self.plan.parallelism(id),
            transactions: self.options.checkpoint.transactions_per_subtask(),
            least_timeout,
            arithmetic,
        }
    }

    /// An operator in words.
    pub(super) fn place(&self, id: NodeId) -> String {
        format!("operator {} ({})", self.graph.uid(id), self.graph.node(id).name)
    }

    fn planned(&self) -> Vec<Planned> {
        (0..self.graph.nodes.len())
            .map(|at| {
                let (id, node) = (NodeId(at), &self.graph.nodes[at]);
                let stateful = match &node.kind {
                    Kind::Operator(factory) => factory.may_keep_state(),
                    Kind::Source(..) | Kind::Sink(..) => true,
                };
                Planned {
                    uid: self.graph.uid(id),
                    parallelism: self.plan.parallelism(id),
                    max_parallelism: node.key_groups.as_ref().map(KeyGroups::get),
                    stateful,
                }
            })
            .collect()
    }
}

/// What a failure of the start means for the process: a broken surrounding is told at once, not tried for ever.
pub(super) fn is_final(failure: &Failure) -> bool {
    matches!(failure.advice, Advice::Fenced | Advice::FixConfiguration | Advice::DataIsCorrupt | Advice::Bug)
}
