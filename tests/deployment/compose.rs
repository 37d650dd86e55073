//! The compose file, as the loader behind `docker compose config` reads it.

use crate::helm::checkout;
use crate::program;
use crate::support::run_dir;
use serde_json::{Value, json};
use std::process::Command;

fn load() -> Value {
    let loader = std::env::var("COMPOSE_LOADER").expect("COMPOSE_LOADER is not set: run `make test`");
    let file = checkout("docker/compose.yaml");
    let output = Command::new(loader).args(["-format", "json"]).arg(file).output().unwrap();
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words}");
    serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {words}"))
}

#[test]
fn the_job_is_locked_down_alone_and_has_time_to_stop() {
    let job = &load()["services"]["job"];
    assert_eq!(job["read_only"], true);
    assert_eq!(job["cap_drop"], json!(["ALL"]));
    assert_eq!(job["security_opt"], json!(["no-new-privileges:true"]));
    assert!(job["container_name"].is_string(), "a service with a name of its container cannot be scaled");
    assert_eq!(job["stop_grace_period"], "90s", "the timeout of a checkpoint and 30 seconds");
    assert_eq!(job["build"]["dockerfile"], "docker/Dockerfile");
    assert!(job["ports"].as_array().unwrap().iter().all(|port| port["host_ip"] == "127.0.0.1"));
    let volumes = job["volumes"].as_array().unwrap();
    assert!(volumes.iter().any(|volume| volume["target"] == "/var/lib/tidegate"));
}

#[test]
fn its_variables_are_settings_of_the_program() {
    let project = load();
    let variables = project["services"]["job"]["environment"].as_object().unwrap();
    let variables: Vec<_> =
        variables.iter().map(|(name, value)| (name.clone(), value.as_str().unwrap().to_owned())).collect();
    assert!(!variables.is_empty());
    assert_eq!(program::problems(None, &variables), [""; 0]);
}

#[test]
fn prometheus_takes_its_configuration() {
    let project = load();
    let file = run_dir().join("compose-prometheus.yml");
    std::fs::write(&file, project["configs"]["prometheus"]["content"].as_str().unwrap()).unwrap();
    let output = Command::new("promtool").args(["check", "config"]).arg(&file).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
