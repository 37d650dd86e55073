//! What a person runs: the command line of the `tidegate` program, and the service that a job runs as.
//!
//! A program of a user has one way in, [`run()`]: settings, log, HTTP, signals and the job.
//!
//! Its law: this is the only room that reads files, environment and arguments for settings. What is for machines goes
//! to standard output, words for people go to standard error; the exit code is 0 when done, 1 on failure or refusal, 2
//! on wrong usage. Nothing is coloured, whether `NO_COLOR` is set or not.

mod kafka;
mod command;
mod output;
mod store;
mod snapshots;
mod connections;
mod create;
mod contents;
mod txn;
mod rescale;
mod settings;
mod health;
mod operations;
mod http;
mod run;

pub use command::main;
use kafka::{KafkaArguments, PerhapsKafka};
pub use run::run;
pub use settings::{
    Http, JobSettings, Kafka, Log, LogFormat, SavepointSettings, Settings, SinkSettings, SourceSettings,
};
