//! Which keyspaces have a compaction due, so that nobody has to look at the many that have none.
//!
//! A keyspace is looked at when something changed of what its picker goes by: its version, files
//! that are no longer busy, its design ([`DueList::changed`]), or the memory budget, for which all
//! are. What was found is kept until then. Thread-safe; the lock is held for no longer than it
//! takes to find or place a keyspace. Who looks ([`DueList::look`], [`DueList::most_urgent`]) holds
//! the `tree` lock, so that no version changes meanwhile; what else changes while a keyspace is
//! looked at has it looked at once more.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use parking_lot::Mutex;

use crate::db::keyspaces::KeyspaceInner;

/// What a look at a keyspace found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::db) enum DueWork {
    /// Nothing is due before something changes.
    Nothing,
    /// A task of this urgency, which is above 0.
    Due(f64),
    /// Something may be due at the next look though nothing changes; whether something is due now
    /// that cannot be done.
    Later {
        /// Whether something is.
        due: bool,
    },
}

/// The keyspaces that are to be looked at, and what was found of the others.
#[derive(Debug, Default)]
pub(in crate::db) struct DueList(Mutex<Lists>);

#[derive(Debug, Default)]
struct Lists {
    /// Those that something changed of.
    changed: BTreeMap<u32, Arc<KeyspaceInner>>,
    /// Those that are looked at each time, with whether something is due.
    later: BTreeMap<u32, (Arc<KeyspaceInner>, bool)>,
    /// Those that have a task due, by the bits of its score, which ascend as positive numbers do.
    scored: BTreeMap<(u64, u32), Arc<KeyspaceInner>>,
    scores: HashMap<u32, u64>,
    /// Those that may be moving to another design, and those whose compactions failed.
    moving: BTreeMap<u32, Arc<KeyspaceInner>>,
    failing: BTreeMap<u32, Arc<KeyspaceInner>>,
    /// The memory budget that all this holds for.
    limit: u64,
    #[cfg(test)]
    looks: u64,
}

impl Lists {
    fn forget(&mut self, keyspace: &KeyspaceInner) {
        if let Some(score) = self.scores.remove(&keyspace.id()) {
            self.scored.remove(&(score, keyspace.id()));
        }
        self.later.remove(&keyspace.id());
    }

    fn found(&mut self, keyspace: Arc<KeyspaceInner>, found: DueWork) {
        self.forget(&keyspace);
        match found {
            DueWork::Nothing => {}
            DueWork::Due(score) => {
                self.scores.insert(keyspace.id(), score.to_bits());
                self.scored
                    .insert((score.to_bits(), keyspace.id()), keyspace);
            }
            DueWork::Later { due } => {
                self.later.insert(keyspace.id(), (keyspace, due));
            }
        }
    }
}

impl DueList {
    /// Something changed of what the keyspace's picker goes by.
    pub(in crate::db) fn changed(&self, keyspace: &Arc<KeyspaceInner>) {
        let mut lists = self.0.lock();
        lists.changed.insert(keyspace.id(), Arc::clone(keyspace));
    }

    /// A keyspace was dropped: nothing of it is due, and it is held no longer.
    pub(in crate::db) fn dropped(&self, keyspace: &KeyspaceInner) {
        let mut lists = self.0.lock();
        lists.forget(keyspace);
        lists.changed.remove(&keyspace.id());
        lists.moving.remove(&keyspace.id());
        lists.failing.remove(&keyspace.id());
    }

    /// A keyspace begins to move to another design.
    pub(in crate::db) fn moves(&self, keyspace: &Arc<KeyspaceInner>) {
        let mut lists = self.0.lock();
        lists.moving.insert(keyspace.id(), Arc::clone(keyspace));
        lists.changed.insert(keyspace.id(), Arc::clone(keyspace));
    }

    /// The keyspaces that move to another design.
    pub(in crate::db) fn moving(&self) -> Vec<Arc<KeyspaceInner>> {
        let mut lists = self.0.lock();
        let moves = |of: &KeyspaceInner| of.moving().is_some() && of.check_alive().is_ok();
        lists.moving.retain(|_, keyspace| moves(keyspace));
        lists.moving.values().cloned().collect()
    }

    /// A keyspace's compaction failed, and may rest now.
    pub(in crate::db) fn failed(&self, keyspace: &Arc<KeyspaceInner>) {
        let mut lists = self.0.lock();
        lists.failing.insert(keyspace.id(), Arc::clone(keyspace));
        lists.changed.insert(keyspace.id(), Arc::clone(keyspace));
    }

    /// The first of the keyspaces whose compactions fail that gives something.
    pub(in crate::db) fn of_failing<T>(
        &self,
        ask: impl FnMut(&Arc<KeyspaceInner>) -> Option<T>,
    ) -> Option<T> {
        let mut lists = self.0.lock();
        let fails = |of: &KeyspaceInner| of.compactions().fails() && of.check_alive().is_ok();
        lists.failing.retain(|_, keyspace| fails(keyspace));
        lists.failing.values().find_map(ask)
    }

    /// Looks at the keyspaces that something changed of, under a budget: where that is another than
    /// before, at all.
    pub(in crate::db) fn look(
        &self,
        all: &BTreeMap<u32, Arc<KeyspaceInner>>,
        limit: u64,
        look: impl Fn(&Arc<KeyspaceInner>) -> DueWork,
    ) {
        let mut to_see = {
            let mut lists = self.0.lock();
            let mut to_see = std::mem::take(&mut lists.changed);
            let later = lists.later.values();
            let later: Vec<_> = later.map(|(keyspace, _)| Arc::clone(keyspace)).collect();
            to_see.extend(later.into_iter().map(|keyspace| (keyspace.id(), keyspace)));
            if lists.limit != limit {
                lists.limit = limit;
                to_see.extend(all.iter().map(|(id, keyspace)| (*id, Arc::clone(keyspace))));
            }
            to_see
        };
        while let Some((_, keyspace)) = to_see.pop_first() {
            let found = look(&keyspace);
            let mut lists = self.0.lock();
            #[cfg(test)]
            {
                lists.looks += 1;
            }
            lists.found(keyspace, found);
        }
    }

    /// The keyspace with the most urgent task, as far as is known.
    pub(in crate::db) fn most_urgent(&self) -> Option<Arc<KeyspaceInner>> {
        let lists = self.0.lock();
        let (_, keyspace) = lists.scored.last_key_value()?;
        Some(Arc::clone(keyspace))
    }

    /// Whether nothing was due when keyspaces were looked at.
    pub(in crate::db) fn nothing(&self) -> bool {
        let lists = self.0.lock();
        lists.scored.is_empty() && !lists.later.values().any(|(_, due)| *due)
    }

    /// Whether a keyspace waits for what may end though nothing of it changes, such as a snapshot.
    pub(in crate::db) fn has_later(&self) -> bool {
        !self.0.lock().later.is_empty()
    }

    /// How often a keyspace was looked at.
    #[cfg(test)]
    fn looks(&self) -> u64 {
        self.0.lock().looks
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fs::MemFs;
    use crate::{Db, Keyspace, KeyspaceOptions, MemoryBudget, Options};

    const COUNT: u64 = 200;

    fn open() -> (Db, Vec<Keyspace>) {
        let options = Options::new()
            .fs(Arc::new(MemFs::new()))
            .memory(MemoryBudget::bytes(64 << 20))
            .background_threads(0);
        let db = options.open("/db").unwrap();
        let create = |i| db.create_keyspace(&format!("{i}"), KeyspaceOptions::default());
        let keyspaces = (0..COUNT).map(|i| create(i).unwrap()).collect();
        (db, keyspaces)
    }

    /// Looks for work, and for the oldest memtable, since they were last asked for.
    fn looks(db: &Db) -> (u64, u64) {
        let inner = db.inner();
        let files = inner.files();
        (files.due().looks(), files.tree().unflushed_looks())
    }

    #[test]
    fn work_on_one_keyspace_looks_at_no_other() {
        let (db, keyspaces) = open();
        keyspaces[0].put("a", "0").unwrap();
        db.flush().unwrap();
        let (before, _) = looks(&db);
        for i in 0..40u64 {
            keyspaces[7].put((i % 4).to_be_bytes(), "v").unwrap();
            db.flush().unwrap();
        }
        db.wait_for_compaction().unwrap();
        let counters = db.stats().counters;
        assert!(counters.compactions + counters.trivial_moves >= 9);
        let looked = looks(&db).0 - before;
        assert!(looked <= 4 * 40, "{looked} looks");
    }

    #[test]
    fn each_flush_and_merge_of_many_keyspaces_looks_at_few() {
        let (db, keyspaces) = open();
        let (before, oldest_before) = looks(&db);
        // The memtables that are flushed first hold the oldest entries.
        for round in 0..8u64 {
            for keyspace in &keyspaces {
                keyspace.put(round.to_be_bytes(), "v").unwrap();
                keyspace.put(b"same", "v").unwrap();
            }
            db.flush().unwrap();
        }
        db.wait_for_compaction().unwrap();
        let counters = db.stats().counters;
        assert_eq!(counters.flushes, 8 * COUNT);
        assert!(counters.compactions >= COUNT, "{counters:?}");
        let work = counters.flushes + counters.compactions + counters.trivial_moves;
        let (looked, oldest) = looks(&db);
        let (looked, oldest) = (looked - before, oldest - oldest_before);
        assert!(
            looked <= 5 * work,
            "{looked} looks for {work} pieces of work"
        );
        assert!(
            oldest <= 4 * counters.flushes,
            "{oldest} looks for {} flushes",
            counters.flushes
        );
        // What is not known to be due is not: everything is in shape.
        for keyspace in &keyspaces {
            let found = db.inner().compactor().find_due(keyspace.inner());
            assert_eq!(found, DueWork::Nothing);
        }
    }

    #[test]
    fn a_snapshot_that_goes_makes_dead_entries_due() {
        let (db, keyspaces) = open();
        let keyspace = &keyspaces[3];
        keyspace.put("a", "1").unwrap();
        db.flush().unwrap();
        let snapshot = db.snapshot();
        keyspace.delete("a").unwrap();
        keyspace.put("b", "1").unwrap();
        keyspace.compact_range(None, None).unwrap();
        db.wait_for_compaction().unwrap();
        let entries = || {
            let version = keyspace.inner().version();
            version.sums().entries
        };
        assert_eq!(entries(), 3, "the snapshot sees what was deleted");
        drop(snapshot);
        db.wait_for_compaction().unwrap();
        assert_eq!(entries(), 1);
    }
}
