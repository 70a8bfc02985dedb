//! What keyspaces take beside their memtables, tables and counters, so that there are not more of
//! them than a budget has room for: those that were dropped count as long as anybody holds a
//! handle, a batch or an iterator of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::KeyspaceInner;
use super::read_state::ReadState;
use crate::budget::{
    Budget, Reservation, Role, least_limit_for_keyspaces, most_of_keyspaces, shared,
};
use crate::error::{Error, Result};
use crate::options::KeyspaceOptions;

/// What a keyspace takes: itself, its options, also as they are kept, its read state, and a version
/// of few levels.
const KEYSPACE_BYTES: usize =
    shared(size_of::<KeyspaceInner>()) + shared(size_of::<KeyspaceOptions>()) + 1600 + 160;

/// The bytes that all keyspaces of a database take. Thread-safe.
#[derive(Debug, Clone, Default)]
pub(in crate::db) struct AllKeyspaces(Arc<AtomicU64>);

impl AllKeyspaces {
    fn add(&self, bytes: u64) -> CountedBytes {
        self.0.fetch_add(bytes, Relaxed);
        CountedBytes {
            all: self.clone(),
            bytes,
        }
    }

    /// An error if a budget has no room for the keyspaces there are, and for so many more.
    pub(in crate::db) fn check(&self, more: usize, limit: u64) -> Result<()> {
        let bytes = self.0.load(Relaxed) + (more * KEYSPACE_BYTES) as u64;
        if bytes <= most_of_keyspaces(limit) {
            Ok(())
        } else {
            Err(Error::BudgetTooSmall {
                limit,
                needed: least_limit_for_keyspaces(bytes),
            })
        }
    }

    /// The memory for one more, which is waited for: not under locks that readers or flushes take.
    pub(in crate::db) fn reserve(&self, budget: &Arc<Budget>) -> KeyspaceMemory {
        KeyspaceMemory {
            held: budget.reserve(Role::Files, KEYSPACE_BYTES as u64),
            counted: self.add(KEYSPACE_BYTES as u64),
        }
    }
}

/// Bytes that count among those of all keyspaces until it is dropped.
#[derive(Debug)]
struct CountedBytes {
    all: AllKeyspaces,
    bytes: u64,
}

impl Drop for CountedBytes {
    fn drop(&mut self) {
        self.all.0.fetch_sub(self.bytes, Relaxed);
    }
}

/// What a keyspace takes as long as anybody holds it.
#[derive(Debug)]
pub(in crate::db) struct KeyspaceMemory {
    pub(super) held: Reservation,
    counted: CountedBytes,
}

/// What a keyspace was before it was dropped, for its iterators. No flush makes room of its
/// memtables any more, so that they count as memory of keyspaces.
#[derive(Debug)]
pub(super) struct LastState {
    pub(super) state: Arc<ReadState>,
    _counted: CountedBytes,
}

impl LastState {
    pub(super) fn new(state: Arc<ReadState>, of: &KeyspaceMemory) -> Self {
        let bytes = state.memtables().map(|memtable| memtable.charged() as u64);
        let counted = of.counted.all.add(bytes.sum());
        LastState {
            state,
            _counted: counted,
        }
    }
}
