//! Fills a topic with generated clicks or order events, and prints how many as JSON.
//!
//! `clicks-gen --bootstrap HOST:PORT --topic clicks --records 5000000` writes that many as fast as it can;
//! with `--rate 20000` it writes at that rate until `--seconds` are over, `--records` are written or SIGTERM comes.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::{Parser, ValueEnum};
use tidegate_tools::feed::{Fed, Feeder, Stream};
use tidegate_tools::topics::Topics;
use tidegate_tools::{Error, clicks, orders, process};

/// Fill a topic with generated records: the same arguments always give the same ones
#[derive(Parser)]
#[command(name = "clicks-gen")]
struct Options {
    /// Broker addresses, host:port separated by commas
    #[arg(long)]
    bootstrap: String,
    /// The topic to write to
    #[arg(long)]
    topic: String,
    /// Make the topic first, with this many partitions
    #[arg(long)]
    create: Option<i32>,
    /// What to write
    #[arg(long, value_enum, default_value = "clicks")]
    kind: Kind,
    /// How many records; without --rate 5000000 if not given
    #[arg(long)]
    records: Option<u64>,
    /// Records a second; as fast as possible if not given
    #[arg(long)]
    rate: Option<u64>,
    /// With --rate: how long
    #[arg(long, requires = "rate")]
    seconds: Option<u64>,
    /// Clicks: number of urls
    #[arg(long, default_value_t = clicks::Options::default().urls, value_parser = clap::value_parser!(u32).range(1..))]
    urls: u32,
    /// Clicks: number of users
    #[arg(long, default_value_t = clicks::Options::default().users, value_parser = clap::value_parser!(u32).range(1..))]
    users: u32,
    /// Clicks: Zipf exponent of the urls, 0 for an even spread
    #[arg(long, default_value_t = clicks::Options::default().skew)]
    skew: f64,
    /// Orders: how many are under way at a time
    #[arg(long, default_value_t = orders::Options::default().open, value_parser = clap::value_parser!(u32).range(1..))]
    open: u32,
    /// Seed of the random numbers
    #[arg(long, default_value_t = clicks::Options::default().seed)]
    seed: u64,
}

#[derive(Clone, Copy, ValueEnum)]
enum Kind {
    Clicks,
    Orders,
}

fn main() -> ExitCode {
    process::watch_for_stop();
    match run(&Options::parse()) {
        Ok(fed) => {
            println!("{{\"records\":{},\"seconds\":{:.2}}}", fed.records, fed.seconds);
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("clicks-gen: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> Result<Fed, Error> {
    let Options { urls, users, skew, open, seed, .. } = *options;
    let mut stream: Box<dyn Stream> = match options.kind {
        Kind::Clicks => Box::new(clicks::Clicks::new(clicks::Options { urls, users, skew, seed })),
        Kind::Orders => Box::new(orders::Orders::new(orders::Options { open, seed, ..Default::default() })),
    };
    if let Some(partitions) = options.create {
        Topics::new(&options.bootstrap)?.create(&options.topic, partitions)?;
    }
    let mut feeder = Feeder::new(&options.bootstrap, &options.topic)?;
    let Some(rate) = options.rate else {
        return feeder.fill(stream.as_mut(), options.records.unwrap_or(5_000_000));
    };
    let started = Instant::now();
    let seconds = Duration::from_secs(options.seconds.unwrap_or(u64::MAX));
    feeder.steady(stream.as_mut(), rate, options.records.unwrap_or(u64::MAX), |_| {
        started.elapsed() < seconds && !process::asked_to_stop()
    })
}
