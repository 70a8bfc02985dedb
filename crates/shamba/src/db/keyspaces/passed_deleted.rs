//! How many deleted entries of memtables scans went past: a memtable that has both a range
//! tombstone and what it deleted is rid of these when it is flushed, and has no other end before it
//! is full. Thread-safe.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Deleted entries of a memtable that scans go past before it is flushed for that, at least: that
/// takes as long as making a file. With half of it small tables are made for scans that gain
/// little; with twice of it scans that gain much wait as long again. Not measured.
const LEAST: u64 = 1 << 18;

/// And for each of its entries: to write one takes as long as going past some tens, but most are
/// only written sooner than they would be. Not measured.
const PER_ENTRY: u64 = 4;

/// Deleted entries that scans went past since the active memtable was made.
#[derive(Debug, Default)]
pub(super) struct PassedDeleted(AtomicU64);

impl PassedDeleted {
    /// Counts some. Whether there are so many that an active memtable of so many entries is to be
    /// flushed.
    pub(super) fn add(&self, entries: u64, active: u64) -> bool {
        let passed = self.0.fetch_add(entries, Relaxed) + entries;
        passed >= (PER_ENTRY * active).max(LEAST)
    }

    /// There is another active memtable.
    pub(super) fn begin_anew(&self) {
        self.0.store(0, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_memtable_is_flushed_for_what_is_passed_again_and_again() {
        let passed = PassedDeleted::default();
        assert!(!passed.add(LEAST - 1, 10));
        assert!(passed.add(1, 10));
        passed.begin_anew();
        let large = 4 * LEAST;
        assert!(!passed.add(PER_ENTRY * large - 1, large));
        assert!(passed.add(1, large));
    }
}
