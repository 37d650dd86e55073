//! Judges the output of `clicks_per_url`: is it what the input says it must be?
//!
//! Exactly once means: for every url the outputs are the counts 1 to n in this order, all in one partition and keyed by
//! the url, with n the number of its clicks in the input. At least once means: the counts 1 to n are all there, none is
//! higher, and new ones appear in order; a job that went back to a checkpoint may repeat some.
//!
//! The judge is a pure machine that is fed with records ([`Clicks::input`], [`Clicks::output`]) and gives a verdict;
//! [`judge_clicks`] feeds it from topics. The judge of `order_life_cycle` is [`orders`].

pub mod orders;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::Error;
use crate::offsets::Isolation;
use crate::reader::{Reader, Record};

/// What the job under test promises.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Promise {
    /// Every click counts once.
    ExactlyOnce,
    /// Every click counts, and outputs may repeat after a failure.
    AtLeastOnce,
}

/// What can be wrong with an output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fault {
    /// A count that should be there is not.
    LeftOut,
    /// A count came again.
    Repeated,
    /// A count is higher than the number of clicks.
    TooHigh,
    /// A count came after a higher one.
    OutOfOrder,
    /// A url that nobody clicked.
    ForeignUrl,
    /// The key is not the url.
    WrongKey,
    /// A url came in a second partition.
    TwoPartitions,
}

impl Fault {
    fn title(self) -> &'static str {
        match self {
            Self::LeftOut => "left out",
            Self::Repeated => "repeated",
            Self::TooHigh => "higher than the number of clicks",
            Self::OutOfOrder => "out of order",
            Self::ForeignUrl => "url not in the input",
            Self::WrongKey => "key is not the url",
            Self::TwoPartitions => "url in two partitions",
        }
    }
}

/// How often a fault was found, and where first.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Found {
    /// The number of outputs concerned (for [`Fault::LeftOut`], of missing ones).
    pub number: u64,
    /// The number of places where it was found: neighbouring missing counts are one.
    pub places: u64,
    /// The first few places in plain words.
    pub examples: Vec<String>,
}

const EXAMPLES: usize = 3;

/// The verdict on one output topic.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ClicksReport {
    /// What was promised.
    pub promise: Promise,
    /// Clicks in the input.
    pub records_in: u64,
    /// Counts in the output.
    pub records_out: u64,
    /// Different urls in the input.
    pub urls: u64,
    /// What is wrong; empty if the promise was kept.
    pub faults: BTreeMap<Fault, Found>,
    /// Outputs that came again though the promise allows it (at least once only).
    pub repeated_as_allowed: u64,
}

impl ClicksReport {
    /// Whether the promise was kept.
    pub fn holds(&self) -> bool {
        self.faults.is_empty()
    }

    /// How many outputs have this fault.
    pub fn number(&self, fault: Fault) -> u64 {
        self.faults.get(&fault).map_or(0, |found| found.number)
    }
}

impl fmt::Display for ClicksReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let promise = match self.promise {
            Promise::ExactlyOnce => "exactly once",
            Promise::AtLeastOnce => "at least once",
        };
        let verdict = if self.holds() { "holds" } else { "IS BROKEN" };
        write!(
            f,
            "{promise} {verdict}: {} clicks on {} urls in, {} counts out",
            self.records_in, self.urls, self.records_out
        )?;
        if self.repeated_as_allowed > 0 {
            write!(f, ", {} of them repeated", self.repeated_as_allowed)?;
        }
        write_faults(f, self.faults.iter().map(|(fault, found)| (fault.title(), found)))
    }
}

fn write_faults<'a>(
    f: &mut fmt::Formatter<'_>,
    faults: impl Iterator<Item = (&'static str, &'a Found)>,
) -> fmt::Result {
    for (title, found) in faults {
        write!(f, "\n  {title}: {}", found.number)?;
        for example in &found.examples {
            write!(f, "\n    {example}")?;
        }
        if found.places > found.examples.len() as u64 {
            write!(f, "\n    …")?;
        }
    }
    Ok(())
}

/// An output that does not simply follow the one before it.
#[derive(Clone)]
struct Later {
    count: u64,
    partition: i32,
    offset: i64,
}

/// What is known of one url.
#[derive(Clone, Default)]
struct Url {
    clicks: u64,
    /// The outputs began with 1, 2, … up to here without a fault.
    regular: u64,
    /// From the first irregular output on, all of them.
    later: Vec<Later>,
    partition: Option<i32>,
}

/// The judge of one output: feed it the whole input, then the whole output, then ask for the verdict. A clone that has
/// seen the input can judge several outputs of it.
#[derive(Clone)]
pub struct Clicks {
    promise: Promise,
    urls: HashMap<Box<str>, Url>,
    records_in: u64,
    records_out: u64,
    faults: BTreeMap<Fault, Found>,
    repeated_as_allowed: u64,
}

#[derive(Deserialize)]
struct Click<'a> {
    #[serde(borrow)]
    url: std::borrow::Cow<'a, str>,
}

#[derive(Deserialize)]
struct Count<'a> {
    #[serde(borrow)]
    url: std::borrow::Cow<'a, str>,
    count: u64,
}

impl Clicks {
    /// A judge who has seen nothing yet.
    pub fn new(promise: Promise) -> Self {
        Self {
            promise,
            urls: HashMap::new(),
            records_in: 0,
            records_out: 0,
            faults: BTreeMap::new(),
            repeated_as_allowed: 0,
        }
    }

    /// Takes note of a click, given as its record's value.
    ///
    /// # Errors
    /// When it has no url.
    pub fn input(&mut self, value: &[u8]) -> Result<(), String> {
        let click: Click<'_> = parse("a click", value)?;
        self.records_in += 1;
        match self.urls.get_mut(&*click.url) {
            Some(url) => url.clicks += 1,
            None => {
                self.urls.insert(click.url.into(), Url { clicks: 1, ..Url::default() });
            }
        }
        Ok(())
    }

    /// Takes note of an output; per partition they must come in the order of their offsets.
    ///
    /// # Errors
    /// When the value is no count of a url.
    pub fn output(
        &mut self,
        key: Option<&[u8]>,
        value: &[u8],
        partition: i32,
        offset: i64,
    ) -> Result<(), String> {
        let Count { url: name, count } = parse("a count", value)?;
        self.records_out += 1;
        let place = || format!("{name}: count {count} at partition {partition} offset {offset}");
        if key != Some(name.as_bytes()) {
            let key = key.map_or("null".into(), String::from_utf8_lossy);
            note(&mut self.faults, Fault::WrongKey, || format!("{} has the key {key}", place()));
        }
        let Some(url) = self.urls.get_mut(&*name) else {
            note(&mut self.faults, Fault::ForeignUrl, place);
            return Ok(());
        };
        let home = *url.partition.get_or_insert(partition);
        if home != partition {
            note(&mut self.faults, Fault::TwoPartitions, || format!("{}, before in {home}", place()));
        }
        if url.later.is_empty() && count == url.regular + 1 && count <= url.clicks {
            url.regular = count;
        } else {
            url.later.push(Later { count, partition, offset });
        }
        Ok(())
    }

    /// Takes note of every committed record of an input topic.
    ///
    /// # Errors
    /// When the topic cannot be read, or holds something else than clicks.
    pub fn read_input(&mut self, bootstrap: &str, topic: &str) -> Result<(), Error> {
        Reader::open(bootstrap, topic, Isolation::Committed)?.to_end(|record| {
            let noted = self.input(record.value().unwrap_or_default());
            noted.map_err(|problem| unreadable(topic, record, problem))
        })
    }

    /// Takes note of every committed record of an output topic, and shows each to `also`.
    ///
    /// # Errors
    /// When the topic cannot be read, or holds something else than counts.
    pub fn read_output(
        &mut self,
        bootstrap: &str,
        topic: &str,
        mut also: impl FnMut(Record<'_>),
    ) -> Result<(), Error> {
        Reader::open(bootstrap, topic, Isolation::Committed)?.to_end(|record| {
            also(record);
            let value = record.value().unwrap_or_default();
            let noted = self.output(record.key(), value, record.partition(), record.offset());
            noted.map_err(|problem| unreadable(topic, record, problem))
        })
    }

    /// The verdict on all that was fed.
    pub fn verdict(mut self) -> ClicksReport {
        let mut names: Vec<_> = self.urls.iter().collect();
        // So that equal topics give equal examples.
        names.sort_by(|a, b| a.0.cmp(b.0));
        for (name, url) in names {
            if url.later.is_empty() && url.regular == url.clicks {
                continue;
            }
            self.repeated_as_allowed += judge_url(name, url, self.promise, &mut self.faults);
        }
        ClicksReport {
            promise: self.promise,
            records_in: self.records_in,
            records_out: self.records_out,
            urls: self.urls.values().filter(|url| url.clicks > 0).count() as u64,
            faults: self.faults,
            repeated_as_allowed: self.repeated_as_allowed,
        }
    }
}

/// Judges a url whose outputs are not simply 1 to n. Returns how many repetitions were allowed.
fn judge_url(name: &str, url: &Url, promise: Promise, faults: &mut BTreeMap<Fault, Found>) -> u64 {
    // Counts above `regular` that came.
    let mut came = HashSet::new();
    let mut highest = url.regular;
    let mut allowed = 0;
    for later in &url.later {
        let Later { count, partition, offset } = *later;
        let place = || format!("{name}: count {count} at partition {partition} offset {offset}");
        if count == 0 || count > url.clicks {
            note(faults, Fault::TooHigh, || format!("{}, of {} clicks", place(), url.clicks));
        } else if count <= url.regular || !came.insert(count) {
            match promise {
                Promise::ExactlyOnce => {
                    note(faults, Fault::Repeated, || format!("{}, after {highest}", place()))
                }
                Promise::AtLeastOnce => allowed += 1,
            }
        } else if count < highest {
            note(faults, Fault::OutOfOrder, || format!("{}, after {highest}", place()));
        }
        if count <= url.clicks {
            highest = highest.max(count);
        }
    }
    let mut due = url.regular + 1;
    while due <= url.clicks {
        let end = (due..=url.clicks).find(|count| came.contains(count)).unwrap_or(url.clicks + 1);
        if end > due {
            let missing =
                if end == due + 1 { format!("count {due}") } else { format!("counts {due} to {}", end - 1) };
            note_many(faults, Fault::LeftOut, end - due, || {
                format!("{name}: no {missing}, of {} clicks", url.clicks)
            });
        }
        due = end + 1;
    }
    allowed
}

fn note<F: Ord>(faults: &mut BTreeMap<F, Found>, fault: F, example: impl FnOnce() -> String) {
    note_many(faults, fault, 1, example);
}

fn note_many<F: Ord>(
    faults: &mut BTreeMap<F, Found>,
    fault: F,
    number: u64,
    example: impl FnOnce() -> String,
) {
    let found = faults.entry(fault).or_default();
    found.number += number;
    found.places += 1;
    if found.examples.len() < EXAMPLES {
        found.examples.push(example());
    }
}

fn unreadable(topic: &str, record: Record<'_>, problem: String) -> Error {
    let place = format!("topic {topic}, partition {}, offset {}", record.partition(), record.offset());
    Error::Unreadable { place, problem }
}

fn parse<'a, T: Deserialize<'a>>(what: &str, value: &'a [u8]) -> Result<T, String> {
    serde_json::from_slice(value).map_err(|error| {
        let text = String::from_utf8_lossy(&value[..value.len().min(200)]).into_owned();
        format!("expected {what}, found {text:?} ({error})")
    })
}

/// Reads both topics to their ends, committed records only, and judges the output.
///
/// # Errors
/// When a topic cannot be read, or holds a record that is no click or no count.
pub fn judge_clicks(
    bootstrap: &str,
    input: &str,
    output: &str,
    promise: Promise,
) -> Result<ClicksReport, Error> {
    let mut judge = Clicks::new(promise);
    judge.read_input(bootstrap, input)?;
    judge.read_output(bootstrap, output, |_| {})?;
    Ok(judge.verdict())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A name, the outputs, the faults to find.
    type Case<'a> = (&'a str, &'a [(&'a str, &'a str, u64)], &'a [Fault]);

    /// Three clicks on /a, one on /b, and these outputs in partition 0: key, url, count.
    fn judged(promise: Promise, outputs: &[(&str, &str, u64)]) -> ClicksReport {
        let placed: Vec<_> = outputs.iter().map(|(key, url, count)| (*key, *url, *count, 0)).collect();
        judged_in_partitions(promise, &placed)
    }

    fn judged_in_partitions(promise: Promise, outputs: &[(&str, &str, u64, i32)]) -> ClicksReport {
        let mut judge = Clicks::new(promise);
        for url in ["/a", "/b", "/a", "/a"] {
            judge.input(format!(r#"{{"user":"u1","url":"{url}","ts":1}}"#).as_bytes()).unwrap();
        }
        for (offset, (key, url, count, partition)) in outputs.iter().enumerate() {
            let value = format!(r#"{{"url":"{url}","count":{count}}}"#);
            judge.output(Some(key.as_bytes()), value.as_bytes(), *partition, offset as i64).unwrap();
        }
        judge.verdict()
    }

    const A1: (&str, &str, u64) = ("/a", "/a", 1);
    const A2: (&str, &str, u64) = ("/a", "/a", 2);
    const A3: (&str, &str, u64) = ("/a", "/a", 3);
    const A4: (&str, &str, u64) = ("/a", "/a", 4);
    const B1: (&str, &str, u64) = ("/b", "/b", 1);

    #[test]
    fn the_counts_in_order_are_exactly_once() {
        let report = judged(Promise::ExactlyOnce, &[A1, A2, B1, A3]);
        assert!(report.holds(), "{report}");
        assert_eq!((report.records_in, report.records_out, report.urls), (4, 4, 2));
        assert!(report.to_string().starts_with("exactly once holds: 4 clicks on 2 urls in, 4 counts out"));
    }

    #[test]
    fn each_fault_is_found_by_its_name_and_no_other() {
        use Fault::*;
        let cases: [Case<'_>; 9] = [
            ("a count is missing at the end", &[A1, A2, B1], &[LeftOut]),
            ("a count is missing in the middle", &[A1, A3, B1], &[LeftOut]),
            ("a whole url is missing", &[A1, A2, A3], &[LeftOut]),
            ("a count comes twice", &[A1, A2, A2, A3, B1], &[Repeated]),
            ("a block comes twice", &[A1, A2, A3, B1, A2, A3], &[Repeated]),
            ("a click counted twice", &[A1, A2, A3, A4, B1], &[TooHigh]),
            ("two counts are swapped", &[A1, A3, A2, B1], &[OutOfOrder]),
            ("a foreign url", &[A1, A2, A3, B1, ("/c", "/c", 1)], &[ForeignUrl]),
            ("the key is another", &[A1, ("u1", "/a", 2), A3, B1], &[WrongKey]),
        ];
        for (name, outputs, faults) in cases {
            let report = judged(Promise::ExactlyOnce, outputs);
            assert_eq!(report.faults.keys().copied().collect::<Vec<_>>(), faults, "{name}: {report}");
            assert!(report.to_string().contains("IS BROKEN"), "{report}");
        }
    }

    #[test]
    fn a_url_in_two_partitions_is_a_fault() {
        let outputs = [("/a", "/a", 1, 0), ("/a", "/a", 2, 1), ("/a", "/a", 3, 0), ("/b", "/b", 1, 2)];
        let report = judged_in_partitions(Promise::ExactlyOnce, &outputs);
        assert_eq!(report.number(Fault::TwoPartitions), 1, "{report}");
        assert_eq!(report.faults.len(), 1, "{report}");
    }

    #[test]
    fn at_least_once_allows_repetition_but_no_loss() {
        let report = judged(Promise::AtLeastOnce, &[A1, A2, B1, A2, A3]);
        assert!(report.holds(), "{report}");
        assert_eq!(report.repeated_as_allowed, 1);
        let report = judged(Promise::AtLeastOnce, &[A1, A2, B1, A1, A2]);
        assert_eq!(report.number(Fault::LeftOut), 1, "{report}");
        let report = judged(Promise::AtLeastOnce, &[A1, A2, A3, A4, B1]);
        assert_eq!(report.number(Fault::TooHigh), 1, "{report}");
        let report = judged(Promise::AtLeastOnce, &[A1, A3, A2, A3, B1]);
        assert_eq!(report.number(Fault::OutOfOrder), 1, "{report}");
    }

    #[test]
    fn examples_are_few_and_say_where() {
        let report = judged(Promise::ExactlyOnce, &[A1, A2, A3, B1, A1, A2, A3, A1]);
        let text = report.to_string();
        assert!(text.contains("repeated: 4\n    /a: count 1 at partition 0 offset 4, after 3"), "{text}");
        assert!(text.ends_with("…"), "{text}");
    }

    #[test]
    fn a_record_of_another_kind_is_refused_with_its_text() {
        let problem = Clicks::new(Promise::ExactlyOnce).input(b"hello").unwrap_err();
        assert!(problem.starts_with(r#"expected a click, found "hello""#), "{problem}");
    }
}
