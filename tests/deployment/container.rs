//! The image as a real container: without privileges, on a root file system that nobody can write to, killed and stopped
//! and started again.

use crate::helm::checkout;
use crate::support::{PATIENCE, Scene, bin_dir, run_dir};
use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::process::Command;
use tidegate_tools::program::Program;

/// What the job's log calls the address.
const LISTENS: &str = "metrics, health and commands over HTTP";

/// The user of the image.
const USER: u32 = 65532;

/// A scene whose job runs in a container of this name.
struct Contained {
    scene: Scene,
    name: String,
    image: String,
}

impl Contained {
    /// Builds the image from the programs under test.
    fn new(scene: Scene) -> Self {
        let folder = scene.job.folder.clone();
        let programs = folder.join("programs");
        fs::create_dir_all(&programs).unwrap();
        fs::copy(bin_dir().join("clicks_per_url"), programs.join("job")).unwrap();
        fs::copy(bin_dir().join("tidegate"), programs.join("tidegate")).unwrap();
        let name = scene.job.group.clone();
        let image = format!("localhost/tidegate-test:{name}");
        run(Command::new(checkout("scripts/image"))
            .args(["--local-base", "--tag", &image, "--programs"])
            .arg(programs));

        let checkpoints = folder.join("checkpoints");
        fs::create_dir_all(&checkpoints).unwrap();
        chown(&checkpoints, Some(USER), Some(USER)).unwrap();
        // In place of the program, so that the scene starts and ends the container as it does the program.
        let bin = folder.join("bin");
        fs::create_dir_all(&bin).unwrap();
        let script = bin.join("clicks_per_url");
        let text = format!(
            "#!/bin/sh\nexec podman run --rm --name '{name}' --label 'tidegate.run={}' --pull never --network host \
             --runtime runc --no-healthcheck --ulimit nofile=1024:1024 --ulimit nproc=4096:4096 --memory 256m \
             --read-only --read-only-tmpfs=false --cap-drop ALL --security-opt no-new-privileges \
             --volume '{1}:{1}' {image} \"$@\"\n",
            run_dir().display(),
            checkpoints.display(),
        );
        fs::write(&script, text).unwrap();
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
        let mut scene = scene.flag("log-format", "json");
        scene.job.bin_dir = bin;
        Self { scene, name, image }
    }

    /// Starts a container; where it serves HTTP.
    fn start(&self) -> (Program, String) {
        let before = self.scene.times_logged(LISTENS);
        let program = self.scene.start();
        self.scene.until("the address", || self.scene.times_logged(LISTENS) > before);
        let log = fs::read_to_string(self.scene.job.log()).unwrap();
        let line = log.lines().rfind(|line| line.contains(LISTENS)).unwrap();
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        (program, format!("http://{}", line["address"].as_str().unwrap()))
    }

    /// Runs a command in the container.
    fn inside(&self, command: &[&str]) -> Result<String, String> {
        let output = Command::new("podman").args(["exec", &self.name]).args(command).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
        if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
    }
}

impl Drop for Contained {
    fn drop(&mut self) {
        let _ =
            Command::new("podman").args(["rm", "--force", "--time", "0", "--ignore", &self.name]).output();
        // What is below its programs stays, for the next image.
        let _ = Command::new("podman").args(["rmi", "--no-prune", &self.image]).output();
    }
}

#[test]
fn the_image_runs_read_only_without_privileges_and_loses_and_repeats_nothing() {
    let mut contained = Contained::new(Scene::new("container", 2).feed(2000));
    let (mut program, address) = contained.start();
    contained.scene.until("the job to be ready", || status(&address, "/readyz") == Some(200));
    contained.scene.wait_for_progress();

    // The job is process 1, and may do nothing.
    let process = contained.inside(&["cat", "/proc/1/status"]).unwrap();
    let value = |name: &str| {
        let line = process
            .lines()
            .find(|line| line.starts_with(name))
            .unwrap_or_else(|| panic!("{name}: {process}"));
        line.split_whitespace().nth(1).unwrap().to_owned()
    };
    assert_eq!(value("Name:"), "job");
    assert_eq!(value("Uid:"), USER.to_string());
    assert_eq!(value("CapEff:").trim_start_matches('0'), "", "no capabilities");
    assert_eq!(value("NoNewPrivs:"), "1");
    assert_eq!(value("Seccomp:"), "2", "a filter");
    for place in ["/x", "/tmp/x", "/etc/x", "/usr/local/bin/job"] {
        let refused = contained.inside(&["touch", place]).expect_err(place);
        assert!(
            refused.contains("Read-only file system") || refused.contains("Permission denied"),
            "{refused}"
        );
    }
    let version = contained.inside(&["tidegate", "--version"]).unwrap();
    assert!(version.contains(env!("CARGO_PKG_VERSION")), "{version}");
    let metrics =
        ureq::get(format!("{address}/metrics")).call().unwrap().body_mut().read_to_string().unwrap();
    assert!(metrics.contains("tidegate_checkpoints_completed_total"), "{metrics}");

    // Killed, and started again.
    run(Command::new("podman").args(["kill", "--signal", "KILL", &contained.name]));
    assert_eq!(program.wait(PATIENCE).unwrap().code(), Some(137), "log {}", contained.scene.log());
    let (mut program, _) = contained.start();
    contained.scene.wait_for_progress();

    // Stopped by SIGTERM, and started again.
    program.stop(PATIENCE).unwrap();
    assert!(contained.scene.has_logged("stopped with checkpoint"), "log {}", contained.scene.log());
    let (program, _) = contained.start();
    contained.scene.wait_for_progress();
    contained.scene.drain(program);
    contained.scene.must_be_right();
}

fn status(address: &str, path: &str) -> Option<u16> {
    let agent = ureq::Agent::config_builder().http_status_as_error(false).build().new_agent();
    Some(agent.get(format!("{address}{path}")).call().ok()?.status().as_u16())
}

fn run(command: &mut Command) {
    let output = command.output().unwrap();
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}\n{words}", output.status);
}
