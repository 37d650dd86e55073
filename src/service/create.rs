//! `tidegate savepoint create`: asks a running job for a savepoint over HTTP and waits for how it ends.

use super::settings::duration;
use crate::host::clock;
use crate::model::Failure;
use serde::Deserialize;
use std::time::Duration;

/// How often the job is asked how far it is.
const LOOK: Duration = Duration::from_millis(100);

/// How long one answer may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// Whom to ask, and for what.
#[derive(Debug, clap::Args)]
pub(super) struct Create {
    /// Where the job serves HTTP on this machine: its http.address
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:8080")]
    address: String,
    /// The folder below which the savepoint's own is made, a URI or an absolute path; else the job's savepoint.folder
    #[arg(long, value_name = "URI")]
    folder: Option<String>,
    /// End the job with the savepoint
    #[arg(long)]
    stop: bool,
    /// With --stop: operators emit before what they kept back, as if the input were over
    #[arg(long, requires = "stop")]
    drain: bool,
    /// How long to wait; the job goes on with the savepoint after that
    #[arg(long, default_value = "10min", value_parser = duration)]
    timeout: Duration,
}

/// What the job answers, as far as it is needed here.
#[derive(Debug, Deserialize)]
struct Answer {
    #[serde(default)]
    id: String,
    #[serde(default)]
    state: String,
    location: Option<String>,
    reason: Option<String>,
    error: Option<String>,
}

/// Prints the savepoint's place to standard output.
///
/// # Errors
/// When the job cannot be asked, or there is no savepoint.
pub(super) fn run(create: &Create) -> Result<(), Failure> {
    let agent: ureq::Agent = ureq::Agent::config_builder()
        .http_status_as_error(false)
        .timeout_global(Some(PATIENCE))
        .proxy(None)
        .build()
        .into();
    let base = format!("http://{}/v1", create.address);
    let body = serde_json::json!({ "folder": create.folder, "stop": create.stop, "drain": create.drain })
        .to_string();
    let begun = answer(&base, agent.post(format!("{base}/savepoint")).send(&body))?;
    let until = clock::now() + create.timeout;
    loop {
        let now = answer(&base, agent.get(format!("{base}/operations/{}", begun.id)).call())?;
        match now.state.as_str() {
            "succeeded" => {
                println!("{}", now.location.unwrap_or_default());
                return Ok(());
            }
            "failed" => {
                let reason = now.reason.unwrap_or_default();
                return Err(Failure::configuration(format!("there is no savepoint: {reason}")));
            }
            _ if clock::now() > until => {
                return Err(Failure::configuration(format!(
                    "the savepoint is not complete after {:?}; the job goes on with it: GET {base}/operations/{} tells",
                    create.timeout, begun.id
                )));
            }
            _ => std::thread::sleep(LOOK),
        }
    }
}

fn answer(
    base: &str,
    response: Result<ureq::http::Response<ureq::Body>, ureq::Error>,
) -> Result<Answer, Failure> {
    let failure = |e: String| {
        Failure::configuration(format!(
            "{base}: {e}; --address is the job's http.address, which its log names, on this machine"
        ))
    };
    let mut response = response.map_err(|e| failure(e.to_string()))?;
    let text = response.body_mut().read_to_string().map_err(|e| failure(e.to_string()))?;
    let answer: Answer = serde_json::from_str(&text)
        .map_err(|e| failure(format!("expected a job's answer, found {text:?} ({e})")))?;
    match answer.error {
        Some(error) => Err(failure(error)),
        None => Ok(answer),
    }
}
