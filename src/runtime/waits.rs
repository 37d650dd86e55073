//! Who waits for whom: what a gate can say about a barrier that has not come on all of its channels.

use crate::graph::ChannelFrom;

/// What is seen of one channel, for one checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Seen {
    /// The task has heard of the barrier.
    pub(super) heard: bool,
    /// The barrier is in the channel.
    pub(super) arrived: bool,
    /// Batches that wait in front of it, or in all.
    pub(super) batches: usize,
    /// The sender waits for room.
    pub(super) sender_waits: bool,
}

/// In words; `None` if the barrier has come on all channels.
pub(super) fn describe(place: &str, from: &[ChannelFrom], seen: &[Seen]) -> Option<String> {
    let missing = |s: &Seen| !s.heard;
    if !seen.iter().any(missing) {
        return None;
    }
    let mut parts: Vec<String> = Vec::new();
    for (from, s) in from.iter().zip(seen).filter(|(_, s)| missing(s)) {
        let where_it_is = if s.arrived { "its barrier stands behind" } else { "no barrier yet, there wait" };
        let full = if s.sender_waits { ", and its sender waits for room" } else { "" };
        parts.push(format!("{from} ({where_it_is} {} batches{full})", s.batches));
    }
    let has: Vec<String> =
        from.iter().zip(seen).filter(|(_, s)| s.heard).map(|(from, _)| from.to_string()).collect();
    let behind = if has.is_empty() { String::new() } else { format!(", has it on {}", has.join(", ")) };
    Some(format!("{place} waits for {}{behind}", parts.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::OperatorUid;

    #[test]
    fn the_report_names_task_input_and_sender() {
        let from = |subtask| ChannelFrom { input: 0, sender: OperatorUid("clicks".into()), subtask };
        let seen = |heard, arrived, batches, sender_waits| Seen { heard, arrived, batches, sender_waits };
        let all = [seen(true, false, 0, false), seen(false, true, 8, true), seen(false, false, 2, false)];
        assert_eq!(
            describe("operator count subtask 1 of 2", &[from(0), from(1), from(2)], &all).unwrap(),
            "operator count subtask 1 of 2 waits for input 0 from clicks subtask 1 (its barrier stands behind 8 batches, \
             and its sender waits for room), input 0 from clicks subtask 2 (no barrier yet, there wait 2 batches), has it \
             on input 0 from clicks subtask 0"
        );
        assert_eq!(describe("p", &[from(0)], &[seen(true, false, 0, false)]), None);
    }
}
