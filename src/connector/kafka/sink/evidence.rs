//! Evidence of a prepared transaction: what a later process needs to commit, to prove, or to salvage it.

use crate::connector::Committable;
use crate::connector::kafka::raw::Producer;
use crate::model::{Advice, Failure};
use serde::{Deserialize, Serialize};

/// The version of the encoding, its first byte.
const VERSION: u8 = 1;

/// What one transaction wrote into one partition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Written {
    pub(super) topic: String,
    pub(super) partition: i32,
    pub(super) first: i64,
    pub(super) last: i64,
    pub(super) count: u64,
}

/// A prepared transaction, as the broker described it and the delivery reports told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Evidence {
    pub(super) id: String,
    pub(super) producer_id: i64,
    pub(super) epoch: i16,
    /// Set by the transaction's first record, kept until the id's next transaction or initialisation: together with the
    /// producer id it names this transaction.
    pub(super) start_ms: i64,
    pub(super) timeout_ms: i32,
    pub(super) written: Vec<Written>,
}

impl Evidence {
    pub(super) fn producer(&self) -> Producer {
        Producer { id: self.producer_id, epoch: self.epoch }
    }

    pub(super) fn records(&self) -> u64 {
        self.written.iter().map(|w| w.count).sum()
    }

    pub(super) fn into_committable(self, sequence: u64, deadline_ms: i64) -> Committable {
        let mut evidence = vec![VERSION];
        evidence = postcard::to_extend(&self, evidence).expect("evidence has only plain fields");
        Committable { sequence, deadline_ms, evidence }
    }

    pub(super) fn of(committable: &Committable) -> Result<Self, Failure> {
        let corrupt = |problem: String| {
            Failure::new(
                Advice::DataIsCorrupt,
                format!(
                    "the evidence of transaction number {} cannot be read: {problem}",
                    committable.sequence
                ),
            )
        };
        match committable.evidence.split_first() {
            Some((&VERSION, bytes)) => postcard::from_bytes(bytes).map_err(|e| corrupt(e.to_string())),
            Some((other, _)) => Err(corrupt(format!("its version is {other}, this program reads {VERSION}"))),
            None => Err(corrupt("it is empty".to_owned())),
        }
    }

    /// Where its records stand, in words.
    pub(super) fn places(&self) -> String {
        let places: Vec<String> = self
            .written
            .iter()
            .map(|w| {
                format!(
                    "topic {} partition {} offsets {} to {} ({} records)",
                    w.topic, w.partition, w.first, w.last, w.count
                )
            })
            .collect();
        places.join(", ")
    }
}

/// What a transaction has written so far, from delivery reports.
#[derive(Debug, Default)]
pub(super) struct Tally {
    /// By topic number and partition.
    topics: Vec<Vec<Option<(i64, i64, u64)>>>,
}

impl Tally {
    /// A record was delivered.
    pub(super) fn add(&mut self, topic: usize, partition: i32, offset: i64) {
        let partition = usize::try_from(partition).expect("a delivered record has a partition");
        if self.topics.len() <= topic {
            self.topics.resize_with(topic + 1, Vec::new);
        }
        let partitions = &mut self.topics[topic];
        if partitions.len() <= partition {
            partitions.resize(partition + 1, None);
        }
        let (first, last, count) = partitions[partition].get_or_insert((offset, offset, 0));
        *first = offset.min(*first);
        *last = offset.max(*last);
        *count += 1;
    }

    /// The sum, with the topics' names.
    pub(super) fn written(&self, names: &[String]) -> Vec<Written> {
        let mut written = Vec::new();
        for (topic, partitions) in self.topics.iter().enumerate() {
            for (partition, found) in partitions.iter().enumerate() {
                if let Some((first, last, count)) = *found {
                    let topic = names[topic].clone();
                    written.push(Written { topic, partition: partition as i32, first, last, count });
                }
            }
        }
        written
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn evidence_comes_back_from_a_checkpoint() {
        let mut tally = Tally::default();
        for offset in [7, 5, 6] {
            tally.add(1, 2, offset);
        }
        let written = tally.written(&["a".to_owned(), "b".to_owned()]);
        assert_eq!(written, [Written { topic: "b".into(), partition: 2, first: 5, last: 7, count: 3 }]);
        let evidence =
            Evidence { id: "x".into(), producer_id: 9, epoch: 1, start_ms: 4, timeout_ms: 60_000, written };
        let mut committable = evidence.clone().into_committable(3, 100);
        assert_eq!(Evidence::of(&committable).unwrap(), evidence);
        committable.evidence[0] = 9;
        assert!(Evidence::of(&committable).unwrap_err().text.contains("version is 9"));
    }
}
