//! What lookups have seen of a file. Hints only: losing them changes no answer.
//!
//! All counters are relaxed atomics. Only the read path increments, only maintenance decays and
//! sets limits.

use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed};

/// The module limit that lets a lookup probe every module a filter has.
pub(crate) const ALL_MODULES: u8 = u8::MAX;

/// The statistics of one file.
#[derive(Debug)]
pub(crate) struct FileStats {
    probes: AtomicU64,
    positives: AtomicU64,
    last_access: AtomicU32,
    module_limit: AtomicU8,
}

impl Default for FileStats {
    fn default() -> Self {
        FileStats {
            probes: AtomicU64::new(0),
            positives: AtomicU64::new(0),
            last_access: AtomicU32::new(0),
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

    /// Counts a lookup that asked this file, at a time in the database's own epochs.
    #[inline]
    pub(crate) fn record(&self, positive: bool, epoch: u32) {
        self.probes.fetch_add(1, Relaxed);
        if positive {
            self.positives.fetch_add(1, Relaxed);
        }
        // Storing only on change keeps the line shared between readers of a hot file.
        if self.last_access.load(Relaxed) != epoch {
            self.last_access.store(epoch, Relaxed);
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

    /// The epoch of the last lookup.
    #[cfg(test)]
    pub(crate) fn last_access(&self) -> u32 {
        self.last_access.load(Relaxed)
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

    /// Halves both counters `shift` times. A lookup counted meanwhile may be lost.
    #[cfg(test)]
    pub(crate) fn decay(&self, shift: u32) {
        for counter in [&self.probes, &self.positives] {
            let aged = counter.load(Relaxed).checked_shr(shift).unwrap_or(0);
            counter.store(aged, Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_decay_and_limits_are_kept() {
        let stats = FileStats::with_counts(7, 2);
        assert_eq!(stats.module_limit(), ALL_MODULES);
        stats.record(true, 9);
        stats.record(false, 9);
        assert_eq!((stats.probes(), stats.positives()), (9, 3));
        assert_eq!(stats.last_access(), 9);
        stats.decay(1);
        assert_eq!((stats.probes(), stats.positives()), (4, 1));
        stats.decay(64);
        assert_eq!((stats.probes(), stats.positives()), (0, 0));
        stats.set_module_limit(1);
        assert_eq!(stats.module_limit(), 1);
    }
}
