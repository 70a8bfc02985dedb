//! What a reader of a keyspace needs, replaced as a whole: readers load it without a lock.
//!
//! Thread-safe. Whoever changes it calls [`ReadStateCell::update`]; whoever needs to know cheaply
//! that it was changed compares [`ReadStateCell::generation`].

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::{ArcSwap, Guard};

use crate::base::key::SeqNo;
use crate::memtable::Memtable;
use crate::version::Version;

/// What a reader needs.
#[derive(Debug, Clone)]
pub(in crate::db) struct ReadState {
    /// Takes new writes.
    pub(in crate::db) active: Arc<Memtable>,
    /// Full memtables waiting to be flushed, newest first.
    pub(in crate::db) frozen: Vec<Arc<Memtable>>,
    pub(in crate::db) version: Arc<Version>,
}

impl ReadState {
    /// All memtables, newest first.
    #[inline]
    pub(in crate::db) fn memtables(&self) -> impl Iterator<Item = &Arc<Memtable>> {
        std::iter::once(&self.active).chain(&self.frozen)
    }

    /// The same without a memtable that was flushed.
    pub(in crate::db) fn without(&self, flushed: &Arc<Memtable>) -> ReadState {
        let frozen = self.frozen.iter();
        let frozen = frozen.filter(|memtable| !Arc::ptr_eq(memtable, flushed));
        ReadState {
            active: self.active.clone(),
            frozen: frozen.cloned().collect(),
            version: self.version.clone(),
        }
    }

    /// The same with a fresh active memtable; the old one is frozen if there is anything in it.
    fn with_active(&self, fresh: &Arc<Memtable>) -> ReadState {
        let mut frozen = Vec::with_capacity(self.frozen.len() + 1);
        if !self.active.is_empty() {
            frozen.push(self.active.clone());
        }
        frozen.extend(self.frozen.iter().cloned());
        ReadState {
            active: fresh.clone(),
            frozen,
            version: self.version.clone(),
        }
    }
}

/// The place of a keyspace's read state.
#[derive(Debug)]
pub(super) struct ReadStateCell {
    state: ArcSwap<ReadState>,
    /// Rises with every change of `state`, when it is over, so that iterators notice cheaply.
    generation: AtomicU64,
    /// Rises with every change of `state`, before it begins: while it is equal to `generation`
    /// there is none.
    changes: AtomicU64,
}

impl ReadStateCell {
    pub(super) fn new(state: ReadState) -> Self {
        ReadStateCell {
            state: ArcSwap::from_pointee(state),
            generation: AtomicU64::new(0),
            changes: AtomicU64::new(0),
        }
    }

    #[inline]
    pub(super) fn load(&self) -> Guard<Arc<ReadState>> {
        self.state.load()
    }

    /// How often the state was changed.
    #[inline]
    pub(super) fn generation(&self) -> u64 {
        self.generation.load(Ordering::SeqCst)
    }

    /// Replaces the state by what `change` makes of it.
    pub(super) fn update(&self, change: impl Fn(&ReadState) -> ReadState) {
        self.changes.fetch_add(1, Ordering::SeqCst);
        self.state.rcu(|state| change(state));
        self.generation.fetch_add(1, Ordering::SeqCst);
    }

    /// Puts a fresh memtable in the place of the active one.
    pub(super) fn freeze_active(&self, fresh: &Arc<Memtable>) {
        self.update(|state| state.with_active(fresh));
    }

    /// A state and a visible sequence number that belong together.
    #[inline]
    pub(super) fn read_point(&self, visible: impl Fn() -> SeqNo) -> (Guard<Arc<ReadState>>, SeqNo) {
        let generation = self.generation();
        let mut state = self.state.load();
        let seq = visible();
        // Whoever made a newer state visible, or published a number after it was, had counted the
        // change before: if none has begun since `generation` was read, the two belong together.
        if self.changes.load(Ordering::SeqCst) == generation {
            return (state, seq);
        }
        loop {
            let seq = visible();
            let again = self.state.load();
            if Arc::ptr_eq(&state, &again) {
                return (state, seq);
            }
            state = again;
        }
    }
}
