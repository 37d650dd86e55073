//! The raw client while the coordinator of a prepared transaction dies: the facts are the same at the
//! next one, the commit goes through, and every partition's log says so.
//!
//! It starts three brokers of its own below `TIDEGATE_RUN_DIR`, which `make test` sets, and which is
//! emptied of processes when the run ends.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

use rdkafka::config::ClientConfig;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer as _};
use tidegate::connector::kafka::raw::{
    Client, Deadline, EndOutcome, ErrorKind, Marker, Producer, Settings, TopicPartition, TransactionState,
};

/// Runs `scripts/servers`; gives what it prints.
fn servers(arguments: &[&str]) -> String {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/servers");
    let output = Command::new(script).args(arguments).output().unwrap();
    let problem = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "scripts/servers {arguments:?}: {problem}");
    String::from_utf8(output.stdout).unwrap()
}

fn soon() -> Deadline {
    Deadline::after(Duration::from_secs(60))
}

/// A transaction with one record in each of the topic's three partitions, whose producer is gone.
fn abandon(bootstrap: &str, id: &str, topic: &str) {
    let producer: BaseProducer = ClientConfig::new()
        .set("bootstrap.servers", bootstrap)
        .set("transactional.id", id)
        .set("transaction.timeout.ms", "600000")
        .create()
        .unwrap();
    producer.init_transactions(Duration::from_secs(60)).unwrap();
    producer.begin_transaction().unwrap();
    for partition in 0..3 {
        let record = BaseRecord::<[u8], str>::to(topic).partition(partition).payload("a");
        producer.send(record).map_err(|(error, _)| error).unwrap();
    }
    producer.flush(Duration::from_secs(60)).unwrap();
    assert_eq!(producer.in_flight_count(), 0, "every record is acknowledged");
}

#[test]
fn a_prepared_transaction_outlives_its_coordinator_and_is_committed() {
    let run = std::env::var("TIDEGATE_RUN_DIR")
        .expect("TIDEGATE_RUN_DIR is not set: this test starts brokers below it; run `make test`");
    let dir = Path::new(&run).join("kafka-failover");
    let dir = dir.to_str().unwrap();
    let printed = servers(&["up", "--nodes", "3", "--dir", dir]);
    let bootstrap = printed.lines().find_map(|line| line.strip_prefix("bootstrap=")).unwrap();
    servers(&["topic", "--bootstrap", bootstrap, "--create", "output", "--partitions", "3"]);
    abandon(bootstrap, "job.1", "output");

    let properties = [("bootstrap.servers".to_owned(), bootstrap.to_owned())];
    let settings = Settings::from_librdkafka(&properties.into()).unwrap();
    let mut client = Client::new(settings.request_timeout(Duration::from_secs(2)));
    let before = client.describe_transaction("job.1", soon()).unwrap().unwrap();
    let coordinator = client.find_transaction_coordinator("job.1", soon()).unwrap();
    servers(&["stop-node", "--kill", "--dir", dir, "--node", &coordinator.to_string()]);

    let short = Deadline::after(Duration::from_secs(1));
    let error = client.describe_transaction("job.1", short).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Deadline, "the dead broker is still named: {error}");
    // And a job can start meanwhile.
    let checked = client.check(&[TopicPartition::new("output", 0)], soon()).unwrap();
    assert_eq!(checked.brokers.len(), 2, "{:?}", checked.brokers);
    assert!(checked.brokers.iter().all(|broker| broker.id != coordinator), "{:?}", checked.brokers);

    let after = client.describe_transaction("job.1", soon()).unwrap().unwrap();
    assert_eq!(after, before);
    assert_ne!(client.find_transaction_coordinator("job.1", soon()).unwrap(), coordinator);
    let listed = client.list_transactions(&[TransactionState::Ongoing], soon()).unwrap();
    assert_eq!(listed.len(), 1, "{listed:?}");

    let producer = Producer { id: before.producer_id, epoch: before.producer_epoch };
    let deadline = soon();
    loop {
        let outcome = client.end_transaction("job.1", producer, true, deadline).unwrap();
        let now = client.describe_transaction("job.1", deadline).unwrap().unwrap();
        assert_eq!(now.start_ms, before.start_ms);
        if now.state == TransactionState::CompleteCommit {
            break;
        }
        assert!(!deadline.passed(), "{outcome:?}, still {}", now.state);
        assert!(!matches!(outcome, EndOutcome::OtherState | EndOutcome::OtherProducer), "{outcome:?}");
        thread::sleep(Duration::from_millis(20));
    }
    for partition in 0..3 {
        let at = TopicPartition::new("output", partition);
        let marker = client.find_marker(&at, before.producer_id, 1, soon()).unwrap();
        assert_eq!(marker, Marker::Committed { offset: 1 }, "{at}");
    }
    servers(&["down", "--dir", dir, "--purge"]);
}
