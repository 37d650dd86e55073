//! Brokers of a test's own, below the run's folder; they end with the test, and at the latest with the run.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::run_dir;

/// One Kafka cluster.
pub(crate) struct Cluster {
    dir: PathBuf,
    /// Its address.
    pub(crate) bootstrap: String,
}

impl Cluster {
    /// Starts a cluster with these options of `scripts/servers up`.
    pub(crate) fn up(name: &str, options: &[&str]) -> Self {
        let dir = run_dir().join(format!("kafka-{name}"));
        let printed = servers(&[&["up", "--dir", text(&dir)], options].concat());
        let bootstrap = printed.lines().find_map(|line| line.strip_prefix("bootstrap=")).unwrap().to_owned();
        Self { dir, bootstrap }
    }

    /// Kills a node.
    pub(crate) fn kill(&self, node: i32) {
        servers(&["stop-node", "--dir", text(&self.dir), "--node", &node.to_string(), "--kill"]);
    }

    /// Kills a node without a moment's delay.
    pub(crate) fn kill_at_once(&self, node: i32) {
        let env = std::fs::read_to_string(self.dir.join("env")).unwrap();
        let prefix = format!("pid.{node}=");
        let pid = env.lines().rev().find_map(|line| line.strip_prefix(&*prefix)).unwrap();
        tidegate_tools::process::kill(pid.parse().unwrap()).unwrap();
    }

    /// Holds a node.
    pub(crate) fn pause(&self, node: i32) {
        servers(&["pause-node", "--dir", text(&self.dir), "--node", &node.to_string()]);
    }

    /// Lets a held node go on.
    pub(crate) fn resume(&self, node: i32) {
        servers(&["resume-node", "--dir", text(&self.dir), "--node", &node.to_string()]);
    }

    /// Stops a node in good order.
    pub(crate) fn stop(&self, node: i32) {
        servers(&["stop-node", "--dir", text(&self.dir), "--node", &node.to_string()]);
    }

    /// Starts a node that was stopped or killed.
    pub(crate) fn start_without_waiting(&self, node: i32) {
        servers(&["start-node", "--dir", text(&self.dir), "--node", &node.to_string(), "--no-wait"]);
    }

    /// Starts a node that was stopped or killed, and waits until it serves.
    pub(crate) fn start(&self, node: i32) {
        servers(&["start-node", "--dir", text(&self.dir), "--node", &node.to_string()]);
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // Data of a failed test is kept.
        let keep = std::thread::panicking();
        let purge: &[&str] = if keep { &[] } else { &["--purge"] };
        let arguments = [&["down", "--dir", text(&self.dir)], purge].concat();
        let done = script().args(arguments).output();
        if !keep {
            assert!(done.unwrap().status.success(), "the cluster in {} can be ended", self.dir.display());
        }
    }
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn script() -> Command {
    Command::new(Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/servers"))
}

/// Runs `scripts/servers`; gives what it prints.
fn servers(arguments: &[&str]) -> String {
    let output = script().args(arguments).output().unwrap();
    let problem = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "scripts/servers {arguments:?}: {problem}");
    String::from_utf8(output.stdout).unwrap()
}
