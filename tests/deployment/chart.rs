//! What the chart makes: one process, locked down, with its checkpoints on S3 or a volume.

use crate::helm::{self, RELEASES, S3, VOLUME};
use crate::support::run_dir;
use serde_json::{Value, json};
use std::process::Command;

#[test]
fn the_linter_is_content() {
    for values in [VOLUME, S3] {
        let words = helm::lint(values).unwrap_or_else(|e| panic!("{values}: {e}"));
        assert!(!words.contains("[WARNING]"), "{values}: {words}");
    }
}

#[test]
fn what_it_makes_is_what_kubernetes_knows() {
    let schemas =
        std::env::var("KUBERNETES_SCHEMAS").expect("KUBERNETES_SCHEMAS is not set: run `make test`");
    for values in [VOLUME, S3] {
        for release in RELEASES {
            let file = run_dir().join(format!("chart-{release}-{}.yaml", values.replace('/', "-")));
            let text = helm::text_for(values, &[], release).unwrap_or_else(|e| panic!("{values}: {e}"));
            std::fs::write(&file, text).unwrap();
            let output = Command::new("python3")
                .args(["-m", "kubernetes_validate", "--strict", "--kubernetes-version", release])
                .arg(&file)
                .env("PYTHONPATH", &schemas)
                .output()
                .unwrap();
            let words = format!(
                "{}{}",
                String::from_utf8_lossy(&output.stdout),
                String::from_utf8_lossy(&output.stderr)
            );
            assert!(output.status.success(), "{values}, Kubernetes {release}: {words}");
            assert!(words.contains("passed for resource statefulset/"), "it has looked: {words}");
        }
    }
}

#[test]
fn checkpoints_on_s3_take_no_volume_and_secrets_stay_where_they_are() {
    let objects = helm::objects(S3, &[]);
    assert!(helm::find(&objects, "PersistentVolumeClaim").is_none());
    assert!(helm::find(&objects, "Secret").is_none(), "the chart makes no secrets");
    let pod = helm::pod(&objects);
    let container = helm::container(pod);
    for name in ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"] {
        let from = json!({ "name": "s3-credentials", "key": name, "optional": false });
        let variable = named(&container["env"], name);
        assert_eq!(variable["valueFrom"]["secretKeyRef"], from);
    }
    assert_eq!(named(&pod["spec"]["volumes"], "kafka")["secret"]["secretName"], "kafka-client");
    assert_eq!(named(&container["volumeMounts"], "kafka")["mountPath"], "/etc/tidegate/kafka");
    let settings = helm::settings(&objects);
    assert!(
        settings.contains("\"client_properties\" = \"/etc/tidegate/kafka/client.properties\""),
        "{settings}"
    );
    assert!(settings.contains("\"storage\" = \"s3://checkpoints/clicks\""), "{settings}");
    let account = helm::one(&objects, "ServiceAccount");
    assert!(account["metadata"]["annotations"]["eks.amazonaws.com/role-arn"].is_string());
}

#[test]
fn checkpoints_on_a_volume_take_one_that_a_single_pod_may_use_and_that_stays() {
    let objects = helm::objects(VOLUME, &[]);
    let claim = helm::one(&objects, "PersistentVolumeClaim");
    assert_eq!(claim["spec"]["accessModes"], json!(["ReadWriteOncePod"]));
    assert_eq!(claim["metadata"]["annotations"]["helm.sh/resource-policy"], "keep");
    let pod = helm::pod(&objects);
    let volume = named(&pod["spec"]["volumes"], "checkpoints");
    assert_eq!(volume["persistentVolumeClaim"]["claimName"], claim["metadata"]["name"]);
    let mount = named(&helm::container(pod)["volumeMounts"], "checkpoints");
    assert_eq!(mount["mountPath"], "/var/lib/tidegate");
    assert!(pod["spec"]["securityContext"]["fsGroup"].is_u64(), "the job may write to it");

    let objects = helm::objects(VOLUME, &["volume.existingClaim=mine"]);
    assert!(helm::find(&objects, "PersistentVolumeClaim").is_none());
    let volume = named(&helm::pod(&objects)["spec"]["volumes"], "checkpoints");
    assert_eq!(volume["persistentVolumeClaim"]["claimName"], "mine");

    let objects = helm::objects(S3, &["config.savepoint.folder=file:///var/lib/tidegate/savepoints"]);
    assert!(helm::find(&objects, "PersistentVolumeClaim").is_some(), "savepoints alone take one, too");
}

#[test]
fn old_and_new_never_run_side_by_side() {
    for values in [VOLUME, S3] {
        let objects = helm::objects(values, &[]);
        for kind in ["Deployment", "ReplicaSet", "DaemonSet", "Job", "HorizontalPodAutoscaler"] {
            assert!(helm::find(&objects, kind).is_none(), "a {kind} may run two pods at a time");
        }
        assert_eq!(helm::one(&objects, "StatefulSet")["spec"]["replicas"], 1);
        let objects = helm::objects(values, &["suspend=true"]);
        assert_eq!(helm::one(&objects, "StatefulSet")["spec"]["replicas"], 0);
    }
}

#[test]
fn a_stop_has_the_time_of_a_checkpoint_and_more() {
    let cases = [
        (vec![], 90),
        (vec!["config.checkpoint.timeout=5min"], 330),
        (vec!["config.checkpoint.timeout=1h 1m 1s 1ms"], 3692),
        (vec!["config.checkpoint.timeout=250ms"], 31),
        (vec!["terminationGracePeriodSeconds=600"], 600),
    ];
    for (set, seconds) in cases {
        let objects = helm::objects(VOLUME, &set);
        assert_eq!(helm::pod(&objects)["spec"]["terminationGracePeriodSeconds"], seconds, "{set:?}");
    }
}

#[test]
fn the_pod_may_do_nothing_that_it_need_not() {
    for values in [VOLUME, S3] {
        let objects = helm::objects(values, &[]);
        let spec = &helm::pod(&objects)["spec"];
        assert_eq!(spec["automountServiceAccountToken"], false);
        assert_eq!(helm::one(&objects, "ServiceAccount")["automountServiceAccountToken"], false);
        assert_eq!(spec["enableServiceLinks"], false);
        assert_eq!(spec["securityContext"]["runAsNonRoot"], true);
        assert_eq!(spec["securityContext"]["seccompProfile"], json!({ "type": "RuntimeDefault" }));
        let container = helm::container(helm::pod(&objects));
        let expected = json!({
            "allowPrivilegeEscalation": false,
            "readOnlyRootFilesystem": true,
            "capabilities": { "drop": ["ALL"] },
        });
        assert_eq!(container["securityContext"], expected);
        assert!(container["resources"]["limits"]["memory"].is_string());
    }
}

#[test]
fn probes_ask_where_the_job_answers() {
    let objects = helm::objects(VOLUME, &["config.http.address=0.0.0.0:9999"]);
    let container = helm::container(helm::pod(&objects));
    for (probe, path) in
        [("startupProbe", "/healthz"), ("livenessProbe", "/healthz"), ("readinessProbe", "/readyz")]
    {
        assert_eq!(container[probe]["httpGet"], json!({ "path": path, "port": "http" }), "{probe}");
    }
    assert_eq!(container["ports"], json!([{ "name": "http", "containerPort": 9999 }]));
    assert_eq!(helm::one(&objects, "Service")["spec"]["ports"][0]["port"], 9999);
    assert!(helm::settings(&objects).contains("\"address\" = \"0.0.0.0:9999\""));
}

#[test]
fn a_change_of_settings_rolls_the_pod_and_another_change_does_not() {
    let pod = |set: &[&str]| helm::pod(&helm::objects(VOLUME, set)).clone();
    let before = pod(&[]);
    assert_ne!(pod(&["config.checkpoint.interval=3s"]), before);
    assert_ne!(pod(&["kafkaSecret.name=kafka-client"]), before);
    assert_eq!(pod(&["podMonitor.enabled=true", "networkPolicy.enabled=true"]), before);
}

#[test]
fn what_is_optional_is_off_until_asked_for() {
    let kinds = |objects: &[Value]| {
        let mut kinds: Vec<_> = objects.iter().map(|o| o["kind"].as_str().unwrap().to_owned()).collect();
        kinds.sort();
        kinds
    };
    let least = ["ConfigMap", "PersistentVolumeClaim", "Service", "ServiceAccount", "StatefulSet"];
    assert_eq!(kinds(&helm::objects(VOLUME, &[])), least);
    let objects = helm::objects(S3, &[]);
    let endpoint = &helm::one(&objects, "PodMonitor")["spec"]["podMetricsEndpoints"][0];
    assert_eq!((&endpoint["port"], &endpoint["path"]), (&json!("http"), &json!("/metrics")));
    let policy = &helm::one(&objects, "NetworkPolicy")["spec"];
    assert_eq!(policy["policyTypes"], json!(["Ingress", "Egress"]));
    assert_eq!(policy["ingress"][0]["ports"][0]["port"], "http");
    let selected = &policy["podSelector"]["matchLabels"];
    assert_eq!(selected, &helm::pod(&objects)["metadata"]["labels"], "it is about the job's pod");
}

/// The entry of a list that has this name.
fn named<'a>(list: &'a Value, name: &str) -> &'a Value {
    let entries = list.as_array().unwrap_or_else(|| panic!("no list with {name}: {list}"));
    entries.iter().find(|entry| entry["name"] == name).unwrap_or_else(|| panic!("no {name} in {list}"))
}
