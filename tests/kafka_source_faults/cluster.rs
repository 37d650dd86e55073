//! A cluster of one test.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use rdkafka::config::ClientConfig;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use tidegate::connector::kafka::raw::{Client, Deadline, Settings, TopicPartition};

use crate::running::PATIENCE;

/// Stopped and removed when dropped.
pub(crate) struct Cluster {
    dir: PathBuf,
    addresses: BTreeMap<String, String>,
}

impl Cluster {
    pub(crate) fn start(name: &str, arguments: &[&str]) -> Self {
        let run = std::env::var("TIDEGATE_RUN_DIR")
            .expect("TIDEGATE_RUN_DIR is not set: these tests start brokers below it; run `make test`");
        let dir = Path::new(&run).join(name);
        let printed = servers(&[&["up", "--dir", dir.to_str().unwrap()], arguments].concat());
        let addresses = printed.lines().filter_map(|line| line.split_once('='));
        let addresses = addresses.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        Self { dir, addresses }
    }

    pub(crate) fn at(&self, listener: &str) -> &str {
        &self.addresses[listener]
    }

    pub(crate) fn create(&self, topic: &str, partitions: i32, replicas: i32) {
        let (partitions, replicas) = (partitions.to_string(), replicas.to_string());
        self.tool(
            "TopicCommand",
            &[
                "--create",
                "--topic",
                topic,
                "--partitions",
                &partitions,
                "--replication-factor",
                &replicas,
                "--config",
                "min.insync.replicas=1",
            ],
        );
    }

    pub(crate) fn tool(&self, class: &str, arguments: &[&str]) {
        servers(&[&["tool", class, "--bootstrap-server", self.at("bootstrap")], arguments].concat());
    }

    pub(crate) fn node(&self, command: &str, node: i32, options: &[&str]) {
        let (dir, node) = (self.dir.to_str().unwrap(), node.to_string());
        servers(&[&[command, "--dir", dir, "--node", &node], options].concat());
    }

    pub(crate) fn write(&self, topic: &str, partition: i32, values: &[&str]) {
        let producer: BaseProducer =
            ClientConfig::new().set("bootstrap.servers", self.at("bootstrap")).create().unwrap();
        for value in values {
            let record = BaseRecord::<[u8], str>::to(topic).partition(partition).payload(value);
            producer.send(record).map_err(|(error, _)| error).unwrap();
        }
        producer.flush(PATIENCE).unwrap();
        assert_eq!(producer.in_flight_count(), 0, "every record is acknowledged");
    }

    fn client(&self) -> Client {
        let properties = BTreeMap::from([("bootstrap.servers".to_owned(), self.at("bootstrap").to_owned())]);
        Client::new(Settings::from_librdkafka(&properties).unwrap())
    }

    /// What a group has committed in partition 0.
    pub(crate) fn committed(&self, group: &str, topic: &str) -> Option<i64> {
        let at = [TopicPartition::new(topic, 0)];
        let found = self.client().fetch_offsets(group, &at, Deadline::after(PATIENCE)).unwrap();
        found.first().map(|committed| committed.offset)
    }

    /// The broker that leads a partition.
    pub(crate) fn leader(&self, topic: &str, partition: i32) -> i32 {
        let metadata = self.client().metadata(Some(&[topic]), Deadline::after(PATIENCE)).unwrap();
        let partitions = &metadata.topic(topic).unwrap().partitions;
        partitions.iter().find(|p| p.partition == partition).unwrap().leader.unwrap()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        servers(&["down", "--dir", self.dir.to_str().unwrap(), "--purge"]);
    }
}

/// Runs `scripts/servers`; gives what it prints.
fn servers(arguments: &[&str]) -> String {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/servers");
    let output = Command::new(script).args(arguments).output().unwrap();
    let problem = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "scripts/servers {arguments:?}: {problem}");
    String::from_utf8(output.stdout).unwrap()
}
