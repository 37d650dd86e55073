//! The program's commands, from arguments to exit code.

use super::{snapshots, txn};
use crate::model::Failure;
use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// Exactly-once stateful stream processing on Kafka
#[derive(Debug, Parser)]
#[command(name = "tidegate", version, arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// See the transactions of Tidegate's jobs at the brokers, and end those of a job that is gone
    #[command(subcommand)]
    Txn(txn::Command),
    /// See and check savepoints, and delete them
    #[command(subcommand)]
    Savepoint(snapshots::SavepointCommand),
    /// See and check the checkpoints of a job
    #[command(subcommand)]
    Checkpoint(snapshots::CheckpointCommand),
}

/// Runs the program: reads the arguments, does what they say, and tells how that ended.
pub fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let filter =
        tracing_subscriber::EnvFilter::try_from_env("TIDEGATE_LOG").unwrap_or_else(|_| "warn".into());
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(false).init();
    match run(arguments.command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("error: {failure}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> Result<(), Failure> {
    match command {
        Command::Txn(command) => txn::run(command),
        Command::Savepoint(command) => snapshots::run_savepoint(&command),
        Command::Checkpoint(command) => snapshots::run_checkpoint(command),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_arguments_are_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn a_savepoint_is_verified_with_and_without_kafka() {
        let with = |more: &str| {
            Arguments::try_parse_from(format!("tidegate savepoint verify /place{more}").split(' '))
        };
        assert!(with("").is_ok() && with(" --bootstrap b --property a=b").is_ok());
        assert!(with(" --property a=b").is_err());
        let both = "--bootstrap b --property a=b --checkpoints s3://c/d --storage-property s3.region=eu";
        let list = format!("tidegate txn list {both}");
        assert!(Arguments::try_parse_from(list.split(' ')).is_ok(), "one is Kafka's, the other the store's");
    }

    #[test]
    fn losing_records_takes_two_words() {
        let base = "tidegate txn abort --bootstrap b --job j --checkpoints file:///c".split(' ');
        let with =
            |more: &[&'static str]| Arguments::try_parse_from(base.clone().chain(more.iter().copied()));
        assert!(with(&[]).is_ok());
        assert!(with(&["--listed"]).is_err());
        assert!(with(&["--yes-lose-records"]).is_err());
        assert!(with(&["--listed", "--yes-lose-records"]).is_ok());
    }
}
