//! What a person runs: the command line of the `tidegate` program.
//!
//! Its law: this is the only room that reads files, environment and arguments for settings. What is for machines goes
//! to standard output, words for people go to standard error; the exit code is 0 when done, 1 on failure or refusal, 2
//! on wrong usage. Nothing is coloured, whether `NO_COLOR` is set or not.

mod kafka;
mod command;
mod output;
mod txn;
mod rescale;

pub use command::main;
pub use kafka::KafkaArguments;
