//! Judges the output of `order_life_cycle`: is it what the input says it must be?
//!
//! Every event of an order has exactly one output, keyed by the order: a transition
//! `{"kind":"transition","order":"o17","from":"new","to":"created","ts":…}` if [`State::after`] allows the event, else an
//! alert `{"kind":"alert","order":"o17","state":"new","event":"paid","ts":…}`; `ts` is the event's. Events of an order stand in one
//! partition of the input, so their order is known, and with it the outputs of each order as a sequence. Exactly once
//! means that each order's outputs are that sequence.
//!
//! Like the judge of clicks this is a pure machine, fed by [`judge_orders`].

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::fmt;

use serde::{Deserialize, Serialize};

use super::{Found, note, note_many, parse, unreadable, write_faults};
use crate::Error;
use crate::offsets::Isolation;
use crate::orders::{Event, State};
use crate::reader::Reader;

/// What can be wrong with an output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum OrderFault {
    /// An output that should be there is not.
    LeftOut,
    /// An output came again.
    Repeated,
    /// An output that no event of the order leads to.
    Unfounded,
    /// All outputs of the order are there, but not in the order of its events.
    OutOfOrder,
    /// The key is not the order.
    WrongKey,
    /// An order came in a second partition.
    TwoPartitions,
}

impl OrderFault {
    fn title(self) -> &'static str {
        match self {
            Self::LeftOut => "left out",
            Self::Repeated => "repeated",
            Self::Unfounded => "without an event that leads to it",
            Self::OutOfOrder => "orders whose outputs are out of order",
            Self::WrongKey => "key is not the order",
            Self::TwoPartitions => "order in two partitions",
        }
    }
}

/// The verdict on one output topic.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct OrdersReport {
    /// Events in the input.
    pub records_in: u64,
    /// Outputs.
    pub records_out: u64,
    /// Different orders in the input.
    pub orders: u64,
    /// Transitions that the input leads to.
    pub transitions: u64,
    /// Alerts that the input leads to.
    pub alerts: u64,
    /// What is wrong; empty if every event had exactly one output, in order.
    pub faults: BTreeMap<OrderFault, Found>,
}

impl OrdersReport {
    /// Whether the output is exactly right.
    pub fn holds(&self) -> bool {
        self.faults.is_empty()
    }

    /// How many outputs have this fault; for [`OrderFault::OutOfOrder`], orders.
    pub fn number(&self, fault: OrderFault) -> u64 {
        self.faults.get(&fault).map_or(0, |found| found.number)
    }
}

impl fmt::Display for OrdersReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = if self.holds() { "holds" } else { "IS BROKEN" };
        let Self { records_in, records_out, orders, transitions, alerts, .. } = self;
        write!(
            f,
            "exactly once {verdict}: {records_in} events of {orders} orders in, {records_out} outputs; \
             right are {transitions} transitions and {alerts} alerts"
        )?;
        write_faults(f, self.faults.iter().map(|(fault, found)| (fault.title(), found)))
    }
}

#[derive(Deserialize)]
struct Input<'a> {
    #[serde(borrow)]
    order: Cow<'a, str>,
    event: Event,
    ts: u64,
}

/// What is written about one event, without the order.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
enum Output {
    Transition { order: String, from: String, to: String, ts: u64 },
    Alert { order: String, state: String, event: String, ts: u64 },
}

impl Output {
    fn order(&self) -> &str {
        match self {
            Self::Transition { order, .. } | Self::Alert { order, .. } => order,
        }
    }
}

impl fmt::Display for Output {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Transition { order, from, to, ts } => {
                write!(f, "{order}: transition from {from} to {to}, ts {ts}")
            }
            Self::Alert { order, state, event, ts } => {
                write!(f, "{order}: alert, {event} while {state}, ts {ts}")
            }
        }
    }
}

/// What is known of one order.
#[derive(Default)]
struct Order {
    state: State,
    due: Vec<Output>,
    came: Vec<(Output, i32, i64)>,
}

/// The judge of one output: feed it the whole input, then the whole output, then ask for the verdict.
#[derive(Default)]
pub struct Orders {
    orders: HashMap<String, Order>,
    records_in: u64,
    records_out: u64,
    transitions: u64,
    alerts: u64,
    faults: BTreeMap<OrderFault, Found>,
}

impl Orders {
    /// Takes note of an event, given as its record's value; events of one order must come in their order.
    ///
    /// # Errors
    /// When it is no event of an order.
    pub fn input(&mut self, value: &[u8]) -> Result<(), String> {
        let Input { order: name, event, ts } = parse("an event of an order", value)?;
        self.records_in += 1;
        let order = self.orders.entry(name.clone().into_owned()).or_default();
        let (name, state) = (name.into_owned(), order.state);
        order.due.push(match state.after(event) {
            Some(next) => {
                order.state = next;
                self.transitions += 1;
                // An order that ends goes where the event says; it is new afterwards.
                Output::Transition { order: name, from: state.to_string(), to: event.to_string(), ts }
            }
            None => {
                self.alerts += 1;
                Output::Alert { order: name, state: state.to_string(), event: event.to_string(), ts }
            }
        });
        Ok(())
    }

    /// Takes note of an output; per partition they must come in the order of their offsets.
    ///
    /// # Errors
    /// When the value is neither a transition nor an alert.
    pub fn output(
        &mut self,
        key: Option<&[u8]>,
        value: &[u8],
        partition: i32,
        offset: i64,
    ) -> Result<(), String> {
        let output: Output = parse("a transition or an alert", value)?;
        self.records_out += 1;
        if key != Some(output.order().as_bytes()) {
            let key = key.map_or("null".into(), String::from_utf8_lossy).into_owned();
            note(&mut self.faults, OrderFault::WrongKey, || {
                format!("{output} at partition {partition} offset {offset} has the key {key}")
            });
        }
        self.orders.entry(output.order().to_owned()).or_default().came.push((output, partition, offset));
        Ok(())
    }

    /// The verdict on all that was fed.
    pub fn verdict(mut self) -> OrdersReport {
        let mut names: Vec<_> = self.orders.iter().collect();
        // So that equal topics give equal examples.
        names.sort_by(|a, b| a.0.cmp(b.0));
        for (_, order) in names {
            judge_order(order, &mut self.faults);
        }
        OrdersReport {
            records_in: self.records_in,
            records_out: self.records_out,
            orders: self.orders.values().filter(|order| !order.due.is_empty()).count() as u64,
            transitions: self.transitions,
            alerts: self.alerts,
            faults: self.faults,
        }
    }
}

fn judge_order(order: &Order, faults: &mut BTreeMap<OrderFault, Found>) {
    if let Some((_, home, _)) = order.came.first() {
        for (output, partition, offset) in order.came.iter().filter(|(_, partition, _)| partition != home) {
            note(faults, OrderFault::TwoPartitions, || {
                format!("{output} at partition {partition} offset {offset}, before in {home}")
            });
        }
    }
    if order.came.iter().map(|(output, ..)| output).eq(&order.due) {
        return;
    }
    let mut missing: HashMap<&Output, u64> = HashMap::new();
    for due in &order.due {
        *missing.entry(due).or_default() += 1;
    }
    let mut extra = false;
    for (output, partition, offset) in &order.came {
        let place = || format!("{output} at partition {partition} offset {offset}");
        match missing.get_mut(output) {
            Some(0) => note(faults, OrderFault::Repeated, place),
            Some(left) => {
                *left -= 1;
                continue;
            }
            None => note(faults, OrderFault::Unfounded, place),
        }
        extra = true;
    }
    let left_out: u64 = missing.values().sum();
    if left_out > 0 {
        let first = order.due.iter().find(|due| missing[*due] > 0);
        let first = first.expect("because something is missing");
        note_many(faults, OrderFault::LeftOut, left_out, || first.to_string());
    } else if !extra {
        let (first, ..) = &order.came[0];
        note(faults, OrderFault::OutOfOrder, || first.order().to_owned());
    }
}

/// Reads both topics to their ends, committed records only, and judges the output.
///
/// # Errors
/// When a topic cannot be read, or holds something else than events of orders, or transitions and alerts.
pub fn judge_orders(bootstrap: &str, input: &str, output: &str) -> Result<OrdersReport, Error> {
    let mut judge = Orders::default();
    Reader::open(bootstrap, input, Isolation::Committed)?.to_end(|record| {
        let noted = judge.input(record.value().unwrap_or_default());
        noted.map_err(|problem| unreadable(input, record, problem))
    })?;
    Reader::open(bootstrap, output, Isolation::Committed)?.to_end(|record| {
        let value = record.value().unwrap_or_default();
        let noted = judge.output(record.key(), value, record.partition(), record.offset());
        noted.map_err(|problem| unreadable(output, record, problem))
    })?;
    Ok(judge.verdict())
}

#[cfg(test)]
mod tests {
    use super::*;

    const CREATED: &str = r#"{"kind":"transition","order":"o1","from":"new","to":"created","ts":1}"#;
    const ALERT: &str = r#"{"kind":"alert","order":"o1","state":"created","event":"shipped","ts":2}"#;
    const CANCELLED: &str = r#"{"kind":"transition","order":"o1","from":"created","to":"cancelled","ts":3}"#;
    const LATE: &str = r#"{"kind":"alert","order":"o1","state":"new","event":"paid","ts":4}"#;
    const OTHER: &str = r#"{"kind":"transition","order":"o2","from":"new","to":"created","ts":5}"#;

    /// Created, shipped, cancelled, paid of o1, created of o2, and these outputs: key, value, partition.
    fn judged(outputs: &[(&str, &str, i32)]) -> OrdersReport {
        let mut judge = Orders::default();
        let events =
            [("o1", "created"), ("o1", "shipped"), ("o1", "cancelled"), ("o1", "paid"), ("o2", "created")];
        for (ts, (order, event)) in (1..).zip(events) {
            judge.input(format!(r#"{{"order":"{order}","event":"{event}","ts":{ts}}}"#).as_bytes()).unwrap();
        }
        for (offset, (key, value, partition)) in outputs.iter().enumerate() {
            judge.output(Some(key.as_bytes()), value.as_bytes(), *partition, offset as i64).unwrap();
        }
        judge.verdict()
    }

    #[test]
    fn every_event_has_one_output_in_its_place() {
        let outputs =
            [("o1", CREATED, 0), ("o2", OTHER, 1), ("o1", ALERT, 0), ("o1", CANCELLED, 0), ("o1", LATE, 0)];
        let report = judged(&outputs);
        assert!(report.holds(), "{report}");
        assert_eq!((report.records_in, report.orders, report.transitions, report.alerts), (5, 2, 3, 2));
    }

    #[test]
    fn each_fault_is_found_by_its_name_and_no_other() {
        use OrderFault::*;
        let right = [("o1", CREATED), ("o1", ALERT), ("o1", CANCELLED), ("o1", LATE), ("o2", OTHER)];
        let revived = LATE.replace("paid", "shipped");
        type Change<'a> = &'a dyn Fn(&mut Vec<(&'a str, &'a str)>);
        let cases: [(&str, Change<'_>, &[OrderFault]); 7] = [
            ("one is missing", &|o| o.retain(|(_, value)| *value != LATE), &[LeftOut]),
            ("a whole order is missing", &|o| o.truncate(4), &[LeftOut]),
            ("an alert comes twice", &|o| o.insert(2, ("o1", ALERT)), &[Repeated]),
            ("two are swapped", &|o| o.swap(1, 2), &[OutOfOrder]),
            ("a wrong event", &|o| o.push(("o1", &revived)), &[Unfounded]),
            ("one instead of another", &|o| o[3] = ("o1", &revived), &[LeftOut, Unfounded]),
            ("the key is another", &|o| o[0].0 = "o2", &[WrongKey]),
        ];
        for (name, change, faults) in cases {
            let mut outputs = right.to_vec();
            change(&mut outputs);
            let placed: Vec<_> = outputs.into_iter().map(|(key, value)| (key, value, 0)).collect();
            let report = judged(&placed);
            assert_eq!(report.faults.keys().copied().collect::<Vec<_>>(), faults, "{name}: {report}");
        }
        let placed: Vec<_> = right.iter().zip([0, 0, 1, 0, 0]).map(|((k, v), p)| (*k, *v, p)).collect();
        assert_eq!(judged(&placed).number(TwoPartitions), 1);
    }

    #[test]
    fn a_record_of_another_kind_is_refused_with_its_text() {
        let problem = Orders::default().output(None, br#"{"kind":"count"}"#, 0, 0).unwrap_err();
        assert!(problem.starts_with("expected a transition or an alert, found"), "{problem}");
    }
}
