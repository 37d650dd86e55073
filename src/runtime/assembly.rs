//! From the plan to the tasks of one attempt, connected and not yet running.

use super::events::Command;
use super::job::Setup;
use super::recovery::Beginning;
use crate::connector::Origins;
use crate::graph::{
    AnyGate, AnySender, Backlog, ChannelFrom, GateSeat, InputTask, Kind, NodeId, ReplaySeat, Replayed, Route,
    Urgency, Waits,
};
use crate::model::{Attempt, Failure, SubtaskIndex, TaskId};
use crate::operator::{AnyStage, BuildContext, CommitterRegistry, Outputs, SourceTask, SubtaskInfo};
use prometheus::IntCounter;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

/// Commands that may wait for a source that is held up while checkpoints expire; with one more the attempt fails.
const COMMANDS: usize = 16;

/// The tasks of an attempt.
pub(super) struct Assembly {
    pub(super) sources: Vec<(TaskId, Box<dyn SourceTask>, Inbox)>,
    pub(super) inputs: Vec<(TaskId, Box<dyn InputTask>)>,
    pub(super) commands: Vec<(SyncSender<Command>, Urgency)>,
    /// What tells whom each gate waits for.
    pub(super) waits: Vec<Waits>,
    pub(super) closers: Vec<Box<dyn Fn() + Send + Sync>>,
    pub(super) committers: CommitterRegistry,
    pub(super) cancelled: Arc<AtomicBool>,
}

/// What tells a source subtask what to do.
pub(super) struct Inbox {
    pub(super) commands: Receiver<Command>,
    pub(super) urgency: Urgency,
    pub(super) backlog: Backlog,
}

struct Builder<'a> {
    setup: &'a Setup,
    attempt: Attempt,
    beginning: &'a Beginning,
    origins: Origins,
    committers: CommitterRegistry,
    cancelled: Arc<AtomicBool>,
    waits: Vec<Waits>,
    /// Of the gates' tasks.
    urgencies: HashMap<(NodeId, u32), Urgency>,
    /// Of the task that is being built.
    urgency: Urgency,
    backlog: Backlog,
    /// By consumer, input and sending subtask: the channels to all receiving subtasks.
    senders: HashMap<(NodeId, usize, u32), Vec<AnySender>>,
}

/// Builds all tasks.
pub(super) fn assemble(setup: &Setup, attempt: Attempt, beginning: &Beginning) -> Result<Assembly, Failure> {
    let mut builder = Builder {
        setup,
        attempt,
        beginning,
        origins: Origins::default(),
        committers: CommitterRegistry::default(),
        cancelled: Arc::new(AtomicBool::new(false)),
        waits: Vec::new(),
        urgencies: HashMap::new(),
        urgency: Urgency::default(),
        backlog: Backlog::default(),
        senders: HashMap::new(),
    };
    let mut closers = Vec::new();
    let mut gates = builder.gates(&mut closers);
    let (mut sources, mut inputs, mut commands) = (Vec::new(), Vec::new(), Vec::new());
    for (number, chain) in setup.plan.chains.iter().enumerate() {
        for subtask in 0..chain.parallelism {
            let task = TaskId { chain: number as u32, subtask: SubtaskIndex(subtask) };
            let node = setup.graph.node(chain.head);
            builder.urgency = builder.urgencies.remove(&(chain.head, subtask)).unwrap_or_default();
            builder.backlog = Backlog::default();
            if let Kind::Source(factory, _) = &node.kind {
                let outputs = builder.outputs(chain.head, subtask)?;
                let source = factory.build(builder.context(chain.head, subtask), outputs)?;
                let (to, from) = sync_channel(COMMANDS);
                commands.push((to, builder.urgency.clone()));
                let (urgency, backlog) = (builder.urgency.clone(), builder.backlog.clone());
                sources.push((task, source, Inbox { commands: from, urgency, backlog }));
            } else {
                let stage = builder.stage(chain.head, subtask)?;
                let gate =
                    gates.remove(&(chain.head, subtask)).expect("every head that is no source has a gate");
                inputs.push((task, node.inputs[0].link.task(gate, stage, builder.backlog.clone())));
            }
        }
    }
    let Builder { committers, cancelled, waits, .. } = builder;
    Ok(Assembly { sources, inputs, commands, waits, closers, committers, cancelled })
}

impl Builder<'_> {
    /// Makes the gates of all tasks that are fed by others, and keeps their sending ends.
    fn gates(&mut self, closers: &mut Vec<Box<dyn Fn() + Send + Sync>>) -> HashMap<(NodeId, u32), AnyGate> {
        let mut gates = HashMap::new();
        let plan = &self.setup.plan;
        for chain in &plan.chains {
            let node = self.setup.graph.node(chain.head);
            let Some(first) = node.inputs.first() else { continue };
            let exchanges: Vec<_> = plan.exchanges.iter().filter(|e| e.to == chain.head).collect();
            for subtask in 0..chain.parallelism {
                let senders_of = |input: usize| {
                    let from = plan.parallelism(node.inputs[input].from);
                    if exchanges[input].one_to_one { subtask..subtask + 1 } else { 0..from }
                };
                let channel = |input: usize, subtask| ChannelFrom {
                    input: input as u32,
                    sender: self.setup.graph.uid(node.inputs[input].from),
                    subtask,
                };
                let channels = (0..node.inputs.len()).flat_map(|i| senders_of(i).map(move |s| channel(i, s)));
                let urgency = Urgency::default();
                self.urgencies.insert((chain.head, subtask), urgency.clone());
                let (gate, senders) = first.link.gate(GateSeat {
                    uid: self.setup.graph.uid(chain.head),
                    place: format!(
                        "{} subtask {subtask} of {}",
                        self.setup.place(chain.head),
                        chain.parallelism
                    ),
                    channels: channels.collect(),
                    capacity: self.setup.options.channel_capacity,
                    // A record on a one-to-one edge belongs to the subtask that its sender has become, and after a
                    // rescale nobody can tell which one that is: its order would be lost.
                    // And what is broadcast must have reached every receiver at a barrier, or none.
                    overtaking: exchanges.iter().all(|e| !e.one_to_one)
                        && node.inputs.iter().all(|e| e.route != Route::Broadcast),
                    urgency,
                });
                closers.push(first.link.closer(&gate));
                self.waits.push(first.link.waits(&gate));
                gates.insert((chain.head, subtask), gate);
                let mut senders = senders.into_iter();
                for input in 0..node.inputs.len() {
                    for from in senders_of(input) {
                        let sender = senders.next().expect("a gate has as many senders as channels");
                        self.senders.entry((chain.head, input, from)).or_default().push(sender);
                    }
                }
            }
        }
        gates
    }

    fn context(&self, id: NodeId, subtask: u32) -> BuildContext {
        let uid = self.setup.graph.uid(id);
        let restore = self.beginning.restore.of(&uid, subtask);
        let info = SubtaskInfo {
            job: self.setup.options.job.clone(),
            uid,
            name: self.setup.graph.node(id).name.clone(),
            subtask,
            parallelism: self.setup.plan.parallelism(id),
            attempt: self.attempt,
            metrics: self.setup.options.metrics.clone(),
        };
        BuildContext {
            info: Arc::new(info),
            keyed: restore.keyed,
            splits: restore.splits,
            operator: restore.operator,
            store: Arc::clone(self.setup.sequence.store()),
            origins: self.origins.clone(),
            cancelled: Arc::clone(&self.cancelled),
            patience: self.setup.options.checkpoint.timeout,
            transactions: self.setup.options.checkpoint.transactions_per_subtask(),
            committers: self.committers.clone(),
        }
    }

    /// Everything that consumes an operator's output in this subtask.
    fn outputs(&mut self, id: NodeId, subtask: u32) -> Result<Outputs, Failure> {
        let mut outputs = Outputs::default();
        let setup = self.setup;
        if !matches!(setup.graph.node(id).kind, Kind::Sink(..)) {
            outputs.count(self.records("out", id, subtask));
        }
        for (at, node) in setup.graph.nodes.iter().enumerate() {
            for (input, edge) in node.inputs.iter().enumerate().filter(|(_, e)| e.from == id) {
                let consumer = NodeId(at);
                let stage = if setup.plan.is_head(consumer) {
                    let receivers = self
                        .senders
                        .remove(&(consumer, input, subtask))
                        .expect("every exchange has its channels, each used once");
                    edge.link.output(receivers, subtask, self.urgency.clone())
                } else {
                    self.stage(consumer, subtask)?
                };
                outputs.add(edge.port, stage);
            }
        }
        Ok(outputs)
    }

    /// The counter of what enters or leaves a subtask of an operator.
    fn records(&self, way: &str, id: NodeId, subtask: u32) -> IntCounter {
        let (job, uid) = (self.setup.options.job.to_string(), self.setup.graph.uid(id));
        let (name, help) = match way {
            "in" => ("tidegate_operator_records_in_total", "Records that entered the operator."),
            _ => ("tidegate_operator_records_out_total", "Records that the operator gave out."),
        };
        let labels = [("job", job.as_str()), ("operator", &uid.0), ("subtask", &subtask.to_string())];
        self.setup.options.metrics.own_counter(name, help, &labels)
    }

    fn stage(&mut self, id: NodeId, subtask: u32) -> Result<AnyStage, Failure> {
        let outputs = self.outputs(id, subtask)?;
        let context = self.context(id, subtask);
        let stage = match &self.setup.graph.node(id).kind {
            Kind::Operator(factory) | Kind::Sink(factory, _) => {
                factory.build(context, outputs)?.counting(self.records("in", id, subtask))
            }
            Kind::Source(..) => unreachable!("a source has no input, so it is never built as a stage"),
        };
        Ok(self.replaying(id, subtask, stage))
    }

    /// The stage, after what was in flight to it.
    fn replaying(&self, id: NodeId, subtask: u32, stage: AnyStage) -> AnyStage {
        let uid = self.setup.graph.uid(id);
        let Some(restore) = self.beginning.restore.of(&uid, subtask).in_flight else { return stage };
        let replayed = restore.entries.into_iter().map(|e| Replayed {
            input: e.input,
            from: e.from,
            serializer: e.serializer,
            handle: e.handle,
        });
        let parallelism = self.setup.plan.parallelism(id);
        let seat = ReplaySeat {
            place: format!("{} subtask {subtask} of {parallelism}", self.setup.place(id)),
            uid,
            subtask,
            parallelism,
            rescaled: restore.rescaled,
            records: replayed.collect(),
            store: Arc::clone(self.setup.sequence.store()),
            urgency: self.urgency.clone(),
            backlog: self.backlog.clone(),
        };
        self.setup.graph.node(id).inputs[0].link.replay(stage, seat)
    }
}
