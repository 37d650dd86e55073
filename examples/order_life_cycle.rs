//! Follows the life of every order: reads `{"order":"o17","event":"paid","ts":1700000000123}`, keyed by the order, and
//! writes exactly one record for every event, keyed by the order too:
//!
//! - a step that is allowed moves the order on, `{"kind":"transition","order":"o17","from":"created","to":"paid","ts":…}`;
//! - one that is not leaves it where it is, `{"kind":"alert","order":"o17","state":"created","event":"shipped","ts":…}`.
//!
//! ```text
//! new --created--> created --paid--> paid --shipped--> shipped --delivered--> delivered, the end
//!                     |                |
//!                     +---cancelled----+--> cancelled, the end
//! ```
//!
//! An end clears the order's state, so that finished orders take no memory: from then on the order is new again, as if
//! nobody had ever heard of it. What comes late for it is an alert with `"state":"new"`, and only `created` begins a new
//! life. Events of one order must stand in one partition, in their order.

use serde::{Deserialize, Serialize};
use tidegate::api::prelude::*;

/// What can happen to an order.
#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Event {
    Created,
    Paid,
    Shipped,
    Delivered,
    Cancelled,
}

/// Where an order stands. The last two are never kept: an order that has ended is new.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum State {
    New,
    Created,
    Paid,
    Shipped,
    Delivered,
    Cancelled,
}

impl State {
    /// The table of legal steps.
    fn after(self, event: Event) -> Option<Self> {
        match (self, event) {
            (Self::New, Event::Created) => Some(Self::Created),
            (Self::Created, Event::Paid) => Some(Self::Paid),
            (Self::Paid, Event::Shipped) => Some(Self::Shipped),
            (Self::Shipped, Event::Delivered) => Some(Self::Delivered),
            (Self::Created | Self::Paid, Event::Cancelled) => Some(Self::Cancelled),
            _ => None,
        }
    }

    fn is_end(self) -> bool {
        matches!(self, Self::Delivered | Self::Cancelled)
    }
}

/// What is read; other fields are ignored.
#[derive(Clone, Serialize, Deserialize)]
struct OrderEvent {
    order: String,
    event: Event,
    ts: i64,
}

/// What happened to an order, as it travels through the job.
#[derive(Clone, Serialize, Deserialize)]
struct Told {
    order: String,
    what: What,
    ts: i64,
}

#[derive(Clone, Serialize, Deserialize)]
enum What {
    Transition { from: State, to: State },
    Alert { state: State, event: Event },
}

/// What is written: the kind stands beside the other fields, where consumers look for it.
#[derive(Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
enum Output<'a> {
    Transition { order: &'a str, from: State, to: State, ts: i64 },
    Alert { order: &'a str, state: State, event: Event, ts: i64 },
}

impl Told {
    fn output(&self) -> Output<'_> {
        let (order, ts) = (self.order.as_str(), self.ts);
        match self.what {
            What::Transition { from, to } => Output::Transition { order, from, to, ts },
            What::Alert { state, event } => Output::Alert { order, state, event, ts },
        }
    }
}

/// The state machine of every order.
#[derive(Clone, Default)]
struct FollowOrders {
    state: Option<ValueState<State>>,
}

impl KeyedProcessFunction<OrderEvent> for FollowOrders {
    type Out = Told;

    fn open(&mut self, context: &mut OpenContext<'_>) -> Result<(), UserError> {
        self.state = Some(context.value_state("state")?);
        Ok(())
    }

    fn process(
        &mut self,
        happened: OrderEvent,
        context: &mut KeyedContext<'_>,
        out: &mut Emitter<'_, Told>,
    ) -> Result<(), UserError> {
        let OrderEvent { order, event, ts } = happened;
        let kept = self.state.expect("open has declared it");
        let state = kept.get(context)?.unwrap_or(State::New);
        let what = match state.after(event) {
            Some(to) => {
                if to.is_end() {
                    kept.clear(context)?;
                } else {
                    kept.set(context, to)?;
                }
                What::Transition { from: state, to }
            }
            None => What::Alert { state, event },
        };
        out.emit(Told { order, what, ts });
        Ok(())
    }
}

fn main() -> std::process::ExitCode {
    tidegate::service::run(|settings| {
        let kafka = settings.connection();
        let events = KafkaSource::json::<OrderEvent>(kafka.clone(), &settings.job.name)
            .topics([&settings.source.topic])
            .start(settings.start())
            .bounded(settings.source.until_end);
        let told = KafkaSink::new(kafka, &settings.sink.topic, |told: &Told, record| {
            record.key(told.order.as_bytes());
            record.json(&told.output())
        })
        .delivery(settings.sink.delivery)
        .transaction_timeout(settings.sink.transaction_timeout);
        let job = Job::new();
        job.source("orders", events)
            .uid("orders")
            .key_by(|happened: &OrderEvent| &happened.order)
            .process("life-cycle", FollowOrders::default())
            .uid("life-cycle")
            .sink("told", told)
            .uid("told");
        Ok(job)
    })
}
