//! Tables for the expected paths; `histories` and `exploration` see to the rest.

use super::*;
use crate::host::clock;
use crate::model::SubtaskIndex;

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

fn trigger(checkpoint: u64, kind: BarrierKind) -> Action {
    Action::Trigger { checkpoint: CheckpointId(checkpoint), kind, savepoint: None }
}

fn complete(checkpoint: u64, kind: BarrierKind) -> Action {
    Action::Complete { checkpoint: CheckpointId(checkpoint), kind, savepoint: None }
}

#[test]
fn a_checkpoint_is_complete_only_after_its_manifest() {
    let t0 = clock::now();
    let mut p = protocol(t0);
    assert!(p.step(Event::Tick, t0).is_empty());
    let seven = CheckpointId(7);
    let at = t0 + SECOND;
    assert_eq!(p.step(Event::Tick, at), [trigger(7, BarrierKind::Periodic)]);
    assert!(p.step(ack(7, A), at).is_empty());
    assert_eq!(p.step(ack(7, A), at), [Action::Refuse { checkpoint: seven, task: A }], "twice");
    assert_eq!(p.step(ack(7, B), at), [Action::Publish { checkpoint: seven }]);
    assert!(p.step(Event::Tick, at + 100 * SECOND).is_empty(), "no time-out and no trigger while publishing");
    let done = p.step(Event::Published { checkpoint: seven }, at + 100 * SECOND);
    assert_eq!(done[0], complete(7, BarrierKind::Periodic));
    assert_eq!(done[1], trigger(8, BarrierKind::Periodic));
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
fn a_checkpoint_that_is_wanted_now_does_not_wait_for_the_interval() {
    let t0 = clock::now();
    let mut p = protocol(t0);
    assert_eq!(p.step(Event::Hurry, t0), [trigger(7, BarrierKind::Periodic)]);
    assert_eq!(p.step(Event::Hurry, t0), [], "one at a time");
    ack_all(&mut p, 7, t0);
    let done = p.step(Event::Published { checkpoint: CheckpointId(7) }, t0);
    assert_eq!(
        done,
        [complete(7, BarrierKind::Periodic), trigger(8, BarrierKind::Periodic)],
        "it is still wanted"
    );
}

#[test]
fn nothing_follows_the_last_checkpoint_unless_it_fails() {
    let t0 = clock::now();
    let mut p = protocol(t0);
    let last = |n| trigger(n, BarrierKind::Last);
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
    assert_eq!(done, [complete(8, BarrierKind::Last)]);
    assert!(p.step(Event::Tick, t0 + 1000 * SECOND).is_empty());
}

/// Three at once, with all tasks' acknowledgements of a checkpoint in one call.
fn concurrent(now: Instant) -> Protocol {
    let mut p = protocol(now);
    p.settings.maximum_concurrent = 3;
    p
}

fn ack_all(p: &mut Protocol, checkpoint: u64, now: Instant) -> Vec<Action> {
    let mut actions = p.step(ack(checkpoint, A), now);
    actions.extend(p.step(ack(checkpoint, B), now));
    actions
}

#[test]
fn as_many_are_under_way_as_allowed() {
    let t0 = clock::now();
    let mut p = concurrent(t0);
    for n in 0..3 {
        let at = t0 + (n + 1) * SECOND;
        assert_eq!(p.step(Event::Tick, at), [trigger(7 + u64::from(n), BarrierKind::Periodic)]);
    }
    assert!(p.step(Event::Tick, t0 + 4 * SECOND).is_empty(), "there is no room for a fourth");
    assert_eq!(ack_all(&mut p, 7, t0 + 4 * SECOND), [Action::Publish { checkpoint: CheckpointId(7) }]);
    let actions = p.step(Event::Published { checkpoint: CheckpointId(7) }, t0 + 4 * SECOND);
    assert_eq!(actions, [complete(7, BarrierKind::Periodic), trigger(10, BarrierKind::Periodic)]);
}

#[test]
fn a_newer_one_that_is_complete_first_subsumes_the_older_ones() {
    let t0 = clock::now();
    let mut p = concurrent(t0);
    (1..=3).for_each(|n| drop(p.step(Event::Tick, t0 + n * SECOND)));
    let now = t0 + 3 * SECOND;
    assert_eq!(ack_all(&mut p, 8, now), [Action::Publish { checkpoint: CheckpointId(8) }]);
    assert!(ack_all(&mut p, 7, now).is_empty(), "one publication at a time");
    let actions = p.step(Event::Published { checkpoint: CheckpointId(8) }, now);
    assert_eq!(
        actions,
        [complete(8, BarrierKind::Periodic), Action::Subsume { checkpoint: CheckpointId(7) }]
    );
    assert_eq!(ack_all(&mut p, 9, now), [Action::Publish { checkpoint: CheckpointId(9) }]);
}

#[test]
fn an_older_one_is_published_when_the_newer_one_was_refused() {
    let t0 = clock::now();
    let mut p = concurrent(t0);
    (1..=2).for_each(|n| drop(p.step(Event::Tick, t0 + n * SECOND)));
    let now = t0 + 2 * SECOND;
    ack_all(&mut p, 8, now);
    ack_all(&mut p, 7, now);
    let refused = Event::NotPublished { checkpoint: CheckpointId(8), reason: "full".into() };
    let actions = p.step(refused, now);
    assert!(matches!(&actions[..], [Action::GiveUp { .. }, Action::Publish { checkpoint: CheckpointId(7) }]));
}

const REQUEST: SavepointRequest = SavepointRequest(1);

#[test]
fn a_savepoint_is_taken_at_once_and_subsumes_nothing() {
    let t0 = clock::now();
    let mut p = concurrent(t0);
    p.step(Event::Tick, t0 + SECOND);
    let now = t0 + SECOND;
    let asked = p.step(Event::SavepointRequested { request: REQUEST, kind: BarrierKind::Periodic }, now);
    let (eight, kind, savepoint) = (CheckpointId(8), BarrierKind::Periodic, Some(REQUEST));
    assert_eq!(asked, [Action::Trigger { checkpoint: eight, kind, savepoint }]);
    ack_all(&mut p, 8, now);
    let done = p.step(Event::Published { checkpoint: eight }, now);
    let complete = Action::Complete { checkpoint: eight, kind, savepoint };
    assert_eq!(done, [complete, trigger(9, BarrierKind::Periodic)], "its transactions are committed soon");
    assert_eq!(ack_all(&mut p, 7, now), [Action::Publish { checkpoint: CheckpointId(7) }]);
}

#[test]
fn a_second_savepoint_waits_for_a_checkpoint() {
    let t0 = clock::now();
    let mut p = protocol(t0);
    let ask = |n| Event::SavepointRequested { request: SavepointRequest(n), kind: BarrierKind::Periodic };
    p.step(ask(1), t0);
    ack_all(&mut p, 7, t0);
    let done = p.step(Event::Published { checkpoint: CheckpointId(7) }, t0);
    assert_eq!(done[1..], [trigger(8, BarrierKind::Periodic)]);
    assert_eq!(p.step(ask(2), t0), []);
    ack_all(&mut p, 8, t0);
    let actions = p.step(Event::Published { checkpoint: CheckpointId(8) }, t0);
    assert!(
        matches!(actions[1], Action::Trigger { savepoint: Some(SavepointRequest(2)), .. }),
        "{actions:?}"
    );
}

#[test]
fn a_savepoint_that_fails_counts_for_nothing_and_lets_the_job_run_on() {
    let t0 = clock::now();
    let mut p = protocol(t0);
    for n in 0..5 {
        let request = SavepointRequest(n);
        let (checkpoint, next) = (CheckpointId(7 + 2 * n), 8 + 2 * n);
        p.step(Event::SavepointRequested { request, kind: BarrierKind::Last }, t0);
        let (attempt, reason) = (Attempt(1), "disk full".to_owned());
        let actions = p.step(Event::Declined { attempt, checkpoint, task: A, reason }, t0);
        assert!(matches!(&actions[0], Action::GiveUp { savepoint: Some(r), .. } if *r == request));
        assert_eq!(
            actions[1..],
            [trigger(next, BarrierKind::Periodic)],
            "what was prepared is committed soon"
        );
        ack_all(&mut p, next, t0);
        let done = p.step(Event::Published { checkpoint: CheckpointId(next) }, t0);
        assert_eq!(done, [complete(next, BarrierKind::Periodic)]);
    }
    assert_eq!(p.step(Event::Tick, t0 + SECOND), [trigger(17, BarrierKind::Periodic)]);
}
