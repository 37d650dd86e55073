//! Blobs on their way: whole, or in parts that go beside each other. Each part is a request of its own, with time and
//! tries of its own.

use super::S3;
use super::answer::{status, trouble};
use crate::storage::Error;
use crate::storage::remote::Trouble;
use aws_sdk_s3::error::ProvideErrorMetadata;
use aws_sdk_s3::primitives::ByteStream;
use aws_sdk_s3::types::{CompletedMultipartUpload, CompletedPart};
use bytes::Bytes;
use futures_util::future::try_join_all;

/// Parts of one upload, at most.
const PARTS: usize = 10_000;

/// A piece of a blob that is read.
struct Piece {
    bytes: Bytes,
    /// The size of the whole blob.
    of: usize,
}

impl S3 {
    pub(super) async fn put_whole(&self, name: &str, bytes: &[u8]) -> Result<(), Error> {
        let request = self.request("writing", name).carrying(bytes.len());
        self.remote
            .ask(&request, async |_| {
                let put = self.client.put_object().bucket(&self.bucket).key(self.key(name)).body(body(bytes));
                put.send().await.map_err(|e| trouble(&request, &e))?;
                Ok(())
            })
            .await
    }

    pub(super) async fn put_in_parts(&self, name: &str, bytes: &[u8]) -> Result<(), Error> {
        let (request, key) = (self.request("writing", name), self.key(name));
        let create = async |_| {
            let create = self.client.create_multipart_upload().bucket(&self.bucket).key(&key);
            create
                .set_checksum_algorithm(self.checksum.clone())
                .send()
                .await
                .map_err(|e| trouble(&request, &e))
        };
        let created = self.remote.ask(&request, create).await?;
        let upload = created.upload_id().unwrap_or_default();
        let parts = bytes.chunks(self.part_bytes.max(bytes.len().div_ceil(PARTS))).zip(1..);
        let parts = parts.map(|(part, number)| self.put_part(name, upload, number, part));
        let result = match try_join_all(parts).await {
            Ok(parts) => self.complete(name, upload, parts, bytes.len()).await,
            Err(e) => Err(e),
        };
        if result.is_err()
            && let Err(e) = self.abort(name, upload).await
        {
            tracing::warn!(name, upload, error = %e, "parts of an upload that failed stay behind for a later sweep");
        }
        result
    }

    async fn put_part(
        &self,
        name: &str,
        upload: &str,
        number: i32,
        part: &[u8],
    ) -> Result<CompletedPart, Error> {
        let request = self.request("writing a part of", name).carrying(part.len());
        self.remote
            .ask(&request, async |_| {
                let put = self.client.upload_part().bucket(&self.bucket).key(self.key(name));
                let put = put.set_checksum_algorithm(self.checksum.clone());
                let put = put.upload_id(upload).part_number(number).body(body(part));
                let done = put.send().await.map_err(|e| trouble(&request, &e))?;
                let part = CompletedPart::builder().part_number(number).set_e_tag(done.e_tag);
                Ok(part.set_checksum_crc32(done.checksum_crc32.filter(|_| self.checksum.is_some())).build())
            })
            .await
    }

    async fn complete(
        &self,
        name: &str,
        upload: &str,
        parts: Vec<CompletedPart>,
        bytes: usize,
    ) -> Result<(), Error> {
        let (request, key) = (self.request("putting together", name), self.key(name));
        let parts = CompletedMultipartUpload::builder().set_parts(Some(parts)).build();
        self.remote
            .ask(&request, async |maybe_done| {
                let complete = self.client.complete_multipart_upload().bucket(&self.bucket).key(&key);
                let complete = complete.upload_id(upload).multipart_upload(parts.clone());
                match complete.send().await {
                    Ok(_) => Ok(()),
                    // An earlier try may have ended the upload; the name is used by nobody else.
                    Err(e) if maybe_done && e.code() == Some("NoSuchUpload") => {
                        let head = self.client.head_object().bucket(&self.bucket).key(&key);
                        let head = head.send().await.map_err(|e| trouble(&request, &e))?;
                        match head.content_length().and_then(|length| usize::try_from(length).ok()) {
                            Some(length) if length == bytes => Ok(()),
                            found => Err(Trouble::Final(request.unavailable(format!(
                                "the upload is gone, and in its place are {found:?} of {bytes} bytes"
                            )))),
                        }
                    }
                    Err(e) => Err(trouble(&request, &e)),
                }
            })
            .await
    }

    pub(super) async fn abort(&self, name: &str, upload: &str) -> Result<(), Error> {
        let request = self.request("aborting the upload of", name);
        let abort = async |_| {
            let abort = self.client.abort_multipart_upload().bucket(&self.bucket).key(self.key(name));
            match abort.upload_id(upload).send().await {
                Err(e) if e.code() != Some("NoSuchUpload") => Err(trouble(&request, &e)),
                _ => Ok(()),
            }
        };
        self.remote.ask(&request, abort).await
    }

    /// Reads a blob: its beginning, which also tells how large it is, then what is left.
    pub(super) async fn read(&self, name: &str) -> Result<Vec<u8>, Error> {
        let first = self.read_piece(name, 0).await?;
        if first.bytes.len() >= first.of {
            return Ok(first.bytes.into());
        }
        let rest = (first.bytes.len()..first.of).step_by(self.part_bytes);
        let rest = try_join_all(rest.map(|from| self.read_piece(name, from))).await?;
        let mut whole = Vec::with_capacity(first.of);
        whole.extend_from_slice(&first.bytes);
        rest.iter().for_each(|piece| whole.extend_from_slice(&piece.bytes));
        Ok(whole)
    }

    async fn read_piece(&self, name: &str, from: usize) -> Result<Piece, Error> {
        let request = self.request("reading", name).carrying(self.part_bytes);
        let range = format!("bytes={from}-{}", from + self.part_bytes - 1);
        self.remote
            .ask(&request, async |_| {
                let get = self.client.get_object().bucket(&self.bucket).key(self.key(name)).range(&range);
                let answer = match get.send().await {
                    Ok(answer) => answer,
                    // There is no first byte of nothing.
                    Err(e) if from == 0 && status(&e) == Some(416) => {
                        return Ok(Piece { bytes: Bytes::new(), of: 0 });
                    }
                    Err(e) => return Err(trouble(&request, &e)),
                };
                let of = answer.content_range().and_then(|range| range.rsplit('/').next()?.parse().ok());
                let expected = answer.content_length().and_then(|length| usize::try_from(length).ok());
                let bytes = answer.body.collect().await;
                let bytes = bytes.map_err(|e| Trouble::Unanswered(format!("the answer was cut: {e}")))?;
                let bytes = bytes.into_bytes();
                // A server that knows no ranges answers with all of it.
                let of = of.or(expected).unwrap_or(bytes.len());
                let wanted = expected.unwrap_or(self.part_bytes.min(of.saturating_sub(from)));
                if bytes.len() == wanted {
                    return Ok(Piece { bytes, of });
                }
                Err(Trouble::Unanswered(format!(
                    "the answer was cut after {} of {wanted} bytes",
                    bytes.len()
                )))
            })
            .await
    }
}

/// What a request carries.
pub(super) fn body(bytes: &[u8]) -> ByteStream {
    ByteStream::from(Bytes::copy_from_slice(bytes))
}
