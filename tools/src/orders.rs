//! A stream of order events that depends on its options alone, for the example `order_life_cycle`.
//!
//! A record looks like `{"order":"o17","event":"paid","ts":1700000000123}` with the order as its key. Most events are
//! the next legal step of their order; some are not allowed in the order's state, [`State::after`] tells which; and some
//! come late, for an order that has ended and is therefore new again.

use std::fmt;
use std::io::Write;

use serde::{Deserialize, Serialize};

use crate::feed::Stream;
use crate::random::SplitMix64;

/// What can happen to an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Event {
    /// The customer has placed it.
    Created,
    /// The money has arrived.
    Paid,
    /// The parcel has left.
    Shipped,
    /// The parcel has arrived: the order ends.
    Delivered,
    /// It was called off before it was shipped: the order ends.
    Cancelled,
}

impl Event {
    const ALL: [Self; 5] = [Self::Created, Self::Paid, Self::Shipped, Self::Delivered, Self::Cancelled];
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Created => "created",
            Self::Paid => "paid",
            Self::Shipped => "shipped",
            Self::Delivered => "delivered",
            Self::Cancelled => "cancelled",
        })
    }
}

/// Where an order stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum State {
    /// Unknown: never created, or delivered or cancelled since.
    #[default]
    New,
    /// Waits for the money.
    Created,
    /// Waits for the parcel to leave.
    Paid,
    /// Waits for the parcel to arrive.
    Shipped,
}

impl State {
    /// The state after the event, or `None` if the event is not allowed here and leaves the state as it is. After
    /// its end an order is new: it can only be created, as if nobody had ever heard of it.
    pub fn after(self, event: Event) -> Option<Self> {
        match (self, event) {
            (Self::New, Event::Created) => Some(Self::Created),
            (Self::Created, Event::Paid) => Some(Self::Paid),
            (Self::Paid, Event::Shipped) => Some(Self::Shipped),
            (Self::Shipped, Event::Delivered) => Some(Self::New),
            (Self::Created | Self::Paid, Event::Cancelled) => Some(Self::New),
            _ => None,
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::New => "new",
            Self::Created => "created",
            Self::Paid => "paid",
            Self::Shipped => "shipped",
        })
    }
}

/// What the stream consists of. Equal options give equal records.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Options {
    /// How many orders are under way at a time, at least 1.
    pub open: u32,
    /// How many of a thousand events are not allowed in their order's state.
    pub illegal_per_mille: u32,
    /// How many of a thousand legal events cancel the order where that is allowed.
    pub cancelled_per_mille: u32,
    /// How many of a thousand events are any event for one of the orders that have ended.
    pub late_per_mille: u32,
    /// Seed of the random numbers.
    pub seed: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self { open: 1000, illegal_per_mille: 30, cancelled_per_mille: 50, late_per_mille: 10, seed: 42 }
    }
}

/// The endless stream of order events.
pub struct Orders {
    options: Options,
    random: SplitMix64,
    open: Vec<(u64, State)>,
    /// Some of those that have ended; what comes late for one may begin its life anew.
    ended: Vec<(u64, State)>,
    next_order: u64,
    made: u64,
}

/// How many ended orders are remembered for late events.
const ENDED: usize = 100;

/// Time stamps start here and grow by a millisecond every 20 records.
const FIRST_TIMESTAMP_MS: u64 = 1_700_000_000_000;

impl Orders {
    /// The stream with these options, from its first record.
    ///
    /// # Panics
    /// With no open orders.
    pub fn new(options: Options) -> Self {
        assert!(options.open > 0, "an event needs an order: {options:?}");
        let open = (0..u64::from(options.open)).map(|order| (order, State::New)).collect();
        let random = SplitMix64(options.seed);
        Self { options, random, open, ended: Vec::new(), next_order: u64::from(options.open), made: 0 }
    }

    fn chance(&mut self, per_mille: u32) -> bool {
        self.random.below(1000) < u64::from(per_mille)
    }

    fn legal(&mut self, state: State) -> Event {
        let cancel = self.chance(self.options.cancelled_per_mille);
        match state {
            State::Created | State::Paid if cancel => Event::Cancelled,
            State::New => Event::Created,
            State::Created => Event::Paid,
            State::Paid => Event::Shipped,
            State::Shipped => Event::Delivered,
        }
    }

    fn illegal(&mut self, state: State) -> Event {
        let refused = Event::ALL.into_iter().filter(|event| state.after(*event).is_none());
        let refused: Vec<Event> = refused.collect();
        refused[self.random.below(refused.len() as u64) as usize]
    }
}

impl Orders {
    /// Any event for an order that has ended, if there is one.
    fn late(&mut self) -> Option<(u64, Event)> {
        if self.ended.is_empty() || !self.chance(self.options.late_per_mille) {
            return None;
        }
        let slot = self.random.below(self.ended.len() as u64) as usize;
        let event = Event::ALL[self.random.below(Event::ALL.len() as u64) as usize];
        let (order, state) = &mut self.ended[slot];
        *state = state.after(event).unwrap_or(*state);
        Some((*order, event))
    }

    /// The next event of one of the orders under way.
    fn timely(&mut self) -> (u64, Event) {
        let slot = self.random.below(self.open.len() as u64) as usize;
        let (order, state) = self.open[slot];
        let illegal = self.chance(self.options.illegal_per_mille);
        let event = if illegal { self.illegal(state) } else { self.legal(state) };
        match state.after(event) {
            // An order that has ended makes room for a new one.
            Some(State::New) => {
                self.open[slot] = (self.next_order, State::New);
                self.next_order += 1;
                if self.ended.len() < ENDED {
                    self.ended.push((order, State::New));
                }
            }
            Some(next) => self.open[slot].1 = next,
            None => {}
        }
        (order, event)
    }
}

impl Stream for Orders {
    fn next_into(&mut self, key: &mut Vec<u8>, value: &mut Vec<u8>) {
        let (order, event) = match self.late() {
            Some(late) => late,
            None => self.timely(),
        };
        let timestamp = FIRST_TIMESTAMP_MS + self.made / 20;
        write!(key, "o{order}").expect("memory takes what is written");
        write!(value, "{{\"order\":\"o{order}\",\"event\":\"{event}\",\"ts\":{timestamp}}}")
            .expect("memory takes what is written");
        self.made += 1;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    #[derive(Deserialize)]
    struct Record {
        order: String,
        event: Event,
    }

    #[test]
    fn as_many_events_are_illegal_as_asked_for_and_orders_end() {
        let options = Options { open: 50, ..Options::default() };
        let mut orders = Orders::new(options);
        let (mut states, mut illegal, mut ended) = (HashMap::<String, State>::new(), 0u32, 0u32);
        let (mut late, mut reborn) = (0, 0);
        let (mut key, mut value) = (Vec::new(), Vec::new());
        for _ in 0..20_000 {
            key.clear();
            value.clear();
            orders.next_into(&mut key, &mut value);
            let record: Record = serde_json::from_slice(&value).unwrap();
            assert_eq!(record.order.as_bytes(), key);
            let known = states.contains_key(&record.order);
            let state = states.entry(record.order).or_default();
            let was_new = known && *state == State::New;
            match state.after(record.event) {
                Some(next) => {
                    *state = next;
                    ended += u32::from(next == State::New);
                    reborn += u32::from(was_new);
                }
                None => {
                    illegal += 1;
                    late += u32::from(was_new);
                }
            }
        }
        assert!((550..950).contains(&illegal), "30 and 8 of 1000 are asked for, {illegal} of 20,000 came");
        assert!(ended > 3_000, "only {ended} orders ended");
        assert!(late > 50 && reborn > 10, "after their end: {late} alerts, {reborn} orders created again");
    }
}
