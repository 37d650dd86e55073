//! What the brokers say about the transactional ids of a job.

use std::thread;
use std::time::{Duration, Instant};

use tidegate::connector::kafka::raw::{Client, Deadline, Described, Listed, Settings, TransactionState};
use tidegate::connector::kafka::sink::parse_id;
use tidegate::model::JobId;

/// A raw client for the Kafka at this address.
pub(crate) fn client(bootstrap: &str) -> Client {
    let properties = [("bootstrap.servers".to_owned(), bootstrap.to_owned())];
    Client::new(Settings::from_librdkafka(&properties.into()).unwrap())
}

fn soon() -> Deadline {
    Deadline::after(Duration::from_secs(60))
}

/// All transactional ids of the job that the brokers know.
pub(crate) fn of_job(bootstrap: &str, job: &str) -> Vec<Listed> {
    let job = JobId::new(job).unwrap();
    let listed = client(bootstrap).list_transactions(&[], soon()).unwrap();
    let own = |listed: &Listed| parse_id(&listed.transactional_id).is_some_and(|owner| owner.is_of_job(&job));
    listed.into_iter().filter(own).collect()
}

/// The open transactions of the job. Those whose end is decided may still be written: that is waited for.
pub(crate) fn open(bootstrap: &str, job: &str) -> Vec<Listed> {
    let started = Instant::now();
    loop {
        let mut all = of_job(bootstrap, job);
        all.retain(|listed| {
            !matches!(
                listed.state,
                TransactionState::Empty | TransactionState::CompleteCommit | TransactionState::CompleteAbort
            )
        });
        let decided =
            |l: &Listed| matches!(l.state, TransactionState::PrepareCommit | TransactionState::PrepareAbort);
        if !all.iter().any(decided) || started.elapsed() > Duration::from_secs(10) {
            return all;
        }
        thread::sleep(Duration::from_millis(50));
    }
}

/// What the coordinator says about each id of the job.
pub(crate) fn described(bootstrap: &str, job: &str) -> Vec<(String, Described)> {
    let mut client = client(bootstrap);
    let ids = of_job(bootstrap, job).into_iter().map(|listed| listed.transactional_id);
    ids.filter_map(|id| Some((id.clone(), client.describe_transaction(&id, soon()).unwrap()?))).collect()
}

/// Waits until none of the job's transactions is open any more, for the brokers have aborted them by their timeouts.
pub(crate) fn wait_for_timeouts(bootstrap: &str, job: &str) {
    let started = Instant::now();
    while !open(bootstrap, job).is_empty() {
        assert!(started.elapsed() < Duration::from_secs(60), "the brokers abort after their timeout");
        thread::sleep(Duration::from_millis(100));
    }
}
