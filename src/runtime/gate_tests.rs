use super::*;
use crate::host::thread;
use crate::model::{BarrierKind, Origin};

fn batch(n: i64) -> Vec<Record<i64>> {
    vec![Record { value: n, timestamp: 0, origin: Origin::NONE }]
}

fn gate(channels: usize, capacity: usize) -> (Gate<i64>, Vec<Sender<i64>>, Urgency) {
    let urgency = Urgency::default();
    let (gate, senders) = Gate::new(channels, capacity, true, urgency.clone());
    (gate, senders, urgency)
}

fn barrier(n: u64, alignment: Alignment) -> Barrier {
    Barrier { checkpoint: CheckpointId(n), kind: BarrierKind::Periodic, alignment }
}

fn values(batches: Vec<Vec<Record<i64>>>) -> Vec<i64> {
    batches.into_iter().flatten().map(|r| r.value).collect()
}

const NOW: Duration = Duration::ZERO;

#[test]
fn a_full_channel_makes_its_sender_wait_and_loses_nothing() {
    let (gate, mut senders, _) = gate(1, 2);
    let sender = senders.remove(0);
    let feeding =
        thread::spawn("feed", move || (0..100).try_for_each(|n| sender.send(batch(n), || false))).unwrap();
    let mut seen = Vec::new();
    while seen.len() < 100 {
        if let Some(Arrived::Next(_, Element::Batch(b))) = gate.receive(Duration::from_secs(5)).unwrap() {
            seen.extend(b.into_iter().map(|r| r.value));
        }
    }
    assert_eq!(seen, (0..100).collect::<Vec<_>>());
    feeding.join().unwrap().unwrap();
}

#[test]
fn a_held_channel_is_not_read_while_the_others_are() {
    let (gate, senders, _) = gate(2, 4);
    senders[0].send(batch(1), || false).unwrap();
    senders[1].send(batch(2), || false).unwrap();
    gate.hold(0);
    assert!(matches!(gate.receive(NOW).unwrap(), Some(Arrived::Next(1, _))));
    assert!(gate.receive(NOW).unwrap().is_none());
    gate.release();
    assert!(matches!(gate.receive(NOW).unwrap(), Some(Arrived::Next(0, _))));
}

#[test]
fn closing_wakes_a_waiting_sender() {
    let (gate, mut senders, _) = gate(1, 1);
    let sender = senders.remove(0);
    sender.send(batch(1), || false).unwrap();
    let waiting = thread::spawn("feed", move || sender.send(batch(2), || false)).unwrap();
    gate.closer()();
    assert_eq!(waiting.join().unwrap(), Err(Closed));
}

#[test]
fn a_barrier_passes_a_full_channel_and_one_that_may_overtake_is_heard_first() {
    let (gate, senders, urgency) = gate(1, 2);
    senders[0].send(batch(1), || false).unwrap();
    senders[0].send(batch(2), || false).unwrap();
    senders[0].send_barrier(barrier(1, Alignment::Aligned)).unwrap();
    assert!(!urgency.is_due(), "an aligned one waits for its turn");
    senders[0].send_barrier(barrier(2, Alignment::Unaligned)).unwrap();
    assert!(urgency.is_due());
    // Whoever must hurry passes too.
    senders[0].send(batch(3), || true).unwrap();
    assert!(matches!(gate.receive(NOW).unwrap(), Some(Arrived::Ahead(0, b)) if b.checkpoint.0 == 2));
    assert!(!urgency.is_due());
    assert_eq!(values(gate.before(0, CheckpointId(2))), [1, 2]);
    let rest: Vec<String> = std::iter::from_fn(|| gate.receive(NOW).unwrap())
        .map(|a| match a {
            Arrived::Next(_, Element::Batch(b)) => b[0].value.to_string(),
            Arrived::Next(_, Element::Barrier(b)) => format!("barrier {}", b.checkpoint),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(rest, ["1", "2", "barrier 1", "barrier 2", "3"]);
}

#[test]
fn when_its_time_is_over_a_barrier_is_announced_wherever_it_waits() {
    let (gate, senders, urgency) = gate(3, 8);
    let timed = |ms| barrier(5, Alignment::AlignedFor(Duration::from_millis(ms)));
    senders[0].send_barrier(timed(50)).unwrap();
    assert!(matches!(gate.receive(NOW).unwrap(), Some(Arrived::Next(0, Element::Barrier(_)))));
    gate.hold(0);
    senders[1].send(batch(1), || false).unwrap();
    senders[1].send_barrier(timed(30)).unwrap();
    assert!(!urgency.is_due(), "there is time");
    std::thread::sleep(Duration::from_millis(60));
    assert!(urgency.is_due());
    assert!(matches!(gate.urgent().unwrap(), Some(Arrived::Due(CheckpointId(5)))));
    assert!(matches!(gate.urgent().unwrap(), Some(Arrived::Ahead(1, _))));
    gate.settle(CheckpointId(5), true);
    assert!(gate.urgent().unwrap().is_none());
    // One that comes later comes ahead, whatever time it still has.
    senders[2].send(batch(2), || false).unwrap();
    senders[2].send_barrier(timed(1000)).unwrap();
    assert!(matches!(gate.urgent().unwrap(), Some(Arrived::Ahead(2, _))));
    assert!(!urgency.is_due());
}

#[test]
fn a_gate_that_is_frozen_in_time_has_no_timer_left() {
    let (gate, senders, urgency) = gate(1, 8);
    senders[0].send_barrier(barrier(5, Alignment::AlignedFor(Duration::from_millis(5)))).unwrap();
    assert!(matches!(gate.receive(NOW).unwrap(), Some(Arrived::Next(..))));
    gate.settle(CheckpointId(5), false);
    std::thread::sleep(Duration::from_millis(10));
    assert!(!urgency.is_due());
    assert!(gate.receive(NOW).unwrap().is_none());
}

#[test]
fn where_barriers_may_not_overtake_they_keep_their_order() {
    let urgency = Urgency::default();
    let (gate, senders) = Gate::new(1, 2, false, urgency.clone());
    senders[0].send(batch(1), || false).unwrap();
    senders[0].send_barrier(barrier(1, Alignment::Unaligned)).unwrap();
    assert!(!urgency.is_due());
    assert!(matches!(gate.receive(NOW).unwrap(), Some(Arrived::Next(0, Element::Batch(_)))));
    assert!(matches!(gate.receive(NOW).unwrap(), Some(Arrived::Next(0, Element::Barrier(_)))));
}

#[test]
fn the_report_says_where_the_barrier_is() {
    let (gate, senders, _) = gate(3, 2);
    let from = |subtask| ChannelFrom { input: 0, sender: crate::model::OperatorUid("s".into()), subtask };
    let waits = gate.waits("task".into(), (0..3).map(from).collect());
    senders[0].send_barrier(barrier(1, Alignment::Aligned)).unwrap();
    assert!(gate.receive(NOW).unwrap().is_some());
    senders[1].send(batch(1), || false).unwrap();
    senders[1].send_barrier(barrier(1, Alignment::Aligned)).unwrap();
    senders[2].send(batch(1), || false).unwrap();
    let text = waits(CheckpointId(1)).unwrap();
    assert_eq!(
        text,
        "task waits for input 0 from s subtask 1 (its barrier stands behind 1 batches), input 0 from s subtask 2 (no \
         barrier yet, there wait 1 batches), has it on input 0 from s subtask 0"
    );
    senders[2].send_barrier(barrier(1, Alignment::Aligned)).unwrap();
    while gate.receive(NOW).unwrap().is_some() {}
    assert_eq!(waits(CheckpointId(1)), None);
}
