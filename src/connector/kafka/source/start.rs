//! Where the job begins, decided once for every partition, the empty ones included.

use super::cluster::{self, Bounds, explain};
use super::options::{Otherwise, Settings, Start};
use super::range::{self, Settled};
use super::split::Split;
use crate::connector::kafka::raw::{self, Deadline, OffsetSpec, TopicId, TopicPartition};
use crate::model::Failure;
use std::collections::BTreeMap;
use std::time::Duration;

/// How long the brokers may take.
const BUDGET: Duration = Duration::from_secs(30);

/// What one partition's beginning is decided from.
#[derive(Debug, Clone, Copy, Default)]
struct Facts {
    /// The first offset at the timestamp asked for.
    by_time: Option<i64>,
    /// What the group has committed.
    committed: Option<i64>,
}

/// Asks and decides.
pub(super) fn resolve(settings: &Settings, client: &mut raw::Client) -> Result<Vec<Split>, Failure> {
    let deadline = Deadline::after(BUDGET);
    let failed = |e| explain(settings, e);
    let listing = cluster::list(settings, client, deadline).map_err(failed)?;
    if let Some(missing) = listing.missing.first() {
        return Err(Failure::restart(format!("topic {missing} does not exist")));
    }
    if let Some((topic, code)) = listing.refused.first() {
        return Err(Failure::restart(format!("topic {topic} cannot be read now: {code}")));
    }
    let partitions: Vec<(TopicId, TopicPartition)> = listing
        .topics
        .iter()
        .flat_map(|t| t.partitions.iter().map(|(p, _)| (t.id, TopicPartition::new(&*t.name, *p))))
        .collect();
    if partitions.is_empty() {
        tracing::warn!("no topic matches the source's pattern now");
    }
    let asked: Vec<TopicPartition> = partitions.iter().map(|(_, at)| at.clone()).collect();
    let bounds = cluster::bounds(settings, client, &asked, deadline).map_err(failed)?;
    let by_time = match settings.start {
        Start::Timestamp(ms) => {
            cluster::offsets(client, &asked, OffsetSpec::Timestamp(ms), deadline).map_err(failed)?
        }
        _ => BTreeMap::new(),
    };
    let committed: BTreeMap<TopicPartition, i64> = match settings.start {
        Start::Committed { .. } => {
            let found = client.fetch_offsets(&settings.group, &asked, deadline).map_err(failed)?;
            found.into_iter().map(|o| (o.at, o.offset)).collect()
        }
        _ => BTreeMap::new(),
    };
    check_given(settings, &asked)?;
    let (mut splits, mut problems) = (Vec::new(), Vec::new());
    for (topic_id, at) in partitions {
        let bounds = bounds[&at];
        let facts =
            Facts { by_time: by_time.get(&at).copied().flatten(), committed: committed.get(&at).copied() };
        match begin(settings, &at, bounds, facts) {
            Ok(first) => {
                let end = settings.bounded.then_some(bounds.readable);
                let TopicPartition { topic, partition } = at;
                splits.push(Split { topic, topic_id, partition, first, next: first, end });
            }
            Err(problem) => problems.push(problem),
        }
    }
    if problems.is_empty() { Ok(splits) } else { Err(Failure::configuration(problems.join("\n"))) }
}

/// One partition's first offset.
fn begin(settings: &Settings, at: &TopicPartition, bounds: Bounds, facts: Facts) -> Result<i64, String> {
    let place = format!("topic {} partition {}", at.topic, at.partition);
    // Something written in between may already have moved the start of the log past what was readable.
    let end = bounds.readable.max(bounds.earliest);
    let wanted = match &settings.start {
        Start::Earliest => return Ok(bounds.earliest),
        Start::Latest => return Ok(end),
        Start::Timestamp(_) => return Ok(facts.by_time.unwrap_or(end).max(bounds.earliest)),
        Start::Committed { otherwise } => match (facts.committed, otherwise) {
            (Some(offset), _) => offset,
            (None, Otherwise::Earliest) => return Ok(bounds.earliest),
            (None, Otherwise::Latest) => return Ok(end),
            (None, Otherwise::Fail) => {
                return Err(format!(
                    "consumer group {:?} has committed no offset of {place}: start it elsewhere, or say what to do otherwise",
                    settings.group
                ));
            }
        },
        Start::Given(offsets) => match offsets.get(&(at.topic.clone(), at.partition)) {
            Some(offset) => *offset,
            None => {
                return Err(format!("no start offset is given for {place}: give one for every partition"));
            }
        },
    };
    match range::settle(wanted, bounds, settings.out_of_range) {
        Settled::Kept => Ok(wanted),
        Settled::Moved { to, .. } => {
            tracing::warn!("{}; starting at {to}", range::describe(&place, wanted, bounds));
            Ok(to)
        }
        Settled::Refused => Err(format!(
            "{}; give another start, or a policy for offsets out of range",
            range::describe(&place, wanted, bounds)
        )),
    }
}

/// Offsets that are given for what does not exist are a slip of the pen.
fn check_given(settings: &Settings, known: &[TopicPartition]) -> Result<(), Failure> {
    let Start::Given(offsets) = &settings.start else { return Ok(()) };
    let unknown = offsets
        .keys()
        .find(|(topic, partition)| !known.iter().any(|at| at.topic == *topic && at.partition == *partition));
    match unknown {
        Some((topic, partition)) => Err(Failure::configuration(format!(
            "a start offset is given for topic {topic} partition {partition}, which does not exist or is not read by this source"
        ))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connector::kafka::Connection;
    use crate::connector::kafka::source::OutOfRange;

    const BOUNDS: Bounds = Bounds { earliest: 100, readable: 180, latest: 200 };

    fn first(start: Start, out_of_range: OutOfRange, facts: Facts) -> Result<i64, String> {
        let settings = Settings {
            start,
            out_of_range,
            ..Settings::new(Connection::new("localhost:9092"), "g".to_owned())
        };
        begin(&settings, &TopicPartition::new("orders", 0), BOUNDS, facts)
    }

    fn given(offset: i64) -> Start {
        Start::Given(BTreeMap::from([(("orders".to_owned(), 0), offset)]))
    }

    #[test]
    fn every_start_gives_a_concrete_offset() {
        let none = Facts::default();
        let time = |at| Facts { by_time: Some(at), ..none };
        let group = |at| Facts { committed: Some(at), ..none };
        let committed = |otherwise| Start::Committed { otherwise };
        let fail = OutOfRange::Fail;
        let table = [
            (Start::Earliest, fail, none, Ok(100)),
            (Start::Latest, fail, none, Ok(180)),
            (Start::Timestamp(5), fail, time(150), Ok(150)),
            (Start::Timestamp(5), fail, none, Ok(180)),
            (committed(Otherwise::Fail), fail, group(120), Ok(120)),
            (
                committed(Otherwise::Fail),
                fail,
                none,
                Err("has committed no offset of topic orders partition 0"),
            ),
            (committed(Otherwise::Earliest), fail, none, Ok(100)),
            (committed(Otherwise::Latest), fail, none, Ok(180)),
            (committed(Otherwise::Latest), fail, group(7), Err("93 offsets are gone")),
            (committed(Otherwise::Latest), OutOfRange::Earliest, group(7), Ok(100)),
            (given(190), fail, none, Ok(190)),
            (given(201), fail, none, Err("1 offsets were taken back")),
            (given(201), OutOfRange::Latest, none, Ok(180)),
            (Start::Given(BTreeMap::new()), fail, none, Err("no start offset is given")),
        ];
        for (start, policy, facts, expected) in table {
            let found = first(start.clone(), policy, facts);
            match expected {
                Ok(offset) => assert_eq!(found, Ok(offset), "{start:?} {facts:?}"),
                Err(part) => assert!(found.clone().is_err_and(|e| e.contains(part)), "{start:?}: {found:?}"),
            }
        }
    }
}
