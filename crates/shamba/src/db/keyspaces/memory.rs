//! What keyspaces take beside their memtables, tables and counters, so that there are not more of
//! them than a budget has room for; what a tree takes comes with its first table.
//!
//! Those that were dropped count as long as anybody holds a handle, a batch or an iterator of them.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use super::KeyspaceInner;
use super::read_state::ReadState;
use crate::budget::{
    Budget, Reservation, Role, least_limit_for_keyspaces, most_of_keyspaces, shared,
};
use crate::error::{Error, Result};
use crate::options::KeyspaceOptions;
use crate::version::Version;

/// What a keyspace takes without tables: itself, its options, also as they are kept, its read
/// state, its name, and its places in maps.
const KEYSPACE_BYTES: usize =
    shared(size_of::<KeyspaceInner>()) + shared(size_of::<KeyspaceOptions>()) + 1040;

/// What comes with the first table: a version of few levels.
const TREE_BYTES: u64 = 720;

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
            tree: OnceLock::new(),
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
    /// Once it has tables, for as long as it is there.
    tree: OnceLock<Reservation>,
}

impl KeyspaceMemory {
    /// Charges what comes with the tables of a version that readers are to see, if it has any.
    pub(super) fn charge_tree(&self, version: &Version) {
        if version.all_files().next().is_some() {
            let budget = self.held.budget();
            self.tree
                .get_or_init(|| budget.reserve_at_once(Role::Files, TREE_BYTES));
        }
    }
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
