//! List, union and broadcast state over SIGKILLs and changes of parallelism, shown by the example `spending_limits`:
//! every payment has exactly one receipt, in its account's order, under a number that no other has; every payment that
//! was put aside is in exactly one audit or still waiting; the union has one entry a subtask however often the job has
//! started; one copy of the limits is kept, and no account ever forgets its own.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![expect(clippy::disallowed_methods, reason = "tests measure time and start threads by themselves")]

mod support;

use rdkafka::ClientConfig;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use support::{PATIENCE, bin_dir, bootstrap, run_dir};
use tidegate::checkpoint::{Manifest, Sequence};
use tidegate::model::serializer::Postcard;
use tidegate::model::{CheckpointId, JobId, OperatorUid};
use tidegate::state::{EntryRange, OperatorStates, Redistribution, StateShare};
use tidegate_tools::offsets::Isolation;
use tidegate_tools::program::{Job, Program, System, run_folder};
use tidegate_tools::reader::read_all;
use tidegate_tools::rest;
use tidegate_tools::topics::{Topics, token};

const ACCOUNTS: u64 = 40;

/// Payments until told otherwise, a few hundred a second; gives back how many each account has made.
struct Payments {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<u64>,
}

fn producer() -> BaseProducer {
    ClientConfig::new()
        .set("bootstrap.servers", bootstrap())
        .set("enable.idempotence", "true")
        .set("linger.ms", "5")
        .create()
        .unwrap()
}

/// One more payment of each account.
fn pay(producer: &BaseProducer, topic: &str, number: u64) {
    for account in 0..ACCOUNTS {
        let account = format!("a{account}");
        let payment = serde_json::json!({ "account": account, "number": number, "amount": number % 100 });
        producer.send(BaseRecord::to(topic).key(&account).payload(&payment.to_string())).unwrap();
    }
    producer.flush(Duration::from_secs(30)).unwrap();
}

impl Payments {
    fn start(topic: &str) -> Self {
        let (stop, topic) = (Arc::new(AtomicBool::new(false)), topic.to_owned());
        let stopped = Arc::clone(&stop);
        let thread = thread::spawn(move || {
            let (producer, mut number) = (producer(), 0);
            while !stopped.load(Ordering::SeqCst) {
                pay(&producer, &topic, number);
                number += 1;
                thread::sleep(Duration::from_millis(40));
            }
            number
        });
        Self { stop, thread }
    }

    fn stop(self) -> u64 {
        self.stop.store(true, Ordering::SeqCst);
        self.thread.join().unwrap()
    }
}

/// Every account has this limit from now on.
fn limit(topic: &str, limit: u64) {
    let producer = producer();
    for account in 0..ACCOUNTS {
        let account = format!("a{account}");
        let text = serde_json::json!({ "account": account, "limit": limit }).to_string();
        producer.send(BaseRecord::to(topic).key(&account).payload(&text)).unwrap();
    }
    producer.flush(Duration::from_secs(30)).unwrap();
}

fn job(title: &str) -> Job {
    let name = format!("{title}-{}", token());
    let job = Job {
        system: System::SpendingLimits,
        bin_dir: bin_dir(),
        bootstrap: bootstrap(),
        input: format!("{name}-in"),
        output: format!("{name}-out"),
        group: name.clone(),
        interval: Duration::from_millis(200),
        parallelism: 1,
        folder: run_folder(Some(&run_dir()), &name),
    };
    let topics = Topics::new(&job.bootstrap).unwrap();
    topics.create(&job.input, 4).unwrap();
    topics.create(&format!("{}-limits", job.input), 2).unwrap();
    topics.create(&job.output, 4).unwrap();
    job
}

fn store(job: &Job) -> Arc<dyn tidegate::storage::Storage> {
    let folder = format!("file://{}", job.folder.join("checkpoints").display());
    tidegate::storage::open(&folder, &job.group).unwrap()
}

fn newest(job: &Job) -> Option<Manifest> {
    Sequence::new(store(job), JobId::new(&job.group).unwrap()).newest().unwrap()
}

fn until(what: &str, mut test: impl FnMut() -> bool) {
    let started = Instant::now();
    while !test() {
        assert!(started.elapsed() < PATIENCE, "waited {PATIENCE:?} for {what}");
        thread::sleep(Duration::from_millis(50));
    }
}

/// Waits for two more checkpoints of the running job, so that what it restored is written anew.
fn wait_for_checkpoints(job: &Job, program: &mut Program, before: CheckpointId) {
    until("two checkpoints", || {
        program.must_run().unwrap();
        newest(job).is_some_and(|m| m.checkpoint.0 >= before.0 + 2 && !of(&m, "register").is_empty())
    });
}

fn of(manifest: &Manifest, uid: &str) -> Vec<tidegate::checkpoint::SubtaskSnapshot> {
    let uid = OperatorUid(uid.to_owned());
    manifest.operators.iter().find(|o| o.uid == uid).map(|o| o.subtasks.clone()).unwrap_or_default()
}

/// How many entries each subtask has written of a state, and in how many of them anything stands at all.
fn entries(manifest: &Manifest, uid: &str, name: &str) -> Vec<u64> {
    let counted = |s: &tidegate::checkpoint::SubtaskSnapshot| -> u64 {
        s.operator.iter().filter(|o| o.name == name).map(|o| o.entries).sum()
    };
    of(manifest, uid).iter().map(counted).collect()
}

/// What is still to be audited, by the newest checkpoint.
fn waiting(job: &Job, manifest: &Manifest) -> Vec<(String, u64)> {
    let pieces = of(manifest, "register").into_iter().flat_map(|s| s.operator);
    let parts: Vec<EntryRange> = pieces
        .filter(|s| s.name == "to audit")
        .map(|s| EntryRange {
            handle: s.handle,
            serializer: s.serializer,
            entries: s.entries,
            take: 0..s.entries,
        })
        .collect();
    let mut states = OperatorStates::new(0);
    let (name, redistribution, own) = ("to audit".to_owned(), Redistribution::Split, 0..0);
    states.load(vec![StateShare { name, redistribution, parts, own }], &*store(job)).unwrap();
    states.list("to audit", Arc::new(Postcard::default())).unwrap().entries()
}

/// How many key groups the accounts have.
fn key_groups(manifest: &Manifest) -> Option<u32> {
    let operator = manifest.operators.iter().find(|o| o.uid.0 == "check").unwrap();
    operator.max_parallelism.map(|max| max.get())
}

/// `tidegate checkpoint rescale`, with the result in the place of what it was made from.
fn move_to_maximum(job: &Job, max: u32) -> Manifest {
    let (folder, moved) = (job.folder.join("checkpoints"), job.folder.join("moved"));
    assert_eq!(key_groups(&newest(job).unwrap()), Some(128));
    let status = Command::new(bin_dir().join("tidegate"))
        .args(["checkpoint", "rescale", "--job", &job.group, "--max-parallelism", &max.to_string()])
        .args(["--checkpoints", &format!("file://{}", folder.display())])
        .args(["--to", &format!("file://{}", moved.display())])
        .status()
        .unwrap();
    assert!(status.success(), "{status}");
    std::fs::remove_dir_all(&folder).unwrap();
    std::fs::rename(moved, folder).unwrap();
    newest(job).unwrap()
}

#[test]
fn list_union_and_broadcast_state_are_exact_over_kills_and_rescales() {
    exact_over_kills_and_rescales("operator-state", &[]);
}

#[test]
fn list_union_and_broadcast_state_are_exact_with_records_in_flight() {
    exact_over_kills_and_rescales("operator-unaligned", &["--unaligned"]);
}

fn exact_over_kills_and_rescales(title: &str, flags: &[&str]) {
    let mut job = job(title);
    let start = |job: &Job| {
        job.start_with(|command| {
            command.args(flags);
        })
    };
    let limits = format!("{}-limits", job.input);
    limit(&limits, 1);
    let payments = Payments::start(&job.input);
    let rounds = [1u16, 2, 3, 4, 2];
    for (round, parallelism) in rounds.into_iter().enumerate() {
        job.parallelism = parallelism;
        let before = newest(&job).map_or(CheckpointId(0), |m| m.checkpoint);
        let mut program = start(&job).unwrap();
        // The limits grow while the job runs, so that some changes come between a checkpoint and the kill.
        limit(&limits, 10 * (round as u64 + 1));
        wait_for_checkpoints(&job, &mut program, before);
        limit(&limits, 10 * (round as u64 + 1) + 5);
        thread::sleep(Duration::from_millis(fastrand::u64(..300)));
        program.kill().unwrap();

        let manifest = newest(&job).unwrap();
        let log = job.log().display().to_string();
        let given = entries(&manifest, "register", "given");
        assert_eq!(given, vec![1; usize::from(parallelism)], "the union does not grow, log {log}");
        let kept = entries(&manifest, "check", "limits");
        assert_eq!(kept[0], ACCOUNTS, "log {log}");
        assert!(kept[1..].iter().all(|entries| *entries == 0), "one copy is kept: {kept:?}, log {log}");
    }

    // With pending transactions in it, the newest checkpoint is written anew under another maximum parallelism.
    let moved = move_to_maximum(&job, 200);
    assert_eq!(key_groups(&moved), Some(200));
    job.parallelism = 3;

    // The last limits, then the last payments: these must find them on every subtask.
    let last_limit = 1000;
    let mut program = start(&job).unwrap();
    limit(&limits, last_limit);
    let made = payments.stop();
    let caught_up = || rest::look(&job.bootstrap, Some(&job.group), &[&job.input, &limits], &[]);
    until("the job to catch up", || {
        program.must_run().unwrap();
        caught_up().is_ok_and(|report| report.holds())
    });
    pay(&producer(), &job.input, made);
    let made = made + 1;
    until("the job to catch up", || {
        program.must_run().unwrap();
        caught_up().is_ok_and(|report| report.holds())
    });
    program.stop(PATIENCE).unwrap();

    let log = job.log().display().to_string();
    let (mut by_account, mut numbers, mut audited) =
        (BTreeMap::<String, Vec<(u64, u64, Option<u64>)>>::new(), BTreeSet::new(), Vec::new());
    for record in read_all(&job.bootstrap, &job.output, Isolation::Committed).unwrap() {
        let value: serde_json::Value = serde_json::from_slice(&record.value.unwrap()).unwrap();
        if let Some(audit) = value.get("audit") {
            let audit: Vec<(String, u64)> = serde_json::from_value(audit.clone()).unwrap();
            assert_eq!(audit.len(), 10, "log {log}");
            audited.extend(audit);
            continue;
        }
        let number = |name: &str| value[name].as_u64();
        assert!(
            numbers.insert(number("receipt").unwrap()),
            "a receipt's number is given twice: {value}, log {log}"
        );
        let of_account = by_account.entry(value["account"].as_str().unwrap().to_owned()).or_default();
        of_account.push((number("number").unwrap(), number("count").unwrap(), number("limit")));
    }
    assert_eq!(by_account.len() as u64, ACCOUNTS);
    for (account, receipts) in &by_account {
        let expected: Vec<(u64, u64)> = (0..made).map(|n| (n, n + 1)).collect();
        let found: Vec<(u64, u64)> = receipts.iter().map(|(n, count, _)| (*n, *count)).collect();
        assert_eq!(found, expected, "account {account}: each once, in order, log {log}");
        let limits: Vec<Option<u64>> = receipts.iter().map(|(_, _, limit)| *limit).collect();
        assert!(limits.is_sorted(), "account {account} forgot a limit: {limits:?}, log {log}");
        assert_eq!(limits.last(), Some(&Some(last_limit)), "account {account}, log {log}");
    }
    let manifest = newest(&job).unwrap();
    let still_waiting = waiting(&job, &manifest);
    println!("{made} payments an account, {} audited, {} waiting", audited.len(), still_waiting.len());
    audited.extend(still_waiting);
    audited.sort();
    let expected = (0..ACCOUNTS).flat_map(|a| (0..made).step_by(10).map(move |n| (format!("a{a}"), n)));
    let mut expected: Vec<(String, u64)> = expected.collect();
    expected.sort();
    assert_eq!(audited, expected, "what was put aside is audited or waits, log {log}");

    let topics = Topics::new(&job.bootstrap).unwrap();
    for topic in [&job.input, &limits, &job.output] {
        topics.delete(topic).unwrap();
    }
    std::fs::remove_dir_all(&job.folder).unwrap();
}
