//! What lookups have seen of a file. Hints only: losing them changes no answer.
//!
//! All counters are relaxed atomics. Only the read path increments them, and for a sample of the
//! lookups, each with its weight: readers on different cores would otherwise pass the line to and
//! fro at every lookup.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};

/// The module limit that lets a lookup probe every module a filter has.
pub(crate) const ALL_MODULES: u8 = u8::MAX;

/// The statistics of one file.
#[derive(Debug)]
pub(crate) struct FileStats {
    probes: AtomicU64,
    positives: AtomicU64,
    module_limit: AtomicU8,
}

impl Default for FileStats {
    fn default() -> Self {
        FileStats {
            probes: AtomicU64::new(0),
            positives: AtomicU64::new(0),
            module_limit: AtomicU8::new(ALL_MODULES),
        }
    }
}

impl FileStats {
    /// Statistics that start from inherited counts.
    pub(crate) fn with_counts(probes: u64, positives: u64) -> Self {
        FileStats {
            probes: AtomicU64::new(probes),
            positives: AtomicU64::new(positives),
            ..FileStats::default()
        }
    }

    /// Counts `weight` lookups that asked this file.
    #[inline]
    pub(crate) fn record(&self, positive: bool, weight: u64) {
        self.probes.fetch_add(weight, Relaxed);
        if positive {
            self.positives.fetch_add(weight, Relaxed);
        }
    }

    /// Lookups that asked this file.
    pub(crate) fn probes(&self) -> u64 {
        self.probes.load(Relaxed)
    }

    /// Lookups that found the key here, as value or tombstone.
    pub(crate) fn positives(&self) -> u64 {
        self.positives.load(Relaxed)
    }

    /// How many modules a lookup probes without asking.
    #[inline]
    pub(crate) fn module_limit(&self) -> u8 {
        self.module_limit.load(Relaxed)
    }

    /// Sets how many modules a lookup probes without asking.
    #[cfg(test)]
    pub(crate) fn set_module_limit(&self, limit: u8) {
        self.module_limit.store(limit, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lookups_count_by_their_weight() {
        let stats = FileStats::with_counts(7, 2);
        assert_eq!(stats.module_limit(), ALL_MODULES);
        stats.record(true, 8);
        stats.record(false, 8);
        assert_eq!((stats.probes(), stats.positives()), (23, 10));
        stats.set_module_limit(1);
        assert_eq!(stats.module_limit(), 1);
    }
}
