//! Credentials and access rights.

use std::time::Duration;

use tidegate::connector::SourceControl;
use tidegate::connector::kafka::Connection;
use tidegate::connector::kafka::source::{KafkaRecord, KafkaSource};
use tidegate::model::Advice;

use crate::cluster::Cluster;
use crate::running::Running;

fn source(cluster: &Cluster, mechanism: &str, password: &str) -> KafkaSource<KafkaRecord> {
    let connection = Connection::new(cluster.at("sasl_bootstrap"))
        .property("security.protocol", "sasl_plaintext")
        .property("sasl.mechanism", mechanism)
        .property("sasl.username", "alice")
        .property("sasl.password", password);
    KafkaSource::bytes(connection, "job").topics(["input"])
}

#[test]
fn a_wrong_password_and_each_missing_right_are_named() {
    let cluster = Cluster::start("kafka-source-rights", &["--sasl", "--acl"]);
    cluster.create("input", 1, 1);
    cluster.write("input", 0, &["a"]);
    let change = |what: &str, right: &[&str]| {
        let who = [what, "--force", "--allow-principal", "User:alice"];
        cluster.tool("AclCommand", &[&who[..], right].concat());
    };
    let refused = |password: &str, parts: &[&str]| {
        let failure = source(&cluster, "SCRAM-SHA-256", password).check().unwrap_err();
        assert_eq!(failure.advice, Advice::FixConfiguration, "{failure}");
        assert!(!failure.text.contains("guess"), "the password is printed: {failure}");
        for part in parts {
            assert!(failure.text.contains(part), "{part:?} is missing in: {failure}");
        }
    };
    refused("guess", &["SCRAM-SHA-256", "\"alice\"", "uthentication"]);
    refused("alice-secret", &["topic input", "rights to read and describe"]);
    change("--add", &["--operation", "Describe", "--topic", "input"]);
    refused("alice-secret", &["input", "\"alice\"", "right to read"]);
    change("--add", &["--operation", "Read", "--topic", "input"]);
    refused("alice-secret", &["\"alice\"", "consumer group \"job\""]);
    change("--add", &["--operation", "Read", "--group", "job"]);

    let mut running = Running::start(source(&cluster, "SCRAM-SHA-256", "alice-secret"));
    running.poll_until("the record", |out| out.records.len() == 1);

    // A right that is taken away while the job runs is no reason to wait for ever.
    change("--remove", &["--operation", "Read", "--topic", "input"]);
    change("--remove", &["--operation", "Describe", "--topic", "input"]);
    std::thread::sleep(Duration::from_millis(200));
    cluster.write("input", 0, &["b"]);
    let failure = running.failure();
    assert_eq!(failure.advice, Advice::FixConfiguration, "{failure}");
    assert!(failure.text.contains("\"alice\"") && failure.text.contains("input"), "{failure}");
}

#[test]
fn a_user_that_is_not_let_in_any_more_is_told_and_not_waited_for() {
    let cluster = Cluster::start("kafka-source-user", &["--sasl"]);
    cluster.create("input", 1, 1);
    cluster.write("input", 0, &["a"]);
    let mut running = Running::start(source(&cluster, "PLAIN", "alice-secret"));
    running.poll_until("the record", |out| out.records.len() == 1);
    let users = "listener.name.sasl_plaintext.plain.sasl.jaas.config=\
                 org.apache.kafka.common.security.plain.PlainLoginModule required user_alice=\"another\";";
    cluster.node("stop-node", 1, &[]);
    cluster.node("start-node", 1, &["--property", users]);
    let failure = running.failure();
    assert_eq!(failure.advice, Advice::FixConfiguration, "{failure}");
    assert!(failure.text.contains("sasl.password") && failure.text.contains("uthentication"), "{failure}");
}
