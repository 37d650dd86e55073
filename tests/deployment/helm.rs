//! Helm, and what it makes of the chart.

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The releases of Kubernetes that the chart is for: the oldest and the newest whose schemas there are.
pub(crate) const RELEASES: [&str; 2] = ["1.29", "1.37"];

/// What must be given and no more, with checkpoints on a volume.
pub(crate) const VOLUME: &str = "ci/volume-values.yaml";

/// Everything that can be given, with checkpoints on S3.
pub(crate) const S3: &str = "ci/s3-values.yaml";

/// A path of the checkout.
pub(crate) fn checkout(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// A path of the chart.
pub(crate) fn chart(path: &str) -> PathBuf {
    checkout("helm/tidegate").join(path)
}

fn helm(arguments: &[&str], values: &str, set: &[&str], release: &str) -> Output {
    let program = std::env::var("HELM").expect("HELM is not set: run `make test`, see docs/testing.md");
    let mut command = Command::new(program);
    command.args(arguments).arg("--kube-version").arg(release).arg("--values").arg(chart(values));
    for value in set {
        command.args(["--set", value]);
    }
    command.output().unwrap()
}

/// What the linter says; `Err` if it is not content.
pub(crate) fn lint(values: &str) -> Result<String, String> {
    let path = chart("");
    told(&helm(&["lint", "--strict", path.to_str().unwrap()], values, &[], RELEASES[1]))
}

/// The manifests as text, or why there are none.
pub(crate) fn text(values: &str, set: &[&str]) -> Result<String, String> {
    text_for(values, set, RELEASES[1])
}

/// As [`text`], for a release of Kubernetes.
pub(crate) fn text_for(values: &str, set: &[&str], release: &str) -> Result<String, String> {
    let path = chart("");
    told(&helm(&["template", "clicks", path.to_str().unwrap()], values, set, release))
}

/// The manifests as values, of a chart that can be rendered.
pub(crate) fn objects(values: &str, set: &[&str]) -> Vec<Value> {
    let text = text(values, set).unwrap_or_else(|e| panic!("{values} with {set:?}: {e}"));
    let all: Vec<Value> = serde_saphyr::from_multiple(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    all.into_iter().filter(|object| !object.is_null()).collect()
}

/// The one object of a kind, if there is one.
pub(crate) fn find<'a>(objects: &'a [Value], kind: &str) -> Option<&'a Value> {
    let mut found = objects.iter().filter(|object| object["kind"] == kind);
    let first = found.next();
    assert!(found.next().is_none(), "there are two of {kind}");
    first
}

/// The one object of a kind.
pub(crate) fn one<'a>(objects: &'a [Value], kind: &str) -> &'a Value {
    find(objects, kind).unwrap_or_else(|| panic!("there is no {kind}"))
}

/// The pod that the chart makes.
pub(crate) fn pod(objects: &[Value]) -> &Value {
    &one(objects, "StatefulSet")["spec"]["template"]
}

/// The one container of a pod.
pub(crate) fn container(pod: &Value) -> &Value {
    let all = pod["spec"]["containers"].as_array().unwrap();
    assert_eq!(all.len(), 1);
    &all[0]
}

/// The settings that the pod is given.
pub(crate) fn settings(objects: &[Value]) -> &str {
    one(objects, "ConfigMap")["data"]["tidegate.toml"].as_str().unwrap()
}

fn told(output: &Output) -> Result<String, String> {
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if output.status.success() { Ok(out.into_owned()) } else { Err(format!("{out}{err}")) }
}
