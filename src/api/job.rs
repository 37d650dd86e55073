//! A job under construction.

use super::stream::Stream;
use super::{JobOptions, KafkaSink, KafkaSource, Outcome, StopHandle};
use crate::connector::{DeadLetter, ReaderSeat};
use crate::graph::{Graph, Kind, Node};
use crate::model::{Data, Failure};
use crate::operator::{DEAD_LETTERS, RECORDS, SourceStageFactory};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

/// What all streams of a job share.
#[derive(Default)]
pub(super) struct Shared {
    pub(super) graph: Graph,
    pub(super) verify_serializers: bool,
}

/// A job: add sources, go on with their streams, then run it.
#[derive(Default)]
pub struct Job(pub(super) Rc<RefCell<Shared>>);

impl Job {
    /// Without any operator.
    pub fn new() -> Self {
        Self::default()
    }

    /// Writes and reads each record with its serializer at every exchange, as between processes. For tests: it finds
    /// types that do not survive that, and costs speed. Call it before anything else.
    #[must_use]
    pub fn verify_serializers(self) -> Self {
        self.0.borrow_mut().verify_serializers = true;
        self
    }

    /// Reads from Kafka.
    pub fn source<T: Data + Sync>(&self, name: &str, source: KafkaSource<T>) -> Stream<T> {
        let control = Arc::new(source.clone());
        let make = move |context: &crate::operator::BuildContext| {
            source.reader(ReaderSeat {
                job: context.info.job.clone(),
                uid: context.info.uid.clone(),
                subtask: context.info.subtask,
                parallelism: context.info.parallelism,
                splits: context.splits.clone(),
                origins: context.origins.clone(),
                metrics: context.info.metrics.clone(),
                cancelled: context.cancelled.clone(),
            })
        };
        let factory = Arc::new(SourceStageFactory::new(Box::new(make)));
        let node = self.0.borrow_mut().graph.add(Node {
            kind: Kind::Source(factory, control),
            name: name.to_owned(),
            uid: None,
            parallelism: None,
            key_groups: None,
            chaining: true,
            inputs: Vec::new(),
        });
        Stream::of(Rc::clone(&self.0), node, RECORDS)
    }

    /// Reads from Kafka; what cannot be decoded goes to a topic with its raw bytes and headers that say where it stood
    /// and why, committed by the same checkpoints as everything else. The source's policy must be to do so
    /// ([`super::Undecodable::DeadLetter`]). The sink's name and uid are the source's name with
    /// `-dead-letters` behind it.
    pub fn source_with_dead_letters<T: Data + Sync>(
        &self,
        name: &str,
        source: KafkaSource<T>,
        dead_letters: KafkaSink<DeadLetter>,
    ) -> Stream<T> {
        let stream = self.source(name, source);
        let letters: Stream<DeadLetter> = Stream::of(Rc::clone(&self.0), stream.node(), DEAD_LETTERS);
        let sink_name = format!("{name}-dead-letters");
        letters.sink(&sink_name, dead_letters).uid(&sink_name);
        stream
    }

    /// Runs the job on this thread until it has ended.
    ///
    /// # Errors
    /// See [`crate::runtime::run`].
    pub fn run(self, options: JobOptions) -> Result<Outcome, Failure> {
        self.run_until(options, StopHandle::default())
    }

    /// Runs the job on this thread until it has ended, or is stopped through the handle.
    ///
    /// # Errors
    /// See [`crate::runtime::run`].
    pub fn run_until(self, options: JobOptions, stop: StopHandle) -> Result<Outcome, Failure> {
        let graph = std::mem::take(&mut self.0.borrow_mut().graph);
        crate::runtime::run(graph, options, stop)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Connection, Undecodable};
    use super::*;
    use crate::model::{Advice, JobId};

    #[test]
    fn an_operator_without_subtasks_is_refused_by_name() {
        let job = Job::new();
        let source = KafkaSource::string(Connection::new("127.0.0.1:1"), "g").topics(["t"]);
        let _values = job.source("in", source).uid("in").map(|s| s).uid("copy").parallelism(0);
        let options = JobOptions::new(JobId::new("j").unwrap(), "file:///nowhere/at/all");
        let failure = job.run(options).unwrap_err();
        assert_eq!(failure.advice, Advice::FixConfiguration);
        assert!(failure.text.contains("operator copy (map)"), "{failure}");
    }

    #[test]
    fn dead_letters_that_nobody_takes_are_refused() {
        let source = || {
            let source = KafkaSource::string(Connection::new("127.0.0.1:1"), "g").topics(["t"]);
            source.on_undecodable(Undecodable::DeadLetter)
        };
        let sink = KafkaSink::dead_letters(Connection::new("127.0.0.1:1"), "d");
        let (without, with) = (Job::new(), Job::new());
        let _values = without.source("in", source());
        let _values = with.source_with_dead_letters("in", source(), sink);
        let lost = |job: &Job| job.0.borrow().graph.lost_dead_letters();
        assert!(lost(&with).is_empty());
        assert!(lost(&without)[0].contains("source in-0 (in)"), "{:?}", lost(&without));
        let options = JobOptions::new(JobId::new("j").unwrap(), "file:///nowhere/at/all");
        let failure = without.run(options).unwrap_err();
        assert!(failure.text.contains("source_with_dead_letters"), "{failure}");
    }
}
