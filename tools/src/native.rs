//! The librdkafka calls that rdkafka does not wrap: consuming and producing in batches, and offsets by isolation level.
//!
//! Its law: everything it gives out is safe to use; lifetimes tie each pointer to the client that it belongs to.

#![expect(unsafe_code, reason = "the batch calls of librdkafka are not wrapped by rdkafka")]

use std::ffi::{CStr, CString, c_void};
use std::marker::PhantomData;
use std::ptr;
use std::slice;
use std::time::Duration;

use rdkafka::bindings as rd;
use rdkafka::client::{Client, ClientContext};
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::producer::{BaseProducer, Producer, ProducerContext};
use rdkafka::types::RDKafkaErrorCode;
use rdkafka::{Offset, TopicPartitionList};

use rd::rd_kafka_resp_err_t as Code;

/// A message to produce; borrows its key and value.
#[repr(transparent)]
pub struct Outgoing<'a> {
    message: rd::rd_kafka_message_t,
    _bytes: PhantomData<&'a [u8]>,
}

impl<'a> Outgoing<'a> {
    /// The message with this key and value, to be partitioned by its key.
    pub fn new(key: &'a [u8], value: &'a [u8]) -> Self {
        let message = rd::rd_kafka_message_t {
            err: Code::RD_KAFKA_RESP_ERR_NO_ERROR,
            rkt: ptr::null_mut(),
            partition: 0,
            payload: value.as_ptr().cast_mut().cast(),
            len: value.len(),
            key: key.as_ptr().cast_mut().cast(),
            key_len: key.len(),
            offset: 0,
            _private: ptr::null_mut(),
        };
        Self { message, _bytes: PhantomData }
    }

    /// The emptied vector, for other borrows: saves its allocation.
    pub fn recycle<'b>(mut used: Vec<Self>) -> Vec<Outgoing<'b>> {
        used.clear();
        used.into_iter().map(|_| unreachable!("because the vector was emptied")).collect()
    }
}

/// A topic that a producer writes to.
pub struct Topic<'a> {
    handle: *mut rd::rd_kafka_topic_t,
    _producer: PhantomData<&'a ()>,
}

impl<'a> Topic<'a> {
    /// The topic of this name.
    ///
    /// # Errors
    /// When librdkafka refuses the name.
    pub fn new<C: ProducerContext>(producer: &'a BaseProducer<C>, name: &str) -> Result<Self, KafkaError> {
        let name = CString::new(name).map_err(KafkaError::Nul)?;
        // SAFETY: the client lives as long as the borrow, the name as long as the call.
        let handle =
            unsafe { rd::rd_kafka_topic_new(producer.client().native_ptr(), name.as_ptr(), ptr::null_mut()) };
        if handle.is_null() {
            return Err(KafkaError::ClientCreation(format!(
                "no handle for topic {}",
                name.to_string_lossy()
            )));
        }
        Ok(Self { handle, _producer: PhantomData })
    }

    /// Hands all messages to librdkafka, which copies them. Those for which its queue had no room stay in the
    /// vector, in order: poll the producer and call again.
    ///
    /// # Errors
    /// When a message is refused for another reason.
    pub fn produce(&self, messages: &mut Vec<Outgoing<'_>>) -> Result<(), KafkaError> {
        if messages.is_empty() {
            return Ok(());
        }
        // SAFETY: `Outgoing` has the layout of the native message, and borrows what it points to.
        let taken = unsafe {
            rd::rd_kafka_produce_batch(
                self.handle,
                -1, // RD_KAFKA_PARTITION_UA: by key
                rd::RD_KAFKA_MSG_F_COPY,
                messages.as_mut_ptr().cast(),
                messages.len() as i32,
            )
        };
        if taken as usize == messages.len() {
            messages.clear();
            return Ok(());
        }
        messages.retain(|m| m.message.err != Code::RD_KAFKA_RESP_ERR_NO_ERROR);
        match messages.iter().find(|m| m.message.err != Code::RD_KAFKA_RESP_ERR__QUEUE_FULL) {
            Some(refused) => Err(KafkaError::MessageProduction(refused.message.err.into())),
            None => Ok(()),
        }
    }
}

impl Drop for Topic<'_> {
    fn drop(&mut self) {
        // SAFETY: made by `new`, destroyed once.
        unsafe { rd::rd_kafka_topic_destroy(self.handle) }
    }
}

/// A consumer that hands out what it has fetched in batches.
pub struct BatchConsumer {
    consumer: BaseConsumer,
    queue: *mut rd::rd_kafka_queue_t,
    messages: Vec<*mut rd::rd_kafka_message_t>,
    filled: usize,
}

// SAFETY: librdkafka's objects may be used from any thread; nothing here is bound to the one that made it.
unsafe impl Send for BatchConsumer {}

/// How many messages a batch holds at most.
const BATCH: usize = 4096;

impl BatchConsumer {
    /// Takes over a consumer whose partitions are assigned already.
    pub fn new(consumer: BaseConsumer) -> Self {
        // SAFETY: the consumer is alive, and is dropped after its queue.
        let queue = unsafe { rd::rd_kafka_queue_get_consumer(consumer.client().native_ptr()) };
        Self { consumer, queue, messages: vec![ptr::null_mut(); BATCH], filled: 0 }
    }

    /// The consumer itself.
    pub fn consumer(&self) -> &BaseConsumer {
        &self.consumer
    }

    /// Waits up to `timeout` for messages, and gives what there is. Lost connections are not told: librdkafka
    /// connects again.
    ///
    /// # Errors
    /// When the broker refuses to serve a partition.
    pub fn poll(&mut self, timeout: Duration) -> Result<Batch<'_>, KafkaError> {
        self.release();
        // SAFETY: the queue is alive and the buffer has room for BATCH pointers.
        let got = unsafe {
            rd::rd_kafka_consume_batch_queue(
                self.queue,
                timeout.as_millis() as i32,
                self.messages.as_mut_ptr(),
                BATCH,
            )
        };
        self.filled = usize::try_from(got).unwrap_or(0);
        let batch = Batch { messages: &self.messages[..self.filled] };
        for message in batch.native() {
            match message.err {
                Code::RD_KAFKA_RESP_ERR_NO_ERROR
                | Code::RD_KAFKA_RESP_ERR__PARTITION_EOF
                | Code::RD_KAFKA_RESP_ERR__TRANSPORT
                | Code::RD_KAFKA_RESP_ERR__TIMED_OUT
                | Code::RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN => {}
                refused => return Err(KafkaError::MessageConsumption(refused.into())),
            }
        }
        Ok(batch)
    }

    fn release(&mut self) {
        for message in self.messages.drain(..self.filled) {
            // SAFETY: given out by the batch call, destroyed once, since it leaves the vector.
            unsafe { rd::rd_kafka_message_destroy(message) }
        }
        self.messages.resize(BATCH, ptr::null_mut());
        self.filled = 0;
    }
}

impl Drop for BatchConsumer {
    fn drop(&mut self) {
        self.release();
        // SAFETY: taken in `new`, given back once; the consumer is dropped after it.
        unsafe { rd::rd_kafka_queue_destroy(self.queue) }
    }
}

/// What one poll gave.
pub struct Batch<'a> {
    messages: &'a [*mut rd::rd_kafka_message_t],
}

impl<'a> Batch<'a> {
    fn native(&self) -> impl Iterator<Item = &'a rd::rd_kafka_message_t> + use<'a> {
        // SAFETY: the consumer keeps them until its next poll, which the borrow rules out.
        self.messages.iter().map(|message| unsafe { &**message })
    }

    /// The records, per partition in the order of their offsets.
    pub fn records(&self) -> impl Iterator<Item = Record<'a>> + use<'a> {
        let good = self.native().filter(|m| m.err == Code::RD_KAFKA_RESP_ERR_NO_ERROR);
        good.map(|message| Record { message })
    }

    /// The partitions whose end was reached, with `enable.partition.eof`.
    pub fn ended(&self) -> impl Iterator<Item = i32> + use<'a> {
        let ends = self.native().filter(|m| m.err == Code::RD_KAFKA_RESP_ERR__PARTITION_EOF);
        ends.map(|message| message.partition)
    }
}

/// A consumed record, valid until the next poll.
#[derive(Clone, Copy)]
pub struct Record<'a> {
    message: &'a rd::rd_kafka_message_t,
}

impl<'a> Record<'a> {
    /// Its partition.
    pub fn partition(&self) -> i32 {
        self.message.partition
    }

    /// Its offset.
    pub fn offset(&self) -> i64 {
        self.message.offset
    }

    /// Its key, or `None` for null.
    pub fn key(&self) -> Option<&'a [u8]> {
        // SAFETY: the message owns these bytes.
        unsafe { bytes(self.message.key, self.message.key_len) }
    }

    /// Its value, or `None` for null.
    pub fn value(&self) -> Option<&'a [u8]> {
        // SAFETY: the message owns these bytes.
        unsafe { bytes(self.message.payload, self.message.len) }
    }

    /// Its timestamp in milliseconds since 1970, or -1.
    pub fn timestamp_ms(&self) -> i64 {
        let mut kind = rd::rd_kafka_timestamp_type_t::RD_KAFKA_TIMESTAMP_NOT_AVAILABLE;
        // SAFETY: the message is alive.
        unsafe { rd::rd_kafka_message_timestamp(self.message, &mut kind) }
    }

    /// Its headers in order; a name may repeat, a value may be null.
    pub fn headers(&self) -> Vec<(String, Option<Vec<u8>>)> {
        let mut list = ptr::null_mut();
        // SAFETY: the message is alive, and owns the list and what it points to.
        let found = unsafe { rd::rd_kafka_message_headers(self.message, &mut list) };
        let mut headers = Vec::new();
        if found != Code::RD_KAFKA_RESP_ERR_NO_ERROR {
            return headers;
        }
        loop {
            let (mut name, mut value, mut len) = (ptr::null(), ptr::null(), 0);
            // SAFETY: as above; an index past the end is answered with an error.
            let got =
                unsafe { rd::rd_kafka_header_get_all(list, headers.len(), &mut name, &mut value, &mut len) };
            if got != Code::RD_KAFKA_RESP_ERR_NO_ERROR {
                return headers;
            }
            // SAFETY: names end with a zero byte, values have the length that was told.
            let (name, value) = unsafe { (CStr::from_ptr(name), bytes(value, len)) };
            headers.push((name.to_string_lossy().into_owned(), value.map(<[u8]>::to_vec)));
        }
    }
}

/// # Safety
/// `start` is null or points to `len` bytes that live for 'a.
unsafe fn bytes<'a>(start: *const c_void, len: usize) -> Option<&'a [u8]> {
    // SAFETY: the caller's promise.
    (!start.is_null()).then(|| unsafe { slice::from_raw_parts(start.cast(), len) })
}

/// The end offsets of these partitions, in the order of the list: last stable offsets where `committed`, else high
/// watermarks.
pub(crate) fn end_offsets<C: ClientContext>(
    client: &Client<C>,
    partitions: &[(&str, i32)],
    committed: bool,
    timeout: Duration,
) -> Result<Vec<i64>, KafkaError> {
    use rd::rd_kafka_IsolationLevel_t as Level;
    let mut ask = TopicPartitionList::new();
    for (topic, partition) in partitions {
        ask.add_partition_offset(topic, *partition, Offset::End)?;
    }
    let level = if committed {
        Level::RD_KAFKA_ISOLATION_LEVEL_READ_COMMITTED
    } else {
        Level::RD_KAFKA_ISOLATION_LEVEL_READ_UNCOMMITTED
    };
    let timeout = timeout.as_millis() as i32;
    let mut text = [0; 256];
    // SAFETY: client and list outlive the request, since it is waited for; options, queue and event are made and
    // destroyed here, and the answer is read before its event is destroyed.
    unsafe {
        let native = client.native_ptr();
        let options =
            rd::rd_kafka_AdminOptions_new(native, rd::rd_kafka_admin_op_t::RD_KAFKA_ADMIN_OP_LISTOFFSETS);
        rd::rd_kafka_AdminOptions_set_request_timeout(options, timeout, text.as_mut_ptr(), text.len());
        let refused = rd::rd_kafka_AdminOptions_set_isolation_level(options, level);
        if !refused.is_null() {
            rd::rd_kafka_error_destroy(refused);
        }
        let queue = rd::rd_kafka_queue_new(native);
        rd::rd_kafka_ListOffsets(native, ask.ptr(), options, queue);
        let event = rd::rd_kafka_queue_poll(queue, timeout + 1000);
        let answer = if event.is_null() {
            Err(KafkaError::OffsetFetch(RDKafkaErrorCode::OperationTimedOut))
        } else {
            let answer = read_end_offsets(event, partitions);
            rd::rd_kafka_event_destroy(event);
            answer
        };
        rd::rd_kafka_queue_destroy(queue);
        rd::rd_kafka_AdminOptions_destroy(options);
        answer
    }
}

/// # Safety
/// `event` is alive.
unsafe fn read_end_offsets(
    event: *mut rd::rd_kafka_event_t,
    partitions: &[(&str, i32)],
) -> Result<Vec<i64>, KafkaError> {
    // SAFETY: what the event gives out lives as long as it does, which the caller promises.
    unsafe {
        let err = rd::rd_kafka_event_error(event);
        if err != Code::RD_KAFKA_RESP_ERR_NO_ERROR {
            return Err(KafkaError::OffsetFetch(err.into()));
        }
        let mut count = 0;
        let infos =
            rd::rd_kafka_ListOffsets_result_infos(rd::rd_kafka_event_ListOffsets_result(event), &mut count);
        let mut ends = vec![-1; partitions.len()];
        for i in 0..count {
            let found = &*rd::rd_kafka_ListOffsetsResultInfo_topic_partition(*infos.add(i));
            if found.err != Code::RD_KAFKA_RESP_ERR_NO_ERROR {
                return Err(KafkaError::OffsetFetch(found.err.into()));
            }
            let topic = CStr::from_ptr(found.topic).to_bytes();
            let place = partitions.iter().position(|(t, p)| t.as_bytes() == topic && *p == found.partition);
            if let Some(place) = place {
                ends[place] = found.offset;
            }
        }
        Ok(ends)
    }
}
