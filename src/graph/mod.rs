//! The job as data: operators and edges, what is chained into one task, what runs how often.
//!
//! Its law: the same pipeline always gives the same uids and the same plan. It knows operators only as factories,
//! and edges only as [`Link`]s that the runtime makes.

mod urgency;
mod link;
mod logical;
mod plan;

pub use link::{
    AnyGate, AnySender, ChannelFrom, GateSeat, InputTask, Link, ReplaySeat, Replayed, Step, Waits,
};
pub use logical::{Edge, Graph, Kind, Node, NodeId, Route};
pub use plan::{Chain, Exchange, Plan};
pub use urgency::{Backlog, Urgency};
