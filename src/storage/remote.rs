//! What stores beyond a network have in common: a small runtime, a bound on requests under way, and retries with a
//! budget.
//!
//! Problem: the data plane is synchronous, the clients are not, and an answer may be slow, lost, cut or "try later".
//! Each request is tried again until it has an answer or its time is over, with growing pauses that are drawn at
//! random, so that many writers do not come back in step. The clients' own retries are off: two layers of retries
//! multiply, and only this one knows that a publication whose answer was lost is neither success nor refusal.

use super::{Error, Options};
use crate::host::{clock, random};
use futures_util::future::join_all;
use std::cell::OnceCell;
use std::future::Future;
use std::io;
use std::time::Duration;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::Semaphore;

/// Threads of each store's runtime.
const WORKERS: usize = 2;

/// The pauses between two tries grow from the first to the last.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LAST_PAUSE: Duration = Duration::from_secs(2);

/// What a request may take longer for each MiB that it carries: 4 MiB a second are slow, and not yet a fault.
const FOR_EACH_MIB: Duration = Duration::from_millis(250);

/// How long a runtime waits at its end for what is under way.
const END: Duration = Duration::from_millis(100);

/// Why a try brought no result.
pub(super) enum Trouble {
    /// Asking again brings nothing else.
    Final(Error),
    /// The store had no time; whatever was asked for has not happened.
    Busy(String),
    /// Asking again may help; what was asked for may have happened all the same.
    Unanswered(String),
}

impl Trouble {
    /// As it is for a publication: a refusal says nothing about an earlier try that may have happened, so with one of
    /// those it is unknown who stands in the place.
    pub(super) fn of_publication(self, request: &Request<'_>, maybe_done: bool) -> Self {
        match self {
            Self::Final(e) if maybe_done => Self::Final(request.unavailable(format!(
                "whether an earlier try, whose answer was lost, has written it is unknown; the last answer was: {e}"
            ))),
            other => other,
        }
    }
}

/// A request in words.
pub(super) struct Request<'a> {
    /// The store.
    pub(super) location: &'a str,
    /// What is done, as in "writing".
    pub(super) action: &'static str,
    /// To which blob.
    pub(super) name: &'a str,
    /// How many bytes it carries.
    bytes: usize,
}

impl<'a> Request<'a> {
    /// One that carries next to nothing.
    pub(super) fn new(location: &'a str, action: &'static str, name: &'a str) -> Self {
        Self { location, action, name, bytes: 0 }
    }

    /// As it is, with so many bytes.
    pub(super) fn carrying(self, bytes: usize) -> Self {
        Self { bytes, ..self }
    }

    /// The time that its bytes may take, beyond that of a request without.
    fn allowance(&self) -> Duration {
        FOR_EACH_MIB.mul_f64(self.bytes as f64 / f64::from(1 << 20))
    }

    /// The error of a request that will not succeed before somebody has changed something.
    pub(super) fn refused(&self, problem: impl Into<String>, advice: &'static str) -> Error {
        Error::Refused {
            location: self.location.to_owned(),
            action: self.action,
            name: self.name.into(),
            problem: problem.into().into(),
            advice,
        }
    }

    /// The error of a blob that is not there.
    pub(super) fn not_found(&self) -> Error {
        Error::NotFound { location: self.location.to_owned(), name: self.name.to_owned() }
    }

    /// The error of a store that lets this user not do this.
    pub(super) fn not_permitted(&self) -> Error {
        Error::NotPermitted {
            location: self.location.to_owned(),
            action: self.action,
            name: self.name.to_owned(),
        }
    }

    /// The error of a store that did not answer.
    pub(super) fn unavailable(&self, problem: impl Into<String>) -> Error {
        Error::Unavailable {
            location: self.location.to_owned(),
            action: self.action,
            name: self.name.to_owned(),
            problem: problem.into(),
        }
    }
}

/// A runtime for one store's client.
pub(super) struct Remote {
    /// Until the end.
    runtime: Option<Runtime>,
    under_way: Semaphore,
    budget: Duration,
    attempt: Duration,
}

impl Remote {
    /// Starts the runtime's threads.
    pub(super) fn start(options: &Options) -> io::Result<Self> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(WORKERS)
            .thread_name("storage")
            .enable_all()
            .build()?;
        Ok(Self {
            runtime: Some(runtime),
            under_way: Semaphore::new(options.parallelism),
            budget: Duration::from_millis(options.timeout_ms),
            attempt: Duration::from_millis(options.attempt_timeout_ms),
        })
    }

    fn runtime(&self) -> &Runtime {
        self.runtime.as_ref().expect("the runtime lives as long as its store")
    }

    /// For a client that starts tasks of its own.
    pub(super) fn handle(&self) -> Handle {
        self.runtime().handle().clone()
    }

    /// Waits on this thread for a future. The thread must not belong to a runtime.
    pub(super) fn wait<T>(&self, future: impl Future<Output = T>) -> T {
        self.runtime().block_on(future)
    }

    /// Asks once, for what may fail.
    pub(super) async fn attempt(&self, future: impl Future) {
        let _ = tokio::time::timeout(self.attempt, future).await;
    }

    /// Tries until there is an answer or the time is over. `ask` is told whether an earlier try may have happened.
    pub(super) async fn ask<T>(
        &self,
        request: &Request<'_>,
        mut ask: impl AsyncFnMut(bool) -> Result<T, Trouble>,
    ) -> Result<T, Error> {
        let _permit = self.under_way.acquire().await.expect("the semaphore is never closed");
        let began = clock::now();
        let (budget, attempt) = (self.budget + request.allowance(), self.attempt + request.allowance());
        let (mut pause, mut tries, mut maybe_done) = (FIRST_PAUSE, 0u32, false);
        loop {
            tries += 1;
            let time = attempt.min(budget.saturating_sub(clock::now() - began));
            let problem = match tokio::time::timeout(time, ask(maybe_done)).await {
                Ok(Ok(answer)) => return Ok(answer),
                Ok(Err(Trouble::Final(e))) => return Err(e),
                Ok(Err(Trouble::Busy(problem))) => problem,
                Ok(Err(Trouble::Unanswered(problem))) => {
                    maybe_done = true;
                    problem
                }
                Err(_) => {
                    maybe_done = true;
                    format!("no answer within {} ms", time.as_millis())
                }
            };
            let pausing = pause.mul_f64(0.5 + random::fraction() / 2.0);
            let spent = clock::now() - began;
            if spent + pausing >= budget {
                let (spent, budget) = (spent.as_millis(), budget.as_millis());
                return Err(request.unavailable(format!(
                    "given up after {tries} tries in {spent} of {budget} ms, the last: {problem}"
                )));
            }
            tracing::debug!(name = request.name, tries, problem, "{}, trying again", request.action);
            tokio::time::sleep(pausing).await;
            pause = (pause * 2).min(LAST_PAUSE);
        }
    }

    /// Deletes one blob after the other, as many at once as requests may be under way; gives back what is still there. Of
    /// a store that has not answered one of them in its time the others are not to be had either: they are given up.
    pub(super) async fn delete_each(
        &self,
        location: &str,
        names: &[String],
        delete: impl AsyncFn(&Request<'_>) -> Result<(), Trouble>,
    ) -> Vec<(String, Error)> {
        let given_up = OnceCell::new();
        let each = names.iter().map(async |name| {
            let request = Request::new(location, "deleting", name);
            let deleted = self.ask(&request, async |_| match given_up.get() {
                Some(problem) => Err(Trouble::Final(request.unavailable(String::clone(problem)))),
                None => delete(&request).await,
            });
            let error = deleted.await.err()?;
            if let Error::Unavailable { problem, .. } = &error {
                // Whoever was first has said it.
                let _ = given_up.set(problem.clone());
            }
            Some((name.clone(), error))
        });
        join_all(each).await.into_iter().flatten().collect()
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_timeout(END);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn remote(timeout_ms: u64) -> Remote {
        let options = Options { timeout_ms, attempt_timeout_ms: 20, parallelism: 2, ..Options::default() };
        Remote::start(&options).unwrap()
    }

    const REQUEST: Request<'_> =
        Request { location: "s3://b/p", action: "publishing", name: "m/1", bytes: 0 };

    #[test]
    fn a_refusal_after_a_lost_answer_leaves_a_publication_unknown() {
        let refused = || Trouble::Final(REQUEST.not_permitted());
        let first = refused().of_publication(&REQUEST, false);
        assert!(matches!(first, Trouble::Final(Error::NotPermitted { .. })));
        let second = refused().of_publication(&REQUEST, true);
        assert!(
            matches!(second, Trouble::Final(e) if e.is_transient() && e.to_string().contains("is unknown"))
        );
    }

    #[test]
    fn a_try_that_takes_too_long_may_have_happened() {
        let remote = remote(1000);
        let mut told = Vec::new();
        let answer = remote.wait(remote.ask(&REQUEST, async |maybe_done| {
            told.push(maybe_done);
            match told.len() {
                1 => Err(Trouble::Busy("busy".to_owned())),
                2 => std::future::pending().await,
                _ => Ok("answer"),
            }
        }));
        assert_eq!(answer.unwrap(), "answer");
        assert_eq!(told, [false, false, true]);
    }

    #[test]
    fn what_is_given_up_says_how_hard_it_was_tried() {
        let remote = remote(100);
        let busy = async |_| Err::<(), _>(Trouble::Busy("503".to_owned()));
        let text = remote.wait(remote.ask(&REQUEST, busy)).unwrap_err().to_string();
        assert!(text.starts_with("s3://b/p: publishing m/1: given up after "), "{text}");
        assert!(text.contains("of 100 ms, the last: 503"), "{text}");
    }

    #[test]
    fn no_more_than_allowed_are_under_way() {
        let remote = remote(1000);
        let (now, most) = (std::cell::Cell::new(0), std::cell::Cell::new(0));
        let requests = (0..10).map(|_| {
            remote.ask(&REQUEST, async |_| {
                now.set(now.get() + 1);
                most.set(most.get().max(now.get()));
                tokio::time::sleep(Duration::from_millis(5)).await;
                now.set(now.get() - 1);
                Ok(())
            })
        });
        assert!(remote.wait(join_all(requests)).iter().all(Result::is_ok));
        assert_eq!(most.get(), 2);
    }
}
