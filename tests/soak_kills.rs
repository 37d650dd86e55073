//! SIGKILL at random moments, for long.

mod support;

use std::time::Duration;
use support::kills;

const LENGTH: Duration = Duration::from_secs(30 * 60);

#[test]
fn half_an_hour_of_random_kills() {
    kills::random_kills("soak-kills", &[2], LENGTH);
}

#[test]
fn half_an_hour_of_random_kills_and_rescaling() {
    kills::random_kills("soak-rescale", &[1, 2, 3, 4], LENGTH);
}

#[test]
fn a_hundred_kills_leave_the_number_of_transactional_ids_flat() {
    kills::ids_stay_flat("soak-flat-ids", 100);
}
