//! Proxies before a server, which hurt what passes as they are told to: [`Http`] one request after the other, [`Tcp`]
//! whatever goes over a connection. They listen on a free port of 127.0.0.1 until the process ends.

mod http;
mod tcp;

pub use http::{Fault, Http};
pub use tcp::{Break, Tcp};

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;

/// Serves each connection on a thread of its own.
fn listen<S, R>(serve: S) -> io::Result<SocketAddr>
where
    S: Fn(TcpStream) -> io::Result<R> + Clone + Send + 'static,
    R: Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    thread::Builder::new().name("proxy".to_owned()).spawn(move || {
        for client in listener.incoming().flatten() {
            let serve = serve.clone();
            // A connection that breaks is what a proxy here is for.
            let _ = thread::Builder::new().name("proxied".to_owned()).spawn(move || serve(client).ok());
        }
    })?;
    Ok(address)
}
