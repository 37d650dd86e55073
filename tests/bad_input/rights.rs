//! Credentials and access rights, at a Kafka of this test's own.

use crate::job::{Job, variable};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Stopped and removed when dropped.
struct Cluster {
    dir: PathBuf,
    bootstrap: String,
    sasl_bootstrap: String,
}

/// Runs `scripts/servers`; gives what it prints.
fn servers(arguments: &[&str]) -> String {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/servers");
    let output = Command::new(script).args(arguments).output().unwrap();
    let problem = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "scripts/servers {arguments:?}: {problem}");
    String::from_utf8(output.stdout).unwrap()
}

impl Cluster {
    fn start() -> Self {
        let dir = PathBuf::from(variable("TIDEGATE_RUN_DIR")).join("kafka-bad-input");
        let printed = servers(&["up", "--sasl", "--acl", "--dir", dir.to_str().unwrap()]);
        let at = |name: &str| {
            printed
                .lines()
                .find_map(|line| line.strip_prefix(name))
                .expect("it prints its addresses")
                .to_owned()
        };
        Self { bootstrap: at("bootstrap="), sasl_bootstrap: at("sasl_bootstrap="), dir }
    }

    /// Gives alice these rights on one thing.
    fn allow(&self, operations: &[&str], on: &[&str]) {
        let tool = ["tool", "AclCommand", "--bootstrap-server", &self.bootstrap, "--add"];
        let operations: Vec<&str> = operations.iter().flat_map(|right| ["--operation", *right]).collect();
        servers(&[&tool, &["--allow-principal", "User:alice"][..], &operations, on].concat());
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        servers(&["down", "--dir", self.dir.to_str().unwrap(), "--purge"]);
    }
}

fn with_password(job: &Job, password: &str) -> Job {
    job.with(&[
        "--property",
        "security.protocol=sasl_plaintext",
        "--property",
        "sasl.mechanism=SCRAM-SHA-256",
        "--property",
        "sasl.username=alice",
        "--property",
        &format!("sasl.password={password}"),
    ])
}

#[test]
fn wrong_credentials_and_each_missing_right() {
    let cluster = Cluster::start();
    let judged = Job::at(&cluster.bootstrap, "rights", &[]);
    judged.feed(2000);
    let mut job = judged.clone();
    job.bootstrap.clone_from(&cluster.sasl_bootstrap);
    job.must_refuse(&[&job.bootstrap, "expects TLS or SASL", "up and reachable?"]);
    let other =
        ["--property", "security.protocol=sasl_plaintext", "--property", "sasl.mechanism=OAUTHBEARER"];
    job.with(&other)
        .must_refuse(&["sasl.mechanism: OAUTHBEARER is not supported: use PLAIN, SCRAM-SHA-256 or"]);
    let mut wrong = with_password(&job, "guess").start_to_end();
    let refused = "Authentication failed";
    wrong
        .must_fail(1, &["SCRAM-SHA-256", "user \"alice\"", refused, "check sasl.username and sasl.password"]);
    assert!(!wrong.said().contains("guess"), "the password is printed");

    let job = with_password(&job, "alice-secret");
    let (input, output, group) = (job.input.as_str(), job.output.as_str(), job.group.as_str());
    job.must_refuse(&[
        "operator clicks",
        input,
        "TopicAuthorizationFailed",
        "rights to read and describe it",
    ]);
    cluster.allow(&["Read"], &["--topic", input]);
    job.must_refuse(&["operator clicks", "\"alice\" needs the right to read the consumer group", group]);
    cluster.allow(&["Read"], &["--group", group]);
    let needs = "it needs Write, Read and DescribeConfigs on the topic";
    let cannot = format!("operator counts (counts): topic {output} cannot be written: user \"alice\"");
    job.must_refuse(&[&format!("{cannot} may not even see it"), needs]);
    cluster.allow(&["Read"], &["--topic", output]);
    job.must_refuse(&[&format!("{cannot} has no right to Write and DescribeConfigs"), needs]);
    cluster.allow(&["Write", "DescribeConfigs"], &["--topic", output]);
    job.must_refuse(&[
        "operator counts",
        "ClusterAuthorizationFailed",
        "\"alice\" needs DescribeConfigs on the cluster",
    ]);
    cluster.allow(&["DescribeConfigs"], &["--cluster"]);
    let prefix = format!("tidegate:{group}:");
    job.must_refuse(&[
        "operator counts",
        "TransactionalIdAuthorizationFailed",
        &format!("\"alice\" needs Write on the transactional ids with the prefix {prefix}"),
    ]);
    cluster.allow(&["Write"], &["--transactional-id", &prefix, "--resource-pattern-type", "prefixed"]);
    job.start_to_end().must_end_well();
    judged.must_be_exact();
}
