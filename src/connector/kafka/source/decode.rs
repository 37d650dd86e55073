//! From the bytes of a record to a value.

use crate::connector::kafka::native::{self, Message};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::marker::PhantomData;
use std::slice;

/// A record as it stands in the log. Null is not empty: keys and values are `None` for null.
#[derive(Clone)]
pub struct RawMessage<'a> {
    topic: &'a str,
    partition: i32,
    offset: i64,
    timestamp: Option<i64>,
    key: Option<&'a [u8]>,
    value: Option<&'a [u8]>,
    headers: HeadersOf<'a>,
}

/// A header's name and value as bytes; a value may be null.
pub type RawHeader<'a> = (&'a [u8], Option<&'a [u8]>);

#[derive(Clone)]
enum HeadersOf<'a> {
    Message(Message<'a>),
    Given(&'a [RawHeader<'a>]),
}

impl<'a> RawMessage<'a> {
    /// A record without key, headers and timestamp, to try decoders with.
    pub fn new(topic: &'a str, partition: i32, offset: i64, value: Option<&'a [u8]>) -> Self {
        Self { topic, partition, offset, timestamp: None, key: None, value, headers: HeadersOf::Given(&[]) }
    }

    /// With a key.
    #[must_use]
    pub fn with_key(self, key: &'a [u8]) -> Self {
        Self { key: Some(key), ..self }
    }

    /// With headers.
    #[must_use]
    pub fn with_headers(self, headers: &'a [RawHeader<'a>]) -> Self {
        Self { headers: HeadersOf::Given(headers), ..self }
    }

    /// With a timestamp in milliseconds since the Unix epoch.
    #[must_use]
    pub fn with_timestamp(self, timestamp: i64) -> Self {
        Self { timestamp: Some(timestamp), ..self }
    }

    pub(super) fn of(topic: &'a str, partition: i32, message: Message<'a>) -> Self {
        Self {
            topic,
            partition,
            offset: message.offset(),
            timestamp: message.timestamp(),
            key: message.key(),
            value: message.value(),
            headers: HeadersOf::Message(message),
        }
    }

    /// The topic.
    pub fn topic(&self) -> &'a str {
        self.topic
    }

    /// The partition.
    pub fn partition(&self) -> i32 {
        self.partition
    }

    /// The offset.
    pub fn offset(&self) -> i64 {
        self.offset
    }

    /// Milliseconds since the Unix epoch, as the producer or the broker set it.
    pub fn timestamp(&self) -> Option<i64> {
        self.timestamp
    }

    /// The key.
    pub fn key(&self) -> Option<&'a [u8]> {
        self.key
    }

    /// The value.
    pub fn value(&self) -> Option<&'a [u8]> {
        self.value
    }

    /// The headers in order; names may repeat.
    pub fn headers(&self) -> RawHeaders<'a> {
        RawHeaders(match &self.headers {
            HeadersOf::Message(message) => Walk::Message(message.headers()),
            HeadersOf::Given(list) => Walk::Given(list.iter()),
        })
    }

    /// The headers as owned values. Kafka's names are UTF-8; bytes of another name that are not are replaced.
    pub fn owned_headers(&self) -> Vec<(String, Option<Vec<u8>>)> {
        let owned = |(name, value): RawHeader<'_>| {
            (String::from_utf8_lossy(name).into_owned(), value.map(<[u8]>::to_vec))
        };
        self.headers().map(owned).collect()
    }
}

/// The headers of a [`RawMessage`].
pub struct RawHeaders<'a>(Walk<'a>);

enum Walk<'a> {
    Message(native::Headers<'a>),
    Given(slice::Iter<'a, RawHeader<'a>>),
}

impl<'a> Iterator for RawHeaders<'a> {
    type Item = RawHeader<'a>;

    fn next(&mut self) -> Option<RawHeader<'a>> {
        match &mut self.0 {
            Walk::Message(headers) => headers.next(),
            Walk::Given(list) => list.next().copied(),
        }
    }
}

/// Makes values of records. Each subtask has a clone of its own.
pub trait Decoder<T>: Clone + Send + Sync + 'static {
    /// The value of a record.
    ///
    /// # Errors
    /// Why it cannot be made; the source's policy says what becomes of the record.
    fn decode(&mut self, message: &RawMessage<'_>) -> Result<T, String>;
}

impl<T, F> Decoder<T> for F
where
    F: FnMut(&RawMessage<'_>) -> Result<T, String> + Clone + Send + Sync + 'static,
{
    fn decode(&mut self, message: &RawMessage<'_>) -> Result<T, String> {
        self(message)
    }
}

/// The value as JSON. A null value reads as JSON's `null`, so that it becomes `None` of an `Option`.
pub(super) struct Json<T>(PhantomData<fn() -> T>);

impl<T> Json<T> {
    pub(super) fn new() -> Self {
        Self(PhantomData)
    }
}

impl<T> Clone for Json<T> {
    fn clone(&self) -> Self {
        Self::new()
    }
}

impl<T: DeserializeOwned + 'static> Decoder<T> for Json<T> {
    fn decode(&mut self, message: &RawMessage<'_>) -> Result<T, String> {
        let value = message.value();
        serde_json::from_slice(value.unwrap_or(b"null")).map_err(|e| match value {
            Some(_) => format!("not the JSON that is expected: {e}"),
            None => format!("the value is null: {e}"),
        })
    }
}

/// The value as UTF-8 text.
#[derive(Clone)]
pub(super) struct Text;

impl Decoder<String> for Text {
    fn decode(&mut self, message: &RawMessage<'_>) -> Result<String, String> {
        let value = message.value().ok_or("the value is null")?;
        match String::from_utf8_lossy(value) {
            Cow::Borrowed(text) => Ok(text.to_owned()),
            Cow::Owned(_) => Err("the value is not UTF-8".to_owned()),
        }
    }
}

/// A record with everything that Kafka keeps of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KafkaRecord {
    /// Where it was read.
    pub topic: String,
    /// Where it was read.
    pub partition: i32,
    /// Where it was read.
    pub offset: i64,
    /// `None` is null.
    pub key: Option<Vec<u8>>,
    /// `None` is null, a tombstone.
    pub value: Option<Vec<u8>>,
    /// In order; names may repeat, values may be null.
    pub headers: Vec<(String, Option<Vec<u8>>)>,
    /// Milliseconds since the Unix epoch.
    pub timestamp: Option<i64>,
}

/// The record as it is.
#[derive(Clone)]
pub(super) struct Bytes;

impl Decoder<KafkaRecord> for Bytes {
    fn decode(&mut self, message: &RawMessage<'_>) -> Result<KafkaRecord, String> {
        Ok(KafkaRecord {
            topic: message.topic().to_owned(),
            partition: message.partition(),
            offset: message.offset(),
            key: message.key().map(<[u8]>::to_vec),
            value: message.value().map(<[u8]>::to_vec),
            headers: message.owned_headers(),
            timestamp: message.timestamp(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(value: Option<&[u8]>) -> RawMessage<'_> {
        RawMessage::new("orders", 2, 40, value)
    }

    #[test]
    fn a_tombstone_is_none_of_an_option_and_an_error_otherwise() {
        let optional: Option<u32> = Json::new().decode(&message(None)).unwrap();
        assert_eq!(optional, None);
        let refused = Decoder::<u32>::decode(&mut Json::new(), &message(None)).unwrap_err();
        assert!(refused.starts_with("the value is null"), "{refused}");
        let empty = Decoder::<Option<u32>>::decode(&mut Json::new(), &message(Some(b""))).unwrap_err();
        assert!(empty.starts_with("not the JSON"), "empty is not null: {empty}");
        assert_eq!(Decoder::<u32>::decode(&mut Json::new(), &message(Some(b"7"))).unwrap(), 7);
    }

    #[test]
    fn text_is_utf8_or_refused() {
        assert_eq!(Text.decode(&message(Some("zwölf".as_bytes()))).unwrap(), "zwölf");
        assert_eq!(Text.decode(&message(Some(b""))).unwrap(), "");
        assert!(Text.decode(&message(Some(&[0xff]))).is_err());
        assert!(Text.decode(&message(None)).is_err());
    }

    #[test]
    fn bytes_keep_everything() {
        let headers: [RawHeader<'_>; 3] = [(b"a", Some(b"1")), (b"a", None), (b"", Some(b""))];
        let raw = message(None).with_key(b"").with_headers(&headers).with_timestamp(5);
        let record = Bytes.decode(&raw).unwrap();
        assert_eq!((record.key, record.value), (Some(Vec::new()), None));
        let names: Vec<_> = record.headers.iter().map(|(n, v)| (n.as_str(), v.as_deref())).collect();
        assert_eq!(names, [("a", Some(&b"1"[..])), ("a", None), ("", Some(&b""[..]))]);
        assert_eq!((record.topic.as_str(), record.partition, record.offset), ("orders", 2, 40));
        assert_eq!(record.timestamp, Some(5));
    }
}
