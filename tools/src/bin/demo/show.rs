//! The acts: feed, start, watch, kill, restart, watch, stop, verdict.

use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use serde::Deserialize;
use tidegate_tools::numbers::thousands;
use tidegate_tools::offsets::{Isolation, Offsets};
use tidegate_tools::oracle::{self, ClicksReport, Fault, Promise};
use tidegate_tools::program::{Job, Program};
use tidegate_tools::rest::{self, RestReport};
use tidegate_tools::steady::SteadyClicks;
use tidegate_tools::watcher::Watcher;
use tidegate_tools::{Error, clicks, process};

use crate::terminal::{Style, Terminal, bar};
use crate::{Options, PARTITIONS};

/// Few urls, so that counts grow while one watches.
const CLICKS: clicks::Options = clicks::Options { urls: 1000, users: 500, skew: 0.7, seed: 42 };
const TICK: Duration = Duration::from_millis(50);
/// Without new output for so long, something is wrong.
const PATIENCE: Duration = Duration::from_secs(90);

/// The running show.
pub(crate) struct Show<'a> {
    options: &'a Options,
    job: &'a Job,
    terminal: Terminal,
    offsets: Offsets,
    watcher: Watcher,
    program: Program,
    feed: SteadyClicks,
    began: Instant,
}

impl<'a> Show<'a> {
    /// Tells what will be seen, and starts the feed and the job on topics that exist already.
    pub(crate) fn begin(options: &'a Options, job: &'a Job, command: &Command) -> Result<Self, Error> {
        let Job { bootstrap, input, output, .. } = job;
        let mut terminal = Terminal::new();
        terminal.line(&terminal.paint(Style::Strong, "Clicks per URL, exactly once, through a SIGKILL"));
        terminal.line("");
        terminal.item("Kafka", bootstrap);
        terminal.item("in", &format!("{input}, {PARTITIONS} partitions"));
        terminal.item("out", &format!("{output}, {PARTITIONS} partitions, read as read_committed"));
        let mut words = command.get_args().map(|word| word.to_string_lossy().into_owned());
        let mut text = command.get_program().to_string_lossy().into_owned();
        while let (Some(name), Some(value)) = (words.next(), words.next()) {
            text.push_str(&format!(" \\\n                   {name} {value}"));
        }
        terminal.item("job", &terminal.paint(Style::Accent, &text));

        terminal.heading("1  A stream of clicks begins, and the job starts");
        let feed = SteadyClicks::start(bootstrap, input, CLICKS, options.rate, options.records)?;
        let program = job.start()?;
        terminal.item(
            "clicks",
            &format!("{} a second, {} in all", thousands(options.rate), thousands(options.records)),
        );
        terminal.item("job", &format!("process {}", program.pid()));
        let watcher = Watcher::start(bootstrap, output)?;
        let (offsets, began) = (Offsets::new(bootstrap)?, Instant::now());
        Ok(Self { options, job, terminal, offsets, watcher, program, feed, began })
    }

    /// The acts in order. Whether every click counted exactly once.
    pub(crate) fn run(mut self) -> Result<bool, Error> {
        self.watch(|show, out| {
            Ok(out > 0 && show.feed.made() >= show.options.records / 2 && show.in_flight()? > 0)
        })?;
        self.kill_and_restart()?;
        let records = self.options.records;
        match self.watch(|show, out| Ok(out >= records && show.feed.ended())) {
            // What is missing, the verdict tells better.
            Err(error @ Error::Stalled { .. }) if self.feed.ended() => {
                let text = self.terminal.paint(Style::Bad, &error.to_string());
                self.terminal.item("stalled", &text);
            }
            other => other?,
        }
        // What should not be there would come now.
        let until = Instant::now() + 2 * self.options.interval;
        self.watch(|_, _| Ok(Instant::now() >= until))?;

        self.terminal.heading("4  The job is stopped by SIGTERM");
        let asked = Instant::now();
        self.program.stop(Duration::from_secs(60))?;
        self.terminal
            .item("stopped", &format!("with exit code 0 after {:.1} s", asked.elapsed().as_secs_f64()));
        let Self { options, job, terminal, feed, watcher, .. } = self;
        drop(watcher);
        feed.stop()?;
        verdict(terminal, options, job)
    }

    fn kill_and_restart(&mut self) -> Result<(), Error> {
        let clicks = self.feed.made();
        let (old, killed) = (self.program.pid(), Instant::now());
        self.program.kill()?;
        let visible = self.watcher.records()?;
        let stable = self.offsets.ends_of(&self.job.output, PARTITIONS, Isolation::Committed)?;
        let hidden = self.in_flight()?;
        self.terminal.heading("2  SIGKILL");
        let text = format!("process {old} is gone, in the middle of a transaction");
        self.terminal.item("killed", &self.terminal.paint(Style::Bad, &text));
        self.terminal.item("clicks", &format!("{:>9} were in the topic", thousands(clicks)));
        self.terminal.item("counts", &format!("{:>9} could be read", thousands(visible)));
        let text = format!(
            "{:>9} clicks had no visible count: about {} counts were written, but not committed",
            thousands(clicks.saturating_sub(visible)),
            thousands(hidden)
        );
        self.terminal.item("in flight", &self.terminal.paint(Style::Accent, &text));

        self.terminal.heading(if self.options.without_checkpoints {
            "3  The program starts again, from the offsets of its last transaction, with no counts"
        } else {
            "3  The job starts again, from its last checkpoint"
        });
        self.program = self.job.start()?;
        self.terminal.item("job", &format!("process {}", self.program.pid()));
        self.watch(|show, _| Ok(show.watcher.first_from(&stable, killed).is_some()))?;
        let seconds = killed.elapsed().as_secs_f64();
        self.terminal
            .item("back", &format!("{seconds:.1} s after the kill the first new counts can be read"));
        Ok(())
    }

    /// Offsets of the output that are written and not committed.
    fn in_flight(&self) -> Result<u64, Error> {
        let stable = self.offsets.ends_of(&self.job.output, PARTITIONS, Isolation::Committed)?;
        let high = self.offsets.ends_of(&self.job.output, PARTITIONS, Isolation::Uncommitted)?;
        Ok(high.iter().zip(stable).map(|(high, stable)| (high - stable).max(0) as u64).sum())
    }

    /// Shows the counts arriving until the test says so; it is given the number that have arrived.
    fn watch(&mut self, mut done: impl FnMut(&Self, u64) -> Result<bool, Error>) -> Result<(), Error> {
        let (mut seen, mut seen_at) = (0, Instant::now());
        loop {
            let out = self.watcher.records()?;
            if out != seen {
                (seen, seen_at) = (out, Instant::now());
            }
            let line = self.status(out);
            self.terminal.progress(&line);
            if done(self, out)? {
                self.terminal.end_moving();
                return Ok(());
            }
            self.program.must_run()?;
            if process::asked_to_stop() {
                return Err(Error::Interrupted);
            }
            if seen_at.elapsed() > PATIENCE {
                eprintln!("\nthe end of its log:\n{}", self.program.log_tail(20));
                let waiting_for = format!("more than {out} counts in {}", self.job.output);
                return Err(Error::Stalled { waiting_for, patience: PATIENCE });
            }
            thread::sleep(TICK);
        }
    }

    fn status(&self, out: u64) -> String {
        let clicks = self.feed.made();
        let latest = self.watcher.latest();
        let latest = latest.first().and_then(|value| serde_json::from_slice::<Count>(value).ok());
        let latest = latest.map_or(String::new(), |Count { url, count }| format!("{url}: {count}"));
        // Narrow enough for 80 columns: a moving line must not wrap.
        format!(
            "   {:>5.1} s {} {:>7} clicks {:>7} counts {:>6} behind  {}",
            self.began.elapsed().as_secs_f64(),
            self.terminal.paint(Style::Good, &bar(out as f64 / self.options.records as f64, 10)),
            thousands(clicks),
            thousands(out),
            thousands(clicks.saturating_sub(out)),
            self.terminal.paint(Style::Faint, &latest),
        )
    }
}

/// An output, as far as it can be shown.
#[derive(Deserialize)]
struct Count {
    url: String,
    count: u64,
}

fn verdict(mut terminal: Terminal, options: &Options, job: &Job) -> Result<bool, Error> {
    let Job { bootstrap, input, output, group, .. } = job;
    terminal.heading("5  The verdict: the output against the truth, both read from Kafka");
    let report = oracle::judge_clicks(bootstrap, input, output, Promise::ExactlyOnce)?;
    let rest = rest::wait(bootstrap, Some(group), &[input], &[output], Duration::from_secs(10))?;
    let exact = report.holds() && rest.holds() && report.records_in == options.records;
    let rows = [
        ("clicks in", report.records_in, Some(options.records)),
        ("counts out", report.records_out, Some(options.records)),
        ("lost", report.number(Fault::LeftOut), Some(0)),
        ("repeated", report.number(Fault::Repeated) + report.number(Fault::TooHigh), Some(0)),
        ("out of order", report.number(Fault::OutOfOrder), Some(0)),
        ("misplaced", misplaced(&report), Some(0)),
        ("held back", held_back(&rest), Some(0)),
        ("group lag", lag(&rest), Some(0)),
        ("URLs", report.urls, None),
    ];
    for (name, number, expected) in rows {
        let (style, mark) = match expected {
            None => (Style::Plain, " "),
            Some(expected) if expected == number => (Style::Good, "✓"),
            Some(_) => (Style::Bad, "✗"),
        };
        terminal.item(name, &terminal.paint(style, &format!("{:>9} {mark}", thousands(number))));
    }
    terminal.line("");
    if exact {
        let text =
            "EXACTLY ONCE: for every URL the counts are 1, 2, 3, … in order, none missing, none twice.";
        terminal.line(&format!("   {}", terminal.paint(Style::Good, text)));
    } else {
        terminal.line(&format!("   {}", terminal.paint(Style::Bad, "NOT EXACTLY ONCE")));
        terminal.line(&format!("{report}\n{rest}"));
    }
    Ok(exact)
}

fn misplaced(report: &ClicksReport) -> u64 {
    [Fault::ForeignUrl, Fault::WrongKey, Fault::TwoPartitions]
        .into_iter()
        .map(|fault| report.number(fault))
        .sum()
}

fn held_back(rest: &RestReport) -> u64 {
    rest.held_back.iter().map(|held| (held.high_watermark - held.last_stable_offset).max(0) as u64).sum()
}

fn lag(rest: &RestReport) -> u64 {
    let lags = rest.lagging.iter().map(|lag| lag.high_watermark - lag.committed.unwrap_or(0));
    lags.map(i64::unsigned_abs).sum()
}
