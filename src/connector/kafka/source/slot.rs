//! The partitions of one reader, by the numbers that their messages carry.

use super::meters::Meters;
use super::split::Split;

/// What a reader does about a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// It reads it.
    Reading,
    /// It has read it to its end, and keeps its position.
    Ended,
    /// It has let it go: the position is in no checkpoint any more.
    Released,
}

/// One partition.
pub(super) struct Slot {
    pub(super) split: Split,
    pub(super) state: State,
    /// The number of its records' origin.
    pub(super) origin: u32,
    pub(super) meters: Meters,
    /// Records from here on are not handed out.
    bound: i64,
    /// Whether a record from there on has come. Nothing of it may be counted as read.
    held_back: bool,
}

impl Slot {
    pub(super) fn new(split: Split, origin: u32, meters: Meters) -> Self {
        let state = if split.is_at_end() { State::Ended } else { State::Reading };
        let bound = split.end.unwrap_or(i64::MAX);
        Self { split, state, origin, meters, bound, held_back: false }
    }

    /// Whether the record at this offset is handed out.
    pub(super) fn admits(&mut self, offset: i64) -> bool {
        let within = offset < self.bound;
        self.held_back |= !within;
        within
    }

    /// The record at this offset was handed out.
    pub(super) fn passed(&mut self, offset: i64) {
        self.split.next = offset + 1;
    }

    /// Everything below `offset` was handed out or is no record, such as a transaction's marker.
    pub(super) fn reached(&mut self, offset: i64) {
        if !self.held_back {
            self.split.next = self.split.next.max(offset);
        }
    }

    /// Whether all up to the end is handed out.
    pub(super) fn is_complete(&self) -> bool {
        self.held_back || self.split.next >= self.bound
    }

    /// Ends it: the position is its end, or past it if only control records stand between.
    pub(super) fn end(&mut self) {
        self.split.next = self.split.next.max(self.bound);
        self.state = State::Ended;
    }

    /// Reading begins again elsewhere.
    pub(super) fn moved(&mut self, next: i64) {
        self.split.next = next;
        self.held_back = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::metrics::Metrics;

    fn slot(next: i64, end: Option<i64>) -> Slot {
        let split = Split { topic: "t".into(), topic_id: [1; 16], partition: 0, first: 0, next, end };
        Slot::new(split, 0, Meters::new(&Metrics::default(), "g", "t"))
    }

    /// What a consumer tells.
    #[derive(Debug, Clone, Copy)]
    enum Told {
        Record(i64),
        End(i64),
    }
    use Told::*;

    #[test]
    fn a_bounded_partition_ends_wherever_its_last_record_stands() {
        // The end was fixed at 10.
        let table: &[(&[Told], bool, i64)] = &[
            (&[Record(8)], false, 9),
            (&[Record(9)], true, 10),
            // 9 is a control record.
            (&[Record(8), End(10)], true, 10),
            // Control records only, past the end.
            (&[Record(8), End(13)], true, 13),
            // A record after the end is held back, so the position is not past it.
            (&[Record(8), Record(12)], true, 10),
            (&[Record(8), Record(12), End(13)], true, 10),
            (&[Record(9), Record(10), Record(11), End(12)], true, 10),
            (&[Record(8), Record(10), End(11)], true, 10),
            (&[End(5)], false, 5),
        ];
        for (told, complete, next) in table {
            let mut slot = slot(4, Some(10));
            for event in *told {
                match *event {
                    Record(offset) => {
                        if slot.admits(offset) {
                            slot.passed(offset);
                        }
                    }
                    End(offset) => slot.reached(offset),
                }
            }
            assert_eq!(slot.is_complete(), *complete, "{told:?}");
            if *complete {
                slot.end();
            }
            assert_eq!(slot.split.next, *next, "{told:?}");
        }
    }

    #[test]
    fn a_partition_that_was_at_its_end_is_not_read_again() {
        assert_eq!(slot(10, Some(10)).state, State::Ended);
        assert_eq!(slot(0, Some(0)).state, State::Ended, "it was empty");
        assert_eq!(slot(10, None).state, State::Reading);
    }

    #[test]
    fn a_move_goes_back_as_well() {
        let mut slot = slot(50, None);
        slot.moved(20);
        assert_eq!(slot.split.next, 20);
        slot.reached(25);
        assert_eq!(slot.split.next, 25);
    }
}
