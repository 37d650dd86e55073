//! A folder of an HDFS.
//!
//! A blob is written to a temporary file beside its place, synced to the disks of its data nodes, closed, and only then
//! renamed to its name. A rename that may not overwrite is decided by the name node alone, which makes it a publication.
//! When its answer is lost it is asked for again, and whether the temporary file is still there tells what happened.
//!
//! The client's crate is named in this file alone. Answers carry a Java stack behind their first line: it is cut off.

use super::remote::{Remote, Request, Trouble};
use super::{Error, Options, Put, Storage, is_older, left};
use crate::host::random;
use bytes::Bytes;
use hdfs_native::client::FileStatus;
use hdfs_native::{Client, ClientBuilder, HdfsError, WriteOptions};
use std::time::Duration;

/// Temporary files begin so; [`Storage::list`] leaves them out.
const TEMPORARY: &str = ".tmp-";

/// Bytes of a block.
const BLOCK: usize = 128 << 20;

/// Blobs as files below a folder.
pub struct Hdfs {
    /// Absolute, without a slash at its end.
    folder: String,
    location: String,
    client: Client,
    remote: Remote,
    replication: Option<u32>,
}

impl Hdfs {
    /// Prepares the client; the server is not asked yet.
    ///
    /// # Errors
    /// [`Error::NoThreads`], or [`Error::Refused`] for an address or a configuration that cannot be read.
    pub fn open(server: &str, folder: &str, options: &Options) -> Result<Self, Error> {
        let location = format!("hdfs://{server}/{folder}");
        let remote = Remote::start(options)
            .map_err(|source| Error::NoThreads { location: location.clone(), source })?;
        let mut builder =
            ClientBuilder::new().with_url(format!("hdfs://{server}")).with_io_runtime(remote.handle());
        if let Some(user) = &options.hdfs.user {
            builder = builder.with_user(user);
        }
        let client = builder.build().map_err(|e| {
            let request = Request::new(&location, "connecting to", server);
            request.refused(first_line(&e), "look at the address, and at the files in HADOOP_CONF_DIR")
        })?;
        let folder = if folder.is_empty() { String::new() } else { format!("/{folder}") };
        Ok(Self { folder, location, client, remote, replication: options.hdfs.replication })
    }

    /// Whether the folder exists.
    pub(super) fn exists(&self) -> Result<bool, Error> {
        let request = self.request("looking for", "the folder");
        let found = self.remote.wait(self.remote.ask(&request, async |_| {
            self.client.get_file_info(self.root()).await.map_err(|e| trouble(&request, &e))
        }));
        match found {
            Ok(_) => Ok(true),
            Err(Error::NotFound { .. }) => Ok(false),
            Err(e) => Err(e),
        }
    }

    fn request<'a>(&'a self, action: &'static str, name: &'a str) -> Request<'a> {
        Request::new(&self.location, action, name)
    }

    /// The folder as the server names it.
    fn root(&self) -> &str {
        if self.folder.is_empty() { "/" } else { &self.folder }
    }

    fn path(&self, name: &str) -> String {
        format!("{}/{name}", self.folder)
    }

    /// Writes a temporary file and gives it its name. `Ok(false)` if that name exists and may not be replaced.
    async fn write(&self, request: &Request<'_>, bytes: &[u8], replace: bool) -> Result<bool, Error> {
        let path = self.path(request.name);
        // A try whose answer is lost leaves a file behind that nobody may write over: each takes a name of its own.
        let mut temporaries = Vec::new();
        let staged = self.stage(request, &path, bytes, &mut temporaries).await;
        let named = match staged {
            Ok(temporary) => self.name(request, &temporary, &path, bytes.len(), replace).await,
            Err(e) => Err(e),
        };
        if matches!(named, Ok(true)) {
            temporaries.pop();
        }
        for temporary in temporaries {
            // Best effort: what stays behind is left out of listings, and swept when it is old.
            self.remote.attempt(self.client.delete(&temporary, false)).await;
        }
        named
    }

    async fn stage(
        &self,
        request: &Request<'_>,
        path: &str,
        bytes: &[u8],
        temporaries: &mut Vec<String>,
    ) -> Result<String, Error> {
        let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
        let bytes = Bytes::copy_from_slice(bytes);
        let stage = async |_| {
            let temporary = format!("{folder}/{TEMPORARY}{}", random::token());
            temporaries.push(temporary.clone());
            self.create(&temporary, &bytes).await.map_err(|e| trouble(request, &e))?;
            Ok(temporary)
        };
        self.remote.ask(request, stage).await
    }

    async fn create(&self, path: &str, bytes: &Bytes) -> Result<(), HdfsError> {
        let mut options =
            WriteOptions::default().overwrite(false).create_parent(true).block_size(BLOCK as u64);
        if let Some(replication) = self.replication {
            options = options.replication(replication);
        }
        let mut file = self.client.create(path, options).await?;
        for at in (0..bytes.len()).step_by(BLOCK) {
            file.write_bytes(bytes.slice(at..bytes.len().min(at + BLOCK))).await?;
            // What is not synced when its block is full never is.
            file.hsync().await?;
        }
        file.close().await
    }

    /// Gives a temporary file its name. Nobody else knows the file: when it is gone and a file of its length stands in
    /// the place, an earlier try whose answer was lost has done it.
    async fn name(
        &self,
        request: &Request<'_>,
        temporary: &str,
        path: &str,
        bytes: usize,
        replace: bool,
    ) -> Result<bool, Error> {
        let rename = async |maybe_done| match self.client.rename(temporary, path, replace).await {
            Ok(()) => Ok(true),
            Err(HdfsError::AlreadyExists(_)) if !replace => Ok(false),
            Err(e) => match trouble(request, &e) {
                Trouble::Final(Error::NotFound { .. }) => match self.client.get_file_info(path).await {
                    Ok(file) if file.length == bytes => Ok(true),
                    Ok(_) => {
                        Err(Trouble::Final(request.unavailable("its temporary file has been taken away")))
                    }
                    Err(e) => Err(trouble(request, &e).of_publication(request, maybe_done)),
                },
                other => Err(other.of_publication(request, maybe_done)),
            },
        };
        self.remote.ask(request, rename).await
    }

    async fn delete_one(&self, request: &Request<'_>) -> Result<(), Trouble> {
        match self.client.delete(&self.path(request.name), false).await {
            Ok(_) | Err(HdfsError::FileNotFound(_)) => Ok(()),
            Err(e) => Err(trouble(request, &e)),
        }
    }

    /// The blobs directly in a folder for whose file this holds.
    fn list_if(&self, folder: &str, is_wanted: impl Fn(&FileStatus) -> bool) -> Result<Vec<String>, Error> {
        let (request, path) = (self.request("listing", folder), self.path(folder));
        let files = self.remote.wait(self.remote.ask(&request, async |_| {
            self.client.list_status(&path, false).await.map_err(|e| trouble(&request, &e))
        }));
        let files = match files {
            Ok(files) => files,
            Err(Error::NotFound { .. }) => return Ok(Vec::new()),
            Err(e) => return Err(e),
        };
        let names = files
            .iter()
            .filter(|file| !file.isdir && is_wanted(file))
            .filter_map(|file| file.path.rsplit('/').next());
        let mut names: Vec<_> = names.filter(|name| !name.starts_with('.')).map(str::to_owned).collect();
        names.sort_unstable();
        Ok(names)
    }
}

impl Storage for Hdfs {
    fn location(&self) -> String {
        self.location.clone()
    }

    fn put(&self, name: &str, bytes: &[u8]) -> Result<(), Error> {
        self.remote
            .wait(self.write(&self.request("writing", name).carrying(bytes.len()), bytes, true))
            .map(drop)
    }

    fn put_if_absent(&self, name: &str, bytes: &[u8]) -> Result<Put, Error> {
        let created = self.remote.wait(self.write(
            &self.request("publishing", name).carrying(bytes.len()),
            bytes,
            false,
        ))?;
        Ok(if created { Put::Created } else { Put::Exists })
    }

    fn get(&self, name: &str) -> Result<Vec<u8>, Error> {
        let (request, path) = (self.request("opening", name), self.path(name));
        let open = async |_| self.client.read(&path).await.map_err(|e| trouble(&request, &e));
        let file = self.remote.wait(self.remote.ask(&request, open))?;
        let length = file.file_length();
        if length == 0 {
            return Ok(Vec::new());
        }
        let request = self.request("reading", name).carrying(length);
        let read = async |_| file.read_range(0, length).await.map_err(|e| trouble(&request, &e));
        Ok(self.remote.wait(self.remote.ask(&request, read))?.into())
    }

    fn list(&self, folder: &str) -> Result<Vec<String>, Error> {
        self.list_if(folder, |_| true)
    }

    fn list_older(&self, folder: &str, than: Duration) -> Result<Vec<String>, Error> {
        self.list_if(folder, |file| is_older(file.modification_time, than))
    }

    fn delete(&self, name: &str) -> Result<(), Error> {
        let request = self.request("deleting", name);
        self.remote.wait(self.remote.ask(&request, async |_| self.delete_one(&request).await))
    }

    fn delete_all(&self, names: &[String]) -> Result<(), Error> {
        let deleted = self.remote.delete_each(&self.location, names, async |r| self.delete_one(r).await);
        let failed = self.remote.wait(deleted);
        left(self.location(), names.len(), failed)
    }

    fn sweep(&self, older_than: Duration) -> Result<usize, Error> {
        let request = self.request("looking for temporary files in", "the folder");
        let files = self.remote.wait(self.remote.ask(&request, async |_| {
            self.client.list_status(self.root(), true).await.map_err(|e| trouble(&request, &e))
        }));
        let files = match files {
            Ok(files) => files,
            Err(Error::NotFound { .. }) => return Ok(0),
            Err(e) => return Err(e),
        };
        let abandoned = files.iter().filter(|file| !file.isdir).filter_map(|file| {
            let name = file.path.strip_prefix(&self.folder)?.strip_prefix('/')?;
            let temporary = name.rsplit('/').next()?.starts_with(TEMPORARY);
            (temporary && is_older(file.modification_time, older_than)).then(|| name.to_owned())
        });
        let abandoned: Vec<String> = abandoned.collect();
        self.delete_all(&abandoned)?;
        Ok(abandoned.len())
    }
}

fn first_line(error: &HdfsError) -> String {
    error.to_string().lines().next().unwrap_or_default().to_owned()
}

/// What an error of the client means for the request.
fn trouble(request: &Request<'_>, error: &HdfsError) -> Trouble {
    let text = first_line(error);
    Trouble::Final(match error {
        HdfsError::FileNotFound(_) => request.not_found(),
        HdfsError::RPCError(class, _) | HdfsError::FatalRPCError(class, _) => {
            match class.rsplit(['.', '$']).next().unwrap_or_default() {
                "FileNotFoundException" => request.not_found(),
                "AccessControlException" => request.not_permitted(),
                "DSQuotaExceededException" | "NSQuotaExceededException" | "QuotaExceededException" => {
                    Error::Full { location: request.location.to_owned(), name: request.name.to_owned() }
                }
                "SafeModeException"
                | "StandbyException"
                | "RetriableException"
                | "NotReplicatedYetException"
                | "ServerTooBusyException"
                | "IOException" => return Trouble::Unanswered(text),
                _ => request.refused(text, "look at the name node's log"),
            }
        }
        HdfsError::IOError(_)
        | HdfsError::DataTransferError(_)
        | HdfsError::ChecksumError
        | HdfsError::OperationFailed(_)
        | HdfsError::BlocksNotFound(_)
        | HdfsError::InvalidRPCResponse(_) => return Trouble::Unanswered(text),
        HdfsError::AlreadyExists(_) | HdfsError::IsADirectoryError(_) => {
            request.refused(text, "remove what stands there, or choose another folder")
        }
        HdfsError::SASLError(_) | HdfsError::GSSAPIError(..) | HdfsError::NoSASLMechanism => {
            request.refused(text, "give this process valid credentials, as by kinit")
        }
        _ => request.refused(text, "look at the address, and at the files in HADOOP_CONF_DIR"),
    })
}
