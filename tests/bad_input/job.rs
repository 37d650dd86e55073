//! The example `clicks_per_url` on topics of its own, started with whatever is wrong, and what it says about that.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use tidegate_tools::clicks::{Clicks, Options};
use tidegate_tools::feed::Feeder;
use tidegate_tools::offsets::Isolation;
use tidegate_tools::oracle::{self, Promise};
use tidegate_tools::process;
use tidegate_tools::program::run_folder;
use tidegate_tools::reader::read_all;
use tidegate_tools::rest;
use tidegate_tools::topics::{Topics, token};

pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("{name} is not set: run `make test`, see docs/testing.md"))
}

/// A job, and what it is started with. A change between two starts is a mistake or its repair.
#[derive(Clone)]
pub(crate) struct Job {
    pub(crate) bootstrap: String,
    pub(crate) input: String,
    pub(crate) output: String,
    pub(crate) group: String,
    pub(crate) checkpoints: String,
    /// For the log, and for checkpoints unless they are elsewhere.
    pub(crate) folder: PathBuf,
    pub(crate) flags: Vec<String>,
}

impl Job {
    /// With an input of 2000 clicks.
    pub(crate) fn new(title: &str) -> Self {
        let job = Self::empty(title, &[]);
        job.feed(2000);
        job
    }

    /// With an empty input, and an output with these settings.
    pub(crate) fn empty(title: &str, output: &[(&str, &str)]) -> Self {
        Self::at(&variable("KAFKA_BOOTSTRAP"), title, output)
    }

    /// As [`Job::empty`], at another Kafka.
    pub(crate) fn at(bootstrap: &str, title: &str, output: &[(&str, &str)]) -> Self {
        let group = format!("bad-{title}-{}", token());
        let folder = run_folder(None, &group);
        fs::create_dir_all(&folder).unwrap();
        let job = Self {
            bootstrap: bootstrap.to_owned(),
            input: format!("{group}-in"),
            output: format!("{group}-out"),
            checkpoints: format!("file://{}/checkpoints", folder.display()),
            group,
            folder,
            flags: Vec::new(),
        };
        let topics = Topics::new(bootstrap).unwrap();
        topics.create(&job.input, 2).unwrap();
        topics.create_with(&job.output, 2, output).unwrap();
        job
    }

    pub(crate) fn feed(&self, records: u64) {
        let mut clicks = Clicks::new(Options::default());
        Feeder::new(&self.bootstrap, &self.input).unwrap().fill(&mut clicks, records).unwrap();
    }

    /// The same, with further flags.
    pub(crate) fn with(&self, flags: &[&str]) -> Self {
        let mut job = self.clone();
        job.flags.extend(flags.iter().map(|flag| (*flag).to_owned()));
        job
    }

    /// Where the job keeps what belongs to it.
    pub(crate) fn store(&self) -> PathBuf {
        PathBuf::from(self.checkpoints.strip_prefix("file://").unwrap()).join(&self.group)
    }

    /// Starts the job, which runs until it is stopped.
    pub(crate) fn start(&self) -> Running {
        let log = self.folder.join(format!("log-{}", token()));
        let file = File::create(&log).unwrap();
        let child = Command::new(PathBuf::from(variable("TIDEGATE_BIN_DIR")).join("clicks_per_url"))
            .args([
                "--bootstrap",
                &self.bootstrap,
                "--group",
                &self.group,
                "--checkpoints",
                &self.checkpoints,
            ])
            .args(["--input", &self.input, "--output", &self.output])
            .args(["--interval", "200ms", "--restart-delay", "100ms"])
            .args(&self.flags)
            .stdout(Stdio::null())
            .stderr(file)
            .spawn()
            .unwrap();
        Running { child, log }
    }

    /// Starts the job, which reads what is there and then ends, if nothing is wrong.
    pub(crate) fn start_to_end(&self) -> Running {
        self.with(&["--until-end"]).start()
    }

    /// The job must end by itself as a failure that says all of this.
    pub(crate) fn must_refuse(&self, parts: &[&str]) {
        self.start_to_end().must_fail(1, parts);
    }

    /// Nothing is wrong any more: the job ends, and every click is counted exactly once.
    pub(crate) fn must_finish(&self) {
        self.start_to_end().must_end_well();
        self.must_be_exact();
    }

    /// Every click is counted exactly once, and nothing is left open.
    pub(crate) fn must_be_exact(&self) {
        let (kafka, input, output) = (&self.bootstrap, &self.input, &self.output);
        let report = oracle::judge_clicks(kafka, input, output, Promise::ExactlyOnce).unwrap();
        assert!(report.holds() && report.records_in > 0, "{report}\n{}", self.folder.display());
        let rest = rest::wait(kafka, Some(&self.group), &[input], &[output], PATIENCE).unwrap();
        assert!(rest.holds(), "{rest}\n{}", self.folder.display());
    }

    /// No reader of the output waits for a transaction.
    pub(crate) fn must_hold_nobody_back(&self) {
        let rest = rest::wait(&self.bootstrap, None, &[], &[&self.output], Duration::from_secs(10)).unwrap();
        assert!(rest.holds(), "{rest}\n{}", self.folder.display());
    }

    /// How many records committed readers of the output see.
    pub(crate) fn visible(&self) -> usize {
        read_all(&self.bootstrap, &self.output, Isolation::Committed).unwrap().len()
    }
}

/// A started job; killed when dropped.
pub(crate) struct Running {
    child: Child,
    log: PathBuf,
}

impl Running {
    /// What it has said so far.
    pub(crate) fn said(&self) -> String {
        fs::read_to_string(&self.log).unwrap()
    }

    pub(crate) fn still_runs(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    fn end(&mut self) -> ExitStatus {
        let started = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(started.elapsed() < PATIENCE, "it does not end: {}", self.said());
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// It ends by itself with this code, and its last words have all of these parts.
    pub(crate) fn must_fail(&mut self, code: i32, parts: &[&str]) {
        let status = self.end();
        let said = self.said();
        println!("{status}: {}", said.lines().last().unwrap_or_default());
        assert_eq!(status.code(), Some(code), "{status}: {said}");
        assert!(!said.contains("panicked"), "{said}");
        // Several settings that are wrong are a line each.
        let first = said.lines().position(|line| line.starts_with("error: ")).unwrap_or_default();
        let words: String = said.lines().skip(first).map(|line| format!("{line}\n")).collect();
        for part in parts {
            assert!(words.contains(part), "{part:?} is missing in: {words}");
        }
    }

    pub(crate) fn must_end_well(&mut self) {
        let status = self.end();
        assert!(status.success(), "{status}: {}", self.said());
    }

    /// Waits until it has said this.
    pub(crate) fn until_said(&mut self, words: &str) {
        let started = Instant::now();
        while !self.said().contains(words) {
            assert!(self.still_runs(), "it ended: {}", self.said());
            assert!(started.elapsed() < PATIENCE, "{words:?} is not in: {}", self.said());
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Ends it by SIGTERM, in good order.
    pub(crate) fn stop(mut self) {
        process::terminate(self.child.id()).unwrap();
        self.must_end_well();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended already; either way nobody is left to tell.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
