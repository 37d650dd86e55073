//! Which versions of which requests this client speaks, in one place, so that the check at start and
//! the requests cannot disagree. Brokers since Apache Kafka 3.0 know them all.

use super::connection::Versions;

/// Version 3 carries the cluster's features.
pub(super) const API_VERSIONS: Versions = (3, 3);
/// Version 9 has leader epochs that can be relied on, version 10 topic ids.
pub(super) const METADATA: Versions = (9, 12);
/// One key a request.
pub(super) const FIND_COORDINATOR: Versions = (1, 3);
/// The first and only one.
pub(super) const DESCRIBE_TRANSACTIONS: Versions = (0, 0);
/// Before version 2 a fenced producer shows as 47. Never version 5: see `transactions`.
pub(super) const END_TXN: Versions = (2, 4);
/// Version 4 tells a fenced producer (90) from a wrong epoch.
pub(super) const INIT_PRODUCER_ID: Versions = (4, 4);
/// Filters by state; later ones filter by name, which the caller does.
pub(super) const LIST_TRANSACTIONS: Versions = (0, 1);
/// With the leader's epoch, version 5 says 78 while a new leader's end may still lag.
pub(super) const LIST_OFFSETS: Versions = (5, 5);
/// With the leader's epoch. From version 11 on followers answer too, with *their* high watermark.
pub(super) const FETCH: Versions = (10, 10);
/// Nothing newer is needed.
pub(super) const DESCRIBE_CONFIGS: Versions = (1, 4);
/// From version 9 on it speaks of member epochs.
pub(super) const OFFSET_COMMIT: Versions = (2, 8);
/// Version 7 waits for offsets that are part of an open transaction; later ones ask for many groups.
pub(super) const OFFSET_FETCH: Versions = (7, 7);
/// Version 1 is what is followed by SaslAuthenticate.
pub(super) const SASL_HANDSHAKE: Versions = (1, 1);
/// Version 1 tells how long the session lives.
pub(super) const SASL_AUTHENTICATE: Versions = (1, 2);
