//! Counters of the whole database.
//!
//! Counters are relaxed atomics, spread over a few cache-line-padded shards by thread, so that
//! readers on different cores do not share a line. Reading them sums the shards: exact when
//! nothing runs, otherwise a moment's picture. They are hints and change no answer.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

const SHARDS: usize = 16;

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// The index of a counter.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[allow(non_camel_case_types, clippy::upper_case_acronyms)]
        #[repr(usize)]
        pub(crate) enum Counter { $($name,)* }

        const COUNTERS: usize = [$(stringify!($name),)*].len();

        /// Counts since the database was opened.
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
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
    /// Tables asked by lookups.
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
    /// Storage reads of filter blocks by lookups. One that brings the index block next to it as well
    /// counts here, once; its pages count by what they are.
    filter_reads,
    /// Pages of filter read by lookups.
    filter_pages,
    /// Times a `multi_get` read blocks together; with `data_reads` and the like, how many at once.
    read_batches,
    /// Blocks lookups found in the cache (or read together with another key of a `multi_get`).
    cache_hits,
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
    /// Bytes read by compactions (sizes of the input files).
    compaction_bytes_read,
    /// Bytes written by compactions.
    compaction_bytes_written,
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
}

#[derive(Debug)]
#[repr(align(128))]
struct Shard([AtomicU64; COUNTERS]);

/// The counters of one database.
#[derive(Debug)]
pub(crate) struct Metrics {
    shards: [Shard; SHARDS],
}

/// The number of this thread among those that count, from 0.
pub(crate) fn thread_number() -> usize {
    thread_local! {
        static NUMBER: Cell<usize> = const { Cell::new(usize::MAX) };
    }
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    NUMBER.with(|own| {
        let mut number = own.get();
        if number == usize::MAX {
            number = NEXT.fetch_add(1, Relaxed);
            own.set(number);
        }
        number
    })
}

impl Metrics {
    pub(crate) fn new() -> Self {
        Metrics {
            shards: std::array::from_fn(|_| Shard(std::array::from_fn(|_| AtomicU64::new(0)))),
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
        let Some(shard) = self.shards.get(thread_number() % SHARDS) else {
            return;
        };
        for &(counter, n) in adds {
            if n != 0
                && let Some(cell) = shard.0.get(counter as usize)
            {
                cell.fetch_add(n, Relaxed);
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
}
