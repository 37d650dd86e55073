//! Tables for the expected paths, random histories for the rest.

use super::*;
use crate::host::clock;
use crate::model::SubtaskIndex;
use proptest::prelude::*;

const A: TaskId = TaskId { chain: 0, subtask: SubtaskIndex(0) };
const B: TaskId = TaskId { chain: 1, subtask: SubtaskIndex(0) };
const SECOND: Duration = Duration::from_secs(1);

fn protocol(now: Instant) -> Protocol {
    let settings =
        Settings { interval: SECOND, timeout: 5 * SECOND, tolerable_failures: 1, ..Settings::default() };
    Protocol::new(settings, Attempt(1), [A, B].into(), CheckpointId(7), CheckpointId(107), now)
}

fn ack(checkpoint: u64, task: TaskId) -> Event {
    Event::Acknowledged { attempt: Attempt(1), checkpoint: CheckpointId(checkpoint), task }
}

#[test]
fn a_checkpoint_is_complete_only_after_its_manifest() {
    let t0 = clock::now();
    let mut p = protocol(t0);
    assert!(p.step(Event::Tick, t0).is_empty());
    let seven = CheckpointId(7);
    let at = t0 + SECOND;
    assert_eq!(p.step(Event::Tick, at), [Action::Trigger { checkpoint: seven, kind: BarrierKind::Periodic }]);
    assert!(p.step(ack(7, A), at).is_empty());
    assert_eq!(p.step(ack(7, A), at), [Action::Refuse { checkpoint: seven, task: A }], "twice");
    assert_eq!(p.step(ack(7, B), at), [Action::Publish { checkpoint: seven }]);
    assert!(p.step(Event::Tick, at + 100 * SECOND).is_empty(), "no time-out and no trigger while publishing");
    let done = p.step(Event::Published { checkpoint: seven }, at + 100 * SECOND);
    assert_eq!(done[0], Action::Complete { checkpoint: seven, kind: BarrierKind::Periodic });
    assert_eq!(done[1], Action::Trigger { checkpoint: CheckpointId(8), kind: BarrierKind::Periodic });
    assert_eq!(done.len(), 2, "one trigger, not a hundred");
}

#[test]
fn stale_messages_are_refused() {
    let t0 = clock::now();
    let mut p = protocol(t0);
    p.step(Event::Tick, t0 + SECOND);
    for (attempt, checkpoint) in [(0, 7), (2, 7), (1, 6), (1, 8)] {
        let event =
            Event::Acknowledged { attempt: Attempt(attempt), checkpoint: CheckpointId(checkpoint), task: A };
        let checkpoint = CheckpointId(checkpoint);
        assert_eq!(p.step(event, t0 + SECOND), [Action::Refuse { checkpoint, task: A }]);
    }
}

#[test]
fn failures_are_tolerated_as_often_as_set_and_in_a_row_only() {
    let t0 = clock::now();
    let mut p = protocol(t0);
    let mut now = t0 + SECOND;
    let decline = |n| Event::Declined {
        attempt: Attempt(1),
        checkpoint: CheckpointId(n),
        task: B,
        reason: "disk full".into(),
    };
    p.step(Event::Tick, now);
    let actions = p.step(decline(7), now);
    assert!(matches!(&actions[..], [Action::GiveUp { reason, .. }] if reason.contains("disk full")));
    now += SECOND;
    p.step(Event::Tick, now);
    p.step(ack(8, A), now);
    p.step(ack(8, B), now);
    p.step(Event::Published { checkpoint: CheckpointId(8) }, now);
    for n in [9, 10] {
        now += 10 * SECOND;
        p.step(Event::Tick, now);
        let actions = p.step(decline(n), now);
        let failed = actions.iter().any(|a| matches!(a, Action::FailAttempt { .. }));
        assert_eq!(failed, n == 10, "{actions:?}");
    }
}

#[test]
fn a_timeout_names_who_is_missing() {
    let t0 = clock::now();
    let mut p = protocol(t0);
    p.step(Event::Tick, t0 + SECOND);
    p.step(ack(7, A), t0 + SECOND);
    let actions = p.step(Event::Tick, t0 + 6 * SECOND);
    assert!(
        matches!(&actions[0], Action::GiveUp { reason, .. } if reason.ends_with("by task 1.0")),
        "{actions:?}"
    );
    assert!(matches!(&actions[1], Action::Trigger { .. }));
    assert_eq!(p.step(ack(7, B), t0 + 6 * SECOND), [Action::Refuse { checkpoint: CheckpointId(7), task: B }]);
}

#[test]
fn nothing_follows_the_last_checkpoint_unless_it_fails() {
    let t0 = clock::now();
    let mut p = protocol(t0);
    let last = |n| Action::Trigger { checkpoint: CheckpointId(n), kind: BarrierKind::Last };
    assert_eq!(p.step(Event::EndRequested, t0), [last(7)], "at once");
    let actions = p.step(
        Event::Declined { attempt: Attempt(1), checkpoint: CheckpointId(7), task: A, reason: "x".into() },
        t0,
    );
    assert!(matches!(actions[0], Action::GiveUp { kind: BarrierKind::Last, .. }));
    assert_eq!(p.step(Event::Tick, t0 + SECOND), [last(8)]);
    p.step(ack(8, A), t0 + SECOND);
    p.step(ack(8, B), t0 + SECOND);
    let done = p.step(Event::Published { checkpoint: CheckpointId(8) }, t0 + SECOND);
    assert_eq!(done, [Action::Complete { checkpoint: CheckpointId(8), kind: BarrierKind::Last }]);
    assert!(p.step(Event::Tick, t0 + 1000 * SECOND).is_empty());
}

#[derive(Debug, Clone)]
enum Move {
    Wait(u8),
    Ack(u8, bool, bool),
    Decline(u8, bool),
    Answer(bool),
    End,
}

fn moves() -> impl Strategy<Value = Move> {
    prop_oneof![
        (0u8..8).prop_map(Move::Wait),
        (0u8..4, any::<bool>(), prop::bool::weighted(0.9)).prop_map(|(b, t, a)| Move::Ack(b, t, a)),
        (0u8..4, any::<bool>()).prop_map(|(b, t)| Move::Decline(b, t)),
        prop::bool::weighted(0.8).prop_map(Move::Answer),
        Just(Move::End),
    ]
}

proptest! {
    /// In any history: ids only grow, one checkpoint at a time, complete only after its own publication with
    /// every acknowledgement given, and nothing at all after the end.
    #[test]
    fn any_history_keeps_the_invariants(history in prop::collection::vec(moves(), 1..200)) {
        let mut now = clock::now();
        let mut p = protocol(now);
        let (mut newest, mut open, mut publishing) = (0u64, None::<u64>, None::<u64>);
        let mut acked: BTreeSet<TaskId> = BTreeSet::new();
        let mut over = false;
        for m in history {
            let task = |t| if t { A } else { B };
            let mut answered = None;
            let actions = match m {
                Move::Wait(s) => { now += SECOND * u32::from(s); p.step(Event::Tick, now) }
                Move::Ack(back, t, fresh) => {
                    let id = newest.saturating_sub(u64::from(back));
                    let attempt = Attempt(u64::from(fresh));
                    if fresh && open == Some(id) && publishing.is_none() { acked.insert(task(t)); }
                    p.step(Event::Acknowledged { attempt, checkpoint: CheckpointId(id), task: task(t) }, now)
                }
                Move::Decline(back, t) => {
                    let checkpoint = CheckpointId(newest.saturating_sub(u64::from(back)));
                    p.step(Event::Declined { attempt: Attempt(1), checkpoint, task: task(t), reason: "no".into() }, now)
                }
                Move::Answer(good) => {
                    let Some(id) = publishing.take() else { continue };
                    let checkpoint = CheckpointId(id);
                    answered = good.then_some(id);
                    if good { p.step(Event::Published { checkpoint }, now) }
                    else { p.step(Event::NotPublished { checkpoint, reason: "no".into() }, now) }
                }
                Move::End => p.step(Event::EndRequested, now),
            };
            for action in actions {
                match action {
                    Action::Trigger { checkpoint, .. } => {
                        prop_assert!(!over && open.is_none() && checkpoint.0 > newest);
                        newest = checkpoint.0;
                        open = Some(newest);
                        acked.clear();
                    }
                    Action::Publish { checkpoint } => {
                        prop_assert_eq!(open, Some(checkpoint.0));
                        prop_assert_eq!(acked.len(), 2);
                        publishing = Some(checkpoint.0);
                    }
                    Action::Complete { checkpoint, kind } => {
                        prop_assert_eq!(answered.take(), Some(checkpoint.0));
                        open = None;
                        over |= kind == BarrierKind::Last;
                    }
                    Action::GiveUp { checkpoint, .. } => {
                        prop_assert_eq!(open.take(), Some(checkpoint.0));
                        prop_assert!(publishing.is_none());
                    }
                    Action::FailAttempt { .. } => over = true,
                    Action::Refuse { .. } => {}
                }
            }
        }
    }
}
