//! Shows on a terminal that a SIGKILL neither loses nor repeats a count, and proves it in the end.
//!
//! Exit code 0: every click counted exactly once; 1: it did not, or the show could not go on; 2: wrong usage.

mod show;
mod terminal;

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use tidegate_tools::program::{self, Job, System};
use tidegate_tools::topics::{Topics, token};
use tidegate_tools::{Error, interval, process};

use show::Show;

/// Count clicks per URL exactly once, through a SIGKILL
#[derive(Parser)]
#[command(name = "demo")]
struct Options {
    /// Broker addresses, host:port separated by commas
    #[arg(long)]
    bootstrap: String,
    /// Where the built programs are
    #[arg(long)]
    bin_dir: PathBuf,
    /// Where the folder for log and checkpoints is made, which is removed unless something fails [default:
    /// $TIDEGATE_RUN_DIR or the system's folder for temporary files]
    #[arg(long)]
    run_dir: Option<PathBuf>,
    /// How many clicks
    #[arg(long, default_value_t = 200_000, value_parser = clap::value_parser!(u64).range(1000..))]
    records: u64,
    /// Clicks a second
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..))]
    rate: u64,
    /// Number of subtasks per operator
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..))]
    parallelism: u16,
    /// Time between two checkpoints
    #[arg(long, default_value = "1s", value_parser = interval::parse)]
    interval: Duration,
    /// Show the opposite: a program with transactions, but with counts in its memory only. The verdict finds what that
    /// breaks
    #[arg(long)]
    without_checkpoints: bool,
}

const PARTITIONS: i32 = 4;

fn main() -> ExitCode {
    let options = Options::parse();
    process::watch_for_stop();
    match run(&options) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("\ndemo: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> Result<bool, Error> {
    let name = format!("demo-{}", token());
    let by_hand = options.without_checkpoints;
    let job = Job {
        system: if by_hand { System::ByHand } else { System::ClicksPerUrl },
        bin_dir: options.bin_dir.clone(),
        bootstrap: options.bootstrap.clone(),
        input: format!("{name}-clicks"),
        output: format!("{name}-counts"),
        group: name.clone(),
        interval: options.interval,
        parallelism: if by_hand { 1 } else { options.parallelism },
        folder: program::run_folder(options.run_dir.as_deref(), &name),
    };
    let command = job.command()?;
    let topics = Topics::new(&options.bootstrap)?;
    topics.create(&job.input, PARTITIONS)?;
    topics.create(&job.output, PARTITIONS)?;
    let outcome =
        topics.wake_coordinators(&job.input).and_then(|()| Show::begin(options, &job, &command)?.run());
    let removed = [topics.delete(&job.input), topics.delete(&job.output), topics.delete_group(&name)];
    let exact = outcome?;
    removed.into_iter().collect::<Result<(), Error>>()?;
    if exact {
        fs::remove_dir_all(&job.folder).map_err(Error::io(format!("removing {}", job.folder.display())))?;
    } else {
        eprintln!("The job's log is {}", job.log().display());
    }
    Ok(exact)
}
