//! Metrics, health and commands over HTTP, on a thread of its own beside the synchronous job.
//!
//! | request | answer |
//! |---|---|
//! | `GET /metrics` | Prometheus' text format |
//! | `GET /healthz` | whether the process itself goes on: never asks a broker or the storage |
//! | `GET /readyz` | whether the job runs and its checkpoints are in time, else 503 and why |
//! | `POST /v1/stop` | a last checkpoint, then the end: 202 and an id |
//! | `POST /v1/cancel` | the end without a checkpoint: 202 and an id |
//! | `POST /v1/savepoint` | a savepoint, or with `stop` the end with one: 202 and an id |
//! | `GET /v1/operations/ID` | how far that is |
//!
//! Its law: whoever is not on this machine may look and not command, and neither may a page in somebody's browser.

use super::connections::{Connections, Peer};
use super::health::{Health, Verdict};
use super::operations::Operations;
use crate::checkpoint::savepoint;
use crate::host::thread;
use crate::model::Failure;
use axum::body::Bytes;
use axum::extract::{ConnectInfo, Path, Request, State};
use axum::http::{Method, StatusCode, header};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use std::net::{SocketAddr, TcpListener};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::oneshot;

/// How long open requests may take once the server ends.
const GRACE: Duration = Duration::from_secs(2);

/// Connections that may be open at once.
const CONNECTIONS: usize = 64;

/// How long a connection may bring nothing before it is closed.
const SILENCE: Duration = Duration::from_secs(30);

/// What the answers are made from.
#[derive(Clone)]
pub(super) struct Sources {
    pub(super) health: Health,
    pub(super) operations: Operations,
    /// Where savepoints go when a command names no place.
    pub(super) savepoints: Option<String>,
}

/// The body of a savepoint's request; nothing is the same as `{}`.
#[derive(Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
struct SavepointCommand {
    /// The folder below which its own is made; else the one of the settings.
    folder: Option<String>,
    /// Whether the job ends with it.
    stop: bool,
    /// With `stop`: whether operators emit what they kept back before.
    drain: bool,
}

impl SavepointCommand {
    fn of(body: &[u8]) -> Result<Self, serde_json::Error> {
        if body.is_empty() {
            return Ok(Self::default());
        }
        // Read into a struct at once, a list would be taken for its fields in order.
        let fields: serde_json::Map<String, serde_json::Value> = serde_json::from_slice(body)?;
        serde_json::from_value(fields.into())
    }
}

/// The running server; dropped, it ends.
pub(super) struct Server {
    /// Where it listens.
    pub(super) address: SocketAddr,
    end: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Listens, and serves on a thread of its own.
    ///
    /// # Errors
    /// When the address cannot be listened at.
    pub(super) fn start(address: SocketAddr, sources: Sources) -> Result<Self, Failure> {
        let cannot = |e: std::io::Error| {
            Failure::configuration(format!(
                "HTTP cannot be served at {address}: {e}; change http.address, where port 0 is any free one"
            ))
        };
        let listener = TcpListener::bind(address).map_err(cannot)?;
        listener.set_nonblocking(true).map_err(cannot)?;
        let address = listener.local_addr().map_err(cannot)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(cannot)?;
        let (end, ended) = oneshot::channel::<()>();
        let serve = async move {
            let listener = tokio::net::TcpListener::from_std(listener)?;
            let listener = Connections::of(listener, CONNECTIONS, SILENCE);
            let app = routes(sources).into_make_service_with_connect_info::<Peer>();
            let (closing, closed) = oneshot::channel::<()>();
            let serving = axum::serve(listener, app).with_graceful_shutdown(async move {
                let _ = ended.await;
                let _ = closing.send(());
            });
            let patience = async {
                let _ = closed.await;
                tokio::time::sleep(GRACE).await;
            };
            tokio::select! {
                result = serving => result,
                () = patience => Ok(()),
            }
        };
        let body = move || {
            if let Err(e) = runtime.block_on(serve) {
                tracing::error!("HTTP is not served any more: {e}");
            }
        };
        let thread = thread::spawn("http", body).map_err(cannot)?;
        Ok(Self { address, end: Some(end), thread: Some(thread) })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Every request there is; a new command is a line here.
fn routes(sources: Sources) -> Router {
    let commands = Router::new()
        .route("/stop", post(stop))
        .route("/cancel", post(cancel))
        .route("/savepoint", post(take_savepoint))
        .route("/operations/{id}", get(operation))
        .layer(from_fn(only_from_here));
    Router::new()
        .route("/metrics", get(metrics))
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .nest("/v1", commands)
        .fallback(|| async {
            problem(StatusCode::NOT_FOUND, "there is nothing here; docs/service.md lists all requests")
        })
        .method_not_allowed_fallback(|| async {
            problem(StatusCode::METHOD_NOT_ALLOWED, "not by this method; docs/service.md lists all requests")
        })
        .with_state(sources)
}

fn problem(status: StatusCode, text: &str) -> Response {
    (status, Json(serde_json::json!({ "error": text }))).into_response()
}

/// A browser names the page that a request comes from; no client of ours is a page.
async fn only_from_here(
    ConnectInfo(Peer(peer)): ConnectInfo<Peer>,
    request: Request,
    next: Next,
) -> Response {
    if !peer.ip().to_canonical().is_loopback() {
        return problem(StatusCode::FORBIDDEN, "commands are taken from this machine alone");
    }
    if request.method() != Method::GET && request.headers().contains_key(header::ORIGIN) {
        return problem(StatusCode::FORBIDDEN, "commands are not taken from web pages");
    }
    next.run(request).await
}

async fn metrics(State(sources): State<Sources>) -> Response {
    match sources.health.exposition() {
        Ok(text) => ([(header::CONTENT_TYPE, prometheus::TEXT_FORMAT)], text).into_response(),
        Err(e) => problem(StatusCode::INTERNAL_SERVER_ERROR, &format!("the metrics cannot be written: {e}")),
    }
}

fn told(verdict: Verdict) -> Response {
    let status = if verdict.good { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, Json(verdict)).into_response()
}

async fn healthz(State(sources): State<Sources>) -> Response {
    told(sources.health.alive())
}

async fn readyz(State(sources): State<Sources>) -> Response {
    told(sources.health.ready())
}

async fn stop(State(sources): State<Sources>) -> Response {
    (StatusCode::ACCEPTED, Json(sources.operations.stop())).into_response()
}

async fn cancel(State(sources): State<Sources>) -> Response {
    (StatusCode::ACCEPTED, Json(sources.operations.cancel())).into_response()
}

async fn take_savepoint(State(sources): State<Sources>, body: Bytes) -> Response {
    let command = match SavepointCommand::of(&body) {
        Ok(command) => command,
        Err(e) => {
            let expected = "expected JSON such as {\"folder\": \"s3://bucket/savepoints\", \"stop\": false}";
            return problem(StatusCode::BAD_REQUEST, &format!("{expected}: {e}"));
        }
    };
    let Some(folder) = command.folder.or(sources.savepoints) else {
        let text = "no folder for the savepoint: name it in the request, or set savepoint.folder";
        return problem(StatusCode::BAD_REQUEST, text);
    };
    if let Err(e) = savepoint::check_place(&folder) {
        return problem(StatusCode::BAD_REQUEST, &format!("folder of the savepoint: {e}"));
    }
    if command.drain && !command.stop {
        return problem(
            StatusCode::BAD_REQUEST,
            "a drain goes only with a stop: the operators' input is over then",
        );
    }
    let begun = match command.stop {
        true => sources.operations.stop_with_savepoint(&folder, command.drain),
        false => sources.operations.savepoint(&folder),
    };
    (StatusCode::ACCEPTED, Json(begun)).into_response()
}

async fn operation(State(sources): State<Sources>, Path(id): Path<String>) -> Response {
    match sources.operations.get(&id) {
        Some(operation) => Json(operation).into_response(),
        None => problem(StatusCode::NOT_FOUND, "this process has begun no operation of this id"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_read_by_the_names_of_its_fields() {
        let of = |text: &str| SavepointCommand::of(text.as_bytes());
        assert_eq!(of("").unwrap(), SavepointCommand::default());
        assert_eq!(of("{}").unwrap(), SavepointCommand::default());
        let told = of(r#"{"folder": "/a", "stop": true}"#).unwrap();
        assert_eq!(told, SavepointCommand { folder: Some("/a".to_owned()), stop: true, drain: false });
        for bad in [r#"["/a", true, false]"#, r#"{"foldr": "/a"}"#, "true", "{"] {
            assert!(of(bad).is_err(), "{bad}");
        }
    }
}
