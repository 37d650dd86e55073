//! Threads are started here and nowhere else, always with a name that shows in `top -H` and in panics.

use std::io;
use std::thread::{Builder, JoinHandle};

/// Starts a named thread. Linux shows the first 15 bytes of the name.
///
/// # Errors
/// The operating system's, when it has no thread left to give.
pub fn spawn<T: Send + 'static>(
    name: impl Into<String>,
    body: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    Builder::new().name(name.into()).spawn(body)
}

/// What a panic said, as text.
pub fn panic_text(payload: &(dyn std::any::Any + Send)) -> String {
    payload
        .downcast_ref::<&str>()
        .map(|s| (*s).to_owned())
        .or_else(|| payload.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a panic without a text".to_owned())
}
