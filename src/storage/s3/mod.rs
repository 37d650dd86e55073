//! A prefix of a bucket at a server that speaks S3.
//!
//! Publishing is `If-None-Match: *`. Its answers mean: 200, written by this request; 412, a blob was there, unless an
//! earlier try of the same publication may have put it there, and then it is unknown; 409, two of them met and neither
//! is decided, so it is asked again. A blob above the size of a part goes in parts, which no reader sees before all are
//! there; when one fails for good the upload is aborted, since its parts would be paid for and seen by nobody.
//!
//! The client's crates are named in this folder alone.

mod client;
mod answer;
mod transfer;

use super::remote::{Remote, Request, Trouble};
use super::{Checksums, Error, Options, Put, Storage, is_older, left};
use answer::{has_no_time, status, trouble};
use aws_sdk_s3::Client;
use aws_sdk_s3::error::ProvideErrorMetadata;
use aws_sdk_s3::primitives::DateTime;
use aws_sdk_s3::types::{ChecksumAlgorithm, Delete, Object, ObjectIdentifier};
use futures_util::future::join_all;
use std::time::Duration;
use transfer::body;

/// Blobs as objects below a prefix.
pub struct S3 {
    bucket: String,
    /// Empty, or ending in a slash.
    prefix: String,
    location: String,
    client: Client,
    remote: Remote,
    part_bytes: usize,
    delete_batch: usize,
    /// What an upload in parts is verified by, if the client sends checksums at all: parts and whole must agree on it.
    checksum: Option<ChecksumAlgorithm>,
}

impl S3 {
    /// Prepares the client; nothing is asked of the bucket yet.
    ///
    /// # Errors
    /// [`Error::NoThreads`], or [`Error::Refused`] when no region is known.
    pub fn open(bucket: &str, prefix: &str, options: &Options) -> Result<Self, Error> {
        let mut location = format!("s3://{bucket}/{prefix}");
        let remote = Remote::start(options)
            .map_err(|source| Error::NoThreads { location: location.clone(), source })?;
        let config = remote.wait(client::surroundings(&options.s3));
        if config.region().is_none() {
            let request = Request::new(&location, "opening", bucket);
            return Err(request.refused(
                "no region is known",
                "set storage property s3.region or the environment's AWS_REGION",
            ));
        }
        if let Some(endpoint) = config.endpoint_url() {
            location = format!("{location} at {endpoint}");
        }
        let prefix = if prefix.is_empty() { String::new() } else { format!("{prefix}/") };
        let checksums = options.s3.checksums.unwrap_or(match config.endpoint_url() {
            Some(_) => Checksums::WhenRequired,
            None => Checksums::WhenSupported,
        });
        let path_style = options.s3.path_style.unwrap_or(config.endpoint_url().is_some());
        Ok(Self {
            bucket: bucket.to_owned(),
            prefix,
            location,
            client: client::client(&config, path_style, checksums),
            checksum: (checksums == Checksums::WhenSupported).then_some(ChecksumAlgorithm::Crc32),
            remote,
            part_bytes: options.s3.part_bytes,
            delete_batch: options.s3.delete_batch,
        })
    }

    /// Whether anything is below the prefix.
    pub(super) fn exists(&self) -> Result<bool, Error> {
        let request = self.request("looking for blobs below", "the prefix");
        self.remote.wait(self.remote.ask(&request, async |_| {
            let page = self.client.list_objects_v2().bucket(&self.bucket).prefix(&self.prefix).max_keys(1);
            let page = page.send().await.map_err(|e| trouble(&request, &e))?;
            Ok(!page.contents().is_empty())
        }))
    }

    fn request<'a>(&'a self, action: &'static str, name: &'a str) -> Request<'a> {
        Request::new(&self.location, action, name)
    }

    fn key(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    /// Deletes a batch by one request; gives back what is still there.
    async fn delete_batch(&self, names: &[String]) -> Vec<(String, Error)> {
        let request = self.request("deleting", &names[0]);
        let result = self.remote.ask(&request, async |_| {
            let keys = names.iter().map(|name| ObjectIdentifier::builder().key(self.key(name)).build());
            let keys = keys.collect::<Result<Vec<_>, _>>();
            let delete = keys.and_then(|keys| Delete::builder().set_objects(Some(keys)).quiet(true).build());
            let delete = delete.expect("every object has its key");
            let deleted = self.client.delete_objects().bucket(&self.bucket).delete(delete).send().await;
            Ok(deleted.map_err(|e| trouble(&request, &e))?.errors.unwrap_or_default())
        });
        match result.await {
            Ok(errors) => errors
                .into_iter()
                .filter_map(|e| {
                    let name = e.key?.strip_prefix(&self.prefix)?.to_owned();
                    let problem =
                        [e.code.as_deref(), e.message.as_deref()].map(Option::unwrap_or_default).join(": ");
                    let request = self.request("deleting", &name);
                    let error = match e.code {
                        Some(code) if has_no_time(&code) => request.unavailable(problem),
                        _ => request.refused(problem, "let this user delete there"),
                    };
                    Some((name, error))
                })
                .collect(),
            Err(e) => {
                let text = e.to_string();
                let mut failed = vec![(names[0].clone(), e)];
                failed.extend(
                    names[1..]
                        .iter()
                        .map(|name| (name.clone(), self.request("deleting", name).unavailable(text.clone()))),
                );
                failed
            }
        }
    }

    async fn delete_one(&self, request: &Request<'_>) -> Result<(), Trouble> {
        let delete = self.client.delete_object().bucket(&self.bucket).key(self.key(request.name));
        match delete.send().await {
            Err(e) if e.code() != Some("NoSuchKey") => Err(trouble(request, &e)),
            _ => Ok(()),
        }
    }

    /// The blobs directly in a folder for whose object this holds.
    fn list_if(&self, folder: &str, is_wanted: impl Fn(&Object) -> bool) -> Result<Vec<String>, Error> {
        let (request, prefix) = (self.request("listing", folder), self.key(&format!("{folder}/")));
        let mut names = Vec::new();
        let mut next = None;
        loop {
            let page = self.remote.wait(self.remote.ask(&request, async |_| {
                let page = self.client.list_objects_v2().bucket(&self.bucket).prefix(&prefix).delimiter("/");
                let page = page.set_continuation_token(next.clone()).send().await;
                page.map_err(|e| trouble(&request, &e))
            }))?;
            let keys = page.contents().iter().filter(|object| is_wanted(object));
            let keys = keys.filter_map(|object| object.key()?.strip_prefix(&prefix));
            names.extend(keys.filter(|name| !name.is_empty()).map(str::to_owned));
            next = page.next_continuation_token;
            if next.is_none() {
                names.sort_unstable();
                return Ok(names);
            }
        }
    }
}

impl Storage for S3 {
    fn location(&self) -> String {
        self.location.clone()
    }

    fn put(&self, name: &str, bytes: &[u8]) -> Result<(), Error> {
        if bytes.len() > self.part_bytes {
            self.remote.wait(self.put_in_parts(name, bytes))
        } else {
            self.remote.wait(self.put_whole(name, bytes))
        }
    }

    fn put_if_absent(&self, name: &str, bytes: &[u8]) -> Result<Put, Error> {
        let request = self.request("publishing", name);
        self.remote.wait(self.remote.ask(&request, async |maybe_done| {
            let put = self.client.put_object().bucket(&self.bucket).key(self.key(name));
            match put.if_none_match("*").body(body(bytes)).send().await {
                Ok(_) => Ok(Put::Created),
                Err(e) if status(&e) != Some(412) => {
                    Err(trouble(&request, &e).of_publication(&request, maybe_done))
                }
                Err(_) if maybe_done => Err(Trouble::Final(request.unavailable(
                    "a blob of this name is there, and whether an earlier try has written it is unknown",
                ))),
                Err(_) => Ok(Put::Exists),
            }
        }))
    }

    fn get(&self, name: &str) -> Result<Vec<u8>, Error> {
        self.remote.wait(self.read(name))
    }

    fn list(&self, folder: &str) -> Result<Vec<String>, Error> {
        self.list_if(folder, |_| true)
    }

    fn list_older(&self, folder: &str, than: Duration) -> Result<Vec<String>, Error> {
        self.list_if(folder, |object| object.last_modified().is_some_and(|at| is_before(at, than)))
    }

    fn delete(&self, name: &str) -> Result<(), Error> {
        let request = self.request("deleting", name);
        self.remote.wait(self.remote.ask(&request, async |_| self.delete_one(&request).await))
    }

    fn delete_all(&self, names: &[String]) -> Result<(), Error> {
        let failed = if self.delete_batch == 1 {
            self.remote
                .wait(self.remote.delete_each(&self.location, names, async |r| self.delete_one(r).await))
        } else {
            let batches = names.chunks(self.delete_batch).map(|batch| self.delete_batch(batch));
            self.remote.wait(join_all(batches)).into_iter().flatten().collect()
        };
        left(self.location(), names.len(), failed)
    }

    fn sweep(&self, older_than: Duration) -> Result<usize, Error> {
        let request = self.request("looking for unfinished uploads in", "the prefix");
        let (mut swept, mut key, mut upload) = (0, None, None);
        loop {
            let page = self.remote.wait(self.remote.ask(&request, async |_| {
                let page = self.client.list_multipart_uploads().bucket(&self.bucket).prefix(&self.prefix);
                let page = page.set_key_marker(key.clone()).set_upload_id_marker(upload.clone()).send().await;
                page.map_err(|e| trouble(&request, &e))
            }))?;
            for found in page.uploads() {
                let name = found.key().and_then(|key| key.strip_prefix(&self.prefix));
                if let (Some(began), Some(name), Some(upload)) = (found.initiated(), name, found.upload_id())
                    && is_before(began, older_than)
                {
                    self.remote.wait(self.abort(name, upload))?;
                    swept += 1;
                }
            }
            (key, upload) = (page.next_key_marker, page.next_upload_id_marker);
            if page.is_truncated != Some(true) || key.is_none() {
                return Ok(swept);
            }
        }
    }
}

fn is_before(time: &DateTime, older_than: Duration) -> bool {
    time.to_millis().ok().and_then(|at| u64::try_from(at).ok()).is_some_and(|at| is_older(at, older_than))
}
