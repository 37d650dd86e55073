//! State in memory: for each key group a hash index into pages that are shared with running snapshots.
//!
//! A freeze copies the list of pages, not the pages. The first write to a page that a snapshot still holds copies
//! this one page, at most [`page::ENTRIES`] entries; nothing ever copies a key group's table.

mod page;
mod table;

pub(super) use table::{Frozen, Table};
