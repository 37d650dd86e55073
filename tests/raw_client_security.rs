//! The raw client against a broker with SASL, TLS and access rights: what works, and that what does not
//! is named.
//!
//! It starts a Kafka of its own below `TIDEGATE_RUN_DIR`, which `make test` sets, and which is emptied
//! of processes when the run ends.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;
use std::thread;
use std::time::Duration;

use tidegate::connector::kafka::raw::{
    Client, Code, ConfigResource, Deadline, EndOutcome, Error, ErrorKind, Producer, Settings, TopicPartition,
    TransactionState,
};

/// How long a session of SASL lives here.
const SESSION: Duration = Duration::from_secs(2);

static CLUSTER: LazyLock<Cluster> = LazyLock::new(Cluster::start);

struct Cluster {
    dir: PathBuf,
    /// What `scripts/servers up` printed.
    addresses: BTreeMap<String, String>,
}

impl Cluster {
    fn start() -> Self {
        let run = std::env::var("TIDEGATE_RUN_DIR")
            .expect("TIDEGATE_RUN_DIR is not set: these tests start a broker below it; run `make test`");
        let dir = Path::new(&run).join("kafka-with-security");
        let authority = dir.join("tls/ca.pem");
        let properties = [
            format!("connections.max.reauth.ms={}", SESSION.as_millis()),
            "listener.name.ssl.ssl.client.auth=requested".to_owned(),
            "listener.name.sasl_ssl.ssl.client.auth=required".to_owned(),
            "ssl.truststore.type=PEM".to_owned(),
            format!("ssl.truststore.location={}", authority.display()),
        ];
        let mut arguments = vec!["up", "--sasl", "--acl", "--tls", "--dir", dir.to_str().unwrap()];
        for property in &properties {
            arguments.extend(["--property", property]);
        }
        let printed = servers(&arguments);
        let addresses = printed.lines().filter_map(|line| line.split_once('='));
        let addresses = addresses.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        let cluster = Self { dir, addresses };
        let bootstrap = cluster.at("bootstrap");
        for topic in ["open", "closed"] {
            servers(&["topic", "--bootstrap", bootstrap, "--create", topic, "--partitions", "1"]);
        }
        for right in [
            &["--operation", "Read", "--operation", "DescribeConfigs", "--topic", "open"][..],
            &["--operation", "Write", "--transactional-id", "job.", "--resource-pattern-type", "prefixed"],
        ] {
            let tool = ["tool", "AclCommand", "--bootstrap-server", bootstrap, "--add"];
            servers(&[&tool, &["--allow-principal", "User:alice"][..], right].concat());
        }
        cluster.make_client_certificate();
        cluster
    }

    fn at(&self, listener: &str) -> &str {
        &self.addresses[listener]
    }

    /// A certificate that the brokers trust, with the key encrypted, also as a PKCS#12 file.
    fn make_client_certificate(&self) {
        let script = "
            openssl req -x509 -newkey rsa:2048 -passout pass:key-secret -days 2 -subj /CN=client \
              -CA ca.pem -CAkey ca.key -keyout client.key -out client.crt
            openssl pkcs12 -export -in client.crt -inkey client.key -passin pass:key-secret \
              -out client.p12 -passout pass:store-secret";
        let made = Command::new("bash").args(["-euc", script]).current_dir(self.dir.join("tls")).output();
        let made = made.unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    }

    fn tls(&self, file: &str) -> String {
        self.dir.join("tls").join(file).display().to_string()
    }
}

/// Runs `scripts/servers`; gives what it prints.
fn servers(arguments: &[&str]) -> String {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/servers");
    let output = Command::new(script).args(arguments).output().unwrap();
    assert!(
        output.status.success(),
        "scripts/servers {arguments:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}

fn soon() -> Deadline {
    Deadline::after(Duration::from_secs(20))
}

fn client(listener: &str, settings: &[(&str, &str)]) -> Client {
    let properties = settings.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned()));
    let server = ("bootstrap.servers".to_owned(), CLUSTER.at(listener).to_owned());
    Client::new(Settings::from_librdkafka(&properties.chain([server]).collect()).unwrap())
}

fn sasl(mechanism: &str, user: &str, password: &str) -> Client {
    client(
        "sasl_bootstrap",
        &[
            ("security.protocol", "sasl_plaintext"),
            ("sasl.mechanism", mechanism),
            ("sasl.username", user),
            ("sasl.password", password),
        ],
    )
}

fn brokers(client: &mut Client) -> Result<usize, Error> {
    client.metadata(Some(&[]), soon()).map(|metadata| metadata.brokers.len())
}

#[test]
fn every_mechanism_authenticates() {
    for mechanism in ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] {
        assert_eq!(brokers(&mut sasl(mechanism, "admin", "admin-secret")).unwrap(), 1, "{mechanism}");
    }
}

#[test]
fn a_wrong_password_is_named_at_once_and_not_printed() {
    for mechanism in ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] {
        let error = brokers(&mut sasl(mechanism, "admin", "guess")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Configuration, "{error}");
        let text = error.to_string();
        for part in [mechanism, "\"admin\"", "error 58 (SaslAuthenticationFailed)", "uthentication failed"] {
            assert!(text.contains(part), "{part} in: {text}");
        }
        assert!(!text.contains("guess"), "{text}");
    }
}

#[test]
fn a_session_is_renewed_before_it_ends() {
    let mut client = sasl("SCRAM-SHA-256", "admin", "admin-secret");
    let producer = Producer { id: 1, epoch: 0 };
    for parts in [0, 1, 1, 1, 1, 1, 1, 6] {
        thread::sleep(SESSION * parts / 4);
        // The one request that is never repeated: an ended session would show.
        let outcome = client.end_transaction("nobody", producer, true, soon()).unwrap();
        assert!(matches!(outcome, EndOutcome::OtherProducer), "{outcome:?}");
    }
}

#[test]
fn a_listener_that_asks_for_more_than_the_settings_have_is_an_error_with_a_hint() {
    let mut without_sasl = client("sasl_bootstrap", &[]);
    let error = without_sasl.metadata(None, Deadline::after(Duration::from_secs(2))).unwrap_err();
    assert!(error.to_string().contains("expects TLS or SASL"), "{error}");
    let mut without_tls = client("tls_bootstrap", &[]);
    let error = without_tls.metadata(None, Deadline::after(Duration::from_secs(2))).unwrap_err();
    assert!(error.to_string().contains("TLS"), "{error}");
    let mut with_tls = client("bootstrap", &[("security.protocol", "ssl")]);
    let error = with_tls.metadata(None, Deadline::after(Duration::from_secs(2))).unwrap_err();
    assert!(error.to_string().contains("does not speak TLS"), "{error}");
}

#[test]
fn tls_trusts_the_authority_of_the_settings_and_no_other() {
    let authority = CLUSTER.tls("ca.pem");
    let pem = std::fs::read_to_string(&authority).unwrap();
    let ssl = ("security.protocol", "ssl");
    assert_eq!(brokers(&mut client("tls_bootstrap", &[ssl, ("ssl.ca.location", &authority)])).unwrap(), 1);
    assert_eq!(brokers(&mut client("tls_bootstrap", &[ssl, ("ssl.ca.pem", &pem)])).unwrap(), 1);
    let blind = [ssl, ("enable.ssl.certificate.verification", "false")];
    assert_eq!(brokers(&mut client("tls_bootstrap", &blind)).unwrap(), 1);

    let error = brokers(&mut client("tls_bootstrap", &[ssl])).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Configuration, "{error}");
    assert!(error.to_string().contains("check ssl.ca.location"), "{error}");

    let missing = [ssl, ("ssl.ca.location", "/nowhere/ca.pem")];
    let error = brokers(&mut client("tls_bootstrap", &missing)).unwrap_err();
    assert!(error.to_string().contains("ssl.ca.location: cannot read /nowhere/ca.pem"), "{error}");
}

#[test]
fn a_client_certificate_is_shown_where_the_listener_requires_one() {
    let (authority, certificate, key, store) = (
        CLUSTER.tls("ca.pem"),
        CLUSTER.tls("client.crt"),
        CLUSTER.tls("client.key"),
        CLUSTER.tls("client.p12"),
    );
    let base = [
        ("security.protocol", "sasl_ssl"),
        ("sasl.mechanism", "SCRAM-SHA-512"),
        ("sasl.username", "admin"),
        ("sasl.password", "admin-secret"),
        ("ssl.ca.location", &*authority),
    ];
    let with = |more: &[(&str, &str)]| brokers(&mut client("sasl_tls_bootstrap", &[&base, more].concat()));
    let files = [("ssl.certificate.location", &*certificate), ("ssl.key.location", &key)];
    let [right, wrong] = ["key-secret", "guess"].map(|password| ("ssl.key.password", password));
    assert_eq!(with(&[files[0], files[1], right]).unwrap(), 1);
    let stores = [("ssl.keystore.location", &*store), ("ssl.keystore.password", "store-secret")];
    assert_eq!(with(&stores).unwrap(), 1);

    for (more, expected) in [
        (&[][..], "the broker refused our certificate"),
        (&[files[0], files[1], wrong], "ssl.key.password: is not usable"),
        (&[files[0], files[1]], "ssl.key.location: is not usable"),
        (&files[..1], "ssl.key.location: is missing beside the certificate"),
        (&[stores[0], ("ssl.keystore.password", "guess")], "ssl.keystore.password: is not usable"),
    ] {
        let error = with(more).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Configuration, "{error}");
        assert!(error.to_string().contains(expected), "{expected} in: {error}");
    }
}

#[test]
fn a_missing_right_is_a_matter_of_configuration_and_names_its_subject() {
    let mut alice = sasl("PLAIN", "alice", "alice-secret");
    let allowed = TopicPartition::new("open", 0);
    let checked = alice.check(&[allowed], soon()).unwrap();
    assert_eq!(checked.transaction_version, 2);
    assert_eq!(alice.describe_transaction("job.1", soon()).unwrap(), None);
    alice.init_producer_id("job.1", Duration::from_secs(60), soon()).unwrap();
    let described = alice.describe_transaction("job.1", soon()).unwrap().unwrap();
    assert_eq!(described.state, TransactionState::Empty);
    alice.describe_configs(&ConfigResource::Topic("open".to_owned()), soon()).unwrap();

    let closed = TopicPartition::new("closed", 0);
    let refusals = [
        (alice.check(&[closed], soon()).map(drop), 29, "topic \"closed\" partition 0"),
        (alice.describe_transaction("other", soon()).map(drop), 53, "transactional id \"other\""),
        (alice.describe_configs(&ConfigResource::Broker(1), soon()).map(drop), 31, "broker 1"),
        (alice.fetch_offsets("group", &[], soon()).map(drop), 30, "consumer group \"group\""),
    ];
    for (result, code, subject) in refusals {
        let error = result.unwrap_err();
        assert_eq!(error.code(), Code::of(code), "{error}");
        assert_eq!(error.kind(), ErrorKind::Configuration, "{error}");
        assert!(error.to_string().contains(subject), "{subject} in: {error}");
    }
}
