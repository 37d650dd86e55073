//! What can be known to be wrong before the job is claimed.
//!
//! librdkafka waits in silence for a topic that it may not read and for a password that is wrong; here both are
//! errors with a name.

use super::cluster::{self, explain};
use super::options::Settings;
use crate::connector::kafka::raw::{self, Deadline, TopicPartition};
use crate::model::Failure;
use std::time::Duration;

/// How long the brokers may take to say which topics there are.
const BUDGET: Duration = Duration::from_secs(20);

/// How long each may take after that: a new broker sets up its internal topics for some seconds, and after a broker's
/// death others lead its partitions within 10 to 20 s.
const FAILOVER: Duration = Duration::from_secs(60);

/// Checks settings, brokers, topics and the group.
pub(super) fn check(settings: &Settings, client: &mut raw::Client) -> Result<(), Failure> {
    let problems = settings.problems();
    if !problems.is_empty() {
        return Err(Failure::configuration(problems.join("\n")));
    }
    let failed = |e| explain(settings, e);
    let deadline = Deadline::after(BUDGET);
    let listing = cluster::list(settings, client, deadline).map_err(failed)?;
    let bootstrap = settings.connection.bootstrap();
    let mut problems: Vec<String> = listing
        .missing
        .iter()
        .map(|topic| format!("topic {topic} does not exist at {bootstrap}: create it, or correct its name"))
        .collect();
    problems.extend(listing.refused.iter().map(|(topic, code)| {
        format!("topic {topic} at {bootstrap} may not be read: {code}; does this user have the rights to read and describe it?")
    }));
    if !problems.is_empty() {
        return Err(Failure::configuration(problems.join("\n")));
    }
    // One log of each topic proves the right to read it; partitions without a leader now prove nothing.
    let logs: Vec<TopicPartition> = listing
        .topics
        .iter()
        .filter_map(|topic| {
            let (partition, _) = topic.partitions.iter().find(|(_, led)| *led)?;
            Some(TopicPartition::new(&*topic.name, *partition))
        })
        .collect();
    let deadline = Deadline::after(FAILOVER);
    client.check(&logs, deadline).map_err(failed)?;
    client.fetch_offsets(&settings.group, &logs, deadline).map_err(failed)?;
    Ok(())
}
