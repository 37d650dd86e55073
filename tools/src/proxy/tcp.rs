//! A proxy before a server whose protocol it does not know.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

/// How long a server has to do what it was asked for before its answer is lost.
const ACTING: Duration = Duration::from_millis(300);

/// What happens to connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Break {
    /// New ones are closed at once, old ones at their next request.
    Away,
    /// Whatever a client sends arrives after this time.
    Slow(Duration),
    /// A request with this text in it arrives; then the connection breaks before its answer.
    LoseAnswerTo(&'static str),
}

#[derive(Default)]
struct State {
    planned: Option<(Break, usize)>,
    done: usize,
}

/// The proxy.
pub struct Tcp {
    address: SocketAddr,
    state: Arc<Mutex<State>>,
}

impl Tcp {
    /// Starts it before the server at `host:port`.
    ///
    /// # Errors
    /// When there is no port or no thread for it.
    pub fn start(server: &str) -> io::Result<Self> {
        let (server, state) = (server.to_owned(), Arc::new(Mutex::new(State::default())));
        let shared = Arc::clone(&state);
        let address = super::listen(move |client| serve(&client, &server, &shared))?;
        Ok(Self { address, state })
    }

    /// Where clients find the server behind it.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// From now on this happens so many times.
    pub fn hurt(&self, what: Break, times: usize) {
        lock(&self.state).planned = Some((what, times));
    }

    /// From now on everything passes.
    pub fn heal(&self) {
        lock(&self.state).planned = None;
    }

    /// How often something has happened.
    pub fn hurts(&self) -> usize {
        lock(&self.state).done
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().expect("nobody panics with the lock")
}

/// What happens now to these bytes, of which there are none yet when a connection begins.
fn next(state: &Mutex<State>, bytes: &[u8]) -> Option<Break> {
    let mut state = lock(state);
    let (what, left) = state.planned.as_mut().filter(|(_, left)| *left > 0)?;
    let meets = match what {
        Break::Away => true,
        Break::Slow(_) => !bytes.is_empty(),
        Break::LoseAnswerTo(text) => bytes.windows(text.len()).any(|part| part == text.as_bytes()),
    };
    if !meets {
        return None;
    }
    *left -= 1;
    let what = *what;
    state.done += 1;
    Some(what)
}

fn serve(client: &TcpStream, server: &str, state: &Mutex<State>) -> io::Result<()> {
    if next(state, &[]).is_some() {
        return client.shutdown(Shutdown::Both);
    }
    let server = TcpStream::connect(server)?;
    let (mut from, mut to) = (server.try_clone()?, client.try_clone()?);
    let answers = thread::Builder::new().name("answers".to_owned()).spawn(move || {
        // Its end is the connection's end.
        let _ = io::copy(&mut from, &mut to);
        let _ = to.shutdown(Shutdown::Both);
    })?;
    let ended = forward(client, &server, state);
    let _ = server.shutdown(Shutdown::Both);
    let _ = client.shutdown(Shutdown::Both);
    let _ = answers.join();
    ended
}

fn forward(mut client: &TcpStream, mut server: &TcpStream, state: &Mutex<State>) -> io::Result<()> {
    let mut bytes = vec![0; 64 << 10];
    loop {
        let count = client.read(&mut bytes)?;
        if count == 0 {
            return Ok(());
        }
        match next(state, &bytes[..count]) {
            Some(Break::Away) => return Ok(()),
            Some(Break::LoseAnswerTo(_)) => {
                client.shutdown(Shutdown::Both)?;
                server.write_all(&bytes[..count])?;
                thread::sleep(ACTING);
                return Ok(());
            }
            Some(Break::Slow(time)) => thread::sleep(time),
            None => {}
        }
        server.write_all(&bytes[..count])?;
    }
}
