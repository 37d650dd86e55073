//! What a poll brings: records, and what librdkafka has to say about a partition.

use super::handle::words;
use rd::rd_kafka_resp_err_t as Code;
use rdkafka::bindings as rd;
use std::ffi::{CStr, c_void};
use std::marker::PhantomData;
use std::{ptr, slice};

/// One thing out of a partition's queue. `slot` is the number under which the partition was assigned.
pub(in crate::connector::kafka) enum Event<'a> {
    /// A record.
    Message(Message<'a>),
    /// Everything before `offset` was handed out, and there is nothing more for now.
    End { slot: usize, offset: i64 },
    /// The partition cannot be read on.
    Problem { slot: usize, problem: Problem, text: String },
}

/// What keeps a partition, or the whole client, from being read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::connector::kafka) enum Problem {
    /// The log does not hold the next offset (any more).
    OutOfRange,
    /// The cluster does not know the topic or the partition.
    Unknown,
    /// The user has no right to read.
    Authorization,
    /// The user was not let in.
    Authentication,
    /// A broker is away; librdkafka connects again by itself.
    Transport,
    /// The bytes of the log cannot be read: damaged, or in an encoding that is not built in.
    Unreadable,
    /// Anything else.
    Other,
}

impl Problem {
    /// By the error's number: one that this build does not know must not become an enum's value.
    pub(super) fn of(code: i32) -> Self {
        use Problem::*;
        const TABLE: &[(Code, Problem)] = &[
            (Code::RD_KAFKA_RESP_ERR__AUTO_OFFSET_RESET, OutOfRange),
            (Code::RD_KAFKA_RESP_ERR__LOG_TRUNCATION, OutOfRange),
            (Code::RD_KAFKA_RESP_ERR_OFFSET_OUT_OF_RANGE, OutOfRange),
            (Code::RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC, Unknown),
            (Code::RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION, Unknown),
            (Code::RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART, Unknown),
            (Code::RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_ID, Unknown),
            (Code::RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED, Authorization),
            (Code::RD_KAFKA_RESP_ERR_GROUP_AUTHORIZATION_FAILED, Authorization),
            (Code::RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED, Authorization),
            (Code::RD_KAFKA_RESP_ERR__AUTHENTICATION, Authentication),
            (Code::RD_KAFKA_RESP_ERR_SASL_AUTHENTICATION_FAILED, Authentication),
            (Code::RD_KAFKA_RESP_ERR__TRANSPORT, Transport),
            (Code::RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN, Transport),
            (Code::RD_KAFKA_RESP_ERR__RESOLVE, Transport),
            (Code::RD_KAFKA_RESP_ERR__SSL, Transport),
            (Code::RD_KAFKA_RESP_ERR__TIMED_OUT, Transport),
            (Code::RD_KAFKA_RESP_ERR_REQUEST_TIMED_OUT, Transport),
            (Code::RD_KAFKA_RESP_ERR_NETWORK_EXCEPTION, Transport),
            (Code::RD_KAFKA_RESP_ERR_LEADER_NOT_AVAILABLE, Transport),
            (Code::RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION, Transport),
            (Code::RD_KAFKA_RESP_ERR_BROKER_NOT_AVAILABLE, Transport),
            (Code::RD_KAFKA_RESP_ERR_REPLICA_NOT_AVAILABLE, Transport),
            (Code::RD_KAFKA_RESP_ERR_KAFKA_STORAGE_ERROR, Transport),
            (Code::RD_KAFKA_RESP_ERR_OFFSET_NOT_AVAILABLE, Transport),
            (Code::RD_KAFKA_RESP_ERR_FENCED_LEADER_EPOCH, Transport),
            (Code::RD_KAFKA_RESP_ERR_UNKNOWN_LEADER_EPOCH, Transport),
            (Code::RD_KAFKA_RESP_ERR__BAD_MSG, Unreadable),
            (Code::RD_KAFKA_RESP_ERR__BAD_COMPRESSION, Unreadable),
            (Code::RD_KAFKA_RESP_ERR__NOT_IMPLEMENTED, Unreadable),
            (Code::RD_KAFKA_RESP_ERR__UNSUPPORTED_FEATURE, Unreadable),
            (Code::RD_KAFKA_RESP_ERR_INVALID_MSG, Unreadable),
            (Code::RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE, Unreadable),
        ];
        TABLE.iter().find(|(known, _)| *known as i32 == code).map_or(Other, |(_, problem)| *problem)
    }
}

/// A record in librdkafka's memory, for as long as the poll that brought it.
#[derive(Clone, Copy)]
pub(in crate::connector::kafka) struct Message<'a> {
    slot: usize,
    native: *const rd::rd_kafka_message_t,
    _batch: PhantomData<&'a ()>,
}

impl<'a> Message<'a> {
    /// # Safety
    /// `native` is a live message without an error, and stays so for `'a`.
    pub(super) unsafe fn new(slot: usize, native: *const rd::rd_kafka_message_t) -> Self {
        Self { slot, native, _batch: PhantomData }
    }

    /// The number under which its partition was assigned.
    pub(in crate::connector::kafka) fn slot(&self) -> usize {
        self.slot
    }

    /// Its offset.
    pub(in crate::connector::kafka) fn offset(&self) -> i64 {
        // SAFETY: the message is live.
        unsafe { (*self.native).offset }
    }

    /// Milliseconds since the Unix epoch, given by the producer or by the broker.
    pub(in crate::connector::kafka) fn timestamp(&self) -> Option<i64> {
        let mut kind = rd::rd_kafka_timestamp_type_t::RD_KAFKA_TIMESTAMP_NOT_AVAILABLE;
        // SAFETY: the message is live, and the kind is written to.
        let at = unsafe { rd::rd_kafka_message_timestamp(self.native, &mut kind) };
        (kind != rd::rd_kafka_timestamp_type_t::RD_KAFKA_TIMESTAMP_NOT_AVAILABLE && at >= 0).then_some(at)
    }

    /// Its key; `None` is null, which is not the same as empty.
    pub(in crate::connector::kafka) fn key(&self) -> Option<&'a [u8]> {
        // SAFETY: the message is live for 'a and owns these bytes.
        unsafe { bytes((*self.native).key, (*self.native).key_len) }
    }

    /// Its value; `None` is null, which is not the same as empty.
    pub(in crate::connector::kafka) fn value(&self) -> Option<&'a [u8]> {
        // SAFETY: the message is live for 'a and owns these bytes.
        unsafe { bytes((*self.native).payload, (*self.native).len) }
    }

    /// Its headers.
    pub(in crate::connector::kafka) fn headers(&self) -> Headers<'a> {
        let mut list = ptr::null_mut();
        // SAFETY: the message is live; it keeps the list that it gives out.
        let found = unsafe { rd::rd_kafka_message_headers(self.native, &mut list) };
        let list = if found == Code::RD_KAFKA_RESP_ERR_NO_ERROR { list } else { ptr::null_mut() };
        Headers { list, at: 0, _batch: PhantomData }
    }
}

/// Names and values in the order of the record: names as bytes, since nothing makes them UTF-8 on the way; a name may
/// come several times, a value may be null.
#[derive(Clone)]
pub(in crate::connector::kafka) struct Headers<'a> {
    list: *mut rd::rd_kafka_headers_t,
    at: usize,
    _batch: PhantomData<&'a ()>,
}

impl<'a> Iterator for Headers<'a> {
    type Item = (&'a [u8], Option<&'a [u8]>);

    fn next(&mut self) -> Option<Self::Item> {
        if self.list.is_null() {
            return None;
        }
        let (mut name, mut value, mut length) = (ptr::null(), ptr::null(), 0);
        // SAFETY: the list belongs to a message that is live for 'a; an index past its end is answered with an error,
        // names end with a zero byte, and values have the length that was told.
        unsafe {
            let got = rd::rd_kafka_header_get_all(self.list, self.at, &mut name, &mut value, &mut length);
            if got != Code::RD_KAFKA_RESP_ERR_NO_ERROR {
                return None;
            }
            self.at += 1;
            Some((CStr::from_ptr(name).to_bytes(), bytes(value, length)))
        }
    }
}

/// # Safety
/// `start` is null, or points to `length` bytes that live for `'a`.
unsafe fn bytes<'a>(start: *const c_void, length: usize) -> Option<&'a [u8]> {
    // SAFETY: the caller's promise.
    (!start.is_null()).then(|| unsafe { slice::from_raw_parts(start.cast(), length) })
}

/// The words of a message that carries an error.
///
/// # Safety
/// `native` is a live message.
pub(super) unsafe fn error_text(native: *const rd::rd_kafka_message_t) -> String {
    // SAFETY: the caller's promise; the text ends with a zero byte.
    unsafe { words(rd::rd_kafka_message_errstr(native)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_number_that_nobody_knows_is_just_another_problem() {
        assert_eq!(Problem::of(29), Problem::Authorization);
        assert_eq!(Problem::of(-140), Problem::OutOfRange);
        assert_eq!(Problem::of(31_000), Problem::Other);
    }
}
