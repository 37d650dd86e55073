//! The names behind [`Origin`]: records carry a number, errors tell topic, partition and offset.

use crate::model::Origin;
use std::sync::{Arc, Mutex, PoisonError};

/// The partitions of a job, numbered as they are first seen. Read only when something has failed.
#[derive(Clone, Default)]
pub struct Origins(Arc<Mutex<Vec<String>>>);

impl Origins {
    /// The number of a partition, which is made known if it was not.
    pub fn number(&self, topic: &str, partition: i32) -> u32 {
        let name = format!("topic {topic} partition {partition}");
        let mut names = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let at = names.iter().position(|n| *n == name).unwrap_or_else(|| {
            names.push(name);
            names.len() - 1
        });
        u32::try_from(at).expect("a job reads less than 2^32 partitions")
    }

    /// Topic, partition and offset in words.
    pub fn describe(&self, origin: Origin) -> String {
        let names = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match names.get(origin.split as usize) {
            Some(name) => format!("{name} offset {}", origin.offset),
            None => "a record of no partition".to_owned(),
        }
    }
}
