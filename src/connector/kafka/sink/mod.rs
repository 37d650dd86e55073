//! The Kafka sink: exactly once by transactions that outlive the process.
//!
//! Problem: a transaction may be committed only when the checkpoint that lists it is complete, and must be committed
//! then, even if the process has died in between; but a new producer that initialises the id aborts it, and
//! librdkafka cannot resume it. So each subtask has a small [`pool`] of transactional ids that take turns; at a barrier
//! the [`writer`] drains and leaves the transaction *prepared*, with [`evidence`] of it in the checkpoint; the
//! [`committer`] commits when the checkpoint is complete; and after a crash [`resolve`] decides by the broker's word
//! and the log, with raw requests, before anybody initialises the id.
//!
//! Nothing is ever sent on an id between its preparation and its commit, and an id is begun again only when a manifest
//! without it is published: so a repeated commit can never hit the id's next transaction.

mod options;
mod record;
mod limits;
mod outbox;
mod ids;
mod evidence;
mod pool;
mod writer;
mod committer;
mod plain;
mod dead_letters;
mod verdict;
mod resolve;
mod salvage;
mod control;
mod by_hand;

pub use by_hand::{ByHand, KnownId};
pub use ids::{IdOwner, IdSlot, parse_id};
pub use options::{Delivery, KafkaSink, OnLost, OnOversized, Serialize};
pub use record::RecordWriter;
pub use resolve::{Pending, pending_of};
