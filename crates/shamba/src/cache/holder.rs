//! Who holds on to resident blocks for longer than a lookup, and lets go of them when the cache needs
//! room: an open table that has pinned its filters and indexes.
//!
//! Thread-safe. Called with a shard of the cache locked: a [`Holder`] neither waits nor asks the cache.

use std::sync::Weak;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use super::{Block, Heat};

/// Someone who holds blocks of a table.
pub(crate) trait Holder: Send + Sync {
    /// Drops all of them.
    fn let_go(&self);
}

/// Who holds blocks of a table, if anybody does.
#[derive(Default)]
pub(super) struct HeldBy {
    /// Whether somebody came since they were last told to let go.
    any: AtomicBool,
    holder: Mutex<Option<Weak<dyn Holder>>>,
}

impl std::fmt::Debug for HeldBy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("HeldBy").field(&self.any).finish()
    }
}

/// Whether nobody holds a block beside the cache, or lets go of it now; `heat` is that of its table.
pub(super) fn is_free(block: &Block, heat: Option<&Heat>) -> bool {
    let let_go = |heat: &Heat| {
        heat.let_go();
        block.is_unshared()
    };
    block.is_unshared() || heat.is_some_and(let_go)
}

impl Heat {
    /// Somebody holds blocks of the table from now on, in the place of who did before.
    pub(crate) fn held_by(&self, holder: Weak<dyn Holder>) {
        let held_by = self.held_by.get_or_init(Box::default);
        *held_by.holder.lock() = Some(holder);
        held_by.any.store(true, Ordering::Release);
    }

    /// Tells who holds blocks of the table to let go.
    #[cold]
    fn let_go(&self) {
        let held_by = self.held_by.get();
        if let Some(held_by) = held_by.filter(|by| by.any.swap(false, Ordering::AcqRel)) {
            let holder = held_by.holder.lock().clone();
            if let Some(holder) = holder.and_then(|holder| holder.upgrade()) {
                holder.let_go();
            }
        }
    }
}
