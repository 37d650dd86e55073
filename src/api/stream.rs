//! A stream of values of one type, and what can be done with it.

use super::job::Shared;
use super::{BroadcastStream, ConnectedStream, KafkaSink, KeyedStream};
use crate::connector::SinkSeat;
use crate::graph::{Edge, Kind, Node, NodeId, Route};
use crate::model::serializer::Postcard;
use crate::model::{Data, Key, Serializer};
use crate::operator::{
    self, KeyGroups, ProcessFactory, ProcessFunction, SinkFactory, StageFactory, UserError,
};
use crate::runtime::{RouteBy, TypedLink};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

/// The output of an operator, or of several.
pub struct Stream<T> {
    pub(super) shared: Rc<RefCell<Shared>>,
    /// Whose outputs, and which.
    pub(super) from: Vec<(NodeId, usize)>,
    pub(super) route: RouteBy<T>,
    pub(super) kind: Route,
    pub(super) serializer: Arc<dyn Serializer<T>>,
}

impl<T> Clone for Stream<T> {
    fn clone(&self) -> Self {
        Self {
            shared: Rc::clone(&self.shared),
            from: self.from.clone(),
            route: self.route.clone(),
            kind: self.kind,
            serializer: Arc::clone(&self.serializer),
        }
    }
}

impl<T: Data + Sync> Stream<T> {
    pub(super) fn of(shared: Rc<RefCell<Shared>>, node: NodeId, port: usize) -> Self {
        Self {
            shared,
            from: vec![(node, port)],
            route: RouteBy::RoundRobin,
            kind: Route::Forward,
            serializer: Arc::new(Postcard::default()),
        }
    }

    /// The operator that this is the output of.
    pub(super) fn node(&self) -> NodeId {
        self.from[0].0
    }

    fn set(self, change: impl Fn(&mut Node)) -> Self {
        for (node, _) in &self.from {
            change(&mut self.shared.borrow_mut().graph.nodes[node.0]);
        }
        self
    }

    /// Names the operator for its state and transactions: under this uid they are found again after a change of the
    /// program. Without it the uid comes from the operator's place.
    #[must_use]
    pub fn uid(self, uid: &str) -> Self {
        self.set(|node| node.uid = Some(uid.to_owned()))
    }

    /// How many subtasks the operator has; the job's parallelism by default.
    #[must_use]
    pub fn parallelism(self, parallelism: u32) -> Self {
        self.set(|node| node.parallelism = Some(parallelism))
    }

    /// Whether the operator may share a task with its neighbours; it may by default.
    #[must_use]
    pub fn chaining(self, chaining: bool) -> Self {
        self.set(|node| node.chaining = chaining)
    }

    /// How values become bytes where they leave a process; postcard by default.
    #[must_use]
    pub fn serializer(mut self, serializer: impl Serializer<T> + 'static) -> Self {
        self.serializer = Arc::new(serializer);
        self
    }

    /// Edges from this stream's outputs.
    pub(super) fn edges(&self, kind: Route, route: &RouteBy<T>) -> Vec<Edge> {
        let verify = self.shared.borrow().verify_serializers;
        let edge = |(from, port): &(NodeId, usize)| Edge {
            from: *from,
            port: *port,
            route: kind,
            link: Arc::new(TypedLink::new(route.clone(), Arc::clone(&self.serializer), verify)),
        };
        self.from.iter().map(edge).collect()
    }

    pub(super) fn add(
        &self,
        name: &str,
        kind: Kind,
        key_groups: Option<KeyGroups>,
        inputs: Vec<Edge>,
    ) -> NodeId {
        let (name, uid, parallelism) = (name.to_owned(), None, None);
        self.shared.borrow_mut().graph.add(Node {
            kind,
            name,
            uid,
            parallelism,
            key_groups,
            chaining: true,
            inputs,
        })
    }

    fn then<U: Data + Sync>(&self, name: &str, factory: Arc<dyn StageFactory>) -> Stream<U> {
        let node = self.add(name, Kind::Operator(factory), None, self.edges(self.kind, &self.route));
        Stream::of(Rc::clone(&self.shared), node, 0)
    }

    /// Turns each value into another.
    pub fn map<U: Data + Sync>(&self, f: impl FnMut(T) -> U + Clone + Send + 'static) -> Stream<U> {
        self.then("map", operator::map(f))
    }

    /// Turns each value into another, or fails the job with the record's topic, partition and offset.
    pub fn try_map<U: Data + Sync>(
        &self,
        f: impl FnMut(T) -> Result<U, UserError> + Clone + Send + 'static,
    ) -> Stream<U> {
        self.then("try_map", operator::try_map(f))
    }

    /// Keeps the values for which the closure is true.
    pub fn filter(&self, f: impl FnMut(&T) -> bool + Clone + Send + 'static) -> Stream<T> {
        self.then("filter", operator::filter(f))
    }

    /// Turns each value into any number of others.
    pub fn flat_map<I>(&self, f: impl FnMut(T) -> I + Clone + Send + 'static) -> Stream<I::Item>
    where
        I: IntoIterator + 'static,
        I::Item: Data + Sync,
    {
        self.then("flat_map", operator::flat_map(f))
    }

    /// User code with `open`, `process` and `close`, and without keys.
    pub fn process<F: ProcessFunction<T>>(&self, name: &str, function: F) -> Stream<F::Out>
    where
        F::Out: Data + Sync,
    {
        self.then(name, Arc::new(ProcessFactory::new(function).taking::<T>()))
    }

    /// Brings values with equal keys to one subtask, where state belongs to the key. The key is a part of the value.
    pub fn key_by<K: Key + ?Sized>(
        &self,
        select: impl for<'a> Fn(&'a T) -> &'a K + Send + Sync + 'static,
    ) -> KeyedStream<T> {
        KeyedStream::new(self.clone(), Arc::new(move |value, out| select(value).encode(out)))
    }

    /// As [`Stream::key_by`], with a key that is made from the value.
    pub fn key_by_value<K: Key>(&self, select: impl Fn(&T) -> K + Send + Sync + 'static) -> KeyedStream<T> {
        KeyedStream::new(self.clone(), Arc::new(move |value, out| select(value).encode(out)))
    }

    /// The values of this and another stream, each in its order.
    #[must_use]
    pub fn union(&self, other: &Stream<T>) -> Stream<T> {
        let mut both = self.clone();
        both.from.extend(other.from.iter().copied());
        both
    }

    /// Gives the values to the next operator's subtasks in turn.
    #[must_use]
    pub fn rebalance(&self) -> Stream<T> {
        let mut stream = self.clone();
        stream.kind = Route::Rebalance;
        stream.route = RouteBy::RoundRobin;
        stream
    }

    /// Gives each value to the subtask that the function of value and number of subtasks says, modulo that number.
    #[must_use]
    pub fn partition_by(&self, f: impl Fn(&T, u32) -> u32 + Send + Sync + 'static) -> Stream<T> {
        let mut stream = self.clone();
        stream.kind = Route::Custom;
        stream.route = RouteBy::Custom(Arc::new(f));
        stream
    }

    /// Gives each value to every subtask of the next operator.
    #[must_use]
    pub fn broadcast(&self) -> BroadcastStream<T> {
        BroadcastStream::new(self.clone())
    }

    /// With a broadcast stream beside it, for an operator that needs both. Nothing orders the two against each other.
    ///
    /// ```no_run
    /// use tidegate::api::{Job, KafkaSource, prelude::*};
    ///
    /// #[derive(Clone, Default)]
    /// struct Blocked { words: Option<BroadcastState<str, ()>> }
    ///
    /// impl BroadcastProcessFunction<String, String> for Blocked {
    ///     type Out = String;
    ///     fn open(&mut self, context: &mut OpenContext<'_>) -> Result<(), UserError> {
    ///         self.words = Some(context.broadcast_state("words")?);
    ///         Ok(())
    ///     }
    ///     fn process(&mut self, text: String, _: &Context<'_>, out: &mut Emitter<'_, String>) -> Result<(), UserError> {
    ///         let words = self.words.as_ref().expect("open has declared it");
    ///         if !text.split(' ').any(|word| words.contains(word)) {
    ///             out.emit(text);
    ///         }
    ///         Ok(())
    ///     }
    ///     fn process_broadcast(&mut self, word: String, context: &BroadcastContext<'_>, _: &mut Emitter<'_, String>)
    ///         -> Result<(), UserError>
    ///     {
    ///         self.words.as_ref().expect("open has declared it").put(context, &word, ());
    ///         Ok(())
    ///     }
    /// }
    ///
    /// let (job, kafka) = (Job::new(), Connection::new("127.0.0.1:9092"));
    /// let texts = job.source("texts", KafkaSource::string(kafka.clone(), "filter").topics(["texts"])).uid("texts");
    /// let words = job.source("words", KafkaSource::string(kafka, "filter").topics(["words"])).uid("words");
    /// let allowed = texts.connect(&words.broadcast()).process("blocked", Blocked::default()).uid("blocked");
    /// ```
    pub fn connect<B: Data + Sync>(&self, broadcast: &BroadcastStream<B>) -> ConnectedStream<T, B> {
        ConnectedStream { main: self.clone(), broadcast: (**broadcast).clone() }
    }

    /// Writes the values to Kafka.
    pub fn sink(&self, name: &str, sink: KafkaSink<T>) -> StreamSink {
        let control = Arc::new(sink.clone());
        let factory = SinkFactory::new(move |context: &crate::operator::BuildContext| {
            sink.parts(&SinkSeat {
                job: context.info.job.clone(),
                uid: context.info.uid.clone(),
                subtask: context.info.subtask,
                transactions: context.transactions,
                patience: context.patience,
                cancelled: context.cancelled.clone(),
                metrics: context.info.metrics.clone(),
            })
        });
        let inputs = self.edges(self.kind, &self.route);
        let node = self.add(name, Kind::Sink(Arc::new(factory), control), None, inputs);
        StreamSink { shared: Rc::clone(&self.shared), node }
    }
}

/// An end of the job.
pub struct StreamSink {
    shared: Rc<RefCell<Shared>>,
    node: NodeId,
}

impl StreamSink {
    fn set(self, change: impl Fn(&mut Node)) -> Self {
        change(&mut self.shared.borrow_mut().graph.nodes[self.node.0]);
        self
    }

    /// See [`Stream::uid`]; transactional ids contain it.
    pub fn uid(self, uid: &str) -> Self {
        self.set(|node| node.uid = Some(uid.to_owned()))
    }

    /// See [`Stream::parallelism`].
    pub fn parallelism(self, parallelism: u32) -> Self {
        self.set(|node| node.parallelism = Some(parallelism))
    }

    /// See [`Stream::chaining`].
    pub fn chaining(self, chaining: bool) -> Self {
        self.set(|node| node.chaining = chaining)
    }
}
