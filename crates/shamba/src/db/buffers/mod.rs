//! What is written and not in tables yet: the write-ahead logs, and the memtables of all keyspaces.
//!
//! [`WalFiles`] knows the closed logs and [`Memtables`] the memtables that wait to be flushed, both
//! thread-safe. [`Memtables::lock`] gives the [`Writer`], the state of whoever leads the writers:
//! the log being written is a part of it.

mod frozen;
mod memtables;
mod wal_files;

pub(super) use memtables::{Entries, Memtables, Writer};
pub(super) use wal_files::{ActiveLog, WalFiles, log_path};
