//! The chart on a real control plane of Kubernetes: its API server takes everything, also in a namespace that is
//! restricted, and whatever ends a pod, the next one comes only when it is gone.
//!
//! There is no node: the test binds pods, says that they are ready, and that they have ended.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![expect(clippy::disallowed_methods, reason = "a test measures real time")]

mod support;

use serde_json::{Value, json};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use support::{PATIENCE, run_dir};

/// How long nothing may happen.
const LULL: Duration = Duration::from_secs(5);

const NAMESPACE: &str = "jobs";

struct Kubernetes {
    folder: PathBuf,
}

impl Kubernetes {
    /// Starts it, with a restricted namespace and the definition of PodMonitors.
    fn up(name: &str) -> Self {
        let folder = run_dir().join(name);
        let lines = run(servers("up", &folder), "").unwrap();
        let started = Self { folder };
        let definition = lines.lines().find_map(|line| line.strip_prefix("podmonitors=")).unwrap();
        started.kubectl(&["create", "--filename", definition], "").unwrap();
        started.kubectl(&["create", "namespace", NAMESPACE], "").unwrap();
        let restricted = "pod-security.kubernetes.io/enforce=restricted";
        started.kubectl(&["label", "namespace", NAMESPACE, restricted], "").unwrap();
        started
    }

    fn kubectl(&self, arguments: &[&str], input: &str) -> Result<String, String> {
        let mut command = Command::new(self.folder.join("kubernetes"));
        command.args(["kubectl", "--kubeconfig"]).arg(self.folder.join("kubeconfig"));
        command.args(["--namespace", NAMESPACE]).args(arguments);
        run(command, input)
    }

    /// `helm ARGUMENT…`
    fn helm_alone(&self, arguments: &[&str]) -> Result<String, String> {
        let mut command = Command::new(std::env::var("HELM").expect("HELM is not set: run `make soak`"));
        command.env("KUBECONFIG", self.folder.join("kubeconfig")).args(["--namespace", NAMESPACE]);
        command.args(arguments);
        run(command, "")
    }

    /// `helm ARGUMENT… CHART` with one of the chart's files of values.
    fn helm(&self, arguments: &[&str], values: &str, set: &[&str]) -> Result<String, String> {
        let chart = Path::new(env!("CARGO_MANIFEST_DIR")).join("helm/tidegate");
        let values = chart.join("ci").join(values);
        let mut all = arguments.to_vec();
        all.extend([chart.to_str().unwrap(), "--values", values.to_str().unwrap()]);
        all.extend(set.iter().flat_map(|value| ["--set", value]));
        self.helm_alone(&all)
    }

    fn pods(&self) -> Vec<Value> {
        let list = self.kubectl(&["get", "pods", "--output", "json"], "").unwrap();
        let list: Value = serde_json::from_str(&list).unwrap();
        list["items"].as_array().unwrap().clone()
    }

    /// The pod that is there once there is one, other than this one.
    fn next_pod(&self, before: Option<&str>) -> Pod {
        let mut found = None;
        until("a pod", || {
            let pods = self.pods();
            assert!(pods.len() <= 1, "there are two pods: {pods:#?}");
            found = pods.into_iter().next().map(Pod).filter(|pod| Some(pod.uid()) != before);
            found.is_some()
        });
        found.unwrap()
    }

    /// The pod is on a node, and says that it is ready.
    fn run_pod(&self, pod: &Pod) {
        let binding = json!({
            "apiVersion": "v1", "kind": "Binding",
            "metadata": { "name": pod.name() }, "target": { "kind": "Node", "name": "node" },
        });
        let path = format!("/api/v1/namespaces/{NAMESPACE}/pods/{}/binding", pod.name());
        self.kubectl(&["create", "--raw", &path, "--filename", "-"], &binding.to_string()).unwrap();
        let status = r#"{"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True"}]}}"#;
        self.kubectl(&["patch", "pod", pod.name(), "--subresource", "status", "--patch", status], "")
            .unwrap();
    }

    /// The pod has been told to end, has not ended yet, and nothing else is there.
    fn must_end_alone(&self, pod: &Pod, why: &str) {
        until(&format!("the pod to be told to end: {why}"), || {
            self.pods().iter().all(|pod| pod["metadata"]["deletionTimestamp"].is_string())
        });
        let began = Instant::now();
        while began.elapsed() < LULL {
            let pods = self.pods();
            assert_eq!(pods.len(), 1, "{why}: {pods:#?}");
            assert_eq!(pods[0]["metadata"]["uid"], pod.uid(), "{why}: another pod before it is gone");
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    /// The node says that the pod has ended.
    fn pod_is_gone(&self, pod: &Pod) {
        self.kubectl(&["delete", "pod", pod.name(), "--force", "--grace-period", "0"], "").unwrap();
    }
}

impl Drop for Kubernetes {
    fn drop(&mut self) {
        let _ = run(servers("down", &self.folder), "");
    }
}

struct Pod(Value);

impl Pod {
    fn name(&self) -> &str {
        self.0["metadata"]["name"].as_str().unwrap()
    }

    fn uid(&self) -> &str {
        self.0["metadata"]["uid"].as_str().unwrap()
    }

    fn settings(&self) -> &str {
        self.0["metadata"]["annotations"]["checksum/config"].as_str().unwrap()
    }
}

#[test]
fn a_real_api_server_takes_all_of_it_and_a_restricted_namespace_the_pod() {
    let kubernetes = Kubernetes::up("kubernetes-takes");
    for (release, values) in [("volume", "volume-values.yaml"), ("s3", "s3-values.yaml")] {
        let manifests = kubernetes
            .helm(&["template", release, "--validate"], values, &["podMonitor.enabled=true"])
            .unwrap();
        let strict = ["apply", "--dry-run=server", "--validate=strict", "--filename", "-"];
        let said = kubernetes.kubectl(&strict, &manifests).unwrap();
        assert!(said.contains("podmonitor.monitoring.coreos.com/"), "{said}");
        let misspelt = manifests.replacen("enableServiceLinks", "enableServiceLink", 1);
        let said = kubernetes.kubectl(&strict, &misspelt).unwrap_err();
        assert!(said.contains("unknown field \"spec.template.spec.enableServiceLink\""), "it looks: {said}");

        kubernetes.helm(&["install", release], values, &[]).unwrap();
        let pod = kubernetes.next_pod(None);
        assert_eq!(pod.name(), format!("{release}-tidegate-0"));
        kubernetes.helm_alone(&["uninstall", release]).unwrap();
        // Nobody collects garbage here.
        kubernetes.pod_is_gone(&pod);
    }
    let claims = kubernetes.kubectl(&["get", "persistentvolumeclaims", "--output", "name"], "").unwrap();
    assert_eq!(claims.trim(), "persistentvolumeclaim/volume-tidegate", "the state has stayed");
    let weaker = ["securityContext.allowPrivilegeEscalation=true"];
    kubernetes.helm(&["install", "weaker"], "s3-values.yaml", &weaker).unwrap();
    let events = || kubernetes.kubectl(&["get", "events"], "").unwrap();
    until("the refusal of a pod that may do more", || events().contains("violates PodSecurity \"restricted"));
}

#[test]
fn whatever_ends_a_pod_the_next_one_comes_when_it_is_gone() {
    let kubernetes = Kubernetes::up("kubernetes-alone");
    let values = "volume-values.yaml";
    kubernetes.helm(&["install", "clicks"], values, &[]).unwrap();
    let mut pod = kubernetes.next_pod(None);
    kubernetes.run_pod(&pod);

    type Change<'a> = (&'a str, Box<dyn Fn(&Pod) + 'a>);
    let upgrade = |set: &'static str| {
        let kubernetes = &kubernetes;
        move |_: &Pod| {
            kubernetes.helm(&["upgrade", "clicks"], values, &[set]).unwrap();
        }
    };
    let evict = |pod: &Pod| {
        let eviction = json!({
            "apiVersion": "policy/v1", "kind": "Eviction",
            "metadata": { "name": pod.name(), "namespace": NAMESPACE },
        });
        let path = format!("/api/v1/namespaces/{NAMESPACE}/pods/{}/eviction", pod.name());
        kubernetes.kubectl(&["create", "--raw", &path, "--filename", "-"], &eviction.to_string()).unwrap();
    };
    let delete = |pod: &Pod| {
        kubernetes.kubectl(&["delete", "pod", pod.name(), "--wait=false"], "").unwrap();
    };
    let changes: [Change<'_>; 4] = [
        ("other settings", Box::new(upgrade("config.checkpoint.interval=3s"))),
        ("another image", Box::new(upgrade("image.tag=next"))),
        ("an eviction", Box::new(evict)),
        ("a deletion", Box::new(delete)),
    ];
    for (why, change) in changes {
        change(&pod);
        kubernetes.must_end_alone(&pod, why);
        kubernetes.pod_is_gone(&pod);
        let next = kubernetes.next_pod(Some(pod.uid()));
        // The upgrade to another image goes back to the settings of the beginning.
        assert_eq!(
            next.settings() != pod.settings(),
            matches!(why, "other settings" | "another image"),
            "{why}"
        );
        kubernetes.run_pod(&next);
        pod = next;
    }

    kubernetes.helm(&["upgrade", "clicks"], values, &["suspend=true"]).unwrap();
    kubernetes.must_end_alone(&pod, "a suspension");
    kubernetes.pod_is_gone(&pod);
    std::thread::sleep(LULL);
    assert!(kubernetes.pods().is_empty(), "a suspended job has no pod");
    kubernetes.helm(&["upgrade", "clicks"], values, &[]).unwrap();

    // A pod that never becomes ready does not stand in the way of a better one.
    let stuck = kubernetes.next_pod(Some(pod.uid()));
    kubernetes.helm(&["upgrade", "clicks"], values, &["config.checkpoint.interval=4s"]).unwrap();
    let better = kubernetes.next_pod(Some(stuck.uid()));
    assert_ne!(better.settings(), stuck.settings());
}

fn servers(command: &str, folder: &Path) -> Command {
    let mut servers = Command::new(Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/servers"));
    servers.args(["kubernetes", command, "--dir"]).arg(folder);
    servers
}

fn until(what: &str, mut test: impl FnMut() -> bool) {
    let began = Instant::now();
    while !test() {
        assert!(began.elapsed() < PATIENCE, "waited {PATIENCE:?} for {what}");
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// What a command prints, or why it failed.
fn run(mut command: Command, input: &str) -> Result<String, String> {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    match output.status.success() {
        true => Ok(text(&output.stdout)),
        false => Err(format!("{command:?}: {}\n{}", text(&output.stdout), text(&output.stderr))),
    }
}
