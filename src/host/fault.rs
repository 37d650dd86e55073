//! Named crash points of the protocol, compiled in for tests only (feature `fault-points`).
//!
//! A test names one point and the visit at which to act in the environment, runs the program, and afterwards
//! finds a line in the log file that proves the fault happened:
//!
//! - `TIDEGATE_FAULT=sink.after_drain:3` kills the process (SIGKILL) at the third visit of that point;
//!   `name:3:pause` stops it (SIGSTOP) instead, for the process that comes back from the dead, and
//!   `name:3:fail` panics there, for a failure that stays inside the process.
//! - `TIDEGATE_FAULT_LOG=/path` receives one line, written and synced before the act.
//!
//! Without the feature [`fault_point!`](crate::fault_point) is nothing at all.

/// Every point that [`fault_point!`](crate::fault_point) is called with, in the order of the protocol.
pub const POINTS: &[&str] = &[
    "start.after_claim",
    "start.after_first_manifest",
    "resolve.before_end_transaction",
    "resolve.after_end_transaction",
    "init.before",
    "init.during",
    "salvage.begin",
    "salvage.after_produce",
    "salvage.after_prepare",
    "salvage.after_manifest",
    "salvage.after_commit",
    "sink.after_drain",
    "sink.after_describe",
    "state.after_upload",
    "checkpoint.after_acknowledgement",
    "checkpoint.before_manifest",
    "checkpoint.after_manifest",
    "commit.before_end_transaction",
    "commit.during_end_transaction",
    "commit.after_end_transaction",
    "commit.before_recorded",
    "stop.before_last_manifest",
    "stop.after_last_manifest",
    "savepoint.after_files",
    "savepoint.after_manifest",
    "restore.after_copy",
    "restore.after_manifest",
    "rescale.after_files",
    "rescale.after_manifest",
];

/// Marks a step of the protocol at which a test may end the process.
#[macro_export]
macro_rules! fault_point {
    ($name:literal) => {
        #[cfg(feature = "fault-points")]
        $crate::host::fault::visit($name);
    };
}

/// Counts a visit of the point and acts if the environment says so.
///
/// # Panics
/// When told to fail here, and when the environment names a point or an act that does not exist.
#[cfg(feature = "fault-points")]
pub fn visit(point: &str) {
    use std::io::Write;
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU64, Ordering};

    struct Plan {
        point: String,
        at: u64,
        act: String,
        log: Option<String>,
    }
    static PLAN: OnceLock<Option<Plan>> = OnceLock::new();
    static VISITS: AtomicU64 = AtomicU64::new(0);

    let plan = PLAN.get_or_init(|| {
        let text = std::env::var("TIDEGATE_FAULT").ok().filter(|t| !t.is_empty())?;
        let mut parts = text.split(':');
        let point = parts.next().unwrap_or_default().to_owned();
        assert!(POINTS.contains(&point.as_str()), "TIDEGATE_FAULT names no known point: {text}");
        let at = parts.next().map_or(1, |n| n.parse().unwrap_or_else(|_| panic!("not a number in {text}")));
        let act = parts.next().unwrap_or("kill").to_owned();
        Some(Plan { point, at, act, log: std::env::var("TIDEGATE_FAULT_LOG").ok() })
    });
    let Some(plan) = plan.as_ref().filter(|p| p.point == point) else { return };
    let visit = VISITS.fetch_add(1, Ordering::SeqCst) + 1;
    if visit != plan.at {
        return;
    }
    if let Some(path) = &plan.log {
        let mut file = std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(path)
            .unwrap_or_else(|e| panic!("cannot open {path}: {e}"));
        writeln!(file, "{point} visit {visit} {}", plan.act).expect("the fault log can be written");
        file.sync_all().expect("the fault log can be synced");
    }
    match plan.act.as_str() {
        "kill" => signal(9),
        "pause" => signal(19),
        "fail" => panic!("fault point {point} was told to fail"),
        other => panic!("TIDEGATE_FAULT names no known act: {other}"),
    }
}

#[cfg(feature = "fault-points")]
fn signal(number: i32) {
    signal_hook::low_level::raise(number).expect("a process can signal itself");
}
