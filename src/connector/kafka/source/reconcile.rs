//! Restored positions against what the cluster has now.
//!
//! A topic of the same name may be another one, partitions may be gone, and the log may have moved past a position.
//! Each has a policy; nothing is decided on what one answer did not mention, since a broker that has just started
//! may know less than the others.

use super::cluster::{self, Bounds, Listing, Topic, explain};
use super::meters::Meters;
use super::options::{Recreated, Settings};
use super::range::{self, Settled};
use super::split::Split;
use crate::connector::kafka::raw::{self, Deadline, ErrorKind, TopicPartition};
use crate::host::metrics::Metrics;
use crate::model::Failure;
use std::collections::{BTreeMap, BTreeSet};
use std::thread;
use std::time::Duration;

/// How long the brokers may take for one question.
const BUDGET: Duration = Duration::from_secs(15);

/// How often the cluster must say that something is gone before that is believed, and the pause between.
const LOOKS: u32 = 3;
const PAUSE: Duration = Duration::from_secs(1);

/// What a restored partition is now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Now {
    /// The same, and it can be asked for its offsets.
    Led,
    /// The same as far as is known; it has no leader, or the topic is in doubt.
    Leaderless,
    /// Of a topic of the same name and another id.
    Recreated,
    /// Not in the cluster.
    Gone,
    /// Not of this source's topics.
    Deselected,
}

/// Brings restored positions in line with the cluster.
pub(super) fn reconcile(
    settings: &Settings,
    client: &mut raw::Client,
    restored: Vec<Split>,
    metrics: &Metrics,
) -> Result<Vec<Split>, Failure> {
    let listing = look(settings, client, &restored)?;
    let mut by_state: BTreeMap<&'static str, Vec<Split>> = BTreeMap::new();
    let meters = |split: &Split| Meters::new(metrics, &settings.group, &split.topic);
    let (mut kept, mut led, mut recreated) = (Vec::new(), Vec::new(), Vec::new());
    for split in restored {
        match now(settings, &split, &listing) {
            Now::Led if split.is_at_end() => kept.push(split),
            Now::Led => led.push(split),
            Now::Leaderless => {
                tracing::warn!("{} has no leader now; its position is kept as it was", split.place());
                kept.push(split);
            }
            Now::Recreated => recreated.push(split),
            Now::Gone => by_state.entry("does not exist any more").or_default().push(split),
            Now::Deselected => by_state.entry("is not read by this source any more").or_default().push(split),
        }
    }
    for (reason, splits) in &by_state {
        for split in splits {
            give_up(settings, split, reason)?;
            meters(split).released.inc();
        }
    }
    kept.extend(renewed(settings, client, &listing, &recreated)?);
    kept.extend(within(settings, client, led, meters)?);
    match kept.iter().find(|split| settings.bounded && split.end.is_none()) {
        None => Ok(kept),
        Some(split) => Err(Failure::restart(format!(
            "where {} ends cannot be asked now: it has no leader",
            split.place()
        ))),
    }
}

/// Lists the topics, several times if some seem to be gone.
fn look(settings: &Settings, client: &mut raw::Client, restored: &[Split]) -> Result<Listing, Failure> {
    let mut look = 1;
    loop {
        let deadline = Deadline::after(BUDGET);
        let listing = cluster::list(settings, client, deadline).map_err(|e| explain(settings, e))?;
        let gone = restored.iter().any(|split| now(settings, split, &listing) == Now::Gone);
        if !gone || look == LOOKS {
            return Ok(listing);
        }
        look += 1;
        thread::sleep(PAUSE);
    }
}

fn now(settings: &Settings, split: &Split, listing: &Listing) -> Now {
    if !settings.topics.contain(&split.topic) {
        return Now::Deselected;
    }
    let Some(topic) = listing.topic(&split.topic) else {
        return if listing.lacks(&split.topic) { Now::Gone } else { Now::Leaderless };
    };
    if topic.id != split.topic_id {
        return Now::Recreated;
    }
    match topic.partitions.iter().find(|(partition, _)| *partition == split.partition) {
        Some((_, true)) => Now::Led,
        Some((_, false)) => Now::Leaderless,
        None => Now::Gone,
    }
}

/// Lets a partition go, unless that would end a bounded source before its end.
fn give_up(settings: &Settings, split: &Split, reason: &str) -> Result<(), Failure> {
    if split.end.is_some() && !split.is_at_end() && settings.topics.contain(&split.topic) {
        return Err(Failure::configuration(format!(
            "{} {reason}, and its offsets {} to {} are still to be read",
            split.place(),
            split.next,
            split.end.unwrap_or_default()
        )));
    }
    tracing::warn!("{} {reason}: released at offset {}", split.place(), split.next);
    Ok(())
}

/// The beginnings of topics that were created again.
fn renewed(
    settings: &Settings,
    client: &mut raw::Client,
    listing: &Listing,
    old: &[Split],
) -> Result<Vec<Split>, Failure> {
    let names: BTreeSet<&str> = old.iter().map(|split| split.topic.as_str()).collect();
    let mut splits = Vec::new();
    for name in names {
        let Some(topic) = listing.topic(name) else { continue };
        let places: Vec<String> = old
            .iter()
            .filter(|split| split.topic == name)
            .map(|split| format!("partition {} at offset {}", split.partition, split.next))
            .collect();
        if settings.recreated == Recreated::Fail {
            return Err(Failure::configuration(recreated_text(name, &places)));
        }
        tracing::warn!(
            "topic {name} was deleted and created again; it was read up to {}, and is read from its beginning now",
            places.join(", ")
        );
        splits.extend(beginning(settings, client, topic)?);
    }
    Ok(splits)
}

/// Why the job does not go on after a topic was created again.
pub(super) fn recreated_text(topic: &str, places: &[String]) -> String {
    format!(
        "topic {topic} was deleted and created again since the last checkpoint, which holds {}: offsets of the old topic \
         mean nothing in the new one. Start with --fresh, or let the source begin such topics anew with \
         on_recreated_topic(Recreated::Earliest)",
        places.join(", ")
    )
}

fn beginning(settings: &Settings, client: &mut raw::Client, topic: &Topic) -> Result<Vec<Split>, Failure> {
    let partitions: Vec<TopicPartition> =
        topic.partitions.iter().map(|(p, _)| TopicPartition::new(&*topic.name, *p)).collect();
    let bounds = cluster::bounds(settings, client, &partitions, Deadline::after(BUDGET))
        .map_err(|e| explain(settings, e))?;
    let split = |(at, bounds): (TopicPartition, Bounds)| Split {
        topic: at.topic,
        topic_id: topic.id,
        partition: at.partition,
        first: bounds.earliest,
        next: bounds.earliest,
        end: settings.bounded.then_some(bounds.readable),
    };
    Ok(bounds.into_iter().map(split).collect())
}

/// Positions that the logs hold, moved by policy where they do not.
fn within(
    settings: &Settings,
    client: &mut raw::Client,
    mut splits: Vec<Split>,
    meters: impl Fn(&Split) -> Meters,
) -> Result<Vec<Split>, Failure> {
    let asked: Vec<TopicPartition> =
        splits.iter().map(|split| TopicPartition::new(&*split.topic, split.partition)).collect();
    let bounds = match cluster::bounds(settings, client, &asked, Deadline::after(BUDGET)) {
        Ok(bounds) => bounds,
        // A leader that moves must not keep the others waiting: reading will tell.
        Err(error) if error.kind() == ErrorKind::Deadline => {
            tracing::warn!("restored positions are not compared with the logs: {error}");
            return Ok(splits);
        }
        Err(error) => return Err(explain(settings, error)),
    };
    let mut refused = Vec::new();
    for (split, at) in splits.iter_mut().zip(&asked) {
        let bounds = bounds[at];
        let text = range::describe(&split.place(), split.next, bounds);
        match range::settle(split.next, bounds, settings.out_of_range) {
            Settled::Kept => {}
            Settled::Moved { to, skipped } => {
                meters(split).skipped.inc_by(skipped);
                tracing::warn!("{text}; going on at offset {to}");
                split.next = to;
            }
            Settled::Refused => refused.push(text),
        }
        // It ran unbounded before: its end is that of now.
        if settings.bounded && split.end.is_none() {
            split.end = Some(bounds.readable.max(split.next));
        }
    }
    if refused.is_empty() { Ok(splits) } else { Err(Failure::configuration(refused_text(&refused))) }
}

/// Why the job does not go on at offsets that are not there.
pub(super) fn refused_text(refused: &[String]) -> String {
    format!(
        "{}. Raise the topic's retention, and accept the gap with on_out_of_range(OutOfRange::Earliest) or Latest to go on",
        refused.join("; ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connector::kafka::Connection;
    use crate::connector::kafka::raw::Code;
    use crate::connector::kafka::source::topics::Topics;

    fn split(topic: &str, topic_id: u8, partition: i32, end: Option<i64>) -> Split {
        Split { topic: topic.into(), topic_id: [topic_id; 16], partition, first: 0, next: 10, end }
    }

    fn settings() -> Settings {
        let topics = Topics::pattern("[a-d]".to_owned());
        Settings { topics, ..Settings::new(Connection::new("localhost:9092"), "g".to_owned()) }
    }

    #[test]
    fn a_restored_partition_is_the_same_another_one_or_gone() {
        let a = Topic { name: "a".into(), id: [1; 16], partitions: vec![(0, true), (1, false)] };
        let refused = vec![("b".to_owned(), Code::LEADER_NOT_AVAILABLE)];
        let listing = Listing { topics: vec![a], missing: vec!["c".to_owned()], refused };
        let table = [
            (split("a", 1, 0, None), Now::Led),
            (split("a", 1, 1, None), Now::Leaderless),
            (split("a", 1, 2, None), Now::Gone),
            (split("a", 2, 0, None), Now::Recreated),
            (split("b", 1, 0, None), Now::Leaderless),
            (split("c", 1, 0, None), Now::Gone),
            (split("d", 1, 0, None), Now::Gone),
            (split("other", 1, 0, None), Now::Deselected),
        ];
        for (split, expected) in table {
            assert_eq!(now(&settings(), &split, &listing), expected, "{split:?}");
        }
    }

    #[test]
    fn a_bounded_source_does_not_let_go_what_it_has_not_read() {
        let table = [
            (split("a", 1, 0, None), true),
            (split("a", 1, 0, Some(10)), true),
            (split("a", 1, 0, Some(11)), false),
            (split("other", 1, 0, Some(11)), true),
        ];
        for (split, expected) in table {
            assert_eq!(give_up(&settings(), &split, "is gone").is_ok(), expected, "{split:?}");
        }
    }
}
