//! Resolution after a crash: what became of a prepared transaction, and making it committed if it is still open.
//!
//! EndTxn's answers are no verdict, and it may not answer at all; so every turn describes first, acts by the
//! [`verdict`](super::verdict), and describes again.

use super::evidence::Evidence;
use super::verdict::{LogVerdict, Verdict, of_coordinator, of_log};
use crate::connector::Committable;
use crate::connector::kafka::options::raw_failure;
use crate::connector::kafka::raw::{Client, Deadline, EndOutcome, TopicPartition, TransactionState};
use crate::model::Failure;
use std::time::Duration;

/// Between two looks at a transaction that is being ended.
const PAUSE: Duration = Duration::from_millis(20);

/// One request that may never be answered, since the coordinator waits for replicas.
const REQUEST: Duration = Duration::from_secs(10);

/// A new leader's end lags for seconds after a failover: a marker that is not there is looked for again after this.
const SECOND_LOOK: Duration = Duration::from_secs(10);

/// What became of a prepared transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    Committed,
    Aborted,
    /// Neither coordinator nor log reach back to it.
    Gone,
}

/// How an open transaction is to be ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Commit,
    Abort,
}

/// Ends the transaction if it is open, and finds out its fate in any case.
pub(super) fn settle(
    client: &mut Client,
    evidence: &Evidence,
    end: End,
    budget: Duration,
) -> Result<Fate, Failure> {
    let deadline = Deadline::after(budget);
    let mut looked_twice = false;
    loop {
        let described = client.describe_transaction(&evidence.id, deadline).map_err(raw_failure)?;
        match of_coordinator(evidence, described.as_ref()) {
            Verdict::Committed => return Ok(Fate::Committed),
            Verdict::Aborted => return Ok(Fate::Aborted),
            Verdict::Wait => {}
            Verdict::Open => {
                crate::fault_point!("resolve.before_end_transaction");
                let outcome = client
                    .end_transaction(
                        &evidence.id,
                        evidence.producer(),
                        end == End::Commit,
                        deadline.at_most(REQUEST),
                    )
                    .map_err(raw_failure)?;
                crate::fault_point!("resolve.after_end_transaction");
                if !matches!(outcome, EndOutcome::Accepted | EndOutcome::UnderWay) {
                    tracing::info!(
                        id = evidence.id,
                        ?outcome,
                        "the end of a transaction is not answered as expected, asking"
                    );
                }
            }
            Verdict::LookForMarker => match look(client, evidence, deadline)? {
                LogVerdict::Committed => return Ok(Fate::Committed),
                LogVerdict::Aborted => return Ok(Fate::Aborted),
                LogVerdict::Gone => return Ok(Fate::Gone),
                LogVerdict::NoMarker if !looked_twice => {
                    looked_twice = true;
                    std::thread::sleep(SECOND_LOOK.min(deadline.left()));
                    continue;
                }
                LogVerdict::NoMarker => {
                    return Err(Failure::new(
                        crate::model::Advice::DataIsCorrupt,
                        format!(
                            "transaction {} of the newest checkpoint cannot be resolved: its coordinator says {} and no marker \
                             stands in the log behind {}. Nothing was changed; find out whether its records are visible to \
                             read_committed readers before anything is started anew",
                            evidence.id,
                            described.map_or("that it does not know it".to_owned(), |d| format!(
                                "{} with producer {} epoch {} start {}",
                                d.state, d.producer_id, d.producer_epoch, d.start_ms
                            )),
                            evidence.places()
                        ),
                    ));
                }
            },
        }
        if deadline.passed() {
            return Err(Failure::restart(format!(
                "transaction {} was not resolved within {budget:?}",
                evidence.id
            )));
        }
        std::thread::sleep(PAUSE);
    }
}

fn look(client: &mut Client, evidence: &Evidence, deadline: Deadline) -> Result<LogVerdict, Failure> {
    let mut markers = Vec::new();
    for w in &evidence.written {
        let at = TopicPartition::new(&*w.topic, w.partition);
        let marker =
            client.find_marker(&at, evidence.producer_id, w.last + 1, deadline).map_err(raw_failure)?;
        markers.push(marker);
        if matches!(of_log(&markers), LogVerdict::Committed | LogVerdict::Aborted) {
            break;
        }
    }
    Ok(of_log(&markers))
}

/// A pending transaction of a checkpoint, for people and tools.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pending {
    /// Its transactional id.
    pub id: String,
    /// The producer id and epoch that wrote it.
    pub producer: (i64, i16),
    /// When its first record arrived, by the coordinator's clock, in milliseconds since the Unix epoch.
    pub start_ms: i64,
    /// When the broker aborts it, in milliseconds since the Unix epoch.
    pub deadline_ms: i64,
    /// How many records it holds.
    pub records: u64,
    /// What its coordinator says now.
    pub state: String,
}

/// What a checkpoint's committable refers to, and how it stands at the broker now.
///
/// # Errors
/// When the evidence cannot be read, or the broker does not answer.
pub fn pending_of(client: &mut Client, committable: &Committable) -> Result<Pending, Failure> {
    let evidence = Evidence::of(committable)?;
    let deadline = Deadline::after(REQUEST);
    let described = client.describe_transaction(&evidence.id, deadline).map_err(raw_failure)?;
    let state = match of_coordinator(&evidence, described.as_ref()) {
        Verdict::Open => "open".to_owned(),
        Verdict::Wait => "being ended".to_owned(),
        Verdict::Committed => "committed".to_owned(),
        Verdict::Aborted => "aborted".to_owned(),
        Verdict::LookForMarker => match look(client, &evidence, deadline)? {
            LogVerdict::Committed => "committed".to_owned(),
            LogVerdict::Aborted => "aborted".to_owned(),
            LogVerdict::Gone => "gone".to_owned(),
            LogVerdict::NoMarker => "unknown".to_owned(),
        },
    };
    Ok(Pending {
        records: evidence.records(),
        id: evidence.id,
        producer: (evidence.producer_id, evidence.epoch),
        start_ms: evidence.start_ms,
        deadline_ms: committable.deadline_ms,
        state,
    })
}

/// Whether the transaction of that state is still to be ended by somebody.
pub(super) fn is_open(state: &TransactionState) -> bool {
    matches!(state, TransactionState::Ongoing | TransactionState::PrepareEpochFence)
}
