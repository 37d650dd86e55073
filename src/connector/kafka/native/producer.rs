//! A producer: batches in, delivery reports out, transactions step by step.

use super::handle::{Error, Handle};
use rd::rd_kafka_resp_err_t as Code;
use rdkafka::bindings as rd;
use std::collections::BTreeMap;
use std::ffi::CString;
use std::os::raw::c_int;
use std::time::Duration;

/// A record to send; the bytes are copied by librdkafka.
#[derive(Debug, Clone, Copy)]
pub(in crate::connector::kafka) struct Outgoing<'a> {
    pub(in crate::connector::kafka) key: Option<&'a [u8]>,
    pub(in crate::connector::kafka) value: Option<&'a [u8]>,
}

/// What became of a record.
#[derive(Debug)]
pub(in crate::connector::kafka) struct Delivery {
    /// The topic, by the number that [`Producer::topic`] gave it.
    pub(in crate::connector::kafka) topic: usize,
    pub(in crate::connector::kafka) partition: i32,
    pub(in crate::connector::kafka) offset: i64,
    pub(in crate::connector::kafka) error: Option<Error>,
}

struct Topic {
    name: String,
    handle: *mut rd::rd_kafka_topic_t,
}

/// A producer and the topics that it writes to.
pub(in crate::connector::kafka) struct Producer {
    topics: Vec<Topic>,
    reports: *mut rd::rd_kafka_queue_t,
    /// Reused for every batch.
    messages: Vec<rd::rd_kafka_message_t>,
    handle: Handle,
}

// SAFETY: the raw pointers belong to the instance, whose functions may be called from any thread; the messages hold
// no pointer between two calls.
unsafe impl Send for Producer {}

fn millis(wait: Duration) -> c_int {
    c_int::try_from(wait.as_millis()).unwrap_or(c_int::MAX)
}

impl Producer {
    pub(in crate::connector::kafka) fn new(properties: &BTreeMap<String, String>) -> Result<Self, Error> {
        let events = rd::RD_KAFKA_EVENT_DR | rd::RD_KAFKA_EVENT_ERROR | rd::RD_KAFKA_EVENT_LOG;
        let mut properties = properties.clone();
        // Without it every line goes to the standard error stream.
        properties.insert("log.queue".to_owned(), "true".to_owned());
        let handle = Handle::new(rd::rd_kafka_type_t::RD_KAFKA_PRODUCER, &properties, events)?;
        // SAFETY: the instance is live; the queue is released in `drop`, before the instance. A null log queue means the
        // main queue.
        let reports = unsafe {
            rd::rd_kafka_set_log_queue(handle.ptr(), std::ptr::null_mut());
            rd::rd_kafka_queue_get_main(handle.ptr())
        };
        Ok(Self { topics: Vec::new(), reports, messages: Vec::new(), handle })
    }

    /// The number of a topic, which is made known if it was not.
    pub(in crate::connector::kafka) fn topic(&mut self, name: &str) -> Result<usize, Error> {
        if let Some(at) = self.topics.iter().position(|t| t.name == name) {
            return Ok(at);
        }
        let text =
            CString::new(name).map_err(|_| Error::local(format!("topic name {name:?} has a zero byte")))?;
        // SAFETY: instance and name are live; the topic's handle is released in `drop`, before the instance.
        let handle =
            unsafe { rd::rd_kafka_topic_new(self.handle.ptr(), text.as_ptr(), std::ptr::null_mut()) };
        if handle.is_null() {
            // SAFETY: it only reads this thread's last error.
            return Err(Error::of(unsafe { rd::rd_kafka_last_error() }));
        }
        self.topics.push(Topic { name: name.to_owned(), handle });
        Ok(self.topics.len() - 1)
    }

    /// Sends records without headers to a topic, partitioned by key. Returns how many were taken: fewer than given
    /// when the queue is full; the rest is to be given again, in order.
    pub(in crate::connector::kafka) fn send_batch<'a>(
        &mut self,
        topic: usize,
        records: impl Iterator<Item = Outgoing<'a>>,
    ) -> Result<usize, Error> {
        self.messages.clear();
        for record in records {
            // SAFETY: a message of zeros is valid: null pointers, no error, and the unassigned partition is set below.
            let mut message: rd::rd_kafka_message_t = unsafe { std::mem::zeroed() };
            message.partition = -1;
            if let Some(key) = record.key {
                message.key = not_null(key);
                message.key_len = key.len();
            }
            if let Some(value) = record.value {
                message.payload = not_null(value);
                message.len = value.len();
            }
            self.messages.push(message);
        }
        let count = c_int::try_from(self.messages.len()).expect("a batch has a bounded number of records");
        // SAFETY: the topic's handle is live, the messages point into records that outlive the call, and F_COPY makes
        // librdkafka copy them before it returns.
        let taken = unsafe {
            rd::rd_kafka_produce_batch(
                self.topics[topic].handle,
                -1,
                rd::RD_KAFKA_MSG_F_COPY as c_int,
                self.messages.as_mut_ptr(),
                count,
            )
        };
        if taken == count {
            return Ok(self.messages.len());
        }
        let refused = self.messages.iter().position(|m| m.err != Code::RD_KAFKA_RESP_ERR_NO_ERROR);
        let at = refused.unwrap_or(self.messages.len());
        let err = self.messages.get(at).map(|m| m.err);
        if let Some(err) = err.filter(|e| *e != Code::RD_KAFKA_RESP_ERR__QUEUE_FULL) {
            return Err(self.refused(err));
        }
        // What was refused for a full queue must be the tail, or the order of a key would break.
        let later = self.messages[at..].iter().any(|m| m.err == Code::RD_KAFKA_RESP_ERR_NO_ERROR);
        if later {
            return Err(Error::local(
                "librdkafka took a later record of a batch after it refused an earlier one",
            ));
        }
        Ok(at)
    }

    /// Sends one record with everything. Returns whether it was taken; if not, the queue is full.
    pub(in crate::connector::kafka) fn send_one<'a>(
        &mut self,
        topic: usize,
        partition: Option<i32>,
        record: Outgoing<'_>,
        timestamp_ms: Option<i64>,
        headers: impl Iterator<Item = (&'a [u8], Option<&'a [u8]>)>,
    ) -> Result<bool, Error> {
        let mut arguments: Vec<rd::rd_kafka_vu_t> = Vec::with_capacity(6);
        let mut push = |kind: rd::rd_kafka_vtype_t, fill: &dyn Fn(&mut rd::rd_kafka_vu_s__bindgen_ty_1)| {
            // SAFETY: an argument of zeros is valid for every kind; `fill` sets the field of this kind.
            let mut argument: rd::rd_kafka_vu_t = unsafe { std::mem::zeroed() };
            argument.vtype = kind;
            fill(&mut argument.u);
            arguments.push(argument);
        };
        use rd::rd_kafka_vtype_t as Kind;
        let topic = self.topics[topic].handle;
        push(Kind::RD_KAFKA_VTYPE_RKT, &|u| u.rkt = topic);
        push(Kind::RD_KAFKA_VTYPE_MSGFLAGS, &|u| u.i = rd::RD_KAFKA_MSG_F_COPY as c_int);
        if let Some(partition) = partition {
            push(Kind::RD_KAFKA_VTYPE_PARTITION, &|u| u.i32_ = partition);
        }
        if let Some(timestamp) = timestamp_ms {
            push(Kind::RD_KAFKA_VTYPE_TIMESTAMP, &|u| u.i64_ = timestamp);
        }
        if let Some(key) = record.key {
            push(Kind::RD_KAFKA_VTYPE_KEY, &|u| u.mem = memory(key));
        }
        if let Some(value) = record.value {
            push(Kind::RD_KAFKA_VTYPE_VALUE, &|u| u.mem = memory(value));
        }
        // SAFETY: a fresh list; its ownership goes to librdkafka only when the record is taken.
        let list = unsafe { rd::rd_kafka_headers_new(4) };
        let mut any = false;
        for (name, value) in headers {
            any = true;
            let (pointer, length) =
                value.map_or((std::ptr::null(), 0), |v| (not_null(v).cast_const(), v.len()));
            // SAFETY: name and value are live and copied; lengths are theirs.
            unsafe {
                rd::rd_kafka_header_add(
                    list,
                    name.as_ptr().cast(),
                    name.len() as isize,
                    pointer,
                    length as isize,
                );
            }
        }
        if any {
            push(Kind::RD_KAFKA_VTYPE_HEADERS, &|u| u.headers = list);
        }
        // SAFETY: instance, topic and arguments are live; F_COPY copies key and value.
        let failed = unsafe {
            Error::take_code(rd::rd_kafka_produceva(self.handle.ptr(), arguments.as_ptr(), arguments.len()))
        };
        if failed.is_some() || !any {
            // SAFETY: the list is still ours: a refused record does not take it, and without headers it was not given.
            unsafe { rd::rd_kafka_headers_destroy(list) };
        }
        match failed {
            None => Ok(true),
            Some((Code::RD_KAFKA_RESP_ERR__QUEUE_FULL, _)) => Ok(false),
            Some((Code::RD_KAFKA_RESP_ERR__FATAL, _)) => Err(self.fatal_error()),
            Some((_, error)) => Err(error),
        }
    }

    /// Why a record was not taken; what stopped the whole producer says more than that it is stopped.
    fn refused(&self, code: Code) -> Error {
        if code == Code::RD_KAFKA_RESP_ERR__FATAL { self.fatal_error() } else { Error::of(code) }
    }

    /// Hands out the delivery reports that are there; waits at most `wait` for the first. Returns an error that
    /// concerns the producer as a whole.
    pub(in crate::connector::kafka) fn poll(
        &mut self,
        wait: Duration,
        mut report: impl FnMut(Delivery),
    ) -> Result<(), Error> {
        let mut wait = millis(wait);
        let mut known = (std::ptr::null_mut(), 0);
        loop {
            // SAFETY: the queue is live; the event is destroyed below, and the messages are not used after that.
            let event = unsafe { rd::rd_kafka_queue_poll(self.reports, wait) };
            if event.is_null() {
                return Ok(());
            }
            wait = 0;
            // SAFETY: the event is live.
            let kind = unsafe { rd::rd_kafka_event_type(event) };
            let mut failed = None;
            if kind == rd::RD_KAFKA_EVENT_DR {
                loop {
                    // SAFETY: the event is live and gives each message once; a message lives as long as its event.
                    let message = unsafe { rd::rd_kafka_event_message_next(event).as_ref() };
                    let Some(message) = message else { break };
                    if message.rkt != known.0 {
                        // Another handle of the same topic, or one that is not ours, cannot occur: topics are made here.
                        let at = self.topics.iter().position(|t| t.handle == message.rkt).unwrap_or(0);
                        known = (message.rkt, at);
                    }
                    let error =
                        (message.err != Code::RD_KAFKA_RESP_ERR_NO_ERROR).then(|| Error::of(message.err));
                    report(Delivery {
                        topic: known.1,
                        partition: message.partition,
                        offset: message.offset,
                        error,
                    });
                }
            } else if kind == rd::RD_KAFKA_EVENT_LOG {
                // SAFETY: the event is live and a log event.
                unsafe { super::handle::log(event) };
            } else if kind == rd::RD_KAFKA_EVENT_ERROR {
                // SAFETY: the event is live; its text is copied before it is destroyed.
                let (code, text) = unsafe {
                    (
                        rd::rd_kafka_event_error(event),
                        super::handle::words(rd::rd_kafka_event_error_string(event)),
                    )
                };
                if code == Code::RD_KAFKA_RESP_ERR__FATAL {
                    failed = Some(self.fatal_error());
                } else {
                    tracing::warn!(code = ?code, "producer: {text}");
                }
            }
            // SAFETY: the event is live and destroyed once.
            unsafe { rd::rd_kafka_event_destroy(event) };
            if let Some(error) = failed {
                return Err(error);
            }
        }
    }

    /// What has stopped the producer, if anything has.
    pub(in crate::connector::kafka) fn fatal(&self) -> Option<Error> {
        let mut text = [0; 512];
        // SAFETY: the instance is live, and the buffer's length is given.
        let code = unsafe { rd::rd_kafka_fatal_error(self.handle.ptr(), text.as_mut_ptr(), text.len()) };
        if code == Code::RD_KAFKA_RESP_ERR_NO_ERROR {
            return None;
        }
        // SAFETY: librdkafka wrote a NUL-terminated text.
        let text = unsafe { super::handle::words(text.as_ptr()) };
        Some(Error { fatal: true, text, ..Error::of(code) })
    }

    fn fatal_error(&self) -> Error {
        self.fatal().unwrap_or_else(|| Error::of(Code::RD_KAFKA_RESP_ERR__FATAL))
    }

    /// Records that are not yet reported.
    pub(in crate::connector::kafka) fn in_flight(&self) -> usize {
        // SAFETY: the instance is live.
        usize::try_from(unsafe { rd::rd_kafka_outq_len(self.handle.ptr()) }).unwrap_or(0)
    }

    /// Sends what is waiting for company at once; waits at most a millisecond. Reports come by [`Producer::poll`].
    pub(in crate::connector::kafka) fn push_out(&self) {
        // SAFETY: the instance is live. A time-out is no failure: the caller looks at `in_flight`.
        unsafe { rd::rd_kafka_flush(self.handle.ptr(), 1) };
    }

    /// Waits until a broker has told where the topic's partitions are.
    ///
    /// Initialising before any connection stands costs half a second: librdkafka then looks for the coordinator only
    /// when its timer comes round.
    pub(in crate::connector::kafka) fn meet(&self, topic: usize, timeout: Duration) -> Result<(), Error> {
        let mut metadata = std::ptr::null();
        // SAFETY: instance and topic are live; what is written is destroyed once, and not used.
        let code = unsafe {
            let topic = self.topics[topic].handle;
            let code = rd::rd_kafka_metadata(self.handle.ptr(), 0, topic, &mut metadata, millis(timeout));
            if !metadata.is_null() {
                rd::rd_kafka_metadata_destroy(metadata);
            }
            code
        };
        if code == Code::RD_KAFKA_RESP_ERR_NO_ERROR { Ok(()) } else { Err(Error::of(code)) }
    }

    /// See librdkafka: fences former producers of the id, aborts their open transaction.
    pub(in crate::connector::kafka) fn init_transactions(&self, timeout: Duration) -> Result<(), Error> {
        // SAFETY: the instance is live; the error is taken over.
        Error::take(unsafe { rd::rd_kafka_init_transactions(self.handle.ptr(), millis(timeout)) })
            .map_or(Ok(()), Err)
    }

    /// Begins a transaction; sends nothing.
    pub(in crate::connector::kafka) fn begin_transaction(&self) -> Result<(), Error> {
        // SAFETY: as above.
        Error::take(unsafe { rd::rd_kafka_begin_transaction(self.handle.ptr()) }).map_or(Ok(()), Err)
    }

    /// Commits. After a time-out the call is still pending, and only this same call may follow.
    pub(in crate::connector::kafka) fn commit_transaction(&self, timeout: Duration) -> Result<(), Error> {
        // SAFETY: as above.
        Error::take(unsafe { rd::rd_kafka_commit_transaction(self.handle.ptr(), millis(timeout)) })
            .map_or(Ok(()), Err)
    }

    /// Aborts, and drops what is still queued.
    pub(in crate::connector::kafka) fn abort_transaction(&self, timeout: Duration) -> Result<(), Error> {
        // SAFETY: as above.
        Error::take(unsafe { rd::rd_kafka_abort_transaction(self.handle.ptr(), millis(timeout)) })
            .map_or(Ok(()), Err)
    }
}

/// A pointer that is not null even for no bytes: an empty key is not a missing one.
fn not_null(bytes: &[u8]) -> *mut std::ffi::c_void {
    bytes.as_ptr().cast_mut().cast()
}

fn memory(bytes: &[u8]) -> rd::rd_kafka_vu_s__bindgen_ty_1__bindgen_ty_1 {
    rd::rd_kafka_vu_s__bindgen_ty_1__bindgen_ty_1 { ptr: not_null(bytes), size: bytes.len() }
}

impl Drop for Producer {
    fn drop(&mut self) {
        for topic in &self.topics {
            // SAFETY: each handle is released once, before the instance, which is the last field to drop.
            unsafe { rd::rd_kafka_topic_destroy(topic.handle) };
        }
        // SAFETY: as above. What is still queued is not waited for: an open transaction is resolved by recovery.
        unsafe {
            rd::rd_kafka_purge(
                self.handle.ptr(),
                (rd::RD_KAFKA_PURGE_F_QUEUE | rd::RD_KAFKA_PURGE_F_INFLIGHT) as c_int,
            );
            rd::rd_kafka_queue_destroy(self.reports);
        }
    }
}
