//! What becomes of a position that a partition does not hold.

use super::cluster::Bounds;
use super::options::OutOfRange;

/// A position as it is settled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Settled {
    /// The partition holds it, or will continue there.
    Kept,
    /// The policy moved it: records of so many offsets are not read.
    Moved { to: i64, skipped: u64 },
    /// The policy is to fail.
    Refused,
}

/// Compares a position with a partition's bounds. The high watermark itself is within: nothing is there yet.
pub(super) fn settle(next: i64, bounds: Bounds, policy: OutOfRange) -> Settled {
    if (bounds.earliest..=bounds.latest).contains(&next) {
        return Settled::Kept;
    }
    let to = match policy {
        OutOfRange::Fail => return Settled::Refused,
        OutOfRange::Earliest => bounds.earliest,
        OutOfRange::Latest => bounds.readable.max(bounds.earliest),
    };
    Settled::Moved { to, skipped: u64::try_from(to.saturating_sub(next)).unwrap_or(0) }
}

/// What happened, in words: of which partition, what was wanted and what there is.
pub(super) fn describe(place: &str, next: i64, bounds: Bounds) -> String {
    let Bounds { earliest, latest, .. } = bounds;
    if next < earliest {
        format!(
            "{place} holds offsets {earliest} to {latest}, and {next} is the next to read: {} offsets are gone",
            earliest - next
        )
    } else {
        format!(
            "{place} ends at offset {latest}, and {next} is the next to read: {} offsets were taken back",
            next - latest
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use OutOfRange::*;
    use proptest::prelude::*;

    #[test]
    fn a_position_outside_of_the_log_moves_by_policy_only() {
        let bounds = Bounds { earliest: 100, readable: 180, latest: 200 };
        let moved = |to, skipped| Settled::Moved { to, skipped };
        let table = [
            (100, Fail, Settled::Kept),
            (200, Fail, Settled::Kept),
            (150, Latest, Settled::Kept),
            (99, Fail, Settled::Refused),
            (201, Fail, Settled::Refused),
            (40, Earliest, moved(100, 60)),
            (40, Latest, moved(180, 140)),
            (300, Earliest, moved(100, 0)),
            (300, Latest, moved(180, 0)),
        ];
        for (next, policy, expected) in table {
            assert_eq!(settle(next, bounds, policy), expected, "{next} {policy:?}");
        }
        assert!(describe("topic t partition 0", 40, bounds).ends_with("60 offsets are gone"));
        assert!(describe("topic t partition 0", 300, bounds).ends_with("100 offsets were taken back"));
    }

    proptest! {
        #[test]
        fn where_it_moves_to_is_within(
            next in 0..i64::MAX, earliest in 0..1000i64, stable in 0..1000i64, above in 0..1000i64,
            policy in prop::sample::select(vec![Earliest, Latest])
        ) {
            let readable = earliest + stable;
            let bounds = Bounds { earliest, readable, latest: readable + above };
            if let Settled::Moved { to, .. } = settle(next, bounds, policy) {
                prop_assert_eq!(settle(to, bounds, Fail), Settled::Kept);
            }
        }
    }
}
