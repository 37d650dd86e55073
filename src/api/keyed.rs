//! A stream whose values are brought together by key.

use super::{BroadcastStream, KeyedConnectedStream, Stream};
use crate::graph::{Kind, Route};
use crate::model::{Data, MaxParallelism};
use crate::operator::{KeyGroups, KeySelector, KeyedFactory, KeyedProcessFunction};
use crate::runtime::RouteBy;
use std::rc::Rc;
use std::sync::Arc;

/// Values by key.
pub struct KeyedStream<T> {
    stream: Stream<T>,
    select: KeySelector<T>,
    groups: KeyGroups,
}

impl<T: Data + Sync> KeyedStream<T> {
    pub(super) fn new(stream: Stream<T>, select: KeySelector<T>) -> Self {
        Self { stream, select, groups: KeyGroups::default() }
    }

    /// The number of key groups of the next operator, and so the largest parallelism that it can ever have. It is fixed at
    /// the first start; by default it follows from the parallelism then, as in Flink.
    #[must_use]
    pub fn max_parallelism(self, max: MaxParallelism) -> Self {
        self.groups.give(max);
        self
    }

    /// User code with state for each key.
    pub fn process<F: KeyedProcessFunction<T>>(&self, name: &str, function: F) -> Stream<F::Out>
    where
        F::Out: Data + Sync,
    {
        // Several operators may work on one keyed stream, each with a parallelism and a history of its own.
        let groups = self.groups.of_another_operator();
        let route = RouteBy::Key(Arc::clone(&self.select), groups.clone());
        let factory = Arc::new(KeyedFactory::new(function, Arc::clone(&self.select), groups.clone()));
        let inputs = self.stream.edges(Route::Hash, &route);
        let node = self.stream.add(name, Kind::Operator(factory), Some(groups), inputs);
        Stream::of(Rc::clone(&self.stream.shared), node, 0)
    }

    /// With a broadcast stream beside it: see [`Stream::connect`].
    pub fn connect<B: Data + Sync>(&self, broadcast: &BroadcastStream<B>) -> KeyedConnectedStream<T, B> {
        KeyedConnectedStream {
            main: self.stream.clone(),
            select: Arc::clone(&self.select),
            groups: self.groups.of_another_operator(),
            broadcast: (**broadcast).clone(),
        }
    }
}
