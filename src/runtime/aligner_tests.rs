use super::*;
use crate::model::{Alignment, BarrierKind};
use Decision::{Capture, Freeze, GoOn, Hold, Overtake};
use proptest::prelude::*;

fn b(n: u64) -> Barrier {
    Barrier { checkpoint: CheckpointId(n), kind: BarrierKind::Periodic, alignment: Alignment::Aligned }
}

/// What can happen to a task, by channel and checkpoint.
#[derive(Debug, Clone, Copy)]
enum Happens {
    InOrder(usize, u64),
    Ahead(usize, u64),
    Due(u64),
    End(usize),
}
use Happens::{Ahead, Due, End, InOrder};

fn over(passed_over: u64, decision: Decision) -> Verdict {
    Verdict { passed_over: Some(CheckpointId(passed_over)), decision }
}

fn happen(a: &mut Aligner, what: Happens) -> Verdict {
    match what {
        InOrder(channel, n) => a.in_order(channel, b(n)),
        Ahead(channel, n) => a.ahead(channel, b(n)),
        Due(n) => a.due(CheckpointId(n)).into(),
        End(channel) => a.end(channel).into(),
    }
}

/// Plays a history: after each event the verdict, and the checkpoint whose capture is complete by then.
fn play(channels: usize, history: &[(Happens, Verdict, Option<u64>)]) {
    let mut a = Aligner::new(channels);
    for (at, (what, verdict, captured)) in history.iter().enumerate() {
        assert_eq!(happen(&mut a, *what), *verdict, "event {at} of {history:?}");
        assert_eq!(a.take_captured(), captured.map(CheckpointId), "capture after event {at} of {history:?}");
    }
}

#[test]
fn one_input_is_always_aligned() {
    play(1, &[(InOrder(0, 1), Freeze(b(1)).into(), None), (InOrder(0, 3), Freeze(b(3)).into(), None)]);
}

#[test]
fn the_slowest_input_decides() {
    play(
        3,
        &[
            (InOrder(0, 1), Hold.into(), None),
            (InOrder(2, 1), Hold.into(), None),
            (InOrder(1, 1), Freeze(b(1)).into(), None),
            (InOrder(0, 2), Hold.into(), None),
        ],
    );
}

#[test]
fn a_newer_barrier_passes_an_unaligned_one_over() {
    play(
        2,
        &[
            (InOrder(0, 1), Hold.into(), None),
            (InOrder(1, 2), over(1, Hold), None),
            (InOrder(0, 2), Freeze(b(2)).into(), None),
            // And an older one that comes late is ignored.
            (InOrder(0, 5), Hold.into(), None),
            (InOrder(1, 4), GoOn.into(), None),
            (InOrder(1, 5), Freeze(b(5)).into(), None),
        ],
    );
}

#[test]
fn an_input_that_has_ended_counts_as_aligned() {
    play(
        2,
        &[
            (InOrder(0, 1), Hold.into(), None),
            (End(1), Freeze(b(1)).into(), None),
            (InOrder(0, 2), Freeze(b(2)).into(), None),
            (End(0), GoOn.into(), None),
        ],
    );
}

#[test]
fn the_first_that_comes_ahead_freezes_and_the_last_completes_the_capture() {
    play(
        3,
        &[
            (Ahead(1, 7), Overtake(b(7)).into(), None),
            (Ahead(0, 7), Capture.into(), None),
            (Ahead(2, 7), Capture.into(), Some(7)),
            // Where it had stood in the queues it means nothing any more.
            (InOrder(1, 7), GoOn.into(), None),
            (InOrder(0, 7), GoOn.into(), None),
        ],
    );
    play(1, &[(Ahead(0, 7), Overtake(b(7)).into(), Some(7)), (InOrder(0, 7), GoOn.into(), None)]);
}

/// Every point at which the time for an alignment can be over.
#[test]
fn the_switch_comes_at_any_point() {
    // Before any barrier: nothing is known of the checkpoint; the barrier comes ahead later.
    play(
        2,
        &[
            (Due(1), GoOn.into(), None),
            (Ahead(0, 1), Overtake(b(1)).into(), None),
            (Ahead(1, 1), Capture.into(), Some(1)),
        ],
    );
    // Between the first and the last: what has brought it has nothing left to capture.
    play(
        3,
        &[
            (InOrder(0, 1), Hold.into(), None),
            (InOrder(1, 1), Hold.into(), None),
            (Due(1), Overtake(b(1)).into(), None),
            (Ahead(2, 1), Capture.into(), Some(1)),
        ],
    );
    // The same, seen first as a barrier that comes ahead.
    play(
        2,
        &[
            (InOrder(0, 1), Hold.into(), None),
            (Ahead(1, 1), Overtake(b(1)).into(), Some(1)),
            (Due(1), GoOn.into(), None),
        ],
    );
    // After the last: it is aligned and done.
    play(
        2,
        &[
            (InOrder(0, 1), Hold.into(), None),
            (InOrder(1, 1), Freeze(b(1)).into(), None),
            (Due(1), GoOn.into(), None),
        ],
    );
    // With a newer barrier, the time of the older one means nothing, and that of the newer one counts.
    play(
        2,
        &[
            (InOrder(0, 1), Hold.into(), None),
            (InOrder(1, 2), over(1, Hold), None),
            (Due(1), GoOn.into(), None),
            (Due(2), Overtake(b(2)).into(), None),
            (InOrder(0, 2), GoOn.into(), Some(2)),
        ],
    );
    // With a channel that has ended, before the switch and after it.
    play(
        3,
        &[
            (End(2), GoOn.into(), None),
            (InOrder(0, 1), Hold.into(), None),
            (Due(1), Overtake(b(1)).into(), None),
            (Ahead(1, 1), Capture.into(), Some(1)),
        ],
    );
    play(
        2,
        &[
            (InOrder(0, 1), Hold.into(), None),
            (Due(1), Overtake(b(1)).into(), None),
            (End(1), GoOn.into(), Some(1)),
        ],
    );
}

#[test]
fn a_newer_barrier_drops_what_was_captured_for_an_older_one() {
    for newer in [InOrder(0, 2), Ahead(0, 2)] {
        let decision = if matches!(newer, Ahead(..)) { Overtake(b(2)) } else { Hold };
        play(
            2,
            &[
                (Ahead(0, 1), Overtake(b(1)).into(), None),
                (newer, over(1, decision), None),
                // The older one comes too late on the other channel.
                (InOrder(1, 1), GoOn.into(), None),
            ],
        );
    }
    // It may come on the channel that the older one still waits for, which was given up there.
    play(
        2,
        &[
            (Ahead(0, 1), Overtake(b(1)).into(), None),
            (Ahead(1, 2), over(1, Overtake(b(2))), None),
            (Ahead(0, 2), Capture.into(), Some(2)),
        ],
    );
    // An aligned one after an unaligned one whose capture was complete passes nothing over.
    play(
        2,
        &[
            (Ahead(0, 1), Overtake(b(1)).into(), None),
            (Ahead(1, 1), Capture.into(), Some(1)),
            (InOrder(0, 2), Hold.into(), None),
            (Ahead(1, 2), Overtake(b(2)).into(), Some(2)),
        ],
    );
}

#[test]
fn what_is_given_up_is_captured_no_more() {
    let mut a = Aligner::new(2);
    a.ahead(0, b(1));
    assert!(a.captures(1) && !a.captures(0));
    assert_eq!(a.give_up_capture(), Some(CheckpointId(1)));
    assert!(!a.captures(1));
    assert_eq!(a.ahead(1, b(1)), GoOn.into());
    assert_eq!(a.give_up_capture(), None);
}

proptest! {
    /// Whatever barriers each channel brings, in whatever interleaving: what is frozen only grows, and when
    /// n is frozen every channel that has not ended stands right behind a barrier n.
    #[test]
    fn random_aligned_histories_freeze_in_order_and_only_when_aligned(
        lanes in prop::collection::vec(prop::collection::btree_set(1u64..20, 0..10), 1..4),
        order in prop::collection::vec(any::<prop::sample::Index>(), 0..200),
    ) {
        let mut a = Aligner::new(lanes.len());
        let mut queues: Vec<std::collections::VecDeque<u64>> =
            lanes.iter().map(|l| l.iter().copied().collect()).collect();
        let mut held = vec![false; lanes.len()];
        let mut last = vec![0u64; lanes.len()];
        let mut frozen = 0u64;
        for pick in order {
            let ready: Vec<usize> = (0..lanes.len()).filter(|c| !held[*c] && !queues[*c].is_empty()).collect();
            if ready.is_empty() { break; }
            let channel = *pick.get(&ready);
            let n = queues[channel].pop_front().unwrap();
            last[channel] = n;
            let verdict = a.in_order(channel, b(n));
            if verdict.passed_over.is_some() { held.fill(false); }
            match verdict.decision {
                Hold => held[channel] = true,
                Freeze(barrier) => {
                    prop_assert!(barrier.checkpoint.0 > frozen);
                    frozen = barrier.checkpoint.0;
                    prop_assert!(last.iter().all(|l| *l == frozen), "{:?} at {}", last, frozen);
                    held.fill(false);
                }
                GoOn => prop_assert!(n < last.iter().copied().max().unwrap_or(0)),
                other => prop_assert!(false, "{other:?} without anything ahead"),
            }
        }
    }
}
