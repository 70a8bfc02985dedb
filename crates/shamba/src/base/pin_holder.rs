//! Who pins resident blocks for longer than a lookup, and lets go of them when the cache needs
//! room: an open table that has pinned its filters and indexes.
//!
//! Thread-safe. Called with a shard of the cache locked: a [`PinHolder`] neither waits nor asks the
//! cache.

use std::sync::Weak;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

/// Someone who pins blocks of a table.
pub(crate) trait PinHolder: Send + Sync {
    /// Drops all of them.
    fn unpin_all(&self);
}

/// Who pins blocks of a table, if anybody does.
#[derive(Default)]
pub(crate) struct PinHolderSlot {
    /// Whether somebody came since they were last told to let go.
    any: AtomicBool,
    holder: Mutex<Option<Weak<dyn PinHolder>>>,
}

impl std::fmt::Debug for PinHolderSlot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("PinHolderSlot").field(&self.any).finish()
    }
}

impl PinHolderSlot {
    /// Somebody pins blocks from now on, in the place of who did before.
    pub(crate) fn set(&self, holder: Weak<dyn PinHolder>) {
        *self.holder.lock() = Some(holder);
        self.any.store(true, Ordering::Release);
    }

    /// Tells who pins blocks to let go of them, once.
    pub(crate) fn unpin_all(&self) {
        if self.any.swap(false, Ordering::AcqRel) {
            let holder = self.holder.lock().clone();
            if let Some(holder) = holder.and_then(|holder| holder.upgrade()) {
                holder.unpin_all();
            }
        }
    }
}
