//! Small file systems in memory, full ones and read-only ones. The system's administrator alone may mount them.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A file system in memory; unmounted when dropped.
#[derive(Debug)]
pub struct Disk {
    path: PathBuf,
}

impl Disk {
    /// Mounts one below this folder, with options such as `size=64k` or `ro`.
    ///
    /// # Errors
    /// When it cannot be mounted.
    pub fn mount(folder: &Path, options: &str) -> io::Result<Self> {
        let path = folder.join("disk");
        fs::create_dir_all(&path)?;
        run(Command::new("mount").args(["-t", "tmpfs", "-o", options, "none"]).arg(&path))?;
        Ok(Self { path })
    }

    /// Changes its options.
    ///
    /// # Errors
    /// When the system refuses that.
    pub fn remount(&self, options: &str) -> io::Result<()> {
        run(Command::new("mount").args(["-o", &format!("remount,{options}")]).arg(&self.path))
    }

    /// Where it is mounted.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// As a checkpoint location.
    pub fn location(&self) -> String {
        format!("file://{}", self.path.display())
    }

    /// Writes a file that takes all the room there is, and says where it is.
    ///
    /// # Errors
    /// Other than that the disk is full.
    pub fn fill(&self) -> io::Result<PathBuf> {
        let path = self.path.join("fill");
        match io::copy(&mut io::repeat(0), &mut fs::File::create(&path)?) {
            Err(e) if e.kind() == io::ErrorKind::StorageFull => Ok(path),
            Err(e) => Err(e),
            Ok(_) => Err(io::Error::other("the disk takes everything")),
        }
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // Lazily, for a job may still be there after a failed test.
        let unmounted = run(Command::new("umount").arg("-l").arg(&self.path));
        if !std::thread::panicking() {
            unmounted.expect("what was mounted can be unmounted");
        }
    }
}

fn run(command: &mut Command) -> io::Result<()> {
    let output = command.output()?;
    if output.status.success() {
        return Ok(());
    }
    let problem = String::from_utf8_lossy(&output.stderr);
    Err(io::Error::other(format!("{command:?} (this needs root): {}", problem.trim())))
}
