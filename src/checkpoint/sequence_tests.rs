//! Claims, races and lost answers, on a store whose answers can be lost.

use super::*;
use crate::storage::Local;
use std::collections::VecDeque;
use std::sync::Mutex;

/// What the store does at the next conditional put.
enum Trouble {
    /// Writes, but the answer is lost.
    LoseAnswer,
    /// Writes nothing, and the answer is lost.
    LoseRequest,
    /// Another process is faster.
    Rival(Box<Manifest>),
}

struct Flaky {
    inner: Local,
    trouble: Mutex<VecDeque<Trouble>>,
}

fn lost() -> storage::Error {
    storage::Error::Io {
        location: "flaky".into(),
        action: "publishing",
        name: "manifest".into(),
        source: std::io::ErrorKind::TimedOut.into(),
    }
}

impl Storage for Flaky {
    fn location(&self) -> String {
        "flaky".into()
    }
    fn put(&self, name: &str, bytes: &[u8]) -> Result<(), storage::Error> {
        self.inner.put(name, bytes)
    }
    fn put_if_absent(&self, name: &str, bytes: &[u8]) -> Result<Put, storage::Error> {
        match self.trouble.lock().unwrap().pop_front() {
            Some(Trouble::LoseAnswer) => {
                self.inner.put_if_absent(name, bytes)?;
                Err(lost())
            }
            Some(Trouble::LoseRequest) => Err(lost()),
            Some(Trouble::Rival(m)) => {
                self.inner.put_if_absent(&Manifest::name_of(m.slot), &m.encode())?;
                self.inner.put_if_absent(name, bytes)
            }
            None => self.inner.put_if_absent(name, bytes),
        }
    }
    fn get(&self, name: &str) -> Result<Vec<u8>, storage::Error> {
        self.inner.get(name)
    }
    fn list(&self, folder: &str) -> Result<Vec<String>, storage::Error> {
        self.inner.list(folder)
    }
    fn delete(&self, name: &str) -> Result<(), storage::Error> {
        self.inner.delete(name)
    }
}

fn sequence(trouble: Vec<Trouble>) -> (Sequence, Arc<Flaky>, tempfile::TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let store =
        Arc::new(Flaky { inner: Local::open(dir.path()).unwrap(), trouble: Mutex::new(trouble.into()) });
    (Sequence::new(store.clone(), JobId::new("orders").unwrap()), store, dir)
}

fn rival(slot: u64, generation: u64) -> Manifest {
    Manifest {
        slot,
        generation: Generation(generation),
        nonce: "rival".into(),
        ..Manifest::unborn(JobId::new("orders").unwrap())
    }
}

#[test]
fn each_claim_has_a_higher_generation_and_ids_that_nobody_used() {
    let (sequence, _, _dir) = sequence(vec![]);
    let first = sequence.claim(false).unwrap();
    let checkpoint = sequence.next(&first, Cause::Checkpoint, CheckpointId(Sequence::first_id(&first).0 + 5));
    assert!(matches!(sequence.publish(&checkpoint), Publication::Mine));
    let second = sequence.claim(false).unwrap();
    assert_eq!((second.slot, second.generation), (2, Generation(2)));
    assert_eq!(second.checkpoint, checkpoint.checkpoint);
    assert!(Sequence::first_id(&second) > checkpoint.checkpoint, "a new process uses new ids");
    assert!(second.reserved > Sequence::first_id(&second), "and has some to use");
}

#[test]
fn an_owner_that_was_taken_over_does_not_claim_the_job_back() {
    let (sequence, _, _dir) = sequence(vec![]);
    let mut claims = Claims::default();
    sequence.claim_again(&mut claims, false).unwrap();
    sequence.claim_again(&mut claims, false).unwrap();
    sequence.claim(false).unwrap();
    let again = sequence.claim_again(&mut claims, false);
    assert!(matches!(again, Err(Error::Fenced { ours: 2, theirs: 3, .. })), "{again:?}");
}

#[test]
fn an_owner_whose_manifests_are_gone_does_not_begin_anew() {
    let (sequence, store, _dir) = sequence(vec![]);
    let mut claims = Claims::default();
    let first = sequence.claim_again(&mut claims, false).unwrap();
    let second = sequence.claim_again(&mut claims, false).unwrap();
    store.inner.delete(&Manifest::name_of(second.slot)).unwrap();
    let older = sequence.claim_again(&mut claims, false);
    assert!(matches!(older, Err(Error::Gone { ours: 2, found: 1, .. })), "{older:?}");
    store.inner.delete(&Manifest::name_of(first.slot)).unwrap();
    let none = sequence.claim_again(&mut claims, false);
    assert!(matches!(none, Err(Error::Gone { ours: 2, found: 0, .. })), "{none:?}");
    assert!(sequence.slots().unwrap().is_empty(), "nothing was published");
}

#[test]
fn a_claim_whose_answer_was_lost_for_good_does_not_fence_its_own_process() {
    let (sequence, store, _dir) = sequence(vec![]);
    let mut claims = Claims::default();
    let first = sequence.claim_again(&mut claims, false).unwrap();
    // The claim that follows stands in the sequence, though nobody told this process so.
    let lost = Manifest { nonce: "lost".into(), ..rival(first.slot + 1, 2) };
    claims.nonces.push("lost".into());
    store.inner.put_if_absent(&Manifest::name_of(lost.slot), &lost.encode()).unwrap();
    assert_eq!(sequence.claim_again(&mut claims, false).unwrap().generation, Generation(3));
}

#[test]
fn a_lost_answer_to_a_publication_that_happened_is_still_mine() {
    let (sequence, _, _dir) = sequence(vec![Trouble::LoseAnswer]);
    assert_eq!(sequence.claim(false).unwrap().slot, 0);
}

#[test]
fn a_lost_request_is_sent_again() {
    let (sequence, _, _dir) = sequence(vec![Trouble::LoseRequest]);
    assert_eq!(sequence.claim(false).unwrap().slot, 0);
}

#[test]
fn whoever_finds_the_slot_taken_is_fenced_and_a_claimant_claims_again() {
    let (sequence, store, _dir) = sequence(vec![]);
    let ours = sequence.claim(false).unwrap();
    store.trouble.lock().unwrap().push_back(Trouble::Rival(Box::new(rival(1, 2))));
    let next = sequence.next(&ours, Cause::Checkpoint, CheckpointId(1));
    assert!(matches!(sequence.publish(&next), Publication::Fenced { by: Generation(2) }));
    store.trouble.lock().unwrap().push_back(Trouble::Rival(Box::new(rival(2, 3))));
    let again = sequence.claim(false).unwrap();
    assert_eq!((again.slot, again.generation), (3, Generation(4)));
}

#[test]
fn a_slot_far_behind_can_be_taken_but_fences_its_publisher() {
    let (sequence, store, _dir) = sequence(vec![]);
    let ours = sequence.claim(false).unwrap();
    store.inner.put_if_absent(&Manifest::name_of(9), &rival(9, 5).encode()).unwrap();
    let next = sequence.next(&ours, Cause::Checkpoint, CheckpointId(1));
    assert!(matches!(sequence.publish(&next), Publication::Fenced { by: Generation(5) }));
}

#[test]
fn a_damaged_newest_manifest_is_refused_unless_fresh() {
    let (sequence, store, _dir) = sequence(vec![]);
    sequence.claim(false).unwrap();
    store.inner.put("manifest/00000000000000000001", b"TGMF and then rubbish").unwrap();
    let text = sequence.claim(false).unwrap_err().to_string();
    assert!(text.contains("manifest/00000000000000000001") && text.contains("--fresh"), "{text}");
    let fresh = sequence.claim(true).unwrap();
    assert_eq!((fresh.slot, fresh.started), (2, false));
    assert!(fresh.generation > Generation(1));
}

#[test]
fn many_claimants_at_once_all_get_a_generation_of_their_own() {
    let (sequence, _, _dir) = sequence(vec![]);
    let racers: Vec<_> = (0..4)
        .map(|_| {
            let sequence = sequence.clone();
            crate::host::thread::spawn("claim", move || sequence.claim(false).map(|m| m.generation)).unwrap()
        })
        .collect();
    let mut generations: Vec<_> = racers.into_iter().filter_map(|r| r.join().unwrap().ok()).collect();
    let won = generations.len();
    generations.sort();
    generations.dedup();
    assert_eq!(generations.len(), won);
    assert!(won >= 1);
}

#[test]
fn two_jobs_never_share_a_folder_and_none_leaves_its_own() {
    let table =
        [("orders", "orders"), ("a/b", "a%2fb"), ("..", "%2e."), ("a%2fb", "a%252fb"), ("ä", "%c3%a4")];
    for (job, folder) in table {
        assert_eq!(folder_of(&JobId::new(job).unwrap()), folder);
    }
}

#[test]
fn looking_for_a_job_makes_no_folder() {
    let (dir, job) = (tempfile::tempdir().unwrap(), JobId::new("orders").unwrap());
    let location = format!("file://{}", dir.path().display());
    assert!(Sequence::existing(&location, &job, &storage::Options::default()).unwrap().is_none());
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    Sequence::open(&location, &job).unwrap();
    assert!(Sequence::existing(&location, &job, &storage::Options::default()).unwrap().is_some());
}
