//! One job on topics of its own, from the first record to the verdict.
//!
//! The job is the example `clicks_per_url`. It reads a topic that is fed steadily, so that records come between any two
//! checkpoints; in the end the feed stops, the job catches up and is stopped by SIGTERM, or a bounded job comes to its
//! end. Then everything must be at rest and every click counted exactly once, in order.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use tidegate::checkpoint::Sequence;
use tidegate::connector::kafka::sink::pending_of;
use tidegate::model::JobId;
use tidegate_tools::offsets::{Isolation, Offsets};
use tidegate_tools::oracle::{self, Promise};
use tidegate_tools::program::{Job, Program, System, run_folder};
use tidegate_tools::steady::SteadyClicks;
use tidegate_tools::topics::{Topics, token};
use tidegate_tools::{clicks, feed, process, rest};

use super::{bin_dir, bootstrap, run_dir, transactions};

/// How long anything may take that should happen at once.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// Time between two checkpoints.
pub(crate) const INTERVAL: Duration = Duration::from_millis(200);

/// Partitions of each topic.
const PARTITIONS: i32 = 4;

const LOOK: Duration = Duration::from_millis(50);

/// A job, its topics and what is fed to it.
pub(crate) struct Scene {
    /// How the job is started; change it between two starts to rescale it.
    pub(crate) job: Job,
    flags: Vec<String>,
    variables: Vec<(String, String)>,
    feed: Option<SteadyClicks>,
    fed: u64,
    faults: u32,
}

impl Scene {
    /// Topics at the shared Kafka; the title becomes part of their names.
    pub(crate) fn new(title: &str, parallelism: u16) -> Self {
        Self::at(&bootstrap(), title, parallelism)
    }

    /// Topics at this Kafka.
    pub(crate) fn at(bootstrap: &str, title: &str, parallelism: u16) -> Self {
        let name = format!("{title}-{}", token());
        let job = Job {
            system: System::ClicksPerUrl,
            bin_dir: bin_dir(),
            bootstrap: bootstrap.to_owned(),
            input: format!("{name}-clicks"),
            output: format!("{name}-counts"),
            group: name.clone(),
            interval: INTERVAL,
            parallelism,
            folder: run_folder(Some(&run_dir()), &name),
        };
        let topics = Topics::new(bootstrap).unwrap();
        topics.create(&job.input, PARTITIONS).unwrap();
        topics.create(&job.output, PARTITIONS).unwrap();
        let flags = ["--restart-delay", "100ms"].map(str::to_owned).into();
        Self { job, flags, variables: Vec::new(), feed: None, fed: 0, faults: 0 }
    }

    /// Starts the job with this flag from now on.
    pub(crate) fn flag(mut self, name: &str, value: &str) -> Self {
        self.flags.push(format!("--{name}"));
        if !value.is_empty() {
            self.flags.push(value.to_owned());
        }
        self
    }

    /// Starts the job without this switch from now on.
    pub(crate) fn without(mut self, name: &str) -> Self {
        self.flags.retain(|flag| *flag != format!("--{name}"));
        self
    }

    /// The output is a topic with this setting.
    pub(crate) fn output_setting(mut self, name: &str, value: &str) -> Self {
        let topics = Topics::new(&self.job.bootstrap).unwrap();
        topics.delete(&self.job.output).unwrap();
        self.job.output += "-set";
        topics.create_with(&self.job.output, PARTITIONS, &[(name, value)]).unwrap();
        self
    }

    /// Starts the job with this variable in its environment from now on.
    pub(crate) fn variable(mut self, name: &str, value: &str) -> Self {
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    /// The brokers abort a transaction after 6 s, with what the job's arithmetic needs for that.
    pub(crate) fn short_transactions(self) -> Self {
        self.flag("transaction-timeout", "6s")
            .flag("checkpoint-timeout", "2s")
            .flag("tolerable-failures", "0")
            .flag("restart-budget", "1s")
    }

    /// The job ends at the end that its input has at the first start.
    pub(crate) fn until_end(self) -> Self {
        self.flag("until-end", "")
    }

    /// Writes clicks to the input now.
    pub(crate) fn fill(mut self, records: u64) -> Self {
        let mut feeder = feed::Feeder::new(&self.job.bootstrap, &self.job.input).unwrap();
        self.fed += feeder.fill(&mut clicks::Clicks::new(stream()), records).unwrap().records;
        self
    }

    /// Writes so many clicks a second from now on.
    pub(crate) fn feed(mut self, rate: u64) -> Self {
        let Job { bootstrap, input, .. } = &self.job;
        self.feed = Some(SteadyClicks::start(bootstrap, input, stream(), rate, u64::MAX).unwrap());
        let offsets = Offsets::new(bootstrap).unwrap();
        self.until("the first clicks", || {
            offsets.ends_of(input, PARTITIONS, Isolation::Committed).unwrap().iter().all(|end| *end > 0)
        });
        self
    }

    /// Starts the job.
    pub(crate) fn start(&self) -> Program {
        self.job
            .start_with(|command| {
                command.args(&self.flags).envs(self.variables.iter().cloned());
            })
            .unwrap()
    }

    /// Starts the job with a fault, as in `TIDEGATE_FAULT`.
    pub(crate) fn start_with_fault(&mut self, fault: &str) -> Program {
        self.faults += 1;
        let job = Job { bin_dir: self.job.bin_dir.join("faults"), ..self.job.clone() };
        let log = self.fault_log();
        job.start_with(|command| {
            command.args(&self.flags).env("TIDEGATE_FAULT", fault).env("TIDEGATE_FAULT_LOG", log);
        })
        .unwrap()
    }

    /// Starts the job, which dies by its own SIGKILL at this fault (`point:visit`); proves that.
    pub(crate) fn die_at(&mut self, fault: &str) {
        let mut program = self.start_with_fault(fault);
        self.must_die(fault, &mut program);
    }

    /// Starts the job, which dies when a manifest is published and before anything of it is committed. Every subtask has
    /// left a prepared transaction behind that the newest manifest lists.
    pub(crate) fn die_with_prepared(&mut self) {
        self.die_until("checkpoint.after_manifest:2", "a prepared transaction of every subtask", |scene| {
            scene.open_listed() >= scene.job.parallelism.into()
        });
    }

    /// Starts the job, which dies at this fault with transactions open that the newest manifest does not list.
    pub(crate) fn die_with_strays(&mut self, fault: &str) {
        self.die_until(fault, "a stray transaction", |scene| {
            transactions::open(&scene.job.bootstrap, &scene.job.group).len() > scene.open_listed()
        });
    }

    fn die_until(&mut self, fault: &str, what: &str, is_left: impl Fn(&Self) -> bool) {
        // With little to do on a busy machine a checkpoint may come without records: that is a start more, no failure.
        for _ in 0..5 {
            self.die_at(fault);
            if is_left(self) {
                return;
            }
        }
        panic!("no kill has left {what} behind, log {}", self.log());
    }

    /// How many of the transactions that the newest manifest lists are open.
    fn open_listed(&self) -> usize {
        let job = JobId::new(&self.job.group).unwrap();
        let folder = format!("file://{}", self.job.folder.join("checkpoints").display());
        let store = tidegate::storage::open(&folder, job.as_str()).unwrap();
        let newest = Sequence::new(store, job).newest().unwrap().unwrap();
        let mut client = transactions::client(&self.job.bootstrap);
        let listed = newest.operators.iter().flat_map(|o| &o.subtasks).flat_map(|s| &s.committables);
        listed.filter(|c| pending_of(&mut client, c).unwrap().state == "open").count()
    }

    /// As [`die_at`](Self::die_at), at a fault that comes after SIGTERM.
    pub(crate) fn die_stopping_at(&mut self, fault: &str) {
        let mut program = self.start_with_fault(fault);
        self.wait_for_progress();
        process::terminate(program.pid()).unwrap();
        self.must_die(fault, &mut program);
    }

    fn must_die(&self, fault: &str, program: &mut Program) {
        let status = program.wait(PATIENCE).unwrap();
        let log = self.log();
        assert_eq!(status.signal(), Some(9), "{fault}: {status}, log {log}:\n{}", program.log_tail(20));
        self.must_have_happened(fault, "kill");
    }

    /// Starts the job and waits until it is held at this fault (`point:visit`); proves that.
    pub(crate) fn pause_at(&mut self, fault: &str) -> Program {
        let mut program = self.start_with_fault(&format!("{fault}:pause"));
        let started = Instant::now();
        while !process::is_paused(program.pid()) {
            program.must_run().unwrap();
            assert!(started.elapsed() < PATIENCE, "{fault} was not reached, log {}", self.log());
            thread::sleep(LOOK);
        }
        self.must_have_happened(fault, "pause");
        program
    }

    /// The fault's line stands in the log: it was written before the act.
    pub(crate) fn must_have_happened(&self, fault: &str, act: &str) {
        let (point, visit) = fault.split_once(':').expect("faults here are point:visit");
        let written = fs::read_to_string(self.fault_log()).unwrap_or_default();
        assert_eq!(written, format!("{point} visit {visit} {act}\n"), "log {}", self.log());
    }

    fn fault_log(&self) -> PathBuf {
        self.job.folder.join(format!("fault-{}", self.faults))
    }

    /// Waits until the group has committed offsets beyond those of now: a checkpoint is complete.
    pub(crate) fn wait_for_progress(&self) {
        let Job { bootstrap, group, input, .. } = &self.job;
        let offsets = Offsets::new(bootstrap).unwrap();
        // A broker may be away.
        let sum = || Some(offsets.committed(group, input).ok()?.into_iter().flatten().sum::<i64>());
        let mut before = None;
        self.until("the group's offsets to move", || {
            let now = sum();
            let moved = now > before && before.is_some();
            before = before.or(now);
            moved
        });
    }

    /// Stops the feed, waits until the running job has caught up, and stops it by SIGTERM.
    pub(crate) fn drain(&mut self, mut program: Program) {
        self.stop_feed();
        self.wait_for_no_lag(|| program.must_run().unwrap());
        program.stop(PATIENCE).unwrap();
    }

    /// Stops the feed and waits until whoever runs the job has caught up.
    pub(crate) fn catch_up(&mut self) {
        self.stop_feed();
        self.wait_for_no_lag(|| ());
    }

    fn wait_for_no_lag(&self, mut must_go_on: impl FnMut()) {
        let Job { bootstrap, group, input, .. } = &self.job;
        self.until("the job to catch up", || {
            must_go_on();
            // A broker may just have come back.
            rest::look(bootstrap, Some(group), &[input], &[]).is_ok_and(|report| report.holds())
        });
    }

    /// Stops the feed; what it has written is all there is to count.
    pub(crate) fn stop_feed(&mut self) {
        if let Some(feed) = self.feed.take() {
            self.fed += feed.stop().unwrap().records;
        }
    }

    /// Starts a bounded job, which comes to its end.
    pub(crate) fn finish(&self) {
        let mut program = self.start();
        let status = program.wait(PATIENCE).unwrap();
        assert!(status.success(), "{status}, log {}:\n{}", self.log(), program.log_tail(20));
    }

    /// Everything is counted exactly once, in order; no reader is held back, no transaction is open, no lag is left.
    /// Then the topics are removed.
    pub(crate) fn judge(self) {
        self.must_be_right();
        self.remove();
    }

    /// The verdict alone: the job may go on afterwards.
    pub(crate) fn must_be_right(&self) {
        let Job { bootstrap, group, input, output, .. } = &self.job;
        let log = self.log();
        assert!(self.feed.is_none(), "the feed has ended before the verdict");
        let at_rest = rest::wait(bootstrap, Some(group), &[input], &[output], Duration::from_secs(10));
        let at_rest = at_rest.unwrap();
        let report = oracle::judge_clicks(bootstrap, input, output, Promise::ExactlyOnce).unwrap();
        println!("{report}");
        assert!(report.holds(), "{report}\nlog {log}");
        assert_eq!(report.records_in, self.fed, "all that was fed is judged, log {log}");
        assert!(report.records_in > 0, "there was something to count");
        assert!(at_rest.holds(), "{at_rest}\nlog {log}");
        let open = transactions::open(bootstrap, group);
        assert!(open.is_empty(), "open transactions: {open:#?}\nlog {log}");
    }

    fn remove(self) {
        let topics = Topics::new(&self.job.bootstrap).unwrap();
        topics.delete(&self.job.input).unwrap();
        topics.delete(&self.job.output).unwrap();
        topics.delete_group(&self.job.group).unwrap();
        fs::remove_dir_all(&self.job.folder).unwrap();
    }

    /// Asks until it is so.
    pub(crate) fn until(&self, what: &str, mut test: impl FnMut() -> bool) {
        let started = Instant::now();
        while !test() {
            assert!(started.elapsed() < PATIENCE, "waited {PATIENCE:?} for {what}, log {}", self.log());
            thread::sleep(LOOK);
        }
    }

    /// Whether the log of all starts has this text.
    pub(crate) fn has_logged(&self, text: &str) -> bool {
        fs::read_to_string(self.job.log()).unwrap_or_default().contains(text)
    }

    /// How many lines of the log of all starts have this text.
    pub(crate) fn times_logged(&self, text: &str) -> usize {
        let log = fs::read_to_string(self.job.log()).unwrap_or_default();
        log.lines().filter(|line| line.contains(text)).count()
    }

    /// Where the job's log is, for messages.
    pub(crate) fn log(&self) -> String {
        self.job.log().display().to_string()
    }
}

fn stream() -> clicks::Options {
    clicks::Options { urls: 500, users: 100, ..clicks::Options::default() }
}
