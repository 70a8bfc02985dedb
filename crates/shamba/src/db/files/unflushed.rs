//! The oldest entries that are in memtables only, by which a flush knows the logs that nobody
//! needs.
//!
//! Keyspaces are looked through once for all memtables found there: what was found is used up from
//! the oldest on, and then they are looked through again. Where many are written that is once for
//! many flushes; where one of many is, nearly at each. For whoever holds the `tree` lock.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use crate::base::key::SeqNo;
use crate::db::keyspaces::KeyspaceInner;

/// Memtables with entries, as far as they are known.
#[derive(Debug, Default)]
pub(super) struct Unflushed {
    /// The number of the first entry of a memtable, and its keyspace: ascending. A memtable that
    /// was flushed since is known by its keyspace having none that begins so.
    known: VecDeque<(SeqNo, Arc<KeyspaceInner>)>,
    /// Keyspaces looked at, to be counted in tests.
    #[cfg(test)]
    pub(super) looks: u64,
}

impl Unflushed {
    /// The first number that no table may hold, once the memtables that begin with the numbers
    /// `flushed` (ascending) are in tables. `unseen` is above what is visible: what has it or more
    /// may be on its way into a memtable this moment, and what has less is there.
    pub(super) fn first(
        &mut self,
        keyspaces: &BTreeMap<u32, Arc<KeyspaceInner>>,
        unseen: SeqNo,
        flushed: &[SeqNo],
    ) -> SeqNo {
        if let Some(first) = self.first_known(flushed) {
            return first;
        }
        let mut found = Vec::new();
        for keyspace in keyspaces.values() {
            let state = keyspace.state();
            let firsts = state
                .memtables()
                .filter_map(|memtable| memtable.first_seq());
            // A memtable that is empty now begins with no less.
            let firsts = firsts.filter(|first| *first < unseen);
            found.extend(firsts.map(|first| (first, Arc::clone(keyspace))));
        }
        #[cfg(test)]
        {
            self.looks += keyspaces.len() as u64;
        }
        found.sort_unstable_by_key(|(first, _)| *first);
        self.known = found.into();
        self.first_known(flushed).unwrap_or(unseen)
    }

    /// A keyspace was dropped, and is held no longer.
    pub(super) fn dropped(&mut self, keyspace: &KeyspaceInner) {
        self.known.retain(|(_, known)| known.id() != keyspace.id());
    }

    /// The first that is known, still there and not among `flushed`, which stay known: their flush
    /// may fail.
    fn first_known(&mut self, flushed: &[SeqNo]) -> Option<SeqNo> {
        let mut at = 0;
        while let Some((first, keyspace)) = self.known.get(at) {
            let state = keyspace.state();
            let there = state
                .memtables()
                .any(|memtable| memtable.first_seq() == Some(*first));
            match (there, flushed.binary_search(first)) {
                (true, Err(_)) => return Some(*first),
                (true, Ok(_)) => at += 1,
                (false, _) => {
                    self.known.remove(at);
                }
            }
        }
        None
    }
}
