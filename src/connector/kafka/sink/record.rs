//! Records on their way out, collected in one buffer before they are handed to librdkafka together.

use std::ops::Range;

/// One collected record; ranges point into the buffer's bytes.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    /// By the writer's list of topics.
    pub(super) topic: usize,
    pub(super) partition: Option<i32>,
    pub(super) key: Option<Range<usize>>,
    pub(super) value: Option<Range<usize>>,
    /// Into the buffer's headers.
    pub(super) headers: Range<usize>,
    pub(super) timestamp_ms: Option<i64>,
}

impl Entry {
    /// Whether it needs nothing but a key and a value, so that it can go with others in one call.
    pub(super) fn is_plain(&self) -> bool {
        self.partition.is_none() && self.timestamp_ms.is_none() && self.headers.is_empty()
    }
}

/// Collected records.
#[derive(Default)]
pub(super) struct Buffer {
    bytes: Vec<u8>,
    headers: Vec<(Range<usize>, Option<Range<usize>>)>,
    pub(super) entries: Vec<Entry>,
}

impl Buffer {
    /// The bytes of a range.
    pub(super) fn slice(&self, range: &Range<usize>) -> &[u8] {
        &self.bytes[range.clone()]
    }

    /// Name and value of an entry's headers, in order.
    pub(super) fn headers(&self, entry: &Entry) -> impl Iterator<Item = (&[u8], Option<&[u8]>)> {
        self.headers[entry.headers.clone()]
            .iter()
            .map(|(name, value)| (self.slice(name), value.as_ref().map(|v| self.slice(v))))
    }

    /// An upper bound of what the entry takes in a batch of its own.
    pub(super) fn size(&self, entry: &Entry) -> usize {
        // 61 bytes of batch header, and at most 5 bytes for each of 8 lengths and deltas.
        let headers = self.headers[entry.headers.clone()]
            .iter()
            .map(|(n, v)| n.len() + v.as_ref().map_or(0, ExactSizeIterator::len) + 10)
            .sum::<usize>();
        let of = |r: &Option<Range<usize>>| r.as_ref().map_or(0, ExactSizeIterator::len);
        61 + 40 + of(&entry.key) + of(&entry.value) + headers
    }

    /// Takes the last entry out again.
    pub(super) fn drop_last(&mut self) {
        if let Some(entry) = self.entries.pop() {
            self.headers.truncate(entry.headers.start);
            let start = entry.key.or(entry.value).map_or(self.bytes.len(), |r| r.start);
            self.bytes.truncate(start);
        }
    }

    pub(super) fn len_bytes(&self) -> usize {
        self.bytes.len()
    }

    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.headers.clear();
        self.entries.clear();
    }
}

/// Filled in by the user's serializer: the record of one value.
pub struct RecordWriter<'a> {
    buffer: &'a mut Buffer,
    entry: Entry,
    topic: Option<String>,
}

impl<'a> RecordWriter<'a> {
    pub(super) fn new(buffer: &'a mut Buffer) -> Self {
        let at = buffer.headers.len();
        let entry =
            Entry { topic: 0, partition: None, key: None, value: None, headers: at..at, timestamp_ms: None };
        Self { buffer, entry, topic: None }
    }

    fn append(&mut self, bytes: &[u8]) -> Range<usize> {
        let start = self.buffer.bytes.len();
        self.buffer.bytes.extend_from_slice(bytes);
        start..self.buffer.bytes.len()
    }

    /// The key; without this call the record has none.
    pub fn key(&mut self, key: &[u8]) {
        self.entry.key = Some(self.append(key));
    }

    /// The value; without this call the record is a tombstone.
    pub fn value(&mut self, value: &[u8]) {
        self.entry.value = Some(self.append(value));
    }

    /// The value, written straight into the outgoing buffer. Only append to it.
    pub fn value_with<E>(&mut self, write: impl FnOnce(&mut Vec<u8>) -> Result<(), E>) -> Result<(), E> {
        let start = self.buffer.bytes.len();
        write(&mut self.buffer.bytes)?;
        self.entry.value = Some(start..self.buffer.bytes.len().max(start));
        Ok(())
    }

    /// The value as JSON.
    ///
    /// # Errors
    /// What serde says, as text.
    pub fn json(&mut self, value: &impl serde::Serialize) -> Result<(), String> {
        self.value_with(|out| serde_json::to_writer(out, value)).map_err(|e| e.to_string())
    }

    /// A header; names may repeat, and values may be null.
    pub fn header(&mut self, name: &str, value: Option<&[u8]>) {
        let name = self.append(name.as_bytes());
        let value = value.map(|v| self.append(v));
        self.buffer.headers.push((name, value));
        self.entry.headers.end = self.buffer.headers.len();
    }

    /// Another topic than the sink's own.
    pub fn topic(&mut self, topic: &str) {
        self.topic = Some(topic.to_owned());
    }

    /// A partition; without this call the key decides, as with Java's producer.
    pub fn partition(&mut self, partition: i32) {
        self.entry.partition = Some(partition);
    }

    /// The record's timestamp in milliseconds since the Unix epoch; without this call it is the time of writing.
    /// Retention goes by it: see the guide on sinks.
    pub fn timestamp(&mut self, timestamp_ms: i64) {
        self.entry.timestamp_ms = Some(timestamp_ms);
    }

    /// Puts the record into the buffer; `topic_number` numbers another topic than the sink's own.
    pub(super) fn finish<E>(mut self, topic_number: impl FnOnce(&str) -> Result<usize, E>) -> Result<(), E> {
        if let Some(topic) = self.topic.take() {
            self.entry.topic = topic_number(&topic)?;
        }
        self.buffer.entries.push(self.entry);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_keeps_null_apart_from_empty_and_repeated_headers_in_order() {
        let mut buffer = Buffer::default();
        for drop in [false, true] {
            let mut record = RecordWriter::new(&mut buffer);
            record.key(b"");
            record.header("h", Some(b"1"));
            record.header("h", None);
            record.finish(|_| Ok::<_, ()>(0)).unwrap();
            if drop {
                buffer.drop_last();
            }
        }
        assert_eq!(buffer.entries.len(), 1);
        let entry = buffer.entries[0].clone();
        assert_eq!(entry.key.as_ref().map(|k| buffer.slice(k)), Some(&b""[..]));
        assert_eq!(entry.value, None);
        let headers: Vec<_> = buffer.headers(&entry).collect();
        assert_eq!(headers, [(&b"h"[..], Some(&b"1"[..])), (&b"h"[..], None)]);
        assert!(!entry.is_plain());
    }
}
