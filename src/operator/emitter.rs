//! What user code emits into.

use super::Stage;
use crate::model::{Failure, Origin, Record};

/// Passes values on, with the time and origin of the record that is being processed.
pub struct Emitter<'a, T> {
    next: &'a mut dyn Stage<T>,
    timestamp: i64,
    origin: Origin,
    failure: Option<Failure>,
}

impl<'a, T> Emitter<'a, T> {
    pub(super) fn new(next: &'a mut dyn Stage<T>, timestamp: i64, origin: Origin) -> Self {
        Self { next, timestamp, origin, failure: None }
    }

    /// Emits a value. A failure behind it ends the task when the current record's processing returns; until then
    /// further values are dropped, since the attempt goes back to its last checkpoint anyway.
    pub fn emit(&mut self, value: T) {
        self.emit_at(value, self.timestamp);
    }

    /// Emits a value with another event time, in milliseconds since the Unix epoch.
    pub fn emit_at(&mut self, value: T, timestamp: i64) {
        if self.failure.is_none() {
            self.failure = self.next.process(Record { value, timestamp, origin: self.origin }).err();
        }
    }

    pub(super) fn result(self) -> Result<(), Failure> {
        self.failure.map_or(Ok(()), Err)
    }
}
