//! SIGKILL at random moments: nothing is lost, nothing repeated, and nothing piles up at the brokers.

mod support;

use std::time::Duration;
use support::kills;

const LENGTH: Duration = Duration::from_secs(120);

#[test]
fn two_minutes_of_random_kills() {
    kills::random_kills("random-kills", &[2], LENGTH);
}

#[test]
fn twenty_kills_leave_the_number_of_transactional_ids_flat() {
    kills::ids_stay_flat("flat-ids", 20);
}
