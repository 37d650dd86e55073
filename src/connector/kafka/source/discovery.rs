//! Looks for partitions that come and go while the job runs.
//!
//! Every reader has a looker of its own and they all see the same, so nobody has to be told who owns what. New is
//! what is absent from everything restored and everything found; it begins at its first record, and that offset is
//! concrete before the reader hears of it.

use super::cluster::{self, Listing, Topic};
use super::options::Settings;
use super::split::{Key, Split, owner};
use crate::connector::kafka::raw::{Client, Deadline, OffsetSpec, TopicPartition};
use crate::host::thread;
use crate::model::Failure;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

/// How long the brokers may take for one look.
const BUDGET: Duration = Duration::from_secs(10);

/// In how many looks in a row a partition must be absent before it is given up.
const ABSENCES: u32 = 3;

/// What a reader is told; it concerns its own partitions only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Found {
    /// Partitions that nobody has read.
    New(Vec<Split>),
    /// A partition that is not there any more.
    Gone(Key),
    /// One that was said to be gone, and is not.
    Back(Key),
    /// The topic of this name is another one now.
    Recreated(String),
}

/// The reader's end; dropping it ends the thread.
pub(super) struct Discovery {
    found: Receiver<Found>,
    _stop: SyncSender<()>,
}

impl Discovery {
    /// Starts to look, at once and then after each interval.
    pub(super) fn start(
        settings: Arc<Settings>,
        interval: Duration,
        seat: (u32, u32),
        known: &[Split],
        cancelled: Arc<AtomicBool>,
    ) -> Result<Self, Failure> {
        let client = settings.connection.raw()?;
        let (to, found) = sync_channel(64);
        let (stop, stopped) = sync_channel(0);
        let sight = Sight::new(seat, known);
        let looker = Looker { settings, client, sight, to };
        thread::spawn("kafka-discovery", move || looker.run(interval, &stopped, &cancelled))
            .map_err(|e| Failure::restart(format!("no thread for the discovery of partitions: {e}")))?;
        Ok(Self { found, _stop: stop })
    }

    /// What was found since the last call.
    pub(super) fn take(&self) -> Option<Found> {
        self.found.try_recv().ok()
    }
}

struct Looker {
    settings: Arc<Settings>,
    client: Client,
    sight: Sight,
    to: SyncSender<Found>,
}

impl Looker {
    fn run(mut self, interval: Duration, stopped: &Receiver<()>, cancelled: &AtomicBool) {
        loop {
            if let Err(error) = self.look() {
                tracing::warn!("looking for new partitions: {error}");
            }
            if stopped.recv_timeout(interval) != Err(RecvTimeoutError::Timeout)
                || cancelled.load(Ordering::Relaxed)
            {
                return;
            }
        }
    }

    fn look(&mut self) -> Result<(), crate::connector::kafka::raw::Error> {
        let deadline = Deadline::after(BUDGET);
        let listing = cluster::list(&self.settings, &mut self.client, deadline)?;
        let seen = self.sight.compare(&listing);
        for change in seen.changes {
            let _ = self.to.send(change);
        }
        if seen.new.is_empty() {
            return Ok(());
        }
        let asked: Vec<TopicPartition> =
            seen.new.iter().map(|(topic, _, partition)| TopicPartition::new(&**topic, *partition)).collect();
        let first = cluster::offsets(&mut self.client, &asked, OffsetSpec::Earliest, deadline)?;
        let splits = seen.new.iter().zip(&asked).map(|((topic, topic_id, partition), at)| {
            let first = first.get(at).copied().flatten().unwrap_or(0);
            Split {
                topic: topic.clone(),
                topic_id: *topic_id,
                partition: *partition,
                first,
                next: first,
                end: None,
            }
        });
        let splits: Vec<Split> = splits.collect();
        self.sight.learn(&splits);
        let _ = self.to.send(Found::New(splits));
        Ok(())
    }
}

/// What a looker remembers between two looks.
struct Sight {
    subtask: u32,
    parallelism: u32,
    /// The topic of every known partition, and how many looks in a row it was absent.
    known: BTreeMap<Key, (String, u32)>,
    recreated: BTreeSet<String>,
}

/// What is different: the new ones still lack their first offset.
#[derive(Debug, Default, PartialEq, Eq)]
struct Seen {
    new: Vec<(String, [u8; 16], i32)>,
    changes: Vec<Found>,
}

impl Sight {
    fn new((subtask, parallelism): (u32, u32), known: &[Split]) -> Self {
        let mut sight = Self { subtask, parallelism, known: BTreeMap::new(), recreated: BTreeSet::new() };
        sight.learn(known);
        sight
    }

    fn learn(&mut self, splits: &[Split]) {
        self.known.extend(splits.iter().map(|split| (split.key(), (split.topic.clone(), 0))));
    }

    fn owns(&self, key: Key) -> bool {
        owner(key, self.parallelism) == self.subtask
    }

    fn compare(&mut self, listing: &Listing) -> Seen {
        let mut seen = Seen::default();
        for topic in &listing.topics {
            if self.is_another(topic) {
                if self.recreated.insert(topic.name.clone()) {
                    seen.changes.push(Found::Recreated(topic.name.clone()));
                }
                continue;
            }
            // A partition without a leader has no first offset yet: it is new at a later look.
            for (partition, _) in topic.partitions.iter().filter(|(_, led)| *led) {
                let key = (topic.id, *partition);
                if !self.known.contains_key(&key) && self.owns(key) {
                    seen.new.push((topic.name.clone(), topic.id, *partition));
                }
            }
        }
        let (subtask, parallelism) = (self.subtask, self.parallelism);
        for (key, (name, absences)) in &mut self.known {
            let present = match listing.topic(name) {
                Some(topic) => topic.id != key.0 || topic.partitions.iter().any(|(p, _)| *p == key.1),
                None => !listing.lacks(name),
            };
            let own = owner(*key, parallelism) == subtask;
            match (present, *absences) {
                (true, ABSENCES) if own => seen.changes.push(Found::Back(*key)),
                (false, absences) if own && absences + 1 == ABSENCES => seen.changes.push(Found::Gone(*key)),
                _ => {}
            }
            *absences = if present { 0 } else { (*absences + 1).min(ABSENCES) };
        }
        seen
    }

    /// Whether partitions of another topic of this name are known, and were not given up before this one came.
    fn is_another(&self, topic: &Topic) -> bool {
        let of_another = |key: &Key, name: &str| name == topic.name && key.0 != topic.id;
        self.known.iter().any(|(key, (name, absences))| of_another(key, name) && *absences < ABSENCES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn topic(name: &str, id: u8, partitions: &[(i32, bool)]) -> Topic {
        Topic { name: name.into(), id: [id; 16], partitions: partitions.to_vec() }
    }

    fn listing(topics: &[Topic]) -> Listing {
        Listing { topics: topics.to_vec(), ..Listing::default() }
    }

    fn known(topic: &Topic) -> Vec<Split> {
        let split = |(partition, _): &(i32, bool)| Split {
            topic: topic.name.clone(),
            topic_id: topic.id,
            partition: *partition,
            first: 0,
            next: 0,
            end: None,
        };
        topic.partitions.iter().map(split).collect()
    }

    fn new_ones(seen: &Seen) -> Vec<i32> {
        seen.new.iter().map(|(_, _, partition)| *partition).collect()
    }

    #[test]
    fn a_partition_is_new_once_and_only_with_a_leader() {
        let old = topic("a", 1, &[(0, true), (1, true)]);
        let mut sight = Sight::new((0, 1), &known(&old));
        assert_eq!(sight.compare(&listing(&[old])), Seen::default());
        let grown = topic("a", 1, &[(0, true), (1, false), (2, true), (3, false)]);
        let seen = sight.compare(&listing(std::slice::from_ref(&grown)));
        assert_eq!(new_ones(&seen), [2]);
        assert_eq!(
            new_ones(&sight.compare(&listing(std::slice::from_ref(&grown)))),
            [2],
            "its offset was not had"
        );
        sight.learn(&known(&topic("a", 1, &[(2, true)])));
        assert_eq!(new_ones(&sight.compare(&listing(&[grown]))), [0; 0]);
    }

    #[test]
    fn each_new_partition_is_new_to_one_subtask() {
        let topic = topic("a", 1, &(0..50).map(|p| (p, true)).collect::<Vec<_>>());
        let mut all: Vec<i32> = (0..4)
            .flat_map(|subtask| {
                new_ones(&Sight::new((subtask, 4), &[]).compare(&listing(std::slice::from_ref(&topic))))
            })
            .collect();
        all.sort_unstable();
        assert_eq!(all, (0..50).collect::<Vec<_>>());
    }

    #[test]
    fn what_is_absent_is_gone_after_some_looks_and_may_come_back() {
        let there = topic("a", 1, &[(0, true)]);
        let mut sight = Sight::new((0, 1), &known(&there));
        let (with, without) = (listing(&[there]), listing(&[]));
        let doubt = Listing {
            refused: vec![("a".into(), crate::connector::kafka::raw::Code::LEADER_NOT_AVAILABLE)],
            ..Listing::default()
        };
        let key = ([1; 16], 0);
        let steps = [
            (&without, vec![]),
            (&without, vec![]),
            (&with, vec![]),
            (&without, vec![]),
            (&without, vec![]),
            (&without, vec![Found::Gone(key)]),
            (&without, vec![]),
            (&doubt, vec![Found::Back(key)]),
            (&without, vec![]),
        ];
        for (at, (listing, expected)) in steps.into_iter().enumerate() {
            assert_eq!(sight.compare(listing).changes, expected, "look {at}");
        }
    }

    #[test]
    fn a_topic_of_the_same_name_and_another_id_is_told_once_and_not_read() {
        let old = topic("a", 1, &[(0, true)]);
        let mut sight = Sight::new((0, 1), &known(&old));
        let new = listing(&[topic("a", 2, &[(0, true)])]);
        let seen = sight.compare(&new);
        assert_eq!(seen.changes, [Found::Recreated("a".into())]);
        assert!(seen.new.is_empty());
        assert_eq!(sight.compare(&new), Seen::default());
    }
}
