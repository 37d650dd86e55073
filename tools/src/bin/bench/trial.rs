//! One run of one contender: starts it at the earliest offset, samples the last stable offsets of the output and
//! `/proc` until all is committed, stops it, and reads the output once.
//!
//! How many records were visible at each sample is computed afterwards, from where the records lie: it is exact.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use tidegate_tools::offsets::{Isolation, Offsets};
use tidegate_tools::oracle;
use tidegate_tools::program::{Job, Program, System};
use tidegate_tools::reader::Reader;
use tidegate_tools::topics::Topics;
use tidegate_tools::{Error, process};

use crate::figures::Figures;
use crate::placement::Placement;
use crate::{Contender, Options};

/// A look at the running program.
pub(crate) struct Sample {
    /// Since its start.
    pub(crate) at: Duration,
    /// Last stable offsets of the output.
    pub(crate) stable: Vec<i64>,
    /// User and system time so far.
    pub(crate) cpu: Duration,
}

/// All that was seen of it.
pub(crate) struct Samples {
    pub(crate) samples: Vec<Sample>,
    /// In bytes.
    pub(crate) peak_memory: u64,
}

const SAMPLING: Duration = Duration::from_millis(50);
/// Without progress for so long, the run has failed.
const STALL: Duration = Duration::from_secs(120);
const STOPPING: Duration = Duration::from_secs(60);

/// Runs the contender on the filled topic. `judge` has seen the input. `name` becomes the name of its topic and group.
///
/// # Errors
/// When the program fails, makes no progress or does not stop. An incorrect output is a result.
pub(crate) fn run(
    options: &Options,
    contender: Contender,
    input: &str,
    name: &str,
    folder: &Path,
    judge: &oracle::Clicks,
) -> Result<Figures, Error> {
    let topics = Topics::new(&options.bootstrap)?;
    topics.create(name, options.partitions)?;
    let measured = measure(options, contender, input, name, folder, judge);
    // Removed after a failure too; the failure is what is told.
    let removed = topics.delete(name).and_then(|()| topics.delete_group(name));
    let figures = measured?;
    removed?;
    Ok(figures)
}

fn measure(
    options: &Options,
    contender: Contender,
    input: &str,
    name: &str,
    folder: &Path,
    judge: &oracle::Clicks,
) -> Result<Figures, Error> {
    let job = Job {
        system: contender.system,
        bin_dir: options.bin_dir.clone(),
        bootstrap: options.bootstrap.clone(),
        input: input.to_owned(),
        output: name.to_owned(),
        group: name.to_owned(),
        interval: options.interval,
        parallelism: contender.parallelism,
        folder: folder.join(name),
    };
    let load = process::load();
    let started = Instant::now();
    let mut program = job.start()?;
    let samples = watch(options, name, &mut program, started)?;
    program.stop(STOPPING)?;

    let mut placement = Placement::new(options.partitions);
    let correct = if contender.system == System::Bare {
        Reader::open(&options.bootstrap, name, Isolation::Committed)?.to_end(|record| {
            placement.note(record.partition(), record.offset());
            Ok(())
        })?;
        None
    } else {
        let mut judge = judge.clone();
        let noted =
            |record: tidegate_tools::reader::Record<'_>| placement.note(record.partition(), record.offset());
        judge.read_output(&options.bootstrap, name, noted)?;
        let report = judge.verdict();
        if !report.holds() {
            eprintln!("{}: {report}", contender.system);
        }
        Some(report.holds())
    };
    let log = program.log_tail(usize::MAX);
    Ok(Figures::new(options, contender, load, &samples, &placement, correct, &log))
}

/// Samples until everything is committed and nothing follows any more.
fn watch(options: &Options, output: &str, program: &mut Program, started: Instant) -> Result<Samples, Error> {
    let offsets = Offsets::new(&options.bootstrap)?;
    let quiet = Duration::from_secs(3).max(3 * options.interval);
    let mut samples = Vec::new();
    let mut peak_memory = 0;
    let (mut seen, mut seen_at) = (0, started);
    loop {
        let due = Instant::now() + SAMPLING;
        let stable = offsets.ends_of(output, options.partitions, Isolation::Committed)?;
        let cpu = process::cpu_time(program.pid());
        peak_memory = process::peak_memory(program.pid()).max(peak_memory);
        let now = Instant::now();
        let total: i64 = stable.iter().sum();
        if total != seen {
            (seen, seen_at) = (total, now);
        }
        let idle = now - seen_at;
        // Offsets count markers too: enough of them does not mean enough records, but then the reading tells.
        let enough = seen >= options.records as i64;
        let complete = enough
            && idle > quiet
            && stable == offsets.ends_of(output, options.partitions, Isolation::Uncommitted)?;
        samples.push(Sample { at: now - started, stable, cpu });
        if complete {
            return Ok(Samples { samples, peak_memory });
        }
        program.must_run()?;
        if process::asked_to_stop() {
            return Err(Error::Interrupted);
        }
        if idle > STALL {
            eprintln!("the end of its log:\n{}", program.log_tail(20));
            let waiting_for = format!("progress at {seen} offsets of {} records", options.records);
            return Err(Error::Stalled { waiting_for, patience: STALL });
        }
        thread::sleep(due.saturating_duration_since(Instant::now()));
    }
}
