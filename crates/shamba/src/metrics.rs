//! Counters of the whole database.
//!
//! Counters are relaxed atomics, spread over cache-line-padded shards by thread ([`CounterShard`]),
//! so that threads on different cores do not share a line. The first threads that count have a
//! shard each to themselves, and add without a locked instruction; further ones share a few.
//! Reading them sums the shards: exact when nothing runs, otherwise a moment's picture. They are
//! hints and change no answer.

use std::cell::Cell;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU64, AtomicUsize};

/// Shards that belong to one thread each.
const OWN: usize = 16;

/// Shards for all other threads.
const COMMON: usize = 8;

/// The shards of counters that are spread over threads.
pub(crate) const SHARDS: usize = OWN + COMMON;

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// The index of a counter.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[allow(non_camel_case_types, clippy::upper_case_acronyms)]
        #[repr(usize)]
        pub(crate) enum Counter { $($name,)* }

        const COUNTERS: usize = [$(stringify!($name),)*].len();

        /// Counts since the database was opened.
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
        #[cfg_attr(feature = "serde", derive(serde::Serialize))]
        #[non_exhaustive]
        pub struct Counters { $($(#[$doc])* pub $name: u64,)* }

        impl Metrics {
            /// A picture of all counters.
            pub(crate) fn snapshot(&self) -> Counters {
                Counters { $($name: self.sum(Counter::$name),)* }
            }
        }
    };
}

counters! {
    /// Point lookups (each key of a `multi_get` counts).
    lookups,
    /// Point lookups that found a value.
    lookups_found,
    /// Times a key was hashed for lookups.
    keys_hashed,
    /// Tables probed by lookups.
    tables_probed,
    /// Tables ruled out by a filter.
    filter_negatives,
    /// Tables that a filter let pass and that did not hold the key.
    false_positives,
    /// Damaged filter blocks met and ignored.
    corrupt_filters,
    /// Storage reads of data blocks by lookups.
    data_reads,
    /// Pages of data read by lookups.
    data_pages,
    /// Storage reads of index blocks by lookups, but for those that came with a filter block.
    index_reads,
    /// Pages of index read by lookups.
    index_pages,
    /// Storage reads of filter blocks by lookups. One that brings the index block next to it as
    /// well counts here, once; its pages count by what they are.
    filter_reads,
    /// Pages of filter read by lookups.
    filter_pages,
    /// Times a `multi_get` read blocks together; with `data_reads` and the like, how many at once.
    read_batches,
    /// Blocks lookups found in the cache (or read together with another key of a `multi_get`).
    cache_hits,
    /// Lookups that a cached entry answered, without a table.
    entry_hits,
    /// Lookups that asked the cache for an entry in vain: while memory is short.
    entry_misses,
    /// Entries written (puts and deletes).
    entries_written,
    /// Bytes of keys and values written.
    user_bytes_written,
    /// Batches written.
    batches,
    /// Groups of batches that shared one log append.
    write_groups,
    /// Syncs of the write-ahead log.
    wal_syncs,
    /// Bytes appended to the write-ahead log.
    wal_bytes,
    /// Memtables flushed.
    flushes,
    /// Bytes written by flushes.
    flush_bytes,
    /// Compactions that merged files.
    compactions,
    /// Files moved to another level without rewriting.
    trivial_moves,
    /// Tables whose entries were all deleted by ranges, removed without being read.
    tables_dropped,
    /// Bytes read by compactions (sizes of the input files).
    compaction_bytes_read,
    /// Bytes written by compactions.
    compaction_bytes_written,
    /// Entries that flushes and compactions found expired: they are gone, or tombstones by now.
    entries_expired,
    /// Operands that flushes and compactions made parts of others, or of values.
    operands_collapsed,
    /// Entries that compaction filters removed.
    entries_removed_by_filter,
    /// Entries that compaction filters gave another value.
    entries_changed_by_filter,
    /// Background work that failed and is tried again.
    background_errors,
    /// Writes slowed down because flushes or compactions lag.
    write_slowdowns,
    /// Time writes were slowed down, in microseconds.
    write_slowdown_micros,
    /// Writes that waited for a flush or compaction.
    write_stalls,
    /// Time writes waited, in microseconds.
    write_stall_micros,
    /// Iterators opened.
    iterators,
    /// Tables whose filter of prefixes or ranges was asked by scans ([`KeyspaceOptions::prefix`],
    /// [`KeyspaceOptions::range_filter`]).
    ///
    /// [`KeyspaceOptions::prefix`]: crate::KeyspaceOptions::prefix
    /// [`KeyspaceOptions::range_filter`]: crate::KeyspaceOptions::range_filter
    scan_filter_probes,
    /// Tables that scans left out, since that filter said that they have no key for them.
    scan_filter_negatives,
    /// Pages of these filters read by scans.
    scan_filter_pages,
    /// Transactions that were committed with something to write.
    transactions,
    /// Commits of transactions that were refused, since others had written what they depend on.
    transaction_conflicts,
    /// Blocks that are in memory again since they were before the database was closed.
    reloaded_blocks,
    /// Entries that are in memory again for the same reason; their keys were looked up.
    reloaded_entries,
    /// Pages read for these blocks, in the background.
    reload_pages,
    /// Times that all that was to come back into memory did: once after opening.
    reloads,
}

#[derive(Debug)]
#[repr(align(128))]
struct Cells([AtomicU64; COUNTERS]);

/// The counters of one database.
#[derive(Debug)]
pub(crate) struct Metrics {
    shards: [Cells; SHARDS],
}

/// Where a thread counts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CounterShard {
    /// The shard, out of [`SHARDS`].
    pub(crate) shard: usize,
    /// Whether no other thread counts there as long as this one lives.
    own: bool,
}

impl CounterShard {
    /// That of this thread.
    #[inline]
    pub(crate) fn of_thread() -> Self {
        let shard = match NUMBER.get() {
            usize::MAX => take_number(),
            number => number,
        };
        CounterShard {
            shard,
            own: shard < OWN,
        }
    }

    /// Adds to a counter in the thread's shard.
    #[inline]
    pub(crate) fn add(self, counter: &AtomicU64, n: u64) {
        if self.own {
            counter.store(counter.load(Relaxed).wrapping_add(n), Relaxed);
        } else {
            counter.fetch_add(n, Relaxed);
        }
    }
}

/// Own shards that are taken, a bit for each.
static TAKEN: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// The shard of this thread, once it has one.
    static NUMBER: Cell<usize> = const { Cell::new(usize::MAX) };
    /// Gives an own shard back.
    static LEASE: Lease = const { Lease };
}

struct Lease;

impl Drop for Lease {
    fn drop(&mut self) {
        let number = NUMBER.replace(OWN);
        if number < OWN {
            // The next owner sees all that this thread has counted.
            TAKEN.fetch_and(!(1 << number), Release);
        }
    }
}

#[cold]
fn take_number() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let mut number = OWN + NEXT.fetch_add(1, Relaxed) % COMMON;
    // A thread that is ending has no lease any more.
    if LEASE.try_with(|_| ()).is_ok() {
        let free = |taken: u64| {
            let free = taken.trailing_ones() as usize;
            (free < OWN).then(|| taken | 1 << free)
        };
        if let Ok(before) = TAKEN.fetch_update(Acquire, Relaxed, free) {
            number = before.trailing_ones() as usize;
        }
    }
    NUMBER.set(number);
    number
}

impl Metrics {
    pub(crate) fn new() -> Self {
        Metrics {
            shards: std::array::from_fn(|_| Cells(std::array::from_fn(|_| AtomicU64::new(0)))),
        }
    }

    /// Adds to one counter.
    #[inline]
    pub(crate) fn add(&self, counter: Counter, n: u64) {
        self.add_all(&[(counter, n)]);
    }

    /// Adds to several counters; zeros cost nothing.
    #[inline]
    pub(crate) fn add_all(&self, adds: &[(Counter, u64)]) {
        let place = CounterShard::of_thread();
        let Some(shard) = self.shards.get(place.shard) else {
            return;
        };
        for &(counter, n) in adds {
            if n != 0
                && let Some(cell) = shard.0.get(counter as usize)
            {
                place.add(cell, n);
            }
        }
    }

    fn sum(&self, counter: Counter) -> u64 {
        self.shards
            .iter()
            .filter_map(|shard| shard.0.get(counter as usize))
            .map(|cell| cell.load(Relaxed))
            .sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_all_threads_add_up() {
        let metrics = Metrics::new();
        std::thread::scope(|scope| {
            for _ in 0..20 {
                scope.spawn(|| metrics.add_all(&[(Counter::lookups, 2), (Counter::flushes, 1)]));
            }
        });
        assert_eq!(metrics.snapshot().lookups, 40);
        assert_eq!(metrics.snapshot().flushes, 20);
        assert_eq!(metrics.snapshot().compactions, 0);
    }

    #[test]
    fn no_two_living_threads_have_the_same_own_shard_and_none_is_lost() {
        let metrics = Metrics::new();
        // More than there are own shards, again and again, all alive at the same time.
        for _ in 0..5 {
            let all = std::sync::Barrier::new(2 * OWN);
            let places = std::sync::Mutex::new(Vec::new());
            std::thread::scope(|scope| {
                for _ in 0..2 * OWN {
                    scope.spawn(|| {
                        places.lock().unwrap().push(CounterShard::of_thread());
                        all.wait();
                        for _ in 0..1000 {
                            metrics.add(Counter::lookups, 1);
                        }
                    });
                }
            });
            let places = places.into_inner().unwrap();
            let mut own: Vec<_> = places.iter().filter(|place| place.own).collect();
            let count = own.len();
            own.sort_by_key(|place| place.shard);
            own.dedup_by_key(|place| place.shard);
            assert_eq!(own.len(), count);
            assert!(places.iter().all(|place| place.shard < SHARDS));
        }
        assert_eq!(metrics.snapshot().lookups, 5 * 2 * OWN as u64 * 1000);
    }
}
