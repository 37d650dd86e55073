//! Measures `clicks_per_url` against the limits on one pre-filled topic, in alternating runs, and judges every output.
//!
//! `bench --bootstrap HOST:PORT --bin-dir target/release` prints a table of medians on stdout; each run's figures go
//! as JSON lines to `--out`. Exit code 0: all runs were complete and correct; 1: not; 2: wrong usage.

mod figures;
mod placement;
mod table;
mod trial;

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, ValueEnum};
use tidegate_tools::feed::Feeder;
use tidegate_tools::oracle::{self, Promise};
use tidegate_tools::program::{self, System};
use tidegate_tools::topics::{Topics, token};
use tidegate_tools::{Error, clicks, interval, process};

use figures::Figures;

/// Measure clicks_per_url against the limits
#[derive(Parser)]
#[command(name = "bench")]
struct Options {
    /// Broker addresses, host:port separated by commas
    #[arg(long)]
    bootstrap: String,
    /// Where the built programs are
    #[arg(long)]
    bin_dir: PathBuf,
    /// How many clicks the topic is filled with
    #[arg(long, default_value_t = 5_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    records: u64,
    /// How often each system runs, in turns
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,
    /// Parallelisms at which clicks_per_url runs
    #[arg(long, value_delimiter = ',', default_values_t = [1, 2])]
    parallelism: Vec<u16>,
    /// Which systems run
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Which::Bare, Which::ByHand, Which::ClicksPerUrl])]
    systems: Vec<Which>,
    /// Time between two checkpoints or commits
    #[arg(long, default_value = "1s", value_parser = interval::parse)]
    interval: Duration,
    /// Partitions of each topic
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(i32).range(1..))]
    partitions: i32,
    /// Append each run's figures to this file, one JSON object a line
    #[arg(long)]
    out: Option<PathBuf>,
    /// Where the folder for logs and checkpoints is made, which is removed unless a run fails [default:
    /// $TIDEGATE_RUN_DIR or the system's folder for temporary files]
    #[arg(long)]
    run_dir: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Which {
    /// limit --work none
    Bare,
    /// limit --work clicks
    ByHand,
    /// The example
    ClicksPerUrl,
}

/// What is measured again and again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Contender {
    system: System,
    parallelism: u16,
}

fn main() -> ExitCode {
    let options = Options::parse();
    process::watch_for_stop();
    let names = Names::new(&options);
    let outcome = run(&options, &names);
    let left = names.clean_up(&options, outcome.is_ok());
    match outcome.and_then(|rows| left.map(|()| rows)) {
        Ok(rows) => {
            print!("{}", table::render(&rows));
            if rows.iter().all(Figures::good) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(error) => {
            eprintln!("bench: {error}");
            ExitCode::FAILURE
        }
    }
}

/// What this run calls its topics and groups; no other run does.
struct Names {
    prefix: String,
    input: String,
    folder: PathBuf,
}

impl Names {
    fn new(options: &Options) -> Self {
        let prefix = format!("bench-{}", token());
        let folder = program::run_folder(options.run_dir.as_deref(), &prefix);
        Self { input: format!("{prefix}-clicks"), prefix, folder }
    }

    fn clean_up(&self, options: &Options, good: bool) -> Result<(), Error> {
        if good {
            // Never made if no run was started.
            let _ = fs::remove_dir_all(&self.folder);
        }
        Topics::new(&options.bootstrap)?.delete(&self.input)
    }
}

fn run(options: &Options, names: &Names) -> Result<Vec<Figures>, Error> {
    let contenders = contenders(options);
    let topics = Topics::new(&options.bootstrap)?;
    eprintln!("filling {} with {} clicks", names.input, options.records);
    topics.create(&names.input, options.partitions)?;
    topics.wake_coordinators(&names.input)?;
    let mut stream = clicks::Clicks::new(clicks::Options::default());
    let fed = Feeder::new(&options.bootstrap, &names.input)?.fill(&mut stream, options.records)?;
    eprintln!("filled in {:.1} s", fed.seconds);
    let mut judge = oracle::Clicks::new(Promise::ExactlyOnce);
    judge.read_input(&options.bootstrap, &names.input)?;

    let mut rows = Vec::new();
    for round in 1..=options.rounds {
        for (index, contender) in contenders.iter().enumerate() {
            let name = format!("{}-{round}-{index}", names.prefix);
            let figures = trial::run(options, *contender, &names.input, &name, &names.folder, &judge)?;
            eprintln!("round {round}: {figures}");
            if let Some(out) = &options.out {
                append(out, &figures.json())?;
            }
            rows.push(figures);
        }
    }
    Ok(rows)
}

fn contenders(options: &Options) -> Vec<Contender> {
    let mut contenders = Vec::new();
    for which in &options.systems {
        match which {
            Which::Bare => contenders.push(Contender { system: System::Bare, parallelism: 1 }),
            Which::ByHand => contenders.push(Contender { system: System::ByHand, parallelism: 1 }),
            Which::ClicksPerUrl => contenders.extend(
                options
                    .parallelism
                    .iter()
                    .map(|p| Contender { system: System::ClicksPerUrl, parallelism: *p }),
            ),
        }
    }
    contenders
}

fn append(path: &Path, line: &str) -> Result<(), Error> {
    let written =
        File::options().create(true).append(true).open(path).and_then(|mut file| writeln!(file, "{line}"));
    written.map_err(Error::io(format!("writing {}", path.display())))
}
