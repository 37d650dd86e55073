//! Small file systems, full ones and read-only ones. Needs root.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A file system in memory; unmounted when dropped.
pub(crate) struct Disk {
    pub(crate) path: PathBuf,
}

fn run(program: &str, arguments: &[&str]) {
    let output = Command::new(program).args(arguments).output().unwrap();
    let problem = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments:?} (this test needs root): {problem}");
}

impl Disk {
    /// Mounts one below this folder, with options such as `size=64k` or `ro`.
    pub(crate) fn mount(folder: &Path, options: &str) -> Self {
        let path = folder.join("disk");
        fs::create_dir_all(&path).unwrap();
        run("mount", &["-t", "tmpfs", "-o", options, "none", path.to_str().unwrap()]);
        Self { path }
    }

    /// Changes its options.
    pub(crate) fn remount(&self, options: &str) {
        run("mount", &["-o", &format!("remount,{options}"), self.path.to_str().unwrap()]);
    }

    /// As a checkpoint location.
    pub(crate) fn location(&self) -> String {
        format!("file://{}", self.path.display())
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // Lazily, for a job may still be there after a failed test.
        let unmounted = Command::new("umount").arg("-l").arg(&self.path).output();
        if !std::thread::panicking() {
            assert!(unmounted.unwrap().status.success(), "{} can be unmounted", self.path.display());
        }
    }
}
