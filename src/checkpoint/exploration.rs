//! Every state of small instances, by a model checker: two tasks, up to three checkpoints, a takeover or restart. The
//! larger instances end when so many states were seen.

use super::Settings;
use super::laws::{LAWS, Move, World, settings};
use crate::host::clock;
use stateright::{Checker, Model, Property};
use std::time::Instant;

/// States of one instance, at most.
const STATES: usize = 200_000;

/// How far the small world may go.
struct Small {
    settings: Settings,
    now: Instant,
    checkpoints: usize,
    claims: usize,
    savepoints: bool,
}

impl Model for Small {
    type State = World;
    type Action = Move;

    fn init_states(&self) -> Vec<World> {
        let mut world = World::new(self.settings.clone(), self.now);
        world.apply(Move::Claim);
        vec![world]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Move>) {
        let goes = |this: &Move| match this {
            Move::Claim => world.claims() < self.claims,
            Move::Wait(_, 1) => world.triggered() < self.checkpoints,
            Move::Savepoint(..) => self.savepoints && world.savepoints() < 1,
            // Declines stand for time-outs; a death is a takeover whose victim does nothing more.
            Move::Wait(..) | Move::Die(_) | Move::End(_) => false,
            _ => true,
        };
        actions.extend(world.moves().into_iter().filter(goes));
    }

    fn next_state(&self, world: &World, action: Move) -> Option<World> {
        let mut next = world.clone();
        next.apply(action);
        // Time that changes nothing but the time would go on for ever.
        let idle = matches!(action, Move::Wait(..)) && next.triggered() == world.triggered();
        (next != *world && !idle).then_some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        // The checker takes plain functions, so each law is found by its place.
        macro_rules! law {
            ($at:literal) => {
                Property::always(LAWS[$at].0, |_: &Self, world: &World| (LAWS[$at].1)(world))
            };
        }
        let all =
            vec![law!(0), law!(1), law!(2), law!(3), law!(4), law!(5), law!(6), law!(7), law!(8), law!(9)];
        assert_eq!(all.len(), LAWS.len(), "every law is checked");
        all
    }

    fn within_boundary(&self, world: &World) -> bool {
        world.triggered() <= self.checkpoints
    }
}

fn explore(concurrent: u32, checkpoints: usize, claims: usize, savepoints: bool) -> usize {
    let settings = Settings { maximum_concurrent: concurrent, ..settings() };
    let model = Small { settings, now: clock::now(), checkpoints, claims, savepoints };
    let checked = model.checker().threads(2).target_state_count(STATES).spawn_dfs().join();
    checked.assert_properties();
    checked.unique_state_count()
}

#[test]
fn two_checkpoints_one_after_the_other_and_a_takeover() {
    let states = explore(1, 2, 2, false);
    assert!(states > 100, "{states} states are too few to mean anything");
}

#[test]
fn three_concurrent_checkpoints() {
    let states = explore(3, 3, 1, false);
    assert!(states > 100, "{states} states are too few to mean anything");
}

#[test]
fn two_concurrent_checkpoints_and_a_takeover() {
    let states = explore(2, 2, 2, false);
    assert!(states > 100, "{states} states are too few to mean anything");
}

#[test]
fn a_savepoint_between_checkpoints() {
    let states = explore(2, 2, 2, true);
    assert!(states > 100, "{states} states are too few to mean anything");
}
