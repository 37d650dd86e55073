//! What arrives at an operator with two inputs, and how it is written.

use crate::model::Serializer;
use crate::model::serializer::SerializerId;
use std::sync::Arc;

/// A value of one of two inputs.
#[derive(Debug, Clone)]
pub enum Side<T, B> {
    /// Of the main input.
    Main(T),
    /// Of the broadcast one.
    Broadcast(B),
}

/// Writes one byte for the side, then what the side's own serializer writes. Its id names the ids of both, so that each
/// reader is told the version that the writer had.
pub struct SideSerializer<T, B> {
    main: Arc<dyn Serializer<T>>,
    broadcast: Arc<dyn Serializer<B>>,
}

impl<T, B> SideSerializer<T, B> {
    /// Of the two inputs' serializers.
    pub fn new(main: Arc<dyn Serializer<T>>, broadcast: Arc<dyn Serializer<B>>) -> Self {
        Self { main, broadcast }
    }
}

fn text_of(id: &SerializerId) -> String {
    format!("{} {}", id.codec, id.version)
}

fn id_of(text: &str) -> Option<SerializerId> {
    let (codec, version) = text.rsplit_once(' ')?;
    Some(SerializerId { codec: codec.to_owned(), version: version.parse().ok()? })
}

fn ids_of(codec: &str) -> Option<(SerializerId, SerializerId)> {
    let (main, broadcast) = codec.strip_prefix("sides(")?.strip_suffix(')')?.split_once(" | ")?;
    Some((id_of(main)?, id_of(broadcast)?))
}

impl<T, B> Serializer<Side<T, B>> for SideSerializer<T, B> {
    fn id(&self) -> SerializerId {
        let (main, broadcast) = (text_of(&self.main.id()), text_of(&self.broadcast.id()));
        SerializerId { codec: format!("sides({main} | {broadcast})"), version: 1 }
    }

    fn write(&self, value: &Side<T, B>, out: &mut Vec<u8>) -> Result<(), String> {
        match value {
            Side::Main(value) => {
                out.push(0);
                self.main.write(value, out)
            }
            Side::Broadcast(value) => {
                out.push(1);
                self.broadcast.write(value, out)
            }
        }
    }

    fn read(&self, written_by: &SerializerId, bytes: &[u8]) -> Result<Side<T, B>, String> {
        let ids = if written_by.version == 1 { ids_of(&written_by.codec) } else { None };
        let (main, broadcast) = ids.ok_or_else(|| {
            format!("written by {}, this program reads {}", text_of(written_by), text_of(&self.id()))
        })?;
        match bytes.split_first() {
            Some((0, rest)) => self.main.read(&main, rest).map(Side::Main),
            Some((1, rest)) => self.broadcast.read(&broadcast, rest).map(Side::Broadcast),
            _ => Err("neither side's mark stands before the value".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::serializer::Postcard;

    #[test]
    fn each_side_is_read_by_its_own_serializer() {
        let serializer =
            SideSerializer::<u64, String>::new(Arc::new(Postcard::default()), Arc::new(Postcard::default()));
        assert_eq!(serializer.id().codec, "sides(postcard 1 | postcard 1)");
        for value in [Side::Main(7), Side::Broadcast("seven".to_owned())] {
            let mut bytes = Vec::new();
            serializer.write(&value, &mut bytes).unwrap();
            let read = serializer.read(&serializer.id(), &bytes).unwrap();
            assert_eq!(format!("{read:?}"), format!("{value:?}"));
        }
        let plain = Postcard::<u64>::default().id();
        assert!(serializer.read(&plain, &[0, 7]).unwrap_err().contains("postcard 1"));
        assert!(serializer.read(&serializer.id(), &[2, 7]).is_err());
    }
}
