//! Tidegate: exactly-once stateful stream processing on Kafka.
//!
//! Users begin at [`api`]. Readers of the source may follow one of two walks; `docs/architecture.md` has the laws.
//!
//! **A record.** [`SourceReader::poll`](connector::SourceReader::poll) takes a batch and decodes it →
//! [`operator`]: a chain is a nest of [`Stage`](operator::Stage)s → [`TypedLink`](runtime::TypedLink) hashes the key to a
//! [`KeyGroup`](model::KeyGroup) and collects a batch for each receiving subtask → [`KeyedState`](state::KeyedState)
//! makes the key current → the user's [`KeyedProcessFunction`](operator::KeyedProcessFunction) emits →
//! [`SinkWriter::write`](connector::SinkWriter::write) puts it into the open transaction.
//!
//! **A barrier.** [`Protocol`](checkpoint::Protocol) triggers → sources freeze their positions, every
//! [`Stage::freeze`](operator::Stage::freeze) its state, a sink [prepares](connector::SinkWriter::prepare) its
//! transaction → only then [`Stage::forward`](operator::Stage::forward) lets the barrier leave the task → frozen parts are
//! written aside and acknowledged → [`Sequence::publish`](checkpoint::Sequence::publish) makes the checkpoint complete →
//! [`SinkCommitter::commit`](connector::SinkCommitter::commit) commits what the [`Manifest`](checkpoint::Manifest) lists.
//! After a crash, [`SinkControl::resolve`](connector::SinkControl::resolve) does so in its place.

pub mod host;
pub mod model;
pub mod storage;
pub mod state;
pub mod connector;
pub mod operator;
pub mod graph;
pub mod checkpoint;
pub mod runtime;
pub mod api;
pub mod service;
