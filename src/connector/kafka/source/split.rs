//! The state of one partition, and which subtask owns it.
//!
//! The owner is a function of topic id, partition and parallelism, the same for restored and for discovered
//! partitions: so a partition has one owner without anybody assigning it, and subtasks need not talk to each other.

use crate::connector::kafka::raw::TopicId;
use crate::model::{Advice, Failure};
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

/// The version of the encoding, its first byte.
const VERSION: u8 = 1;

/// A partition's identity: it outlives neither its topic's deletion nor its creation under the same name.
pub(super) type Key = (TopicId, i32);

/// How far a partition is read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Split {
    pub(super) topic: String,
    pub(super) topic_id: TopicId,
    pub(super) partition: i32,
    /// Where reading began, as it was resolved.
    pub(super) first: i64,
    /// The next offset to read; never a logical one.
    pub(super) next: i64,
    /// One past the last offset to read, if the source is bounded.
    pub(super) end: Option<i64>,
}

impl Split {
    pub(super) fn key(&self) -> Key {
        (self.topic_id, self.partition)
    }

    /// For messages.
    pub(super) fn place(&self) -> String {
        format!("topic {} partition {}", self.topic, self.partition)
    }

    /// Whether there is nothing left to read.
    pub(super) fn is_at_end(&self) -> bool {
        self.end.is_some_and(|end| self.next >= end)
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        assert!(
            self.next >= 0,
            "a checkpoint holds only concrete offsets, this is {} of {}",
            self.next,
            self.place()
        );
        postcard::to_extend(self, vec![VERSION]).expect("a vector takes any bytes")
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self, Failure> {
        let damaged = |problem: String| {
            Failure::new(
                Advice::DataIsCorrupt,
                format!("the position of a Kafka partition cannot be read: {problem}"),
            )
        };
        match bytes.split_first() {
            Some((&VERSION, body)) => match postcard::take_from_bytes::<Self>(body) {
                Ok((split, [])) if split.next >= 0 && split.partition >= 0 => Ok(split),
                Ok((split, [])) => Err(damaged(format!("{} at offset {}", split.place(), split.next))),
                Ok((_, rest)) => Err(damaged(format!("{} bytes are left over", rest.len()))),
                Err(e) => Err(damaged(e.to_string())),
            },
            Some((version, _)) => Err(damaged(format!(
                "it is in version {version}, this program reads version {VERSION}; start the job with the release that wrote it"
            ))),
            None => Err(damaged("it is empty".to_owned())),
        }
    }

    pub(super) fn decode_all(splits: &[Vec<u8>]) -> Result<Vec<Self>, Failure> {
        splits.iter().map(|bytes| Self::decode(bytes)).collect()
    }
}

/// How far a partition is read, for whoever looks at a checkpoint from outside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Position {
    /// Its topic's name.
    pub topic: String,
    /// Its number.
    pub partition: i32,
    /// The offset that is read next.
    pub next: i64,
}

/// Reads a position out of a checkpoint.
///
/// # Errors
/// When it is damaged, or of another version.
pub fn position_of(split: &[u8]) -> Result<Position, Failure> {
    let Split { topic, partition, next, .. } = Split::decode(split)?;
    Ok(Position { topic, partition, next })
}

/// The subtask that reads a partition: partitions of one topic take turns, beginning somewhere for each topic.
pub(super) fn owner((topic_id, partition): Key, parallelism: u32) -> u32 {
    let start = xxh3_64(&topic_id) % u64::from(parallelism);
    let owner = (start + u64::from(partition.unsigned_abs())) % u64::from(parallelism);
    u32::try_from(owner).expect("a remainder is less than its divisor")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn split() -> Split {
        Split {
            topic: "orders".into(),
            topic_id: [7; 16],
            partition: 3,
            first: 10,
            next: 300,
            end: Some(500),
        }
    }

    #[test]
    fn the_encoding_is_pinned() {
        let mut expected = vec![1, 6];
        expected.extend(b"orders");
        expected.extend([7; 16]);
        // Integers are zigzag varints.
        expected.extend([6, 20, 0xd8, 4, 1, 0xe8, 7]);
        assert_eq!(split().encode(), expected);
        assert_eq!(Split::decode(&expected).unwrap(), split());
    }

    #[test]
    fn what_is_not_a_position_is_refused() {
        let good = split().encode();
        let newer = [&[2], &good[1..]].concat();
        let longer = [&good[..], &[0]].concat();
        for bytes in [&[][..], &newer, &longer, &good[..good.len() - 1]] {
            assert_eq!(Split::decode(bytes).unwrap_err().advice, Advice::DataIsCorrupt, "{bytes:?}");
        }
        assert!(Split::decode(&newer).unwrap_err().text.contains("version 2"));
    }

    #[test]
    fn owners_are_pinned_for_all_time() {
        let owners: Vec<u32> = (0..6).map(|partition| owner(([7; 16], partition), 4)).collect();
        assert_eq!(owners, [owners[0], owners[1], owners[2], owners[3], owners[0], owners[1]]);
        assert_eq!(owners[0], 3, "a changed owner function would move every partition");
    }

    proptest! {
        #[test]
        fn every_partition_has_one_owner_and_a_topic_is_spread_evenly(
            topic in any::<[u8; 16]>(), partitions in 1i32..200, parallelism in 1u32..64
        ) {
            let mut owned = vec![0u32; parallelism as usize];
            for partition in 0..partitions {
                owned[owner((topic, partition), parallelism) as usize] += 1;
            }
            let most = owned.iter().max().unwrap();
            let least = owned.iter().min().unwrap();
            prop_assert!(most - least <= 1);
        }

        #[test]
        fn a_position_survives_its_encoding(
            topic in "[a-z.]{1,40}", topic_id in any::<[u8; 16]>(), partition in 0..i32::MAX,
            first in 0..i64::MAX, next in 0..i64::MAX, end in any::<Option<i64>>()
        ) {
            let split = Split { topic, topic_id, partition, first, next, end };
            prop_assert_eq!(Split::decode(&split.encode()).unwrap(), split);
        }
    }
}
