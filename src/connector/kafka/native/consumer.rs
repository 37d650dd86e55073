//! A consumer with manual assignment that hands out what librdkafka has fetched in batches.
//!
//! The batch call waits until its array is *full* or the time is over, so it is asked for what is there without
//! waiting, and for a single message with waiting only if there was none. Two batch calls never run at once, since
//! polling takes the consumer by `&mut`.
//!
//! librdkafka's own `position` is not offered: in a batch the event of a partition's end counts as a record there, and
//! moves it one past the end (seen in 2.12.1), so that the next record would be lost after a restore. The event itself
//! tells the true offset, control records included.

use super::handle::{Error, Handle, words};
use super::message::{Event, Message, Problem, error_text};
use crate::host::thread;
use rd::rd_kafka_resp_err_t as Code;
use rdkafka::bindings as rd;
use rdkafka::{Offset, TopicPartitionList};
use std::collections::BTreeMap;
use std::ffi::CString;
use std::os::raw::c_int;
use std::ptr;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::Duration;

/// How many messages one poll takes at most.
const BATCH: usize = 4096;

/// How many events of the client, such as lost connections, one poll serves at most.
const EVENTS: usize = 64;

/// How long an assignment waits for the brokers.
const MEETING_MS: c_int = 1_000;

/// After how long a client that does not go away is worth a word.
const DESTROY_PATIENCE: Duration = Duration::from_secs(10);

/// Where a partition is read from.
#[derive(Debug, Clone, Copy)]
pub(in crate::connector::kafka) struct Position<'a> {
    /// The number that its messages carry.
    pub(in crate::connector::kafka) slot: usize,
    pub(in crate::connector::kafka) topic: &'a str,
    pub(in crate::connector::kafka) partition: i32,
    /// The next offset to read.
    pub(in crate::connector::kafka) offset: i64,
}

/// What the client as a whole has to say.
#[derive(Debug, Clone)]
pub(in crate::connector::kafka) struct Notice {
    pub(in crate::connector::kafka) problem: Problem,
    /// It can do nothing more.
    pub(in crate::connector::kafka) fatal: bool,
    pub(in crate::connector::kafka) text: String,
}

/// The consumer. Its fields are dropped in this order, the client last.
pub(in crate::connector::kafka) struct Consumer {
    topics: Vec<Topic>,
    /// Messages and what concerns partitions.
    messages: Queue,
    /// What concerns the client, and its log.
    events: Queue,
    buffer: Vec<*mut rd::rd_kafka_message_t>,
    client: Client,
}

// SAFETY: librdkafka's objects may be used from any thread, and the buffer holds no message between two polls.
unsafe impl Send for Consumer {}

/// A topic with assigned partitions. Our reference keeps its address from being given to another one.
struct Topic {
    handle: *mut rd::rd_kafka_topic_t,
    name: String,
    /// The slot of each partition; `None` if it is not assigned.
    slots: Vec<Option<usize>>,
}

impl Drop for Topic {
    fn drop(&mut self) {
        // SAFETY: made by `rd_kafka_topic_new`, released once, before the client.
        unsafe { rd::rd_kafka_topic_destroy(self.handle) };
    }
}

struct Queue(*mut rd::rd_kafka_queue_t);

impl Drop for Queue {
    fn drop(&mut self) {
        // SAFETY: each was taken once and is released once, before the client.
        unsafe { rd::rd_kafka_queue_destroy(self.0) };
    }
}

impl Consumer {
    /// A consumer with nothing assigned; it connects in the background.
    pub(in crate::connector::kafka) fn new(properties: &BTreeMap<String, String>) -> Result<Self, Error> {
        let events = rd::RD_KAFKA_EVENT_LOG | rd::RD_KAFKA_EVENT_ERROR;
        let mut properties = properties.clone();
        // Without it every line goes to the standard error stream.
        properties.insert("log.queue".to_owned(), "true".to_owned());
        let handle = Handle::new(rd::rd_kafka_type_t::RD_KAFKA_CONSUMER, &properties, events)?;
        // SAFETY: the client is live; both queues are released before it. A null log queue means the main queue.
        let (messages, events) = unsafe {
            rd::rd_kafka_set_log_queue(handle.ptr(), ptr::null_mut());
            (rd::rd_kafka_queue_get_consumer(handle.ptr()), rd::rd_kafka_queue_get_main(handle.ptr()))
        };
        let events = Queue(events);
        if messages.is_null() {
            return Err(Error::local("a consumer needs a group.id"));
        }
        let buffer = vec![ptr::null_mut(); BATCH];
        Ok(Self {
            topics: Vec::new(),
            messages: Queue(messages),
            events,
            buffer,
            client: Client(Some(handle)),
        })
    }

    /// Adds partitions to what is read.
    pub(in crate::connector::kafka) fn assign(&mut self, positions: &[Position<'_>]) -> Result<(), Error> {
        let mut list = TopicPartitionList::with_capacity(positions.len());
        for at in positions {
            list.add_partition_offset(at.topic, at.partition, Offset::Offset(at.offset))
                .map_err(|e| Error::local(format!("{at:?}: {e}")))?;
            *self.slot_of(at.topic, at.partition)? = Some(at.slot);
        }
        self.meet_leaders();
        // SAFETY: client and list are live during the call, which copies the list.
        Error::take(unsafe { rd::rd_kafka_incremental_assign(self.client.ptr(), list.ptr()) })
            .map_or(Ok(()), Err)
    }

    /// Lets the client learn who leads the topics' partitions, but does not wait for long: a partition that is assigned
    /// before its leader is known is looked at again only when a timer comes round, half a second later.
    fn meet_leaders(&self) {
        for topic in &self.topics {
            let mut metadata = ptr::null();
            // SAFETY: client and topic are live; what is written is destroyed once, and not used.
            unsafe {
                let code =
                    rd::rd_kafka_metadata(self.client.ptr(), 0, topic.handle, &mut metadata, MEETING_MS);
                if !metadata.is_null() {
                    rd::rd_kafka_metadata_destroy(metadata);
                }
                if code != Code::RD_KAFKA_RESP_ERR_NO_ERROR {
                    return;
                }
            }
        }
    }

    /// Stops to read a partition; nothing of it is handed out any more.
    pub(in crate::connector::kafka) fn release(&mut self, topic: &str, partition: i32) -> Result<(), Error> {
        *self.slot_of(topic, partition)? = None;
        let mut list = TopicPartitionList::with_capacity(1);
        list.add_partition(topic, partition);
        // SAFETY: client and list are live during the call, which copies the list.
        Error::take(unsafe { rd::rd_kafka_incremental_unassign(self.client.ptr(), list.ptr()) })
            .map_or(Ok(()), Err)
    }

    /// Hands out what there is, at most [`BATCH`]; if there is nothing, waits for something up to `wait`. Returns
    /// how many there were. The rest of a batch is dropped when `each` fails or panics.
    pub(in crate::connector::kafka) fn poll<E>(
        &mut self,
        wait: Duration,
        mut each: impl FnMut(Event<'_>) -> Result<(), E>,
    ) -> Result<usize, E> {
        let mut filled = self.take(0, Duration::ZERO, BATCH);
        if filled == 0 && !wait.is_zero() {
            filled = self.take(0, wait, 1);
            // Whatever came with it belongs to the same batch.
            filled += self.take(filled, Duration::ZERO, BATCH - filled);
        }
        let mut batch = Batch { messages: &self.buffer[..filled] };
        let mut topic = Lookup::default();
        while let Some((&native, rest)) = batch.messages.split_first() {
            // SAFETY: the batch owns the message, which is live until the guard destroys it. The error is read as a
            // number, since a broker may send one that the enum does not have.
            let (code, handle, partition) = unsafe {
                ((&raw const (*native).err).cast::<i32>().read(), (*native).rkt, (*native).partition)
            };
            if let Some(slot) = topic.slot(&self.topics, handle, partition) {
                if code == Code::RD_KAFKA_RESP_ERR_NO_ERROR as i32 {
                    // SAFETY: live, without an error, and `each` cannot keep it.
                    each(Event::Message(unsafe { Message::new(slot, native) }))?;
                } else {
                    // SAFETY: live, with an error.
                    each(unsafe { event_of(slot, native, code) })?;
                }
            }
            batch.messages = rest;
            // SAFETY: given out by the batch call, and destroyed once, since it has left the batch.
            unsafe { rd::rd_kafka_message_destroy(native) };
        }
        Ok(filled)
    }

    /// Writes librdkafka's log lines to our own, and returns what else the client has to say.
    pub(in crate::connector::kafka) fn notices(&mut self) -> Vec<Notice> {
        let mut notices = Vec::new();
        for _ in 0..EVENTS {
            // SAFETY: the queue is live; the event is ours until it is destroyed, and nothing of it is kept.
            unsafe {
                let event = rd::rd_kafka_queue_poll(self.events.0, 0);
                if event.is_null() {
                    break;
                }
                match rd::rd_kafka_event_type(event) {
                    rd::RD_KAFKA_EVENT_LOG => super::handle::log(event),
                    rd::RD_KAFKA_EVENT_ERROR => notices.push(Notice {
                        problem: Problem::of(rd::rd_kafka_event_error(event) as i32),
                        fatal: rd::rd_kafka_event_error_is_fatal(event) != 0,
                        text: words(rd::rd_kafka_event_error_string(event)),
                    }),
                    _ => {}
                }
                rd::rd_kafka_event_destroy(event);
            }
        }
        notices
    }

    /// Fills the buffer from `at` on.
    fn take(&mut self, at: usize, wait: Duration, most: usize) -> usize {
        let wait = c_int::try_from(wait.as_millis()).unwrap_or(c_int::MAX);
        let buffer = &mut self.buffer[at..at + most];
        // SAFETY: the queue is live, and the buffer has room for as many pointers as are asked for.
        let got = unsafe {
            rd::rd_kafka_consume_batch_queue(self.messages.0, wait, buffer.as_mut_ptr(), buffer.len())
        };
        usize::try_from(got).unwrap_or(0)
    }

    fn slot_of(&mut self, topic: &str, partition: i32) -> Result<&mut Option<usize>, Error> {
        let at = match self.topics.iter().position(|t| t.name == topic) {
            Some(at) => at,
            None => {
                let name =
                    CString::new(topic).map_err(|_| Error::local(format!("no topic name: {topic:?}")))?;
                // SAFETY: the client is live, the name during the call; the reference is released before the client.
                let handle =
                    unsafe { rd::rd_kafka_topic_new(self.client.ptr(), name.as_ptr(), ptr::null_mut()) };
                if handle.is_null() {
                    return Err(Error::local(format!("librdkafka refuses the topic name {topic:?}")));
                }
                self.topics.push(Topic { handle, name: topic.to_owned(), slots: Vec::new() });
                self.topics.len() - 1
            }
        };
        let partition = usize::try_from(partition)
            .map_err(|_| Error::local(format!("topic {topic} has no partition {partition}")))?;
        let slots = &mut self.topics[at].slots;
        slots.resize(slots.len().max(partition + 1), None);
        Ok(&mut slots[partition])
    }
}

/// Finds slots; messages mostly come in runs of one topic.
#[derive(Default)]
struct Lookup {
    topic: usize,
}

impl Lookup {
    fn slot(&mut self, topics: &[Topic], handle: *mut rd::rd_kafka_topic_t, partition: i32) -> Option<usize> {
        if topics.get(self.topic).is_none_or(|t| t.handle != handle) {
            self.topic = topics.iter().position(|t| t.handle == handle)?;
        }
        *topics[self.topic].slots.get(usize::try_from(partition).ok()?)?
    }
}

/// # Safety
/// `native` is a live message with this error.
unsafe fn event_of<'a>(slot: usize, native: *mut rd::rd_kafka_message_t, code: i32) -> Event<'a> {
    // SAFETY: the caller's promise.
    unsafe {
        if code == Code::RD_KAFKA_RESP_ERR__PARTITION_EOF as i32 {
            Event::End { slot, offset: (*native).offset }
        } else {
            Event::Problem { slot, problem: Problem::of(code), text: error_text(native) }
        }
    }
}

/// Destroys what is left of a batch.
struct Batch<'a> {
    messages: &'a [*mut rd::rd_kafka_message_t],
}

impl Drop for Batch<'_> {
    fn drop(&mut self) {
        for &message in self.messages {
            // SAFETY: given out by the batch call; those destroyed before have left the slice.
            unsafe { rd::rd_kafka_message_destroy(message) };
        }
    }
}

/// The client, which is destroyed beside the task: librdkafka waits there for its own threads, and has been seen to
/// hang.
struct Client(Option<Handle>);

impl Client {
    fn ptr(&self) -> *mut rd::rd_kafka_t {
        self.0.as_ref().expect("the client is there until it is dropped").ptr()
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let Some(handle) = self.0.take() else { return };
        let (done, waiting) = sync_channel::<()>(1);
        let destroying = thread::spawn("kafka-destroy", move || {
            drop(handle);
            drop(done);
        });
        // Without a thread to spare the closure was dropped, and the client with it.
        if destroying.is_ok() {
            let _ = thread::spawn("kafka-watchdog", move || {
                if waiting.recv_timeout(DESTROY_PATIENCE) == Err(RecvTimeoutError::Timeout) {
                    tracing::warn!(
                        "a Kafka consumer was not gone after {} s; its memory and sockets may stay until the process ends",
                        DESTROY_PATIENCE.as_secs()
                    );
                }
            });
        }
    }
}
