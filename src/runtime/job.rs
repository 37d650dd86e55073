//! The supervisor: runs attempt after attempt until the job has ended, is stopped, or cannot go on.

use super::attempt;
use super::cancel;
use super::local_copies::LocalCopies;
use super::progress::{Phase, Progress};
use super::recovery;
use super::restart::{RestartPolicy, Restarts, Verdict};
use super::savepoints::{Desk, SavepointStatus};
use crate::checkpoint::{Claims, Sequence, Settings};
use crate::graph::{Graph, NodeId, Plan};
use crate::host::metrics::Metrics;
use crate::host::{clock, random};
use crate::model::{Attempt, BarrierKind, Failure, JobId};
use crate::storage::{self, Storage};
use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

/// How a job is run.
#[derive(Clone)]
pub struct JobOptions {
    /// Its name: what its transactions and checkpoints are found by.
    pub job: JobId,
    /// Where checkpoints are kept, such as `file:///var/lib/tidegate`; jobs may share it.
    pub checkpoints: String,
    /// How the store of the checkpoints is used.
    pub storage: storage::Options,
    /// Begin anew: drop the state of earlier runs, abort their pending transactions.
    pub fresh: bool,
    /// Begin with this savepoint, or with the newest checkpoint in the folder of another job: a URI or an absolute path.
    /// A job begins with one savepoint once; a later start with the same goes on from the job's own checkpoints.
    pub from: Option<String>,
    /// With `from`: delete the savepoint once the job has begun with it.
    pub claim: bool,
    /// Drop state of operators that the job does not have, instead of refusing it.
    pub allow_unclaimed_state: bool,
    /// Subtasks of every operator without a parallelism of its own, 1 or more.
    pub parallelism: u32,
    /// When checkpoints are taken and what is tolerated.
    pub checkpoint: Settings,
    /// How failures are answered.
    pub restart: RestartPolicy,
    /// Batches that may wait in one channel between two tasks, 1 or more; 8 by default, of at most 1024 records.
    pub channel_capacity: usize,
    /// Where metrics are kept.
    pub metrics: Metrics,
    /// Where the job tells how far it is.
    pub progress: Progress,
}

impl JobOptions {
    /// The defaults.
    pub fn new(job: JobId, checkpoints: impl Into<String>) -> Self {
        Self {
            job,
            checkpoints: checkpoints.into(),
            storage: storage::Options::default(),
            fresh: false,
            from: None,
            claim: false,
            allow_unclaimed_state: false,
            parallelism: 1,
            checkpoint: Settings::default(),
            restart: RestartPolicy::default(),
            channel_capacity: 8,
            metrics: Metrics::default(),
            progress: Progress::default(),
        }
    }

    fn problems(&self) -> Vec<String> {
        let mut problems = self.checkpoint.problems();
        problems.extend(self.storage.problems());
        if self.parallelism == 0 {
            problems.push("the parallelism must be 1 or more, found 0".to_owned());
        }
        if self.channel_capacity == 0 {
            problems.push("the channel capacity must be 1 batch or more, found 0".to_owned());
        }
        problems
    }
}

/// How a job ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outcome {
    /// Whether every bounded source came to its end; else the job was stopped with a checkpoint.
    pub finished: bool,
    /// Whether it was cancelled: ended without a checkpoint of its own.
    pub cancelled: bool,
    /// The last complete checkpoint.
    pub checkpoint: u64,
    /// How often the job was restarted within this process.
    pub restarts: u64,
}

/// Ends a running job; usable from any thread, and from a signal's.
#[derive(Clone, Default)]
pub struct StopHandle(Arc<Asked>);

#[derive(Default)]
struct Asked {
    end: AtomicU8,
    desk: Desk,
}

/// A stop is asked for. Nothing is 0.
const STOP: u8 = 1;

/// A cancellation is, which no later stop takes back.
const CANCEL: u8 = 2;

impl StopHandle {
    /// Asks for the end with a checkpoint; asking twice is asking once.
    pub fn stop(&self) {
        self.0.end.fetch_max(STOP, Ordering::SeqCst);
    }

    /// Asks for the end without one: what was done since the last checkpoint is aborted, and done again by whoever
    /// starts the job anew. Whether checkpoints stay says [`Settings::on_cancellation`].
    pub fn cancel(&self) {
        self.0.end.fetch_max(CANCEL, Ordering::SeqCst);
    }

    /// Whether the end without a checkpoint was asked for.
    pub fn is_cancelled(&self) -> bool {
        self.0.end.load(Ordering::SeqCst) == CANCEL
    }

    /// Asks for a savepoint in a new folder below `target`, a URI or an absolute path; the job runs on. Gives the number
    /// for [`StopHandle::savepoint_status`].
    pub fn savepoint(&self, target: &str) -> u64 {
        self.0.desk.order(target, BarrierKind::Periodic)
    }

    /// As [`StopHandle::savepoint`], and the job ends with it, as with [`StopHandle::stop`]. If it fails, the job runs on.
    pub fn stop_with_savepoint(&self, target: &str) -> u64 {
        self.0.desk.order(target, BarrierKind::Last)
    }

    /// As [`StopHandle::stop_with_savepoint`], and every operator emits before what it kept back, as if the input were
    /// over. A later start goes on with the input, and with operators that have given out what they had.
    pub fn drain_with_savepoint(&self, target: &str) -> u64 {
        self.0.desk.order(target, BarrierKind::Drain)
    }

    /// How the savepoint of this number stands; `None` if it was never asked for, or long ago.
    pub fn savepoint_status(&self, number: u64) -> Option<SavepointStatus> {
        self.0.desk.status(number)
    }

    pub(super) fn desk(&self) -> &Desk {
        &self.0.desk
    }

    pub(super) fn is_requested(&self) -> bool {
        self.0.end.load(Ordering::SeqCst) >= STOP
    }
}

/// What all attempts share.
pub(super) struct Setup {
    pub(super) graph: Graph,
    pub(super) plan: Plan,
    pub(super) options: JobOptions,
    pub(super) sequence: Sequence,
    pub(super) stop: StopHandle,
    /// Second copies of state files, if there shall be any.
    pub(super) copies: Option<Arc<LocalCopies>>,
    /// The claims of this process.
    pub(super) claims: RefCell<Claims>,
    /// Whether transactions are as the newest manifest says: what it lists is committed, nothing else is open.
    pub(super) settled: Cell<bool>,
}

/// Runs the job on the calling thread until it ends.
///
/// # Errors
/// What a person has to do something about: wrong settings, damage, another process that owns the job, or more
/// failures in a row than the restart policy allows.
pub fn run(graph: Graph, options: JobOptions, stop: StopHandle) -> Result<Outcome, Failure> {
    let mut problems = options.problems();
    match graph.check_uids() {
        Ok(warnings) => warnings.iter().for_each(|w| tracing::warn!("{w}")),
        Err(errors) => problems.extend(errors),
    }
    problems.extend(graph.lost_dead_letters());
    if graph.nodes.is_empty() {
        problems.push("the job has no operators".to_owned());
    }
    for (at, node) in graph.nodes.iter().enumerate().filter(|(_, node)| node.parallelism == Some(0)) {
        let uid = graph.uid(NodeId(at));
        problems.push(format!("operator {uid} ({}): the parallelism must be 1 or more, found 0", node.name));
    }
    let plan = Plan::of(&graph, options.parallelism.max(1));
    if !problems.is_empty() {
        return Err(Failure::configuration(problems.join("\n")));
    }
    let mut sequence = Sequence::open_with(&options.checkpoints, &options.job, &options.storage)?;
    let copies = options.checkpoint.local_recovery.as_ref().map(|folder| {
        Arc::new(LocalCopies::new(Arc::clone(sequence.store()), folder, &options.job, &options.metrics))
    });
    if let Some(copies) = &copies {
        sequence = Sequence::new(Arc::clone(copies) as Arc<dyn Storage>, options.job.clone());
    }
    let (claims, settled) = (RefCell::default(), Cell::new(false));
    let setup = Setup { graph, plan, options, sequence, stop, copies, claims, settled };
    let outcome = recovery::check(&setup).and_then(|()| supervise(&setup));
    setup.stop.desk().close("the job has ended");
    outcome
}

fn supervise(setup: &Setup) -> Result<Outcome, Failure> {
    let job = setup.options.job.to_string();
    let restarted = setup.options.metrics.own_counter(
        "tidegate_restarts_total",
        "Restarts of the job within this process.",
        &[("job", &job)],
    );
    let progress = &setup.options.progress;
    let mut restarts = Restarts::default();
    let mut attempt = Attempt(1);
    loop {
        let started = clock::now();
        progress.enter(Phase::Starting);
        let failure = match attempt::run(setup, attempt) {
            Ok(outcome) => {
                progress.enter(Phase::Ended);
                return Ok(Outcome { restarts: attempt.0 - 1, ..outcome });
            }
            Err(failure) if setup.stop.is_cancelled() => {
                let checkpoint = cancel::settle(setup, &failure)?;
                progress.enter(Phase::Ended);
                let restarts = attempt.0 - 1;
                return Ok(Outcome { finished: false, cancelled: true, checkpoint, restarts });
            }
            Err(failure) if recovery::is_final(&failure) => {
                recovery::leave_tidy(setup, &failure);
                return Err(failure);
            }
            Err(failure) => failure,
        };
        let ran = clock::now() - started;
        let delay =
            match restarts.after_failure(&setup.options.restart, failure.advice, ran, random::fraction()) {
                Verdict::RestartAfter(delay) => delay,
                Verdict::GiveUp => {
                    recovery::leave_tidy(setup, &failure);
                    return Err(
                        failure.at(format!("given up after {} restarts in a row", restarts.in_a_row()))
                    );
                }
                Verdict::Displaced => return Err(displaced(setup, &failure)),
            };
        tracing::error!(
            attempt = attempt.0,
            delay_ms = delay.as_millis() as u64,
            "attempt failed: {failure}"
        );
        restarted.inc();
        progress.failed(failure.to_string());
        progress.enter(Phase::Restarting);
        let wake = clock::now() + delay;
        while clock::now() < wake {
            progress.turned();
            if setup.stop.is_cancelled() {
                let checkpoint = cancel::settle(setup, &failure)?;
                progress.enter(Phase::Ended);
                return Ok(Outcome { finished: false, cancelled: true, checkpoint, restarts: attempt.0 });
            }
            if setup.stop.is_requested() {
                recovery::leave_tidy(setup, &failure);
                return Err(failure.at("stopped while waiting for a restart after a failure"));
            }
            std::thread::sleep(clock::until(wake).min(Duration::from_millis(50)));
        }
        attempt = attempt.next();
    }
}

/// Why a job ends whose transactional ids are taken over again and again although nobody else has claimed it.
fn displaced(setup: &Setup, failure: &Failure) -> Failure {
    Failure::configuration(format!(
        "somebody takes over the transactional ids of job {} at the brokers again and again, and has not claimed it in {}: \
         another process runs a job of the same name with other checkpoints. Stop it, or give one of the two another \
         name; what was checkpointed here is kept. If there is none, transactions are aborted by their timeout: raise \
         the transaction timeout. The last time it showed as: {failure}",
        setup.options.job,
        setup.sequence.store().location(),
    ))
}
