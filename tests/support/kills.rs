//! SIGKILL at random moments, again and again.

use std::thread;
use std::time::{Duration, Instant};

use super::{Scene, transactions};

/// A job with so many subtasks is fed steadily and killed after random times until the length is over; then it catches
/// up and is judged. The seed is printed; `TIDEGATE_SEED` sets it. With several parallelisms each start takes one of
/// them at random.
pub(crate) fn random_kills(title: &str, parallelisms: &[u16], length: Duration) {
    let seed =
        std::env::var("TIDEGATE_SEED").map_or_else(|_| fastrand::u64(..), |text| text.parse().unwrap());
    println!("TIDEGATE_SEED={seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let mut scene = Scene::new(title, parallelisms[0]).feed(2000);
    let began = Instant::now();
    let mut kills = 0;
    while began.elapsed() < length {
        scene.job.parallelism = parallelisms[random.usize(..parallelisms.len())];
        let mut program = scene.start();
        // From the middle of a start to some checkpoints later.
        thread::sleep(Duration::from_millis(random.u64(50..4000)));
        program.kill().unwrap();
        kills += 1;
    }
    println!("killed {kills} times in {:.0} s", began.elapsed().as_secs_f64());
    let program = scene.start();
    scene.drain(program);
    scene.judge();
}

/// A job is killed so often, each time with prepared and open transactions; the brokers then know no more of its
/// transactional ids than before.
pub(crate) fn ids_stay_flat(title: &str, kills: u32) {
    let mut scene = Scene::new(title, 2).feed(2000);
    let known = |scene: &Scene| transactions::of_job(&scene.job.bootstrap, &scene.job.group).len();
    let mut after_the_first = 0;
    for number in 1..=kills {
        scene.die_with_prepared();
        if number == 1 {
            after_the_first = known(&scene);
        }
    }
    let after_the_last = known(&scene);
    println!("{after_the_first} ids after the first kill, {after_the_last} after {kills}");
    assert!(after_the_first > 0);
    assert_eq!(after_the_last, after_the_first);
    let program = scene.start();
    scene.drain(program);
    scene.judge();
}
