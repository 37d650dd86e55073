//! A proxy before a server that speaks HTTP. It serves one request for each connection, so that a fault meets a whole
//! request and nothing else.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

/// What happens to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The server never sees it; the answer is 503.
    Busy,
    /// The server sees the first half of its body, and the client what the server says to that.
    CutRequest,
    /// The server has answered, and half of the answer arrives.
    CutAnswer,
    /// The server has answered, and nothing of that arrives.
    Lost,
    /// The server never sees it; the client's connection is reset.
    Reset,
    /// The server sees it after this time.
    Slow(Duration),
}

#[derive(Default)]
struct State {
    /// What happens, to how many requests, and to which: those whose first line has this text.
    planned: Option<(Fault, usize, String)>,
    hurt: usize,
    seen: Vec<String>,
}

/// The proxy.
#[derive(Clone)]
pub struct Http {
    address: SocketAddr,
    state: Arc<Mutex<State>>,
}

impl Http {
    /// Starts it before the server at `host:port`.
    ///
    /// # Errors
    /// When there is no port or no thread for it.
    pub fn start(server: &str) -> io::Result<Self> {
        let (server, state) = (server.to_owned(), Arc::new(Mutex::new(State::default())));
        let shared = Arc::clone(&state);
        let address = super::listen(move |client| serve(client, &server, &shared))?;
        Ok(Self { address, state })
    }

    /// Where clients find the server behind it.
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// From now on the next so many requests meet this fault, and no other one.
    pub fn hurt(&self, fault: Fault, times: usize) {
        self.hurt_only("", fault, times);
    }

    /// As [`hurt`](Self::hurt), for requests whose first line has this text.
    pub fn hurt_only(&self, text: &str, fault: Fault, times: usize) {
        lock(&self.state).planned = Some((fault, times, text.to_owned()));
    }

    /// From now on requests pass.
    pub fn heal(&self) {
        lock(&self.state).planned = None;
    }

    /// How many requests have met a fault.
    pub fn hurts(&self) -> usize {
        lock(&self.state).hurt
    }

    /// How many requests there were with this method, and this text in their first line.
    pub fn seen(&self, method: &str, text: &str) -> usize {
        let state = lock(&self.state);
        state.seen.iter().filter(|line| line.starts_with(method) && line.contains(text)).count()
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().expect("nobody panics with the lock")
}

fn serve(mut client: TcpStream, server: &str, state: &Mutex<State>) -> io::Result<()> {
    let (head, mut body) = read_head(&mut client)?;
    let request = head.lines().next().unwrap_or_default().to_owned();
    let fault = next_fault(&mut lock(state), request);
    if fault == Some(Fault::Reset) && body.len() < length_of(&head) {
        // A connection that is closed with bytes unread is reset.
        return Ok(());
    }
    if head.to_ascii_lowercase().contains("expect: 100-continue") {
        client.write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
    }
    let at = body.len();
    body.resize(length_of(&head).max(at), 0);
    client.read_exact(&mut body[at..])?;
    match fault {
        Some(Fault::Busy) => {
            let busy = "HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
            return client.write_all(busy.as_bytes());
        }
        Some(Fault::Reset) => return Ok(()),
        Some(Fault::Slow(time)) => thread::sleep(time),
        Some(Fault::CutRequest) => body.truncate(body.len() / 2),
        _ => {}
    }
    let answer = ask(server, &head, &body)?;
    match fault {
        Some(Fault::Lost) => Ok(()),
        Some(Fault::CutAnswer) => client.write_all(&answer[..answer.len() / 2]),
        _ => client.write_all(&answer),
    }
}

fn ask(server: &str, head: &str, body: &[u8]) -> io::Result<Vec<u8>> {
    let mut server = TcpStream::connect(server)?;
    // No signature covers these headers.
    let ours = ["connection:", "expect:"];
    let lines = head.lines().filter(|line| {
        let line = line.to_ascii_lowercase();
        !line.is_empty() && !ours.iter().any(|name| line.starts_with(name))
    });
    let head: String = lines.flat_map(|line| [line, "\r\n"]).collect();
    server.write_all(format!("{head}connection: close\r\n\r\n").as_bytes())?;
    server.write_all(body)?;
    if body.len() < length_of(&head) {
        server.shutdown(std::net::Shutdown::Write)?;
    }
    let mut answer = Vec::new();
    server.read_to_end(&mut answer)?;
    Ok(answer)
}

fn next_fault(state: &mut State, request: String) -> Option<Fault> {
    let planned = state.planned.as_mut().filter(|(_, left, text)| *left > 0 && request.contains(&**text));
    let fault = planned.map(|(fault, left, _)| {
        *left -= 1;
        *fault
    });
    state.hurt += usize::from(fault.is_some());
    state.seen.push(request);
    fault
}

/// A request up to its empty line, and what came behind that.
fn read_head(client: &mut TcpStream) -> io::Result<(String, Vec<u8>)> {
    let (mut bytes, mut piece) = (Vec::new(), [0; 16 << 10]);
    loop {
        if let Some(at) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            let body = bytes.split_off(at + 4);
            return Ok((String::from_utf8_lossy(&bytes).into_owned(), body));
        }
        match client.read(&mut piece)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            count => bytes.extend_from_slice(&piece[..count]),
        }
    }
}

fn length_of(head: &str) -> usize {
    let length = |line: &str| line.to_ascii_lowercase().strip_prefix("content-length:")?.trim().parse().ok();
    head.lines().find_map(length).unwrap_or(0)
}
