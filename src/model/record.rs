//! A record on its way through the job.

/// Where a record was read from, so that an error can name topic, partition and offset.
///
/// `split` is an index into the source's own list of partitions; a record that was made by several others
/// carries the origin of the last of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Origin {
    /// Which partition, by the number that the source's registry gave it.
    pub split: u32,
    /// Its offset there.
    pub offset: i64,
}

impl Origin {
    /// For records that no partition gave.
    pub const NONE: Self = Self { split: u32::MAX, offset: -1 };
}

/// A value with its event time and origin.
#[derive(Debug, Clone)]
pub struct Record<T> {
    /// What the user's code sees.
    pub value: T,
    /// Event time in milliseconds since the Unix epoch; [`Record::NO_TIMESTAMP`] if the log had none.
    pub timestamp: i64,
    /// Where it was read.
    pub origin: Origin,
}

impl<T> Record<T> {
    /// Stands for "no timestamp".
    pub const NO_TIMESTAMP: i64 = i64::MIN;

    /// The same place and time with another value.
    pub fn with<U>(&self, value: U) -> Record<U> {
        Record { value, timestamp: self.timestamp, origin: self.origin }
    }
}
