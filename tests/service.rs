//! A job as a service: the reference configuration, real Prometheus, health that follows what happens, commands over
//! HTTP, and SIGTERM without loss or repetition.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use serde_json::Value;
use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use support::http::{self, ask, get, json, start, wait_for};
use support::{Cluster, PATIENCE, Scene};
use tidegate_tools::process;
use tidegate_tools::program::Program;

/// A scene whose job has the reference file under its flags, and a log for machines.
fn scene(scene: Scene) -> Scene {
    let config = Path::new(env!("CARGO_MANIFEST_DIR")).join("config/tidegate.toml");
    scene.flag("config", config.to_str().unwrap()).flag("log-format", "json")
}

/// Runs promtool on what is exposed.
fn lint(exposed: &str) {
    let mut promtool = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    promtool.stdin.take().unwrap().write_all(exposed.as_bytes()).unwrap();
    let output = promtool.wait_with_output().unwrap();
    let words =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && words.trim().is_empty(), "promtool: {words}\n{exposed}");
}

/// A real Prometheus that scrapes one address every second.
struct Prometheus {
    child: Child,
    address: String,
}

impl Prometheus {
    fn start(folder: &Path, target: &str) -> Self {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let (address, config) = (format!("127.0.0.1:{port}"), folder.join("prometheus.yml"));
        let text = format!(
            "global: {{scrape_interval: 1s}}\nscrape_configs:\n- job_name: tidegate\n  static_configs: [{{targets: ['{target}']}}]\n"
        );
        std::fs::write(&config, text).unwrap();
        let log = std::fs::File::create(folder.join("prometheus.log")).unwrap();
        let child = Command::new("prometheus")
            .arg(format!("--config.file={}", config.display()))
            .arg(format!("--storage.tsdb.path={}", folder.join("prometheus").display()))
            .arg(format!("--web.listen-address={address}"))
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        Self { child, address }
    }

    /// The value of an expression with one result.
    fn value(&self, expression: &str) -> Option<f64> {
        let escaped: String = expression.bytes().map(|b| format!("%{b:02x}")).collect();
        let (_, body) = ask(&self.address, "GET", &format!("/api/v1/query?query={escaped}"), "")?;
        // The body may come in chunks: the answer begins at its first brace.
        let body = body.get(body.find('{')?..=body.rfind('}')?)?;
        let answer: Value = serde_json::from_str(body).ok()?;
        answer["data"]["result"][0]["value"][1].as_str()?.parse().ok()
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_job_is_scraped_stopped_over_http_and_goes_on_without_loss_or_repetition() {
    let mut scene = scene(Scene::new("service", 2)).feed(2000);
    let (mut program, address) = start(&scene);
    let prometheus = Prometheus::start(&scene.job.folder, &address);
    wait_for("the job to be ready", || get(&address, "/readyz").0 == 200);
    assert_eq!(get(&address, "/healthz").0, 200);
    wait_for("Prometheus to see checkpoints", || {
        prometheus.value("tidegate_checkpoints_completed_total").is_some_and(|n| n >= 3.0)
    });
    let expressions = [
        "up",
        "sum(tidegate_operator_records_in_total{operator='count'})",
        "sum(tidegate_operator_records_out_total{operator='clicks'})",
        "sum(tidegate_operator_records_in_total{operator='counts'})",
        "sum(tidegate_source_records_total)",
        "sum(tidegate_transactions_total{result='committed'})",
        "tidegate_checkpoint_duration_seconds_count",
        "tidegate_checkpoint_phase_seconds_count{phase='publish'}",
        "tidegate_checkpoint_phase_seconds_count{phase='commit'}",
        "tidegate_transaction_deadline_seconds",
        "tidegate_job_running",
        "tidegate_build_info",
        "process_resident_memory_bytes",
    ];
    for expression in expressions {
        wait_for(expression, || prometheus.value(expression).is_some_and(|value| value > 0.0));
    }
    for expression in [
        "count(tidegate_source_lag_records) == 4",
        "count(tidegate_source_high_watermark_lag_records) == 4",
        "tidegate_checkpoint_age_seconds < 60",
        "tidegate_restarts_total == 0",
        "sum(tidegate_checkpoints_failed_total) < 3",
    ] {
        wait_for(expression, || prometheus.value(expression).is_some());
    }
    lint(&get(&address, "/metrics").1);

    assert_eq!(ask(&address, "POST", "/v1/stop", "origin: http://page\r\n").unwrap().0, 403);
    for (path, status) in [("/v1/operations/unknown", 404), ("/v1/stop", 405), ("/nothing", 404)] {
        let (found, body) = get(&address, path);
        assert!(found == status && json(&body)["error"].is_string(), "{path}: {found} {body}");
    }
    let (status, body) = ask(&address, "POST", "/v1/stop", "").unwrap();
    assert_eq!(status, 202, "{body}");
    let id = json(&body)["id"].as_str().unwrap().to_owned();
    let mut last = Value::Null;
    wait_for("the stop", || {
        last = json(&get(&address, &format!("/v1/operations/{id}")).1);
        last["state"] != "running"
    });
    assert_eq!(last["state"], "succeeded", "{last}");
    assert!(last["checkpoint"].as_u64().unwrap() > 0, "{last}");
    assert!(program.wait(PATIENCE).unwrap().success(), "log {}", scene.log());

    let (mut program, _) = start(&scene);
    scene.wait_for_progress();
    program.stop(PATIENCE).unwrap();
    let (program, _) = start(&scene);
    scene.wait_for_progress();
    scene.drain(program);
    drop(prometheus);
    let log = std::fs::read_to_string(scene.job.log()).unwrap();
    let objects = log.lines().filter(|line| line.starts_with('{')).map(json).count();
    assert!(objects > 10, "the log is one object a line");
    scene.judge();
}

#[test]
fn a_cancelled_job_ends_without_a_checkpoint_and_goes_on_from_its_last() {
    let mut scene = scene(Scene::new("service-cancel", 1)).feed(2000);
    let (mut program, address) = start(&scene);
    scene.wait_for_progress();
    let (status, body) = ask(&address, "POST", "/v1/cancel", "").unwrap();
    assert_eq!(status, 202, "{body}");
    assert!(program.wait(PATIENCE).unwrap().success(), "log {}", scene.log());
    assert!(scene.has_logged("cancelled with checkpoint"), "log {}", scene.log());
    let (program, _) = start(&scene);
    scene.wait_for_progress();
    scene.drain(program);
    scene.judge();
}

#[test]
fn a_cancellation_that_cannot_settle_says_so() {
    let mut scene = Scene::new("service-cancel-away", 1).feed(2000);
    scene.die_with_prepared();
    let mut program = scene.pause_at("start.after_claim:1");
    let address = http::address(&scene, scene.times_logged("over HTTP") - 1);
    let manifests = scene.job.folder.join("checkpoints").join(&scene.job.group).join("manifest");
    let aside = manifests.with_extension("aside");
    std::fs::rename(&manifests, &aside).unwrap();
    std::fs::write(&manifests, "no folder").unwrap();
    process::resume(program.pid()).unwrap();
    scene.until("the attempt to fail", || scene.has_logged("attempt failed"));
    let (status, body) = ask(&address, "POST", "/v1/cancel", "").unwrap();
    assert_eq!(status, 202, "{body}");
    assert!(!program.wait(PATIENCE).unwrap().success(), "log {}", scene.log());
    assert!(scene.has_logged("left to the next start"), "log {}", scene.log());
    std::fs::remove_file(&manifests).unwrap();
    std::fs::rename(&aside, &manifests).unwrap();
    let program = scene.start();
    scene.drain(program);
    scene.judge();
}

#[test]
fn silent_connections_take_few_descriptors_and_none_for_ever() {
    let mut scene = scene(Scene::new("service-silent", 1)).feed(2000);
    let (mut program, address) = start(&scene);
    scene.wait_for_progress();
    let descriptors = |program: &Program| process::threads_and_descriptors(program.pid()).1;
    let before = descriptors(&program);
    // Some are open, some wait in the kernel's queue, for the others there is no room.
    let peer = address.parse().unwrap();
    let connect = |_| TcpStream::connect_timeout(&peer, Duration::from_millis(10)).ok();
    let silent: Vec<TcpStream> = (0..300).filter_map(connect).collect();
    assert!(silent.len() > 100, "{}", silent.len());
    let more = descriptors(&program) - before;
    assert!(more < 80, "{more} more descriptors with {} connections", silent.len());
    scene.wait_for_progress();
    program.must_run().unwrap();
    drop(silent);
    wait_for("an answer", || ask(&address, "GET", "/healthz", "").is_some_and(|(status, _)| status == 200));
    scene.drain(program);
    scene.judge();
}

#[test]
fn readiness_follows_the_job_and_liveness_does_not_follow_the_brokers() {
    let cluster = Cluster::up("service", &["--transaction-version", "2"]);
    let mut scene =
        scene(Scene::at(&cluster.bootstrap, "service-ready", 1)).flag("checkpoint-timeout", "3s").feed(2000);
    let (program, address) = start(&scene);
    wait_for("the job to be ready", || get(&address, "/readyz").0 == 200);
    scene.wait_for_progress();
    cluster.pause(1);
    wait_for("the job not to be ready", || get(&address, "/readyz").0 == 503);
    let reason = json(&get(&address, "/readyz").1)["reason"].as_str().unwrap_or_default().to_owned();
    assert!(!reason.is_empty(), "it says why");
    assert_eq!(get(&address, "/healthz").0, 200);
    cluster.resume(1);
    wait_for("the job to be ready again", || get(&address, "/readyz").0 == 200);
    scene.drain(program);
    scene.judge();
}
