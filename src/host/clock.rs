//! The two clocks: a monotonic one for durations and deadlines, the wall clock for records and logs.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The monotonic clock.
#[expect(clippy::disallowed_methods, reason = "this is the wrapper that everybody else calls")]
pub fn now() -> Instant {
    Instant::now()
}

/// Milliseconds since the Unix epoch by the wall clock; 0 if the clock stands before 1970.
#[expect(clippy::disallowed_methods, reason = "this is the wrapper that everybody else calls")]
pub fn unix_millis() -> i64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |d| i64::try_from(d.as_millis()).unwrap_or(i64::MAX))
}

/// How long it is from now until `deadline`; zero once it has passed.
pub fn until(deadline: Instant) -> Duration {
    deadline.saturating_duration_since(now())
}
