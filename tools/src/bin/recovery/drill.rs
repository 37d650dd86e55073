//! One system: fed, killed as often as asked, and judged.

use std::fmt;
use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use serde::Serialize;
use tidegate_tools::offsets::{Isolation, Offsets};
use tidegate_tools::oracle::{self, Promise};
use tidegate_tools::program::{self, Job, Program, System};
use tidegate_tools::statistics::median;
use tidegate_tools::steady::SteadyClicks;
use tidegate_tools::topics::{Topics, token};
use tidegate_tools::watcher::Watcher;
use tidegate_tools::{Error, clicks, process};

use crate::Options;

/// What one kill cost. Seconds from SIGKILL.
#[derive(Debug, Serialize)]
pub(crate) struct Kill {
    first_committed_s: f64,
    first_new_s: f64,
    caught_up_s: f64,
    /// Offsets written but not visible when the killed program was gone.
    unresolved_at_kill: i64,
}

/// What all kills cost.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    system: String,
    parallelism: u16,
    rate: u64,
    records_in: u64,
    startup_s: f64,
    first_committed_s_median: f64,
    pub(crate) first_new_s_median: f64,
    caught_up_s_median: f64,
    kills: Vec<Kill>,
    /// For counts, that they are exactly once; for the limits, that the number of records is right.
    pub(crate) correct: bool,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { system, parallelism, rate, kills, .. } = self;
        writeln!(f, "{system} at parallelism {parallelism}, {rate} clicks a second, {} kills", kills.len())?;
        writeln!(
            f,
            "  {:<10} {:>15} {:>11} {:>11} {:>11}",
            "", "first committed", "first new", "caught up", "unresolved"
        )?;
        for (number, kill) in kills.iter().enumerate() {
            let Kill { first_committed_s, first_new_s, caught_up_s, unresolved_at_kill } = kill;
            let name = format!("kill {}", number + 1);
            writeln!(
                f,
                "  {name:<10} {first_committed_s:>13.2} s {first_new_s:>9.2} s {caught_up_s:>9.2} s {unresolved_at_kill:>11}"
            )?;
        }
        writeln!(
            f,
            "  {:<10} {:>13.2} s {:>9.2} s {:>9.2} s",
            "median", self.first_committed_s_median, self.first_new_s_median, self.caught_up_s_median
        )?;
        writeln!(
            f,
            "  output of {} clicks: {}",
            self.records_in,
            if self.correct { "correct" } else { "WRONG" }
        )
    }
}

/// A system on its topics.
struct Drill<'a> {
    options: &'a Options,
    offsets: Offsets,
    job: Job,
    watcher: Watcher,
    program: Program,
    /// `None` when the feed has been stopped.
    feed: Option<SteadyClicks>,
}

/// Runs the whole drill on topics of its own, which are removed afterwards.
///
/// # Errors
/// When the program ends by itself, or what is waited for does not come.
pub(crate) fn run(options: &Options, system: System) -> Result<Report, Error> {
    let name = format!("recovery-{}", token());
    let job = Job {
        system,
        bin_dir: options.bin_dir.clone(),
        bootstrap: options.bootstrap.clone(),
        input: format!("{name}-clicks"),
        output: format!("{name}-counts"),
        group: name.clone(),
        interval: options.interval,
        parallelism: options.parallelism,
        folder: program::run_folder(options.run_dir.as_deref(), &name),
    };
    eprintln!("{system}: log {}", job.log().display());
    let topics = Topics::new(&options.bootstrap)?;
    topics.create(&job.input, options.partitions)?;
    topics.create(&job.output, options.partitions)?;
    topics.wake_coordinators(&job.input)?;
    let outcome = start(options, &job).and_then(Drill::run);
    let removed = [topics.delete(&job.input), topics.delete(&job.output), topics.delete_group(&name)];
    let report = outcome?;
    removed.into_iter().collect::<Result<(), Error>>()?;
    if report.correct {
        fs::remove_dir_all(&job.folder).map_err(Error::io(format!("removing {}", job.folder.display())))?;
    }
    Ok(report)
}

fn start<'a>(options: &'a Options, job: &Job) -> Result<Drill<'a>, Error> {
    let stream = clicks::Options::default();
    Ok(Drill {
        options,
        offsets: Offsets::new(&options.bootstrap)?,
        job: job.clone(),
        watcher: Watcher::start(&options.bootstrap, &job.output)?,
        feed: Some(SteadyClicks::start(&options.bootstrap, &job.input, stream, options.rate, u64::MAX)?),
        program: job.start()?,
    })
}

impl Drill<'_> {
    fn run(mut self) -> Result<Report, Error> {
        let started = Instant::now();
        self.until("the first output", |drill| Ok((drill.watcher.records()? > 0).then_some(())))?;
        let startup_s = started.elapsed().as_secs_f64();
        self.until("catching up", Self::caught_up)?;
        let mut kills = Vec::new();
        for number in 0..self.options.kills {
            let kill = self.kill(number)?;
            eprintln!(
                "kill {}: first committed {:.2} s, first new {:.2} s, caught up {:.2} s",
                number + 1,
                kill.first_committed_s,
                kill.first_new_s,
                kill.caught_up_s
            );
            kills.push(kill);
        }
        let feed = self.feed.take().expect("because an endless feed has not ended by itself");
        let records_in = feed.stop()?.records;
        self.until(
            "the complete output",
            |drill| Ok((drill.watcher.records()? >= records_in).then_some(())),
        )?;
        // What should not be there would come now.
        thread::sleep(3 * self.options.interval);
        self.program.stop(Duration::from_secs(60))?;
        let correct = self.judge(records_in)?;
        Ok(Report {
            system: self.job.system.to_string(),
            parallelism: self.options.parallelism,
            rate: self.options.rate,
            records_in,
            startup_s: rounded(startup_s),
            first_committed_s_median: rounded(median(kills.iter().map(|kill| kill.first_committed_s))),
            first_new_s_median: rounded(median(kills.iter().map(|kill| kill.first_new_s))),
            caught_up_s_median: rounded(median(kills.iter().map(|kill| kill.caught_up_s))),
            kills,
            correct,
        })
    }

    fn kill(&mut self, number: u32) -> Result<Kill, Error> {
        // Not always at the same place between two commits.
        let place = self.options.interval * number / self.options.kills;
        let due = Instant::now() + self.options.warm + place;
        self.until("the warm-up", |_| Ok((Instant::now() >= due).then_some(())))?;
        let killed = Instant::now();
        self.program.kill()?;
        self.program = self.job.start()?;
        let partitions = self.options.partitions;
        let stable = self.offsets.ends_of(&self.job.output, partitions, Isolation::Committed)?;
        let high = self.offsets.ends_of(&self.job.output, partitions, Isolation::Uncommitted)?;
        let first =
            self.until("newly committed output", |drill| Ok(drill.watcher.first_from(&stable, killed)))?;
        let new = self.until("new output", |drill| Ok(drill.watcher.first_from(&high, killed)))?;
        self.until("catching up", Self::caught_up)?;
        Ok(Kill {
            first_committed_s: rounded((first - killed).as_secs_f64()),
            first_new_s: rounded((new - killed).as_secs_f64()),
            caught_up_s: rounded(killed.elapsed().as_secs_f64()),
            unresolved_at_kill: high.iter().sum::<i64>() - stable.iter().sum::<i64>(),
        })
    }

    /// Whether no more than two seconds of the feed are missing in the output.
    fn caught_up(&mut self) -> Result<Option<()>, Error> {
        let written =
            self.offsets.ends_of(&self.job.input, self.options.partitions, Isolation::Uncommitted)?;
        let behind = written.iter().sum::<i64>() - self.watcher.records()? as i64;
        Ok((behind < 2 * self.options.rate as i64).then_some(()))
    }

    /// Asks until there is an answer, while everything lives.
    fn until<T>(
        &mut self,
        what: &str,
        mut test: impl FnMut(&mut Self) -> Result<Option<T>, Error>,
    ) -> Result<T, Error> {
        let started = Instant::now();
        loop {
            if let Some(answer) = test(self)? {
                return Ok(answer);
            }
            self.program.must_run()?;
            if self.feed.as_ref().is_some_and(SteadyClicks::ended) {
                // An endless feed ends by a failure only, which is told here.
                self.feed.take().map(SteadyClicks::stop).transpose()?;
            }
            if process::asked_to_stop() {
                return Err(Error::Interrupted);
            }
            if started.elapsed() > self.options.patience {
                eprintln!("the end of its log:\n{}", self.program.log_tail(20));
                return Err(Error::Stalled { waiting_for: what.to_owned(), patience: self.options.patience });
            }
            thread::sleep(Duration::from_millis(20));
        }
    }

    fn judge(&self, records_in: u64) -> Result<bool, Error> {
        if !self.job.system.keeps_counts() {
            return Ok(self.watcher.records()? == records_in);
        }
        let Job { bootstrap, input, output, .. } = &self.job;
        let report = oracle::judge_clicks(bootstrap, input, output, Promise::ExactlyOnce)?;
        eprintln!("{report}");
        Ok(report.holds() && report.records_in == records_in)
    }
}

fn rounded(seconds: f64) -> f64 {
    (seconds * 100.0).round() / 100.0
}
