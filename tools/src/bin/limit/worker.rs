//! One thread of a limit: a consumer, a producer, and a loop that commits at intervals and stands still meanwhile.

use std::collections::HashMap;
use std::fmt;
use std::io::Write;
use std::ops::Range;
use std::time::{Duration, Instant};

use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::producer::{BaseProducer, Producer};
use rdkafka::{Offset, TopicPartitionList};
use tidegate_tools::native::{BatchConsumer, Outgoing, Topic};
use tidegate_tools::{Error, process};

use crate::{Options, Work};

const TIMEOUT: Duration = Duration::from_secs(60);
/// Without work the key of the output is this slice of the input: the user and a little more.
const KEY: Range<usize> = 9..17;
const VALUE: &[u8] = b"{\"count\":1234567890}";

/// What a worker did until it was stopped.
pub(crate) struct Done {
    records: u64,
    commits: u64,
    in_commit: Duration,
    queue_full: u64,
}

impl fmt::Display for Done {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { records, commits, in_commit, queue_full } = self;
        write!(
            f,
            "{records} records, {commits} commits taking {in_commit:.2?}, queue full {queue_full} times"
        )
    }
}

/// Reads every `workers`-th partition, beginning with number `index`, until SIGTERM.
pub(crate) fn run(index: usize, workers: usize, options: &Options) -> Result<Done, Error> {
    let doing = || Error::kafka(format!("from {} to {}", options.input, options.output));
    let mut consumer = consumer(index, workers, options)?;
    let producer = producer(index, options)?;
    producer.init_transactions(TIMEOUT).map_err(doing())?;
    let output = Topic::new(&producer, &options.output).map_err(doing())?;

    let mut work = ByHand::default();
    let mut unused = Vec::new();
    let mut next = vec![None; consumer.partitions];
    let mut in_transaction = false;
    let mut last_commit = Instant::now();
    let mut done = Done { records: 0, commits: 0, in_commit: Duration::ZERO, queue_full: 0 };
    loop {
        let stop = process::asked_to_stop();
        if stop || last_commit.elapsed() >= options.interval {
            last_commit = Instant::now();
            if in_transaction {
                commit(&producer, consumer.batches.consumer(), &options.input, &next).map_err(doing())?;
                in_transaction = false;
                done.commits += 1;
                done.in_commit += last_commit.elapsed();
                last_commit = Instant::now();
            }
        }
        if stop {
            return Ok(done);
        }
        let batch = consumer.batches.poll(Duration::from_millis(5)).map_err(doing())?;
        let mut messages = Outgoing::recycle(unused);
        work.clear();
        for record in batch.records() {
            if !in_transaction {
                producer.begin_transaction().map_err(doing())?;
                in_transaction = true;
            }
            next[record.partition() as usize] = Some(record.offset() + 1);
            done.records += 1;
            let value = record.value().unwrap_or_default();
            match options.work {
                Work::None => messages.push(Outgoing::new(&value[KEY], VALUE)),
                Work::Clicks => work.count(value),
            }
        }
        messages.extend(work.outputs());
        while !messages.is_empty() {
            output.produce(&mut messages).map_err(doing())?;
            if !messages.is_empty() {
                done.queue_full += 1;
                producer.poll(Duration::from_millis(1));
            }
        }
        unused = Outgoing::recycle(messages);
        producer.poll(Duration::ZERO);
    }
}

/// The job's work: the counts, and the outputs of one batch.
#[derive(Default)]
struct ByHand {
    counts: HashMap<Box<[u8]>, u64>,
    bytes: Vec<u8>,
    /// Where url and value of each output lie in `bytes`.
    made: Vec<(Range<usize>, Range<usize>)>,
}

impl ByHand {
    fn clear(&mut self) {
        self.bytes.clear();
        self.made.clear();
    }

    fn count(&mut self, click: &[u8]) {
        const MARK: &[u8] = b"\"url\":\"";
        let mark = click.windows(MARK.len()).position(|window| window == MARK);
        let rest = &click[mark.expect("because clicks-gen wrote a url") + MARK.len()..];
        let end = rest.iter().position(|byte| *byte == b'"');
        let url = &rest[..end.expect("because clicks-gen ended the url")];
        let count = match self.counts.get_mut(url) {
            Some(count) => count,
            None => self.counts.entry(url.into()).or_default(),
        };
        *count += 1;
        let start = self.bytes.len();
        self.bytes.extend_from_slice(b"{\"url\":\"");
        let url_start = self.bytes.len();
        self.bytes.extend_from_slice(url);
        let url_end = self.bytes.len();
        write!(self.bytes, "\",\"count\":{count}}}").expect("memory takes what is written");
        self.made.push((url_start..url_end, start..self.bytes.len()));
    }

    fn outputs(&self) -> impl Iterator<Item = Outgoing<'_>> {
        let slices =
            self.made.iter().map(|(url, value)| (&self.bytes[url.clone()], &self.bytes[value.clone()]));
        slices.map(|(url, value)| Outgoing::new(url, value))
    }
}

fn commit(
    producer: &BaseProducer,
    consumer: &BaseConsumer,
    input: &str,
    next: &[Option<i64>],
) -> Result<(), rdkafka::error::KafkaError> {
    // Drained by hand, since a flush inside the commit polls in steps of 100 ms.
    while producer.in_flight_count() > 0 {
        producer.poll(Duration::from_millis(1));
    }
    let mut offsets = TopicPartitionList::new();
    for (partition, next) in next.iter().enumerate() {
        if let Some(next) = next {
            offsets.add_partition_offset(input, partition as i32, Offset::Offset(*next))?;
        }
    }
    let group = consumer.group_metadata().expect("because the consumer has a group");
    producer.send_offsets_to_transaction(&offsets, &group, TIMEOUT)?;
    producer.commit_transaction(TIMEOUT)
}

/// How far the clients may run ahead: (messages, kilobytes) of the consumer, messages of the producer, its linger in
/// milliseconds. The bare loop is given much room, the work by hand what a careful program would allow itself.
fn bounds(work: Work) -> (&'static str, &'static str, &'static str, &'static str) {
    match work {
        Work::None => ("200000", "65536", "1000000", "5"),
        Work::Clicks => ("20000", "16384", "100000", "20"),
    }
}

struct Input {
    batches: BatchConsumer,
    /// Of the whole topic.
    partitions: usize,
}

fn consumer(index: usize, workers: usize, options: &Options) -> Result<Input, Error> {
    let doing = || Error::kafka(format!("reading topic {}", options.input));
    let (ahead, ahead_kilobytes, ..) = bounds(options.work);
    let consumer: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", &options.bootstrap)
        .set("group.id", &options.group)
        .set("enable.auto.commit", "false")
        .set("enable.auto.offset.store", "false")
        .set("isolation.level", "read_committed")
        .set("auto.offset.reset", "earliest")
        // The default of 1 s leaves a fast consumer idle most of the time.
        .set("fetch.queue.backoff.ms", "2")
        .set("queued.min.messages", ahead)
        .set("queued.max.messages.kbytes", ahead_kilobytes)
        .create()
        .map_err(doing())?;
    let metadata = consumer.fetch_metadata(Some(&options.input), TIMEOUT).map_err(doing())?;
    let partitions = metadata.topics().first().map_or(0, |topic| topic.partitions().len());
    if partitions == 0 {
        return Err(Error::NoTopic { topic: options.input.clone() });
    }
    let mut assigned = TopicPartitionList::new();
    for partition in (index..partitions).step_by(workers) {
        assigned.add_partition_offset(&options.input, partition as i32, Offset::Stored).map_err(doing())?;
    }
    consumer.assign(&assigned).map_err(doing())?;
    Ok(Input { batches: BatchConsumer::new(consumer), partitions })
}

fn producer(index: usize, options: &Options) -> Result<BaseProducer, Error> {
    let (_, _, queue, linger) = bounds(options.work);
    ClientConfig::new()
        .set("bootstrap.servers", &options.bootstrap)
        .set("transactional.id", format!("{}-{index}", options.group))
        .set("transaction.timeout.ms", "600000")
        .set("partitioner", "murmur2_random")
        // By hand every delivery is told, as a checkpoint's sink needs it.
        .set("delivery.report.only.error", if options.work == Work::None { "true" } else { "false" })
        .set("queue.buffering.max.messages", queue)
        .set("linger.ms", linger)
        .create()
        .map_err(Error::kafka(format!("writing topic {}", options.output)))
}
