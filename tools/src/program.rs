//! Starts, watches and ends the programs under test: the examples and the limits.
//!
//! A program writes to a log file in its folder, runs in a process group of its own, and is ended when its handle is
//! dropped or the thread that started it ends: nothing is left running.

#![expect(
    unsafe_code,
    reason = "a program shall die with the thread that started it, which only prctl can arrange"
)]

use std::fmt;
use std::fs::{self, File};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::{Error, interval, process};

/// Which program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum System {
    /// `limit --work none`
    Bare,
    /// `limit --work clicks`
    ByHand,
    /// The example `clicks_per_url`
    ClicksPerUrl,
    /// The example `order_life_cycle`
    OrderLifeCycle,
    /// The example `spending_limits`, which also reads the topic `INPUT-limits`
    SpendingLimits,
}

impl System {
    fn program(self) -> &'static str {
        match self {
            Self::Bare | Self::ByHand => "limit",
            Self::ClicksPerUrl => "clicks_per_url",
            Self::OrderLifeCycle => "order_life_cycle",
            Self::SpendingLimits => "spending_limits",
        }
    }

    /// Whether its output is the counts of clicks, also after a restart.
    pub fn keeps_counts(self) -> bool {
        self == Self::ClicksPerUrl
    }
}

impl fmt::Display for System {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Bare => "limit, bare",
            Self::ByHand => "limit, by hand",
            Self::ClicksPerUrl => "clicks_per_url",
            Self::OrderLifeCycle => "order_life_cycle",
            Self::SpendingLimits => "spending_limits",
        })
    }
}

/// One program with its topics, as often started as wanted.
#[derive(Debug, Clone)]
pub struct Job {
    /// Which program.
    pub system: System,
    /// Where the built programs are, the example in it or in its `examples`.
    pub bin_dir: PathBuf,
    /// Broker addresses.
    pub bootstrap: String,
    /// The topic to read.
    pub input: String,
    /// The topic to write.
    pub output: String,
    /// Consumer group; also what transactional ids are made of.
    pub group: String,
    /// Time between two checkpoints or commits.
    pub interval: Duration,
    /// Number of subtasks per operator, or of threads.
    pub parallelism: u16,
    /// For the log and the checkpoints; made if missing.
    pub folder: PathBuf,
}

impl Job {
    /// The log of everything that was started.
    pub fn log(&self) -> PathBuf {
        self.folder.join("log")
    }

    /// The command line.
    ///
    /// # Errors
    /// When the program is not built.
    pub fn command(&self) -> Result<Command, Error> {
        let mut command = Command::new(find(&self.bin_dir, self.system.program())?);
        command.args(["--bootstrap", &self.bootstrap, "--group", &self.group]);
        command.args(["--input", &self.input, "--output", &self.output]);
        command.args(["--interval", &interval::text(self.interval)]);
        command.args(["--parallelism", &self.parallelism.to_string()]);
        match self.system {
            System::Bare => command.args(["--work", "none"]),
            System::ByHand => command.args(["--work", "clicks"]),
            System::ClicksPerUrl | System::OrderLifeCycle | System::SpendingLimits => {
                let checkpoints = format!("file://{}", self.folder.join("checkpoints").display());
                command.args(["--checkpoints", &checkpoints, "--delivery", "exactly-once"])
            }
        };
        Ok(command)
    }

    /// Starts the program. It is killed when this thread ends.
    ///
    /// # Errors
    /// When it is not built or cannot be started.
    pub fn start(&self) -> Result<Program, Error> {
        self.start_with(|_| ())
    }

    /// As [`start`](Self::start), with further arguments and environment.
    ///
    /// # Errors
    /// When it is not built or cannot be started.
    pub fn start_with(&self, change: impl FnOnce(&mut Command)) -> Result<Program, Error> {
        let log = self.log();
        let doing = format!("starting {}", self.system);
        fs::create_dir_all(&self.folder).map_err(Error::io(format!("making {}", self.folder.display())))?;
        let out = File::options().create(true).append(true).open(&log);
        let out = out.map_err(Error::io(format!("opening {}", log.display())))?;
        let err = out.try_clone().map_err(Error::io(doing.clone()))?;
        let mut command = self.command()?;
        change(&mut command);
        command.stdin(Stdio::null()).stdout(out).stderr(err).process_group(0);
        // SAFETY: between fork and exec only prctl is called, which allocates nothing and takes no lock.
        unsafe {
            command.pre_exec(|| match libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) {
                0 => Ok(()),
                _ => Err(io::Error::last_os_error()),
            });
        }
        let child = command.spawn().map_err(Error::io(doing))?;
        Ok(Program { name: self.system.to_string(), child, log, status: None })
    }
}

/// A folder of this name for what a run writes: in `chosen`, else in `TIDEGATE_RUN_DIR`, else in the system's folder
/// for temporary files. Absolute, since a checkpoint URI must be.
pub fn run_folder(chosen: Option<&Path>, name: &str) -> PathBuf {
    let environment = std::env::var_os("TIDEGATE_RUN_DIR").map(PathBuf::from);
    let parent = chosen.map(Path::to_owned).or(environment).unwrap_or_else(std::env::temp_dir);
    let folder = parent.join(name);
    std::path::absolute(&folder).unwrap_or(folder)
}

fn find(folder: &Path, name: &str) -> Result<PathBuf, Error> {
    let places = [folder.join(name), folder.join("examples").join(name)];
    places.iter().find(|path| path.is_file()).cloned().ok_or_else(|| Error::NotBuilt {
        program: name.to_owned(),
        places: places.iter().map(|path| path.display().to_string()).collect(),
    })
}

/// A started program.
#[derive(Debug)]
pub struct Program {
    name: String,
    child: Child,
    log: PathBuf,
    status: Option<ExitStatus>,
}

impl Program {
    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Whether it still runs.
    ///
    /// # Errors
    /// [`Error::Ended`] with the end of its log if it does not.
    pub fn must_run(&mut self) -> Result<(), Error> {
        match self.try_wait()? {
            Some(status) => Err(self.ended(status)),
            None => Ok(()),
        }
    }

    /// Ends it by SIGKILL, wherever it is, and waits until it is gone.
    ///
    /// # Errors
    /// When it had ended by itself before.
    pub fn kill(&mut self) -> Result<(), Error> {
        self.must_run()?;
        self.child
            .kill()
            .and_then(|()| self.child.wait())
            .map_err(Error::io(format!("killing {}", self.name)))?;
        Ok(())
    }

    /// Asks it to end by SIGTERM, and waits for that.
    ///
    /// # Errors
    /// When it ends with another code than 0, or not within `patience`; then it is killed.
    pub fn stop(&mut self, patience: Duration) -> Result<(), Error> {
        self.must_run()?;
        process::terminate(self.pid()).map_err(Error::io(format!("stopping {}", self.name)))?;
        match self.wait(patience)? {
            status if status.success() => Ok(()),
            status => Err(self.ended(status)),
        }
    }

    /// Waits until it has ended, however that is, and tells how.
    ///
    /// # Errors
    /// When it has not ended within `patience`.
    pub fn wait(&mut self, patience: Duration) -> Result<ExitStatus, Error> {
        let asked = Instant::now();
        loop {
            match self.try_wait()? {
                Some(status) => return Ok(status),
                None if asked.elapsed() > patience => {
                    let waiting_for = format!("{} to end, log {}", self.name, self.log.display());
                    return Err(Error::Stalled { waiting_for, patience });
                }
                None => thread::sleep(Duration::from_millis(20)),
            }
        }
    }

    /// The last lines of its log.
    pub fn log_tail(&self, lines: usize) -> String {
        let text = fs::read(&self.log).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let all: Vec<&str> = text.lines().collect();
        all[all.len().saturating_sub(lines)..].join("\n")
    }

    fn try_wait(&mut self) -> Result<Option<ExitStatus>, Error> {
        if self.status.is_none() {
            self.status = self.child.try_wait().map_err(Error::io(format!("waiting for {}", self.name)))?;
        }
        Ok(self.status)
    }

    fn ended(&self, status: ExitStatus) -> Error {
        Error::Ended { program: self.name.clone(), status, log: self.log.clone(), tail: self.log_tail(20) }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // It may have ended already; either way nobody is left to tell.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
