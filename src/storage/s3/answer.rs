//! What the server's answers, and their absence, mean for a request.

use crate::storage::Error;
use crate::storage::remote::{Request, Trouble};
use aws_sdk_s3::error::{DisplayErrorContext, ProvideErrorMetadata, SdkError};
use aws_sdk_s3::operation::RequestId;

type HttpResponse = aws_sdk_s3::config::http::HttpResponse;

const CREDENTIALS: &str =
    "give this process valid keys, as by AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, a profile, or a role";

/// The HTTP status, if there was an answer.
pub(super) fn status<E>(error: &SdkError<E, HttpResponse>) -> Option<u16> {
    error.raw_response().map(|response| response.status().as_u16())
}

/// An error with what it came from, down to the operating system's own.
fn with_causes(error: &(dyn std::error::Error + 'static)) -> String {
    let mut texts = vec![error.to_string()];
    let causes = std::iter::successors(error.source(), |e| e.source());
    for text in causes.map(ToString::to_string) {
        if !texts.last().is_some_and(|last| last.contains(&text)) {
            texts.push(text);
        }
    }
    texts.join(": ")
}

/// Whether a server says by this code that it has no time, wherever in its answer.
pub(super) fn has_no_time(code: &str) -> bool {
    ["SlowDown", "ServiceUnavailable", "InternalError", "OperationAborted"].contains(&code)
}

/// What an error of the client means for the request.
pub(super) fn trouble<E>(request: &Request<'_>, error: &SdkError<E, HttpResponse>) -> Trouble
where
    E: ProvideErrorMetadata + std::error::Error + 'static,
{
    let Some(status) = status(error) else {
        let text = with_causes(error);
        let whole = DisplayErrorContext(error).to_string();
        if whole.contains("no providers in chain") || whole.contains("CredentialsNotLoaded") {
            return Trouble::Final(request.refused("no credentials were found", CREDENTIALS));
        }
        return match error {
            SdkError::ConstructionFailure(_) => Trouble::Final(request.refused(
                text,
                "look at the storage properties s3.endpoint and s3.region, and at the bucket's name",
            )),
            _ => Trouble::Unanswered(text),
        };
    };
    let code = error.code().unwrap_or_default();
    let text = match (error.message(), error.meta().request_id()) {
        (Some(message), Some(id)) => format!("{status} {code}: {message} (request {id})"),
        (Some(message), None) => format!("{status} {code}: {message}"),
        _ => format!("{status} {code}").trim_end().to_owned(),
    };
    Trouble::Final(match (status, code) {
        (_, "NoSuchKey") => request.not_found(),
        (_, "NoSuchBucket") => request.refused(text, "make the bucket, or name another one"),
        (
            _,
            "InvalidAccessKeyId"
            | "XAdminUserNotFound"
            | "SignatureDoesNotMatch"
            | "ExpiredToken"
            | "InvalidToken",
        ) => request.refused(text, CREDENTIALS),
        (_, "RequestTimeTooSkewed") => request.refused(text, "set this machine's clock"),
        (301, _) | (_, "AuthorizationHeaderMalformed") => {
            request.refused(text, "set storage property s3.region to the bucket's region")
        }
        (401 | 403, _) => request.not_permitted(),
        (501, _) => {
            request.refused(text, "use a store that has what a job needs, conditional writes above all")
        }
        (507, _) | (_, "QuotaExceeded" | "InsufficientStorage" | "XMinioStorageFull") => {
            Error::Full { location: request.location.to_owned(), name: request.name.to_owned() }
        }
        (409 | 429, _) | (503, "SlowDown" | "ServiceUnavailable") => return Trouble::Busy(text),
        // A request that did not arrive as it was sent.
        (_, "IncompleteBody" | "BadDigest" | "XAmzContentSHA256Mismatch" | "InvalidDigest") => {
            return Trouble::Busy(text);
        }
        (408 | 500.., _) | (_, "RequestTimeout") => return Trouble::Unanswered(text),
        _ => request.refused(text, "look at the bucket's settings and at the storage properties s3.*"),
    })
}
