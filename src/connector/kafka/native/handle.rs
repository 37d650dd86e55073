//! A client instance of librdkafka: made from properties, destroyed when dropped.

use rdkafka::ClientConfig;
use rdkafka::bindings as rd;
use rdkafka::error::KafkaError;
use std::collections::BTreeMap;
use std::ffi::{CStr, c_char};

/// An error of librdkafka.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{text} ({name})")]
pub(in crate::connector::kafka) struct Error {
    /// The error's name, such as `_TIMED_OUT`.
    pub(in crate::connector::kafka) name: String,
    /// What librdkafka says.
    pub(in crate::connector::kafka) text: String,
    /// The same call may succeed later.
    pub(in crate::connector::kafka) retriable: bool,
    /// The transaction must be aborted.
    pub(in crate::connector::kafka) requires_abort: bool,
    /// The producer can do nothing more.
    pub(in crate::connector::kafka) fatal: bool,
}

impl Error {
    /// Whether the producer's epoch is over: another producer has its transactional id, or its transaction timed out.
    pub(in crate::connector::kafka) fn is_fenced(&self) -> bool {
        matches!(self.name.as_str(), "_FENCED" | "PRODUCER_FENCED" | "INVALID_PRODUCER_EPOCH")
    }

    /// From a bare error code.
    pub(super) fn of(code: rd::rd_kafka_resp_err_t) -> Self {
        // SAFETY: both functions return static strings for any code.
        let (name, text) = unsafe { (words(rd::rd_kafka_err2name(code)), words(rd::rd_kafka_err2str(code))) };
        Self { name, text, retriable: false, requires_abort: false, fatal: false }
    }

    /// From an error object, which is destroyed; `None` for a null pointer, which means success.
    pub(super) fn take(error: *mut rd::rd_kafka_error_t) -> Option<Self> {
        if error.is_null() {
            return None;
        }
        // SAFETY: the pointer is a live error object that this call owns; it is destroyed once, after its last use.
        unsafe {
            let found = Self {
                name: words(rd::rd_kafka_error_name(error)),
                text: words(rd::rd_kafka_error_string(error)),
                retriable: rd::rd_kafka_error_is_retriable(error) != 0,
                requires_abort: rd::rd_kafka_error_txn_requires_abort(error) != 0,
                fatal: rd::rd_kafka_error_is_fatal(error) != 0,
            };
            rd::rd_kafka_error_destroy(error);
            Some(found)
        }
    }

    /// As [`Error::take`], with the bare code beside it.
    pub(super) fn take_code(error: *mut rd::rd_kafka_error_t) -> Option<(rd::rd_kafka_resp_err_t, Self)> {
        if error.is_null() {
            return None;
        }
        // SAFETY: the pointer is a live error object; `take` destroys it afterwards.
        let code = unsafe { rd::rd_kafka_error_code(error) };
        Self::take(error).map(|e| (code, e))
    }

    /// From words of our own.
    pub(super) fn local(text: impl Into<String>) -> Self {
        Self {
            name: "_LOCAL".to_owned(),
            text: text.into(),
            retriable: false,
            requires_abort: false,
            fatal: false,
        }
    }
}

/// # Safety
/// Null, or a NUL-terminated string that lives during the call.
pub(super) unsafe fn words(text: *const c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: the caller's promise.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

/// # Safety
/// `event` is a live log event.
pub(super) unsafe fn log(event: *mut rd::rd_kafka_event_t) {
    let (mut facility, mut line, mut level) = (std::ptr::null(), std::ptr::null(), 0);
    // SAFETY: the caller's promise; both texts live as long as the event.
    let (facility, line) = unsafe {
        rd::rd_kafka_event_log(event, &mut facility, &mut line, &mut level);
        (words(facility), words(line))
    };
    // Syslog levels; what matters of an outage is told by the reader, which knows the topics.
    match level {
        0..=3 => tracing::warn!(target: "librdkafka", facility, "{line}"),
        4..=5 => tracing::info!(target: "librdkafka", facility, "{line}"),
        _ => tracing::debug!(target: "librdkafka", facility, "{line}"),
    }
}

/// Why a property is refused. The value is left out, for it may be a password under a misspelled name; of a value that a
/// property cannot have librdkafka's own text tells.
fn without_value(e: KafkaError) -> String {
    match e {
        KafkaError::ClientConfig(_, problem, name, _) => format!("property {name}: {problem}"),
        other => other.to_string(),
    }
}

/// Owns the instance.
pub(super) struct Handle(*mut rd::rd_kafka_t);

// SAFETY: librdkafka's instances may be used from any thread.
unsafe impl Send for Handle {}
// SAFETY: as above; every function that is called through a shared handle is thread-safe by librdkafka's manual.
unsafe impl Sync for Handle {}

impl Handle {
    /// Makes an instance of the given type; `events` are delivered through queues instead of callbacks.
    pub(super) fn new(
        kind: rd::rd_kafka_type_t,
        properties: &BTreeMap<String, String>,
        events: i32,
    ) -> Result<Self, Error> {
        let mut config = ClientConfig::new();
        for (name, value) in properties {
            config.set(name, value);
        }
        let native = config.create_native_config().map_err(|e| Error::local(without_value(e)))?;
        let mut text = [0 as c_char; 512];
        // SAFETY: the configuration is live; on success rd_kafka_new takes it over, so it is forgotten here, and on
        // failure it stays ours and is dropped.
        let made = unsafe {
            rd::rd_kafka_conf_set_events(native.ptr(), events);
            rd::rd_kafka_new(kind, native.ptr(), text.as_mut_ptr(), text.len())
        };
        if made.is_null() {
            // SAFETY: librdkafka wrote a NUL-terminated text into the buffer.
            return Err(Error::local(unsafe { words(text.as_ptr()) }));
        }
        std::mem::forget(native);
        Ok(Self(made))
    }

    pub(super) fn ptr(&self) -> *mut rd::rd_kafka_t {
        self.0
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: the pointer is live and dropped once; queues and topics that belong to it are released before by
        // their owners, which hold this handle. A consumer with manual assignment has no group to leave.
        unsafe { rd::rd_kafka_destroy_flags(self.0, rd::RD_KAFKA_DESTROY_F_NO_CONSUMER_CLOSE) };
    }
}
