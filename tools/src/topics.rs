//! Makes and removes topics, and does not return before the broker serves them.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rdkafka::admin::{AdminClient, AdminOptions, NewPartitions, NewTopic, TopicReplication, TopicResult};
use rdkafka::client::DefaultClientContext;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::producer::{BaseProducer, Producer};
use rdkafka::{Offset, TopicPartitionList};

use crate::Error;
use crate::offsets::{Isolation, Offsets};

/// Makes and removes topics at one broker.
pub struct Topics {
    bootstrap: String,
    admin: AdminClient<DefaultClientContext>,
    offsets: Offsets,
}

const CONNECT: Duration = Duration::from_secs(10);
const REQUEST: Duration = Duration::from_secs(30);
const PATIENCE: Duration = Duration::from_secs(60);

impl Topics {
    /// For the broker at this `host:port` list.
    ///
    /// # Errors
    /// [`Error::Unreachable`] when nobody answers within 10 s.
    pub fn new(bootstrap: &str) -> Result<Self, Error> {
        let unreachable = |source| Error::Unreachable { bootstrap: bootstrap.to_owned(), source };
        let admin = ClientConfig::new().set("bootstrap.servers", bootstrap).create();
        let admin: AdminClient<DefaultClientContext> = admin.map_err(unreachable)?;
        admin.inner().fetch_metadata(None, CONNECT).map_err(unreachable)?;
        Ok(Self { bootstrap: bootstrap.to_owned(), admin, offsets: Offsets::new(bootstrap)? })
    }

    /// Makes a topic that keeps its records for ever, with the broker's default replication.
    ///
    /// # Errors
    /// When it exists already, or its leaders do not answer within 60 s.
    pub fn create(&self, name: &str, partitions: i32) -> Result<(), Error> {
        self.create_with(name, partitions, &[])
    }

    /// As [`create`](Self::create), with further topic settings such as `("max.message.bytes", "2000")`.
    ///
    /// # Errors
    /// When it exists already, a setting is refused, or its leaders do not answer within 60 s.
    pub fn create_with(&self, name: &str, partitions: i32, settings: &[(&str, &str)]) -> Result<(), Error> {
        let mut topic =
            NewTopic::new(name, partitions, TopicReplication::Fixed(-1)).set("retention.ms", "-1");
        for (setting, value) in settings {
            topic = topic.set(setting, value);
        }
        let options = AdminOptions::new().request_timeout(Some(REQUEST)).operation_timeout(Some(REQUEST));
        let results = wait_for(self.admin.create_topics([&topic], &options));
        one(results).map_err(Error::kafka(format!("creating topic {name}")))?;
        self.wait_for_leaders(name, partitions)
    }

    /// The leaders answer a little later than the metadata.
    fn wait_for_leaders(&self, name: &str, partitions: i32) -> Result<(), Error> {
        self.poll(&format!("the leaders of new topic {name}"), || {
            let known = self.offsets.partitions(name).is_ok_and(|found| found == partitions);
            known && self.offsets.ends_of(name, partitions, Isolation::Uncommitted).is_ok()
        })
    }

    /// Gives a topic more partitions, so that it has `partitions` of them.
    ///
    /// # Errors
    /// When the broker refuses, or the new leaders do not answer within 60 s.
    pub fn grow(&self, name: &str, partitions: i32) -> Result<(), Error> {
        let options = AdminOptions::new().request_timeout(Some(REQUEST)).operation_timeout(Some(REQUEST));
        let grown = NewPartitions::new(name, partitions as usize);
        let results = wait_for(self.admin.create_partitions([&grown], &options));
        one(results).map_err(Error::kafka(format!("giving topic {name} {partitions} partitions")))?;
        self.wait_for_leaders(name, partitions)
    }

    /// Removes the records of a partition that stand before an offset, as retention does.
    ///
    /// # Errors
    /// When the broker refuses.
    pub fn truncate(&self, name: &str, partition: i32, before: i64) -> Result<(), Error> {
        let doing = || Error::kafka(format!("removing records of topic {name} partition {partition}"));
        let options = AdminOptions::new().request_timeout(Some(REQUEST)).operation_timeout(Some(REQUEST));
        let mut offsets = TopicPartitionList::new();
        offsets.add_partition_offset(name, partition, Offset::Offset(before)).map_err(doing())?;
        let removed = wait_for(self.admin.delete_records(&offsets, &options)).map_err(doing())?;
        removed.elements().iter().try_for_each(|element| element.error()).map_err(doing())
    }

    /// Removes a topic; one that does not exist is fine.
    ///
    /// # Errors
    /// When the broker refuses, or still knows the topic after 60 s.
    pub fn delete(&self, name: &str) -> Result<(), Error> {
        let options = AdminOptions::new().request_timeout(Some(REQUEST)).operation_timeout(Some(REQUEST));
        let results = wait_for(self.admin.delete_topics(&[name], &options));
        match one(results) {
            Err(KafkaError::AdminOp(RDKafkaErrorCode::UnknownTopicOrPartition)) => return Ok(()),
            other => other.map_err(Error::kafka(format!("deleting topic {name}")))?,
        }
        self.poll(&format!("topic {name} to vanish"), || {
            matches!(self.offsets.partitions(name), Err(Error::NoTopic { .. }))
        })
    }

    /// Forgets a group's offsets; a group that does not exist is fine.
    ///
    /// # Errors
    /// When the broker refuses, for example because the group has members.
    pub fn delete_group(&self, group: &str) -> Result<(), Error> {
        let options = AdminOptions::new().request_timeout(Some(REQUEST));
        let results = wait_for(self.admin.delete_groups(&[group], &options));
        let results = results.map_err(Error::kafka(format!("deleting group {group}")))?;
        match results.into_iter().next() {
            Some(Err((_, code))) if code != RDKafkaErrorCode::GroupIdNotFound => {
                Err(KafkaError::AdminOp(code)).map_err(Error::kafka(format!("deleting group {group}")))
            }
            _ => Ok(()),
        }
    }

    /// Makes the broker set up its coordinators for groups and transactions, which it does at the first use and
    /// which takes seconds: a measurement or a deadline shall not begin with that.
    ///
    /// # Errors
    /// When they do not come up within 60 s.
    pub fn wake_coordinators(&self, topic: &str) -> Result<(), Error> {
        let name = format!("wake-{}", token());
        self.poll("the broker's group and transaction coordinators", || {
            let producer = ClientConfig::new()
                .set("bootstrap.servers", &self.bootstrap)
                .set("transactional.id", &name)
                .create::<BaseProducer>();
            let consumer = ClientConfig::new()
                .set("bootstrap.servers", &self.bootstrap)
                .set("group.id", &name)
                .create::<BaseConsumer>();
            let mut offsets = TopicPartitionList::new();
            let listed = offsets.add_partition_offset(topic, 0, Offset::Offset(0));
            producer.is_ok_and(|producer| producer.init_transactions(Duration::from_secs(10)).is_ok())
                && listed.is_ok()
                && consumer.is_ok_and(|consumer| consumer.commit(&offsets, CommitMode::Sync).is_ok())
        })?;
        self.delete_group(&name)
    }

    fn poll(&self, waiting_for: &str, test: impl Fn() -> bool) -> Result<(), Error> {
        let started = Instant::now();
        while !test() {
            if started.elapsed() > PATIENCE {
                return Err(Error::Stalled { waiting_for: waiting_for.to_owned(), patience: PATIENCE });
            }
            thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }
}

/// A short name part that no other run has, for topics and groups.
pub fn token() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("because the clock is set past 1970");
    let mut number = since.as_nanos() as u64 ^ (u64::from(std::process::id()) << 40);
    let mut text = String::new();
    while number > 0 {
        text.push(char::from_digit((number % 36) as u32, 36).expect("because a remainder of 36 is a digit"));
        number /= 36;
    }
    text
}

fn one(results: Result<Vec<TopicResult>, KafkaError>) -> Result<(), KafkaError> {
    match results?.into_iter().next() {
        Some(Err((_, code))) => Err(KafkaError::AdminOp(code)),
        _ => Ok(()),
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Runs a future on this thread. rdkafka's admin calls are futures that its own thread completes: no executor is
/// needed for one at a time.
fn wait_for<F: Future>(future: F) -> F::Output {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}
