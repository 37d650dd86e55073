//! Gives every payment a receipt with a number of its own, says whether it is within the limit of its account, and puts
//! aside every tenth payment of an account for an audit of ten at a time.
//!
//! Reads payments `{"account":"a7","number":12,"amount":30}` from the input, and limits `{"account":"a7","limit":50}` from
//! the topic `INPUT-limits`, of which every subtask knows all. Writes receipts
//! `{"receipt":1001,"account":"a7","number":12,"count":13,"limit":50,"within":true}` keyed by the account, and audits
//! `{"audit":[["a7",10],…]}`. The parallelism may change with every start: the numbers stay unique by union state, the
//! payments that wait for an audit are dealt out by list state, the limits are broadcast state.

use serde::{Deserialize, Serialize};
use tidegate::api::prelude::*;

/// Payments in one audit.
const AUDIT: usize = 10;

/// What is read.
#[derive(Clone, Serialize, Deserialize)]
struct Payment {
    account: String,
    /// Of the account's, from 0.
    number: u64,
    amount: u64,
}

/// What is read from the other topic.
#[derive(Clone, Serialize, Deserialize)]
struct Limit {
    account: String,
    limit: u64,
}

/// A payment with its receipt's number, or an audit.
#[derive(Clone, Serialize, Deserialize)]
enum Registered {
    Payment(u64, Payment),
    Audit(Vec<(String, u64)>),
}

/// What is written for a payment.
#[derive(Clone, Serialize, Deserialize)]
struct Receipt {
    receipt: u64,
    account: String,
    number: u64,
    count: u64,
    limit: Option<u64>,
    within: bool,
}

/// Numbers payments without any key, on as many subtasks as there are.
#[derive(Clone, Default)]
struct Register {
    /// The last number that each subtask has given.
    given: Option<UnionState<u64>>,
    next: u64,
    to_audit: Option<ListState<(String, u64)>>,
}

impl ProcessFunction<Payment> for Register {
    type Out = Registered;

    fn open(&mut self, context: &mut OpenContext<'_>) -> Result<(), UserError> {
        let given = context.union_state::<u64>("given")?;
        // Whatever any subtask has given, this one goes on above it, and no two of the present ones meet.
        let above = given.take_restored().into_iter().max().unwrap_or(0) + 1;
        self.next = above + u64::from(context.info().subtask);
        given.set([self.next]);
        self.given = Some(given);
        self.to_audit = Some(context.list_state("to audit")?);
        Ok(())
    }

    fn process(
        &mut self,
        payment: Payment,
        context: &Context<'_>,
        out: &mut Emitter<'_, Registered>,
    ) -> Result<(), UserError> {
        let to_audit = self.to_audit.as_ref().expect("open has declared it");
        if payment.number.is_multiple_of(10) {
            to_audit.add((payment.account.clone(), payment.number));
            if to_audit.len() >= AUDIT {
                // More wait than make one audit where fewer subtasks share what many had put aside.
                let mut now = to_audit.entries();
                to_audit.set(now.split_off(AUDIT));
                out.emit(Registered::Audit(now));
            }
        }
        self.given.as_ref().expect("open has declared it").set([self.next]);
        out.emit(Registered::Payment(self.next, payment));
        self.next += u64::from(context.info().parallelism);
        Ok(())
    }
}

/// Counts payments by account, and compares each with the limit that its subtask knows.
#[derive(Clone, Default)]
struct Check {
    count: Option<ValueState<u64>>,
    limits: Option<BroadcastState<str, u64>>,
}

impl KeyedBroadcastProcessFunction<(u64, Payment), Limit> for Check {
    type Out = Receipt;

    fn open(&mut self, context: &mut OpenContext<'_>) -> Result<(), UserError> {
        self.count = Some(context.value_state("count")?);
        self.limits = Some(context.broadcast_state("limits")?);
        Ok(())
    }

    fn process(
        &mut self,
        (receipt, payment): (u64, Payment),
        context: &mut KeyedContext<'_>,
        out: &mut Emitter<'_, Receipt>,
    ) -> Result<(), UserError> {
        let Payment { account, number, amount } = payment;
        let state = self.count.expect("open has declared it");
        let count = state.get(context)?.unwrap_or(0) + 1;
        state.set(context, count)?;
        let limit = self.limits.as_ref().expect("open has declared it").get(&account);
        let within = limit.is_none_or(|limit| amount <= limit);
        out.emit(Receipt { receipt, account, number, count, limit, within });
        Ok(())
    }

    fn process_broadcast(
        &mut self,
        limit: Limit,
        context: &BroadcastContext<'_>,
        _: &mut Emitter<'_, Receipt>,
    ) -> Result<(), UserError> {
        let limits = self.limits.as_ref().expect("open has declared it");
        limits.put(context, &limit.account, limit.limit);
        Ok(())
    }
}

fn main() -> std::process::ExitCode {
    tidegate::service::run(|settings| {
        let kafka = settings.connection();
        let payments = KafkaSource::json::<Payment>(kafka.clone(), &settings.job.name)
            .topics([&settings.source.topic])
            .start(settings.start())
            .bounded(settings.source.until_end);
        let limits = KafkaSource::json::<Limit>(kafka.clone(), &settings.job.name)
            .topics([format!("{}-limits", settings.source.topic)])
            .start(settings.start())
            .bounded(settings.source.until_end);
        let receipts = KafkaSink::new(kafka.clone(), &settings.sink.topic, |receipt: &Receipt, record| {
            record.key(receipt.account.as_bytes());
            record.json(receipt)
        })
        .delivery(settings.sink.delivery)
        .transaction_timeout(settings.sink.transaction_timeout);
        let audits = KafkaSink::new(kafka, &settings.sink.topic, |audit: &Vec<(String, u64)>, record| {
            record.json(&serde_json::json!({ "audit": audit }))
        })
        .delivery(settings.sink.delivery)
        .transaction_timeout(settings.sink.transaction_timeout);

        let job = Job::new();
        let limits = job.source("limits", limits).uid("limits").parallelism(1).broadcast();
        let registered = job
            .source("payments", payments)
            .uid("payments")
            .process("register", Register::default())
            .uid("register");
        registered
            .flat_map(|registered| match registered {
                Registered::Payment(receipt, payment) => Some((receipt, payment)),
                Registered::Audit(_) => None,
            })
            .key_by(|(_, payment): &(u64, Payment)| &payment.account)
            .connect(&limits)
            .process("check", Check::default())
            .uid("check")
            .sink("receipts", receipts)
            .uid("receipts");
        registered
            .flat_map(|registered| match registered {
                Registered::Payment(..) => None,
                Registered::Audit(payments) => Some(payments),
            })
            .sink("audits", audits)
            .uid("audits");
        Ok(job)
    })
}
