//! Bytes to and from one broker, over TCP or TLS, never waiting past a deadline.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

use openssl::ssl::SslStream;

use super::{Deadline, Error, Settings, tls};

/// An open stream.
pub(super) enum Transport {
    /// Plain TCP.
    Tcp(TcpStream),
    /// TLS over TCP.
    Tls(SslStream<TcpStream>),
}

/// Opens a TCP connection, trying every address of the name. Name resolution itself is bounded by the
/// system's resolver only.
fn connect_tcp(address: &str, deadline: Deadline) -> io::Result<TcpStream> {
    let mut failure = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for socket in address.to_socket_addrs()? {
        let left = deadline.left();
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        match TcpStream::connect_timeout(&socket, left) {
            Ok(stream) => {
                stream.set_nodelay(true)?;
                return Ok(stream);
            }
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

impl Transport {
    /// Connects to `broker` (`host:port`), with TLS if the settings ask for it.
    pub(super) fn open(broker: &str, settings: &Settings, deadline: Deadline) -> Result<Self, Error> {
        let failed = |source| Error::Connect { broker: broker.to_owned(), source };
        let stream = connect_tcp(broker, deadline).map_err(failed)?;
        let Some(with_tls) = &settings.tls else { return Ok(Self::Tcp(stream)) };
        let limit = time_left(deadline).map_err(failed)?;
        stream.set_read_timeout(Some(limit)).map_err(failed)?;
        stream.set_write_timeout(Some(limit)).map_err(failed)?;
        tls::connect(broker, stream, with_tls, deadline).map(Self::Tls)
    }

    /// Sends all of `bytes`.
    pub(super) fn send(&mut self, mut bytes: &[u8], deadline: Deadline) -> io::Result<()> {
        while !bytes.is_empty() {
            self.socket().set_write_timeout(Some(time_left(deadline)?))?;
            let sent = match self {
                Self::Tcp(stream) => stream.write(bytes),
                Self::Tls(stream) => stream.write(bytes),
            };
            match sent {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(n) => bytes = &bytes[n..],
                Err(error) if again(&error) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Fills all of `buffer`.
    pub(super) fn receive(&mut self, mut buffer: &mut [u8], deadline: Deadline) -> io::Result<()> {
        while !buffer.is_empty() {
            self.socket().set_read_timeout(Some(time_left(deadline)?))?;
            let received = match self {
                Self::Tcp(stream) => stream.read(buffer),
                Self::Tls(stream) => stream.read(buffer),
            };
            match received {
                Ok(0) => {
                    return Err(io::Error::new(
                        io::ErrorKind::UnexpectedEof,
                        "the broker closed the connection (so does a listener that expects TLS or SASL)",
                    ));
                }
                Ok(n) => buffer = &mut buffer[n..],
                Err(error) if again(&error) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn socket(&self) -> &TcpStream {
        match self {
            Self::Tcp(stream) => stream,
            Self::Tls(stream) => stream.get_ref(),
        }
    }
}

/// A socket's timeout shows as "would block": the loop then asks the deadline.
fn again(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

/// The time left as a socket's timeout, which must not be zero.
fn time_left(deadline: Deadline) -> io::Result<Duration> {
    let left = deadline.left();
    if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
}
