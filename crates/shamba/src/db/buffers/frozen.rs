//! The keyspaces that have memtables waiting to be flushed, first those that have had some for
//! longest. So nobody has to look at the many that have none.
//!
//! Thread-safe. The lock is held for a look at read states, and by nobody who takes another. A
//! keyspace is added after its memtable was frozen, and leaves when somebody comes upon it with
//! none.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

use crate::db::keyspaces::KeyspaceInner;

/// The most memtables that are flushed together. The folder is synced, and the manifest written,
/// once for all of them; with half of it twice as often. Nothing of them is given back before all
/// are tables.
const MOST_TOGETHER: usize = 256;

/// Keyspaces with frozen memtables.
#[derive(Debug, Default)]
pub(in crate::db) struct FrozenList {
    list: Mutex<VecDeque<Arc<KeyspaceInner>>>,
    /// The length of `list`.
    len: AtomicUsize,
}

impl FrozenList {
    /// Adds a keyspace whose memtable was frozen, unless it is there.
    pub(in crate::db) fn add(&self, keyspace: &Arc<KeyspaceInner>) {
        let mut list = self.list.lock();
        // Written under the lock only.
        if !keyspace.list_frozen(true) {
            list.push_back(keyspace.clone());
            self.len.store(list.len(), Ordering::SeqCst);
        }
    }

    /// Asks one keyspace after the other, until one gives something.
    pub(in crate::db) fn find<T>(
        &self,
        mut ask: impl FnMut(&Arc<KeyspaceInner>) -> Option<T>,
    ) -> Option<T> {
        if self.len.load(Ordering::SeqCst) == 0 {
            return None;
        }
        let mut list = self.list.lock();
        let mut found = None;
        let mut at = 0;
        while let Some(keyspace) = list.get(at)
            && found.is_none()
        {
            if keyspace.state().frozen.is_empty() {
                keyspace.list_frozen(false);
                list.remove(at);
            } else {
                found = ask(keyspace);
                at += 1;
            }
        }
        self.len.store(list.len(), Ordering::SeqCst);
        found
    }

    /// Keyspaces whose oldest memtables are to be flushed together: those that `claim` says yes to,
    /// until the memtables come to so many bytes.
    pub(in crate::db) fn group(
        &self,
        most: u64,
        claim: impl Fn(&Arc<KeyspaceInner>) -> bool,
    ) -> Vec<Arc<KeyspaceInner>> {
        let mut group = Vec::new();
        let mut bytes = 0;
        self.find(|keyspace| {
            if claim(keyspace) {
                let oldest = keyspace.state().frozen.last().cloned();
                bytes += oldest.map_or(0, |memtable| memtable.charged() as u64);
                group.push(Arc::clone(keyspace));
            }
            (bytes >= most || group.len() >= MOST_TOGETHER).then_some(())
        });
        group
    }

    /// Whether no memtable waits to be flushed.
    pub(in crate::db) fn is_empty(&self) -> bool {
        self.find(|_| Some(())).is_none()
    }
}
