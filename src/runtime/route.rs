//! How an edge finds the subtask that takes a record.

use crate::model::key_group::{hash_key, key_group_of, subtask_of};
use crate::operator::{KeyGroups, KeySelector};
use std::sync::Arc;

/// The user's function of value and number of receivers.
pub type Partitioner<T> = Arc<dyn Fn(&T, u32) -> u32 + Send + Sync>;

/// How a typed edge distributes records.
pub enum RouteBy<T> {
    /// In turn.
    RoundRobin,
    /// By the key's group.
    Key(KeySelector<T>, KeyGroups),
    /// By the user's function of value and number of receivers; its result is taken modulo that number.
    Custom(Partitioner<T>),
    /// To every receiver. A barrier must not overtake these records: the receivers' broadcast state is the same only
    /// because at a barrier each has seen the same.
    Broadcast,
}

impl<T> Clone for RouteBy<T> {
    fn clone(&self) -> Self {
        match self {
            Self::RoundRobin => Self::RoundRobin,
            Self::Key(select, max) => Self::Key(Arc::clone(select), max.clone()),
            Self::Custom(f) => Self::Custom(Arc::clone(f)),
            Self::Broadcast => Self::Broadcast,
        }
    }
}

impl<T> RouteBy<T> {
    /// Which of `count` subtasks the value itself asks for, if it does. `scratch` is for the key's bytes.
    #[inline]
    pub(super) fn owner(&self, value: &T, count: u32, scratch: &mut Vec<u8>) -> Option<u32> {
        match self {
            Self::RoundRobin => None,
            Self::Broadcast => {
                unreachable!("a broadcast record takes every lane, and no barrier overtakes it")
            }
            Self::Key(select, groups) => {
                let max = groups.get();
                scratch.clear();
                select(value, scratch);
                Some(subtask_of(key_group_of(hash_key(scratch), max), count, max))
            }
            Self::Custom(f) => Some(f(value, count) % count),
        }
    }
}
