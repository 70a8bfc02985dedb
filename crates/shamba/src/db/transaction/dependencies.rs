//! What a transaction depends on, charged with what it wrote. Single-threaded.

use std::ops::Bound;
use std::sync::Arc;

use super::Transaction;
use super::own_writes::OwnWrites;
use crate::budget::Reservation;
use crate::db::iter::IterOptions;
use crate::db::keyspaces::KeyspaceInner;
use crate::db::write::KeySet;
use crate::error::Result;

/// What a transaction depends on, and the memory that all of it takes.
#[derive(Debug)]
pub(super) struct Dependencies {
    pub(super) keys: KeySet,
    /// Whether the commit depends on the keys that it writes too.
    pub(super) on_written: bool,
    pub(super) memory: Reservation,
}

impl Dependencies {
    /// Has memory for so many bytes more beside what was written.
    pub(super) fn charge(&mut self, own: &OwnWrites, more: usize) -> Result<()> {
        self.charge_with(own, (0, 0), more)
    }

    /// The same with a key and a value more.
    pub(super) fn charge_with(
        &mut self,
        own: &OwnWrites,
        (key, value): (usize, usize),
        more: usize,
    ) -> Result<()> {
        let mut len = size_of::<Transaction>() + self.keys.bytes() + more;
        len += own.bytes_with(key, value);
        if self.on_written {
            len += own.index_bytes_with(key);
        }
        self.memory.hold_transaction(len as u64)
    }

    /// Adds the keys that were written; they are charged for.
    pub(super) fn add_written(&mut self, own: &OwnWrites, default: &Arc<KeyspaceInner>) {
        let known = own.keyspaces();
        let of = |number| {
            let keyspace = known.iter().find(|keyspace| keyspace.id() == number);
            keyspace.unwrap_or(default)
        };
        for (number, key) in own.keys() {
            self.keys.add(of(number), key);
        }
        for (number, start, end) in own.ranges() {
            let upper = if end.is_empty() {
                Bound::Unbounded
            } else {
                Bound::Excluded(end.to_vec())
            };
            let range = IterOptions::default().lower(Bound::Included(start.to_vec()));
            self.keys.set_range(of(number), None, range.upper(upper));
        }
    }
}
