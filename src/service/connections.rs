//! Connections of the HTTP server: only so many at once, and none for long without a word.
//!
//! Whoever reaches the address could otherwise open connections until the process has no file descriptors left for its
//! brokers and its storage.

use axum::extract::connect_info::Connected;
use axum::serve::{IncomingStream, Listener};
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, Sleep, sleep};

/// Accepts at most so many connections at once; the next one waits in the kernel's queue.
pub(super) struct Connections {
    listener: TcpListener,
    free: Arc<Semaphore>,
    silence: Duration,
}

impl Connections {
    /// At most `most` at once, each closed when it has brought nothing for `silence`.
    pub(super) fn of(listener: TcpListener, most: usize, silence: Duration) -> Self {
        Self { listener, free: Arc::new(Semaphore::new(most)), silence }
    }
}

impl Listener for Connections {
    type Io = Connection;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Connection, SocketAddr) {
        let free = Arc::clone(&self.free).acquire_owned().await.expect("the semaphore is never closed");
        let (stream, peer) = Listener::accept(&mut self.listener).await;
        let silent = Box::pin(sleep(self.silence));
        (Connection { stream, silence: self.silence, silent, _place: free }, peer)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// One of them.
pub(super) struct Connection {
    stream: TcpStream,
    silence: Duration,
    /// Ends when the peer has been silent for too long.
    silent: Pin<Box<Sleep>>,
    /// Another may come when this is gone.
    _place: OwnedSemaphorePermit,
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if let Poll::Ready(read) = Pin::new(&mut self.stream).poll_read(cx, buf) {
            let heard = Instant::now() + self.silence;
            self.silent.as_mut().reset(heard);
            return Poll::Ready(read);
        }
        ready!(self.silent.as_mut().poll(cx));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncWrite for Connection {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// Who is at the other end.
#[derive(Debug, Clone, Copy)]
pub(super) struct Peer(pub(super) SocketAddr);

impl Connected<IncomingStream<'_, Connections>> for Peer {
    fn connect_info(stream: IncomingStream<'_, Connections>) -> Self {
        Self(*stream.remote_addr())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use tokio::io::AsyncReadExt;

    #[tokio::test]
    async fn only_so_many_at_once_and_the_silent_go() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut connections = Connections::of(listener, 1, Duration::from_millis(50));
        let mut silent = std::net::TcpStream::connect(address).unwrap();
        let mut next = std::net::TcpStream::connect(address).unwrap();
        next.write_all(b"word").unwrap();
        let (mut first, _) = connections.accept().await;
        let waits = tokio::time::timeout(Duration::from_millis(20), connections.accept()).await;
        assert!(waits.is_err(), "there is room for one");
        let mut word = [0; 4];
        let timed_out = first.read(&mut word).await.unwrap_err();
        assert_eq!(timed_out.kind(), io::ErrorKind::TimedOut);
        drop(first);
        assert_eq!(silent.read(&mut word).unwrap(), 0, "it is closed");
        let (mut second, _) = connections.accept().await;
        second.read_exact(&mut word).await.unwrap();
        assert_eq!(&word, b"word");
    }
}
