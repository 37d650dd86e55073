//! A broker whose answers a test scripts, for what a real one does too rarely: silence, late answers,
//! cut batches, leaders that move at the wrong moment.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use bytes::{Bytes, BytesMut};
use kafka_protocol::messages::api_versions_response::ApiVersion;
use kafka_protocol::messages::metadata_response::{
    MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
};
use kafka_protocol::messages::{
    ApiKey, ApiVersionsRequest, ApiVersionsResponse, BrokerId, FindCoordinatorRequest,
    FindCoordinatorResponse, MetadataRequest, MetadataResponse, RequestHeader, ResponseHeader, TopicName,
};
use kafka_protocol::protocol::{Decodable, Encodable, HeaderVersion, Request, StrBytes};

use super::{Client, Settings};
use crate::host::thread;

/// A request as it came in.
pub(super) struct Seen {
    pub(super) key: i16,
    pub(super) version: i16,
    pub(super) correlation_id: i32,
    body: Bytes,
}

/// What is done about a request.
pub(super) enum Reply {
    /// This frame is sent, length excluded.
    Frame(Bytes),
    /// These bytes are sent as they are.
    Raw(&'static [u8]),
    /// Nothing is sent; the connection stays open.
    Silence,
    /// The connection is closed.
    Close,
}

impl Seen {
    pub(super) fn is<R: Request>(&self) -> bool {
        self.key == R::KEY
    }

    pub(super) fn request<R: Request>(&self) -> R {
        R::decode(&mut self.body.clone(), self.version).unwrap()
    }

    pub(super) fn answer<R: Request>(&self, response: &R::Response) -> Reply {
        assert!(self.is::<R>(), "this is request {}", self.key);
        self.answer_as::<R>(self.correlation_id, response)
    }

    pub(super) fn answer_as<R: Request>(&self, correlation_id: i32, response: &R::Response) -> Reply {
        let mut frame = BytesMut::new();
        let header = ResponseHeader::default().with_correlation_id(correlation_id);
        header.encode(&mut frame, R::Response::header_version(self.version)).unwrap();
        response.encode(&mut frame, self.version).unwrap();
        Reply::Frame(frame.freeze())
    }
}

/// Decides about every request but those for versions.
type Script = Box<dyn FnMut(&Seen) -> Reply + Send>;

/// A broker on a port of its own; it ends when it is dropped.
pub(super) struct FakeBroker {
    address: SocketAddr,
    ended: Arc<AtomicBool>,
    connections: Arc<Mutex<usize>>,
}

impl FakeBroker {
    pub(super) fn start(script: impl FnMut(&Seen) -> Reply + Send + 'static) -> Self {
        Self::bind().run(script)
    }

    /// Takes a port, so that scripts can name it before they run.
    pub(super) fn bind() -> Unstarted {
        Unstarted(TcpListener::bind("127.0.0.1:0").unwrap())
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// How many connections were made to it.
    pub(super) fn connections(&self) -> usize {
        *self.connections.lock().unwrap()
    }

    /// A client that begins here.
    pub(super) fn client(&self, change: impl FnOnce(Settings) -> Settings) -> Client {
        let properties = [("bootstrap.servers".to_owned(), self.address.to_string())];
        Client::new(change(Settings::from_librdkafka(&properties.into()).unwrap()))
    }
}

/// A port on which nobody answers yet.
pub(super) struct Unstarted(TcpListener);

impl Unstarted {
    pub(super) fn port(&self) -> u16 {
        self.0.local_addr().unwrap().port()
    }

    pub(super) fn run(self, script: impl FnMut(&Seen) -> Reply + Send + 'static) -> FakeBroker {
        let broker = FakeBroker {
            address: self.0.local_addr().unwrap(),
            ended: Arc::default(),
            connections: Arc::default(),
        };
        let script: Arc<Mutex<Script>> = Arc::new(Mutex::new(Box::new(script)));
        let (ended, connections) = (Arc::clone(&broker.ended), Arc::clone(&broker.connections));
        thread::spawn("fake-broker", move || {
            for stream in self.0.incoming() {
                if ended.load(Ordering::SeqCst) {
                    return;
                }
                *connections.lock().unwrap() += 1;
                let script = Arc::clone(&script);
                let serve = move || serve(stream.unwrap(), &script);
                thread::spawn("fake-connection", serve).unwrap();
            }
        })
        .unwrap();
        broker
    }
}

impl Drop for FakeBroker {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect(self.address);
    }
}

/// Serves one connection until the client or the script closes it.
fn serve(mut stream: TcpStream, script: &Mutex<Script>) {
    while let Ok(seen) = receive(&mut stream) {
        let reply = if seen.is::<ApiVersionsRequest>() {
            versions(&seen)
        } else {
            let mut script = script.lock().unwrap();
            script(&seen)
        };
        let sent = match reply {
            Reply::Frame(frame) => {
                let length = i32::try_from(frame.len()).unwrap().to_be_bytes();
                stream.write_all(&[&length, &*frame].concat())
            }
            Reply::Raw(bytes) => stream.write_all(bytes),
            Reply::Silence => Ok(()),
            Reply::Close => return,
        };
        if sent.is_err() {
            return;
        }
    }
}

fn receive(stream: &mut TcpStream) -> io::Result<Seen> {
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    let mut frame = BytesMut::zeroed(u32::from_be_bytes(length) as usize);
    stream.read_exact(&mut frame)?;
    let mut body = frame.freeze();
    let [key, version] = [0, 2].map(|at| i16::from_be_bytes([body[at], body[at + 1]]));
    let header_version = ApiKey::try_from(key).unwrap().request_header_version(version);
    let header = RequestHeader::decode(&mut body, header_version).unwrap();
    Ok(Seen { key, version, correlation_id: header.correlation_id, body })
}

/// Every request in every version that ever was, as brokers do that know EndTxn version 5.
fn versions(seen: &Seen) -> Reply {
    let keys = (0..80).map(|key| ApiVersion::default().with_api_key(key).with_max_version(20));
    seen.answer::<ApiVersionsRequest>(&ApiVersionsResponse::default().with_api_keys(keys.collect()))
}

/// A cluster of brokers 1, 2, … on these ports, with a topic "t" whose partitions have these leaders and
/// epochs.
pub(super) fn metadata(seen: &Seen, ports: &[u16], leaders: &[(i32, i32)]) -> Reply {
    let brokers = ports.iter().zip(1..).map(|(&port, id)| {
        MetadataResponseBroker::default()
            .with_node_id(BrokerId(id))
            .with_host(StrBytes::from_static_str("127.0.0.1"))
            .with_port(i32::from(port))
    });
    let partitions = leaders.iter().zip(0..).map(|(&(leader, epoch), number)| {
        MetadataResponsePartition::default()
            .with_partition_index(number)
            .with_leader_id(BrokerId(leader))
            .with_leader_epoch(epoch)
    });
    let topic = MetadataResponseTopic::default()
        .with_name(Some(TopicName(StrBytes::from_static_str("t"))))
        .with_partitions(partitions.collect());
    seen.answer::<MetadataRequest>(
        &MetadataResponse::default().with_brokers(brokers.collect()).with_topics(vec![topic]),
    )
}

/// Names broker `node_id` as the coordinator.
pub(super) fn coordinator(seen: &Seen, node_id: i32) -> Reply {
    seen.answer::<FindCoordinatorRequest>(&FindCoordinatorResponse::default().with_node_id(BrokerId(node_id)))
}
