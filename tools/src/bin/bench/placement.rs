//! Where the committed records of a topic lie. Control markers and aborted records take offsets too; this knows which
//! offsets are records, and so how many of them a reader could see when the log was stable up to some offset.

/// Per partition the runs of offsets without a gap, first and last, ascending.
pub(crate) struct Placement {
    runs: Vec<Vec<(i64, i64)>>,
}

impl Placement {
    pub(crate) fn new(partitions: i32) -> Self {
        Self { runs: vec![Vec::new(); partitions as usize] }
    }

    /// Takes note of a record; per partition in the order of the offsets.
    pub(crate) fn note(&mut self, partition: i32, offset: i64) {
        let runs = &mut self.runs[partition as usize];
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == offset => *last = offset,
            _ => runs.push((offset, offset)),
        }
    }

    /// How many records there are.
    pub(crate) fn records(&self) -> u64 {
        self.below(&vec![i64::MAX; self.runs.len()])
    }

    /// How many records lie below these offsets, one per partition.
    pub(crate) fn below(&self, ends: &[i64]) -> u64 {
        let per_partition = self.runs.iter().zip(ends).map(|(runs, end)| {
            let before = runs.iter().take_while(|(first, _)| first < end);
            before.map(|(first, last)| last.saturating_add(1).min(*end) - first).sum::<i64>()
        });
        per_partition.sum::<i64>() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_are_not_counted_as_records() {
        let mut placement = Placement::new(2);
        for (partition, offset) in [(0, 0), (0, 1), (1, 5), (0, 3), (0, 4), (0, 5)] {
            placement.note(partition, offset);
        }
        assert_eq!(placement.records(), 6);
        for (ends, records) in [([0, 0], 0), ([2, 5], 2), ([3, 6], 3), ([5, 6], 5), ([9, 9], 6)] {
            assert_eq!(placement.below(&ends), records, "{ends:?}");
        }
    }
}
