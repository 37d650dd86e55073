//! What the chart refuses, and with which words.

use crate::helm::{self, S3, VOLUME};

#[test]
fn bad_values_are_refused_with_the_reason() {
    let cases = [
        ("replicas=2", "additional properties 'replicas' not allowed"),
        (
            "config.checkpoint.intervall=3s",
            "'/config/checkpoint': additional properties 'intervall' not allowed",
        ),
        ("config.checkpoint.interval=3", "'/config/checkpoint/interval': got number, want string"),
        ("config.checkpoint.interval=3 fortnights", "'/config/checkpoint/interval'"),
        ("config.job.parallelism=0", "'/config/job/parallelism': minimum: got 0, want 1"),
        ("config.http.address=127.0.0.1:8080", "'/config/http/address'"),
        ("config.checkpoint.storage=memory://x", "would be gone with the pod"),
        ("config.checkpoint.storage=file:///tmp/x", "is not on the volume"),
        ("config.checkpoint.storage=", "config.checkpoint.storage must be given"),
        ("config.savepoint.folder=/tmp/x", "config.savepoint.folder /tmp/x is not on the volume"),
        ("config.checkpoint.local_recovery=/tmp/x", "it must be /var/cache/tidegate or below"),
        ("config.job.fresh=true", "would drop the job's state at each restart"),
        ("config.source.until_end=true", "Kubernetes would start this one again and again"),
        ("config.kafka.properties.sasl\\.password=x", "sasl.password is a secret"),
        ("config.kafka.properties.ssl\\.key\\.pem=x", "ssl.key.pem is a secret"),
        ("volume.accessMode=ReadWriteMany", "value must be one of 'ReadWriteOncePod', 'ReadWriteOnce'"),
        ("terminationGracePeriodSeconds=60", "too short for a stop with a checkpoint"),
        ("image.digest=latest", "'/image/digest'"),
    ];
    for (set, words) in cases {
        let said = helm::text(VOLUME, &[set]).expect_err(set);
        assert!(said.contains(words), "{set}: {said}");
    }
    let said = helm::text(S3, &["config.kafka.client_properties=/etc/mine"]).unwrap_err();
    assert!(said.contains("give one of them"), "{said}");
}

#[test]
fn everything_that_is_missing_is_told_at_once() {
    let said = helm::text("values.yaml", &[]).unwrap_err();
    for key in ["kafka.bootstrap", "job.name", "source.topic", "sink.topic", "checkpoint.storage"] {
        assert!(said.contains(&format!("config.{key} must be given")), "{said}");
    }
}

#[test]
fn an_old_kubernetes_is_refused() {
    let said = helm::text_for(VOLUME, &[], "1.28").unwrap_err();
    assert!(said.contains("chart requires kubeVersion: >=1.29"), "{said}");
}
