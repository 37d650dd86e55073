//! The physical plan: which operators share a task, how many tasks there are, what is exchanged between them.

use super::{Graph, NodeId, Route};

/// Operators that one task drives, for each subtask.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chain {
    /// The operator that takes the task's input.
    pub head: NodeId,
    /// All its operators, the head first.
    pub nodes: Vec<NodeId>,
    /// How many subtasks it has.
    pub parallelism: u32,
}

/// An edge between two tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exchange {
    /// The consumer, head of its chain.
    pub to: NodeId,
    /// Which of its inputs.
    pub input: usize,
    /// Whether subtask i sends to subtask i alone.
    pub one_to_one: bool,
}

/// Chains and exchanges.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// In order of their heads.
    pub chains: Vec<Chain>,
    /// In order of consumer and input.
    pub exchanges: Vec<Exchange>,
}

impl Plan {
    /// Plans the graph; operators without a parallelism of their own get the default.
    ///
    /// Two operators are chained when both allow it, the consumer has this one input, and every record would go
    /// from subtask i to subtask i anyway: that is so for a forward edge of equal parallelism, and for any edge
    /// from one subtask to one subtask.
    pub fn of(graph: &Graph, default_parallelism: u32) -> Self {
        let parallelism = |id: NodeId| graph.node(id).parallelism.unwrap_or(default_parallelism);
        let mut plan = Self { chains: Vec::new(), exchanges: Vec::new() };
        let mut chain_of = vec![usize::MAX; graph.nodes.len()];
        for at in 0..graph.nodes.len() {
            let (id, node) = (NodeId(at), &graph.nodes[at]);
            let chained = match &node.inputs[..] {
                [edge] => {
                    let from = graph.node(edge.from);
                    let (p, q) = (parallelism(edge.from), parallelism(id));
                    let straight = p == q && (edge.route == Route::Forward || p == 1);
                    (straight && node.chaining && from.chaining).then_some(edge.from)
                }
                _ => None,
            };
            if let Some(from) = chained {
                chain_of[at] = chain_of[from.0];
                plan.chains[chain_of[at]].nodes.push(id);
                continue;
            }
            chain_of[at] = plan.chains.len();
            plan.chains.push(Chain { head: id, nodes: vec![id], parallelism: parallelism(id) });
            for (input, edge) in node.inputs.iter().enumerate() {
                let one_to_one = edge.route == Route::Forward && parallelism(edge.from) == parallelism(id);
                plan.exchanges.push(Exchange { to: id, input, one_to_one });
            }
        }
        plan
    }

    /// Whether the consumer is fed through an exchange rather than within a task.
    pub fn is_head(&self, id: NodeId) -> bool {
        self.chains.iter().any(|c| c.head == id)
    }

    /// How many subtasks the operator has.
    pub fn parallelism(&self, id: NodeId) -> u32 {
        self.chains
            .iter()
            .find(|c| c.nodes.contains(&id))
            .expect("every operator is in one chain")
            .parallelism
    }
}
