//! The number of subtasks changes nothing about the result, also when it changes between two starts.

mod support;

use support::Scene;
use tidegate_tools::offsets::Isolation;
use tidegate_tools::reader;

#[test]
fn one_two_and_four_subtasks_give_equal_result_sets() {
    let results: Vec<_> = [1, 2, 4]
        .into_iter()
        .map(|parallelism| {
            let scene =
                Scene::new(&format!("parallelism-{parallelism}"), parallelism).until_end().fill(40_000);
            scene.finish();
            scene.must_be_right();
            let read = reader::read_all(&scene.job.bootstrap, &scene.job.output, Isolation::Committed);
            let mut results: Vec<_> =
                read.unwrap().into_iter().map(|r| (r.partition, r.key, r.value)).collect();
            results.sort();
            scene.judge();
            results
        })
        .collect();
    assert_eq!(results[0].len(), 40_000);
    assert!(results[0] == results[1], "one subtask and two give different results");
    assert!(results[0] == results[2], "one subtask and four give different results");
}

#[test]
fn a_job_is_rescaled_by_stop_and_start() {
    let mut scene = Scene::new("rescale-stop", 1).feed(4000);
    for parallelism in [1, 2, 4] {
        scene.job.parallelism = parallelism;
        let mut program = scene.start();
        scene.wait_for_progress();
        program.stop(support::PATIENCE).unwrap();
    }
    scene.job.parallelism = 1;
    let program = scene.start();
    scene.drain(program);
    scene.judge();
}

#[test]
fn a_job_is_rescaled_by_kill_and_start() {
    let mut scene = Scene::new("rescale-kill", 1).feed(4000);
    for parallelism in [1, 2, 4] {
        scene.job.parallelism = parallelism;
        scene.die_with_prepared();
    }
    scene.job.parallelism = 1;
    let program = scene.start();
    scene.drain(program);
    scene.judge();
}
