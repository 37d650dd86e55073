//! The logical graph: what the user wrote.

use super::Link;
use crate::connector::{SinkControl, SourceControl};
use crate::model::OperatorUid;
use crate::operator::{DEAD_LETTERS, KeyGroups, SourceFactory, StageFactory};
use std::sync::Arc;

/// An operator's place in the graph, by order of creation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(pub usize);

/// How records find the subtask that takes them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Route {
    /// Subtask i to subtask i; round robin if the parallelisms differ.
    Forward,
    /// Round robin.
    Rebalance,
    /// By the key's group.
    Hash,
    /// By the user's function.
    Custom,
    /// To every subtask.
    Broadcast,
}

/// An input of an operator.
#[derive(Clone)]
pub struct Edge {
    /// Whose output.
    pub from: NodeId,
    /// Which of its outputs.
    pub port: usize,
    /// How records are distributed.
    pub route: Route,
    /// The typed part.
    pub link: Arc<dyn Link>,
}

/// What an operator is.
#[derive(Clone)]
pub enum Kind {
    /// A head of the graph.
    Source(Arc<dyn SourceFactory>, Arc<dyn SourceControl>),
    /// Between source and sink; whether it has keyed state.
    Operator(Arc<dyn StageFactory>),
    /// An end of the graph.
    Sink(Arc<dyn StageFactory>, Arc<dyn SinkControl>),
}

/// An operator.
#[derive(Clone)]
pub struct Node {
    /// What it is.
    pub kind: Kind,
    /// For people, and the stem of a derived uid.
    pub name: String,
    /// As given by the user.
    pub uid: Option<String>,
    /// As given by the user; else the job's.
    pub parallelism: Option<u32>,
    /// Its key groups, if it is keyed.
    pub key_groups: Option<KeyGroups>,
    /// Whether it may share a task with its neighbours.
    pub chaining: bool,
    /// Where its records come from.
    pub inputs: Vec<Edge>,
}

/// All operators of a job.
#[derive(Clone, Default)]
pub struct Graph {
    /// In order of creation: an input always stands before its consumer.
    pub nodes: Vec<Node>,
}

impl Graph {
    /// Adds an operator.
    pub fn add(&mut self, node: Node) -> NodeId {
        self.nodes.push(node);
        NodeId(self.nodes.len() - 1)
    }

    /// An operator.
    pub fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.0]
    }

    /// The uid of an operator: given, or derived from its place, as in `count-3`.
    pub fn uid(&self, id: NodeId) -> OperatorUid {
        let node = self.node(id);
        OperatorUid(node.uid.clone().unwrap_or_else(|| format!("{}-{}", node.name, id.0)))
    }

    /// Everything about uids that deserves a word: those that are given twice, as errors, and the operators with
    /// memory whose uid is derived, as warnings.
    ///
    /// # Errors
    /// One text for each uid that is not unique.
    pub fn check_uids(&self) -> Result<Vec<String>, Vec<String>> {
        let (mut errors, mut warnings) = (Vec::new(), Vec::new());
        for at in 0..self.nodes.len() {
            let uid = self.uid(NodeId(at));
            if let Some(other) = (0..at).find(|o| self.uid(NodeId(*o)) == uid) {
                let (one, two) = (&self.nodes[other].name, &self.nodes[at].name);
                errors.push(format!(
                    "operators number {other} ({one}) and {at} ({two}) both have the uid {uid}; give each its own"
                ));
            }
            let node = &self.nodes[at];
            let remembers = node.key_groups.is_some() || !matches!(node.kind, Kind::Operator(_));
            if node.uid.is_none() && remembers {
                warnings.push(format!(
                    "operator {at} ({}) has no uid, so its state is found by its place as {uid}: give it one with \
                     .uid(…), or adding an operator before it will lose its state",
                    node.name
                ));
            }
        }
        if errors.is_empty() { Ok(warnings) } else { Err(errors) }
    }

    /// The sources whose dead letters nobody takes, so that they would be lost without a word; one text each.
    pub fn lost_dead_letters(&self) -> Vec<String> {
        let taken = |id: NodeId| {
            let mut inputs = self.nodes.iter().flat_map(|node| &node.inputs);
            inputs.any(|edge| edge.from == id && edge.port == DEAD_LETTERS)
        };
        let sources = self.nodes.iter().enumerate().map(|(at, node)| (NodeId(at), node));
        let lost = sources.filter(|(id, node)| {
            matches!(&node.kind, Kind::Source(_, control) if control.has_dead_letters()) && !taken(*id)
        });
        let text = |(id, node): (NodeId, &Node)| {
            format!(
                "source {} ({}): its policy sends what cannot be decoded to the dead letters, and nothing takes them. Add it \
                 with source_with_dead_letters, or choose another policy with on_undecodable",
                self.uid(id),
                node.name
            )
        };
        lost.map(text).collect()
    }
}
