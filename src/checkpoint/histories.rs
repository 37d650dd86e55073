//! Random histories: whatever happens in whatever order, every law holds after every step.
//!
//! A failure names its seed; `TIDEGATE_SEED=n` replays that history alone, `TIDEGATE_HISTORIES=n` runs so many.

use super::Settings;
use super::laws::{LAWS, Move, TASKS, World, settings};
use crate::host::clock;

/// Steps of one history.
const STEPS: usize = 150;

fn from_environment(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} must be a number, found {text:?}")))
}

fn run(seed: u64) {
    let mut random = fastrand::Rng::with_seed(seed);
    let settings = Settings {
        maximum_concurrent: random.u32(1..=3),
        tolerable_failures: random.u32(0..=3),
        retained: random.usize(1..=3),
        ..settings()
    };
    let mut world = World::new(settings, clock::now());
    world.apply(Move::Claim);
    let mut history = Vec::new();
    for _ in 0..STEPS {
        let moves = world.moves();
        let mut next = moves[random.usize(..moves.len())];
        // What would end everything soon is rare; and now and then there is a message that comes too late.
        let rare = matches!(next, Move::Claim | Move::Die(_) | Move::End(_) | Move::Savepoint(..));
        if rare && random.u32(..8) > 0 {
            let (attempt, id) = (random.u64(0..3), random.u64(0..8));
            let at = random.usize(..world.claims());
            next = Move::Stale(at, attempt, id, TASKS[random.usize(..2)]);
        }
        history.push(next);
        world.apply(next);
        for (name, holds) in LAWS {
            assert!(
                holds(&world),
                "{name} is broken; replay with TIDEGATE_SEED={seed}\nhistory: {history:?}\nworld: {world:#?}"
            );
        }
    }
}

#[test]
fn every_law_holds_in_any_history() {
    match from_environment("TIDEGATE_SEED") {
        Some(seed) => run(seed),
        None => {
            let first = fastrand::u64(..u64::MAX / 2);
            (first..first + from_environment("TIDEGATE_HISTORIES").unwrap_or(3000)).for_each(run);
        }
    }
}

#[test]
fn histories_reach_what_the_laws_speak_of() {
    let mut random = fastrand::Rng::with_seed(1);
    let mut world = World::new(settings(), clock::now());
    world.apply(Move::Claim);
    for _ in 0..5000 {
        let moves: Vec<Move> = world.moves().into_iter().filter(|m| is_plain(*m)).collect();
        world.apply(moves[random.usize(..moves.len())]);
        if world.triggered() > 20 {
            return;
        }
    }
    panic!("no twenty checkpoints were triggered: {world:#?}");
}

fn is_plain(this: Move) -> bool {
    matches!(this, Move::Wait(_, 1) | Move::Acknowledge(..) | Move::Store(_, true) | Move::Answer(_))
}
