//! Records that a barrier overtook, on their way from the task that captured them to the one that writes them.

use crate::model::Record;
use crate::model::serializer::{Serializer, SerializerId};
use std::sync::Arc;

/// Turns what was captured into bytes, on a thread other than the task's.
type Encode = Box<dyn FnOnce() -> Result<Vec<u8>, String> + Send>;

/// The runtime's format of captured records.
type EncodeWith<T> = fn(&[Vec<Record<T>>], &dyn Serializer<T>) -> Result<Vec<u8>, String>;

/// What was captured in one channel.
pub struct Captured {
    /// Which input of the operator.
    pub input: u32,
    /// The subtask that sent the records.
    pub from: u32,
    /// What they will be encoded with.
    pub serializer: SerializerId,
    /// How many there are.
    pub records: u64,
    encode: Encode,
}

impl Captured {
    /// Batches of one channel, in their order; `encode` makes their bytes with the edge's serializer.
    pub fn new<T: Send + 'static>(
        input: u32,
        from: u32,
        batches: Vec<Vec<Record<T>>>,
        serializer: &Arc<dyn Serializer<T>>,
        encode: EncodeWith<T>,
    ) -> Self {
        let records = batches.iter().map(|b| b.len() as u64).sum();
        let (id, serializer) = (serializer.id(), Arc::clone(serializer));
        Self {
            input,
            from,
            serializer: id,
            records,
            encode: Box::new(move || encode(&batches, &*serializer)),
        }
    }

    /// The bytes.
    ///
    /// # Errors
    /// A text, when a record cannot be written by the serializer.
    pub fn encode(self) -> Result<Vec<u8>, String> {
        (self.encode)()
    }
}
