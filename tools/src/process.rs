//! What `/proc` tells about a running program, and signals for it. Linux only.

#![expect(unsafe_code, reason = "signals and the clock tick are only to be had from libc")]

use std::fs;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// User and system time of a process and its living descendants, their ended children included. Zero for a process
/// that is gone.
pub fn cpu_time(pid: u32) -> Duration {
    // SAFETY: asks for a constant of the system.
    let ticks_per_second = unsafe { libc::sysconf(libc::_SC_CLK_TCK) }.max(1) as f64;
    let mut ticks = 0u64;
    let mut todo = vec![pid];
    while let Some(pid) = todo.pop() {
        let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else { continue };
        // The name before the closing parenthesis may hold spaces. Then utime, stime, cutime, cstime are 11 to 14.
        let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
        ticks += fields.skip(11).take(4).filter_map(|field| field.parse::<u64>().ok()).sum::<u64>();
        let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
        todo.extend(children.split_whitespace().filter_map(|child| child.parse::<u32>().ok()));
    }
    Duration::from_secs_f64(ticks as f64 / ticks_per_second)
}

/// The largest resident memory that a process ever had, in bytes. Zero for a process that is gone.
pub fn peak_memory(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes =
        line.and_then(|rest| rest.split_whitespace().next()).and_then(|number| number.parse().ok());
    kilobytes.unwrap_or(0u64) * 1024
}

/// The machine's load average over the last minute; 0 where it cannot be read.
pub fn load() -> f64 {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split_whitespace().next().and_then(|number| number.parse().ok()).unwrap_or(0.0)
}

/// How many threads and open file descriptors a process has.
pub fn threads_and_descriptors(pid: u32) -> (usize, usize) {
    let entries = |folder: &str| fs::read_dir(format!("/proc/{pid}/{folder}")).map_or(0, Iterator::count);
    (entries("task"), entries("fd"))
}

/// Whether a process is held by SIGSTOP, all of its threads.
pub fn is_paused(pid: u32) -> bool {
    let stopped = |stat: io::Result<String>| {
        stat.is_ok_and(|stat| stat.rsplit(')').next().unwrap_or_default().trim_start().starts_with('T'))
    };
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else { return false };
    threads.flatten().all(|thread| stopped(fs::read_to_string(thread.path().join("stat"))))
}

/// Asks a process to end.
///
/// # Errors
/// When there is no such process.
pub fn terminate(pid: u32) -> io::Result<()> {
    send(pid, libc::SIGTERM)
}

/// Ends a process at once, wherever it is.
///
/// # Errors
/// When there is no such process.
pub fn kill(pid: u32) -> io::Result<()> {
    send(pid, libc::SIGKILL)
}

/// Holds a process; [`resume`] lets it go on.
///
/// # Errors
/// When there is no such process.
pub fn pause(pid: u32) -> io::Result<()> {
    send(pid, libc::SIGSTOP)
}

/// Lets a held process go on.
///
/// # Errors
/// When there is no such process.
pub fn resume(pid: u32) -> io::Result<()> {
    send(pid, libc::SIGCONT)
}

fn send(pid: u32, signal: i32) -> io::Result<()> {
    let pid = i32::try_from(pid).map_err(io::Error::other)?;
    assert!(pid > 0, "signals go to one process, not to a group: {pid}");
    // SAFETY: sends a signal to one process; no memory is touched.
    match unsafe { libc::kill(pid, signal) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

static ASKED_TO_STOP: AtomicBool = AtomicBool::new(false);

extern "C" fn note_signal(_: libc::c_int) {
    ASKED_TO_STOP.store(true, Ordering::Relaxed);
}

/// From now on SIGTERM and SIGINT do not end this process but are told by [`asked_to_stop`].
pub fn watch_for_stop() {
    let handler = note_signal as extern "C" fn(libc::c_int) as libc::sighandler_t;
    // SAFETY: the handler only stores to an atomic, which a handler may do.
    unsafe {
        libc::signal(libc::SIGTERM, handler);
        libc::signal(libc::SIGINT, handler);
    }
}

/// Whether SIGTERM or SIGINT came since [`watch_for_stop`].
pub fn asked_to_stop() -> bool {
    ASKED_TO_STOP.load(Ordering::Relaxed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_memory_threads_and_descriptors() {
        let pid = std::process::id();
        assert!(peak_memory(pid) > 1 << 20);
        let (threads, descriptors) = threads_and_descriptors(pid);
        assert!(threads >= 1 && descriptors >= 3, "{threads} threads, {descriptors} descriptors");
    }

    #[test]
    fn a_process_that_is_gone_reads_as_zero() {
        let pid = u32::MAX / 4;
        assert_eq!((cpu_time(pid), peak_memory(pid)), (Duration::ZERO, 0));
    }
}
