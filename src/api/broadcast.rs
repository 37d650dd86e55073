//! A stream that every subtask of its consumers gets whole, and the operators that have one beside their main input.

use super::Stream;
use crate::graph::{Edge, Kind, NodeId, Route};
use crate::model::{Data, Serializer};
use crate::operator::{
    BroadcastFactory, BroadcastProcessFunction, KeyGroups, KeySelector, KeyedBroadcastFactory,
    KeyedBroadcastProcessFunction, Side, SideSerializer, StageFactory,
};
use crate::runtime::{RouteBy, SidedLink};
use std::ops::Deref;
use std::rc::Rc;
use std::sync::Arc;

/// Values each of which goes to every subtask of the next operator. It can be used as any [`Stream`], and be connected
/// as the side input of another one: see [`Stream::connect`] and [`KeyedStream::connect`](super::KeyedStream::connect).
pub struct BroadcastStream<T>(Stream<T>);

impl<T: Data + Sync> BroadcastStream<T> {
    pub(super) fn new(mut stream: Stream<T>) -> Self {
        stream.kind = Route::Broadcast;
        stream.route = RouteBy::Broadcast;
        Self(stream)
    }
}

impl<T> Deref for BroadcastStream<T> {
    type Target = Stream<T>;
    fn deref(&self) -> &Stream<T> {
        &self.0
    }
}

/// A stream without keys, with a broadcast one beside it.
pub struct ConnectedStream<T, B> {
    pub(super) main: Stream<T>,
    pub(super) broadcast: Stream<B>,
}

impl<T: Data + Sync, B: Data + Sync> ConnectedStream<T, B> {
    /// User code with two inputs, which shares broadcast state between them.
    pub fn process<F: BroadcastProcessFunction<T, B>>(&self, name: &str, function: F) -> Stream<F::Out>
    where
        F::Out: Data + Sync,
    {
        let route = match &self.main.route {
            RouteBy::RoundRobin => RouteBy::RoundRobin,
            RouteBy::Broadcast => RouteBy::Broadcast,
            RouteBy::Key(select, groups) => RouteBy::Key(of_main(select), groups.clone()),
            RouteBy::Custom(f) => {
                let f = Arc::clone(f);
                RouteBy::Custom(Arc::new(move |side, count| match side {
                    Side::Main(value) => f(value, count),
                    Side::Broadcast(_) => 0,
                }))
            }
        };
        let factory = Arc::new(BroadcastFactory::<T, B, F>::new(function));
        let node = add(name, &self.main, self.main.kind, &route, &self.broadcast, factory, None);
        Stream::of(Rc::clone(&self.main.shared), node, 0)
    }
}

/// A keyed stream, with a broadcast one beside it.
pub struct KeyedConnectedStream<T, B> {
    pub(super) main: Stream<T>,
    pub(super) select: KeySelector<T>,
    pub(super) groups: KeyGroups,
    pub(super) broadcast: Stream<B>,
}

impl<T: Data + Sync, B: Data + Sync> KeyedConnectedStream<T, B> {
    /// User code with two inputs: state for each key of the main one, and broadcast state that both share.
    pub fn process<F: KeyedBroadcastProcessFunction<T, B>>(&self, name: &str, function: F) -> Stream<F::Out>
    where
        F::Out: Data + Sync,
    {
        let groups = self.groups.of_another_operator();
        let route = RouteBy::Key(of_main(&self.select), groups.clone());
        let factory =
            KeyedBroadcastFactory::<T, B, F>::new(function, Arc::clone(&self.select), groups.clone());
        let factory = Arc::new(factory);
        let node = add(name, &self.main, Route::Hash, &route, &self.broadcast, factory, Some(groups));
        Stream::of(Rc::clone(&self.main.shared), node, 0)
    }
}

/// The key of what comes by the main edge; only that edge asks.
fn of_main<T: 'static, B: 'static>(select: &KeySelector<T>) -> KeySelector<Side<T, B>> {
    let select = Arc::clone(select);
    Arc::new(move |side, out| {
        if let Side::Main(value) = side {
            select(value, out);
        }
    })
}

fn add<T: Data + Sync, B: Data + Sync>(
    name: &str,
    main: &Stream<T>,
    kind: Route,
    route: &RouteBy<Side<T, B>>,
    broadcast: &Stream<B>,
    factory: Arc<dyn StageFactory>,
    groups: Option<KeyGroups>,
) -> NodeId {
    let serializer: Arc<dyn Serializer<Side<T, B>>> =
        Arc::new(SideSerializer::new(Arc::clone(&main.serializer), Arc::clone(&broadcast.serializer)));
    let mut inputs = edges(main, kind, Side::Main, route, &serializer);
    inputs.extend(edges(broadcast, Route::Broadcast, Side::Broadcast, &RouteBy::Broadcast, &serializer));
    main.add(name, Kind::Operator(factory), groups, inputs)
}

fn edges<T: Data + Sync, E: Clone + Send + 'static>(
    stream: &Stream<T>,
    kind: Route,
    into: fn(T) -> E,
    route: &RouteBy<E>,
    serializer: &Arc<dyn Serializer<E>>,
) -> Vec<Edge> {
    let verify = stream.shared.borrow().verify_serializers;
    let edge = |(from, port): &(NodeId, usize)| Edge {
        from: *from,
        port: *port,
        route: kind,
        link: Arc::new(SidedLink::new(into, route.clone(), Arc::clone(serializer), verify)),
    };
    stream.from.iter().map(edge).collect()
}
