//! librdkafka behind a safe wall: the only place with unsafe code.
//!
//! The safe crate allocates for every message, answers delivery reports one by one through a context, and waits
//! 100 ms where nothing is to be waited for. Here messages are taken and given in batches, and every wait is as long
//! as the caller says.

#![expect(
    unsafe_code,
    reason = "librdkafka is a C library; the safety argument of each block stands beside it"
)]

mod handle;
mod producer;
mod message;
mod consumer;

pub(in crate::connector::kafka) use consumer::{Consumer, Notice, Position};
pub(in crate::connector::kafka) use handle::Error;
pub(in crate::connector::kafka) use message::{Event, Headers, Message, Problem};
pub(in crate::connector::kafka) use producer::{Outgoing, Producer};
