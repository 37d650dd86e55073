//! How values become bytes: versioned from the start, since bytes outlive the program that wrote them.

use serde::Serialize;
use serde::de::DeserializeOwned;
use std::marker::PhantomData;

/// What may travel through a job: owned, cloneable, and by default serializable through serde.
pub trait Data: Serialize + DeserializeOwned + Clone + Send + 'static {}
impl<T: Serialize + DeserializeOwned + Clone + Send + 'static> Data for T {}

/// Which encoding wrote some bytes, kept beside them.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct SerializerId {
    /// The encoding's name, such as `postcard`.
    pub codec: String,
    /// Its version; a reader is given the version that the writer had.
    pub version: u16,
}

/// Encodes and decodes one type.
pub trait Serializer<T>: Send + Sync {
    /// What this writes.
    fn id(&self) -> SerializerId;

    /// Appends the value's bytes.
    ///
    /// # Errors
    /// A text, when this value cannot be written.
    fn write(&self, value: &T, out: &mut Vec<u8>) -> Result<(), String>;

    /// Reads a value that `written_by` wrote; all bytes are used.
    ///
    /// # Errors
    /// A text, when the bytes are not of that encoding, or the encoding is unknown here.
    fn read(&self, written_by: &SerializerId, bytes: &[u8]) -> Result<T, String>;
}

/// The default: postcard 1, a compact binary form of serde's data model with a published specification.
pub struct Postcard<T>(PhantomData<fn() -> T>);

impl<T> Default for Postcard<T> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<T: Serialize + DeserializeOwned> Serializer<T> for Postcard<T> {
    fn id(&self) -> SerializerId {
        SerializerId { codec: "postcard".into(), version: 1 }
    }

    fn write(&self, value: &T, out: &mut Vec<u8>) -> Result<(), String> {
        // `to_extend` takes the vector and gives it back, longer.
        let taken = std::mem::take(out);
        *out = postcard::to_extend(value, taken).map_err(|e| e.to_string())?;
        Ok(())
    }

    fn read(&self, written_by: &SerializerId, bytes: &[u8]) -> Result<T, String> {
        if *written_by != self.id() {
            return Err(format!(
                "written by {} version {}, this program reads postcard version 1",
                written_by.codec, written_by.version
            ));
        }
        match postcard::take_from_bytes(bytes) {
            Ok((value, [])) => Ok(value),
            Ok((_, rest)) => Err(format!("{} bytes are left over", rest.len())),
            Err(e) => Err(e.to_string()),
        }
    }
}
