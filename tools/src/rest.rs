//! What the broker must show when a job has stopped or has nothing left to do: no reader is held back and no lag.
//!
//! - In every output partition the last stable offset is the high watermark: no transaction is open there.
//! - The group's committed offset is the end of every input partition. It may be past the last record, since control
//!   markers take offsets too; lag tools subtract it from the high watermark, and so does this.
//!
//! Which transactions are open is not asked here.

use std::fmt;
use std::thread;
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::Error;
use crate::offsets::{Isolation, Offsets};

/// An output partition that a transaction holds back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct HeldBack {
    /// Topic of the partition.
    pub topic: String,
    /// Its number.
    pub partition: i32,
    /// Up to here committed readers may read.
    pub last_stable_offset: i64,
    /// The end of the log.
    pub high_watermark: i64,
}

/// An input partition whose end the group has not committed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Lag {
    /// Topic of the partition.
    pub topic: String,
    /// Its number.
    pub partition: i32,
    /// What the group has committed, if anything.
    pub committed: Option<i64>,
    /// The end of the log.
    pub high_watermark: i64,
}

/// What is not at rest.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct RestReport {
    /// Output partitions with an open transaction.
    pub held_back: Vec<HeldBack>,
    /// Input partitions with lag.
    pub lagging: Vec<Lag>,
}

impl RestReport {
    /// Whether everything is at rest.
    pub fn holds(&self) -> bool {
        self.held_back.is_empty() && self.lagging.is_empty()
    }
}

impl fmt::Display for RestReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.holds() {
            return f.write_str("at rest: nothing held back, no lag");
        }
        f.write_str("NOT AT REST:")?;
        for HeldBack { topic, partition, last_stable_offset, high_watermark } in &self.held_back {
            write!(
                f,
                "\n  output {topic} partition {partition}: a transaction holds readers back, \
                 last stable offset {last_stable_offset}, high watermark {high_watermark}"
            )?;
        }
        for Lag { topic, partition, committed, high_watermark } in &self.lagging {
            let committed = committed.map_or("nothing".to_owned(), |offset| offset.to_string());
            write!(
                f,
                "\n  input {topic} partition {partition}: the group has committed {committed}, \
                 the high watermark is {high_watermark}"
            )?;
        }
        Ok(())
    }
}

/// Looks once. An empty input partition needs no commit. Without a group no lag is looked at.
///
/// # Errors
/// When the broker does not answer.
pub fn look(
    bootstrap: &str,
    group: Option<&str>,
    inputs: &[&str],
    outputs: &[&str],
) -> Result<RestReport, Error> {
    let offsets = Offsets::new(bootstrap)?;
    let mut report = RestReport::default();
    for topic in outputs {
        // The stable offset first: what is written meanwhile then looks held back, never the other way round.
        let stable = offsets.ends(topic, Isolation::Committed)?;
        let high = offsets.ends(topic, Isolation::Uncommitted)?;
        let both = stable.into_iter().zip(high).enumerate();
        for (partition, (last_stable_offset, high_watermark)) in both.filter(|(_, (s, h))| s != h) {
            let (topic, partition) = ((*topic).to_owned(), partition as i32);
            report.held_back.push(HeldBack { topic, partition, last_stable_offset, high_watermark });
        }
    }
    for (topic, group) in inputs.iter().filter_map(|topic| Some((*topic, group?))) {
        let committed = offsets.committed(group, topic)?;
        let high = offsets.ends(topic, Isolation::Uncommitted)?;
        for (partition, (committed, high_watermark)) in committed.into_iter().zip(high).enumerate() {
            if committed.unwrap_or(0) != high_watermark {
                let (topic, partition) = (topic.to_owned(), partition as i32);
                report.lagging.push(Lag { topic, partition, committed, high_watermark });
            }
        }
    }
    Ok(report)
}

/// Looks until everything is at rest or the time is over: a commit's markers are written after its answer, a group's
/// offsets may follow later, and a leader may just have been elected. The last look is returned.
///
/// # Errors
/// When the broker does not answer the last look.
pub fn wait(
    bootstrap: &str,
    group: Option<&str>,
    inputs: &[&str],
    outputs: &[&str],
    patience: Duration,
) -> Result<RestReport, Error> {
    let started = Instant::now();
    loop {
        let report = look(bootstrap, group, inputs, outputs);
        if report.as_ref().is_ok_and(RestReport::holds) || started.elapsed() > patience {
            return report;
        }
        thread::sleep(Duration::from_millis(100));
    }
}
