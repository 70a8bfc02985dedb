//! Point lookups.
//!
//! No lock: a lookup loads the keyspace's read state and the visible sequence number. It must not
//! pair an old state with a number published after the state was replaced, nor a new state with
//! an older number (a compaction may have dropped what that number could see), so it loads the
//! state again and starts over if it changed. A caller's snapshot is registered and needs no such
//! care.

use std::cell::Cell;
use std::sync::Arc;

use arc_swap::Guard;

use super::DbInner;
use super::keyspace::{KeyspaceInner, ReadState};
use super::value::Value;
use crate::base::key::{EntryKind, SeqNo};
use crate::error::Result;
use crate::metrics::Counter;
use crate::policy::FilterPolicy;
use crate::table::{Lookup, LookupStats, TableGet, TableValue};
use crate::version::FileMeta;

enum Found {
    Value(Value),
    Tombstone,
}

impl DbInner {
    /// A read state and a sequence number that belong together.
    pub(crate) fn read_point(&self, keyspace: &KeyspaceInner) -> (Guard<Arc<ReadState>>, SeqNo) {
        let mut state = keyspace.state.load();
        loop {
            let seq = self.visible_seq();
            let again = keyspace.state.load();
            if Arc::ptr_eq(&state, &again) {
                return (state, seq);
            }
            state = again;
        }
    }

    pub(crate) fn get(
        &self,
        keyspace: &KeyspaceInner,
        key: &[u8],
        snapshot: Option<SeqNo>,
    ) -> Result<Option<Value>> {
        self.check_open()?;
        keyspace.check_alive()?;
        let mut stats = LookupStats::default();
        let found = match snapshot {
            Some(seq) => self.find(keyspace, &keyspace.state.load(), key, seq, &mut stats),
            None => {
                let (state, seq) = self.read_point(keyspace);
                self.find(keyspace, &state, key, seq, &mut stats)
            }
        };
        let value = found.map(into_value);
        self.record(1, u64::from(matches!(value, Ok(Some(_)))), &stats);
        self.count_lookups(keyspace, 1);
        value
    }

    pub(crate) fn multi_get<K: AsRef<[u8]>>(
        &self,
        keyspace: &KeyspaceInner,
        keys: &[K],
        snapshot: Option<SeqNo>,
    ) -> Result<Vec<Option<Value>>> {
        self.check_open()?;
        keyspace.check_alive()?;
        let (state, seq) = match snapshot {
            Some(seq) => (keyspace.state.load(), seq),
            None => self.read_point(keyspace),
        };
        let mut stats = LookupStats::default();
        let values = keys
            .iter()
            .map(|key| {
                self.find(keyspace, &state, key.as_ref(), seq, &mut stats)
                    .map(into_value)
            })
            .collect::<Result<Vec<_>>>();
        let found = values
            .as_ref()
            .map_or(0, |values| values.iter().flatten().count());
        self.record(keys.len() as u64, found as u64, &stats);
        self.count_lookups(keyspace, keys.len() as u64);
        values
    }

    /// The newest entry of a key at or before `seq`.
    fn find(
        &self,
        keyspace: &KeyspaceInner,
        state: &ReadState,
        key: &[u8],
        seq: SeqNo,
        stats: &mut LookupStats,
    ) -> Result<Option<Found>> {
        for memtable in std::iter::once(&state.active).chain(&state.frozen) {
            if let Some((tag, value)) = memtable.get(key, seq) {
                return Ok(Some(match tag.kind() {
                    Some(EntryKind::Put) => Found::Value(Value::owned(value)),
                    _ => Found::Tombstone,
                }));
            }
        }
        let by_worth = keyspace.options.filter_policy == FilterPolicy::ExpectedReads;
        let lookup = Lookup::new(key, seq, self.options.hash_sharing).reading_by_worth(by_worth);
        let weight = sample_weight();
        for level in state.version.levels() {
            for run in level.runs() {
                let Some(file) = run.find(key) else { continue };
                if let Some(found) = self.find_in_table(file, &lookup, weight, stats)? {
                    return Ok(Some(found));
                }
            }
        }
        Ok(None)
    }

    fn find_in_table(
        &self,
        file: &FileMeta,
        lookup: &Lookup<'_>,
        weight: u64,
        stats: &mut LookupStats,
    ) -> Result<Option<Found>> {
        let limit = file.stats.module_limit();
        let opened = self.tables.load(&file.slot);
        let just_opened;
        let table = match &*opened {
            Some(table) => table,
            None => {
                just_opened = self.tables.get(file.number, &file.slot)?;
                &just_opened
            }
        };
        let outcome = table.get(lookup, limit, stats)?;
        let found = matches!(outcome, TableGet::Found { .. });
        if weight > 0 {
            file.stats.record(found, weight);
        }
        // While memory is short every visit counts; else a sample will do.
        let visits = if self.tables.clock().pressed() {
            1
        } else {
            weight as u16
        };
        if visits > 0
            && let Some(partition) = lookup.partition()
        {
            table.heat().record(partition, found, visits);
        }
        Ok(match outcome {
            TableGet::Found { tag, value } if tag.kind() == Some(EntryKind::Put) => {
                Some(found_in_table(value))
            }
            TableGet::Found { .. } => Some(Found::Tombstone),
            TableGet::Absent => None,
        })
    }

    fn record(&self, lookups: u64, found: u64, stats: &LookupStats) {
        let filter = stats.all_filters();
        self.metrics.add_all(&[
            (Counter::lookups, lookups),
            (Counter::lookups_found, found),
            (Counter::keys_hashed, stats.hashes),
            (Counter::tables_probed, stats.tables),
            (Counter::filter_negatives, filter.negatives),
            (Counter::false_positives, filter.false_positives),
            (Counter::corrupt_filters, stats.corrupt_filters),
            (Counter::data_reads, stats.data.reads),
            (Counter::data_pages, stats.data.pages),
            (Counter::index_reads, stats.index.reads),
            (Counter::index_pages, stats.index.pages),
            (Counter::filter_reads, filter.reads.reads),
            (Counter::filter_pages, filter.reads.pages),
            (
                Counter::cache_hits,
                stats.data.hits + stats.index.hits + filter.reads.hits,
            ),
        ]);
    }
}

/// Of so many lookups of a thread, one is counted in the statistics of the files it asks.
const SAMPLE: u64 = 8;

/// What the next lookup of this thread weighs in the files' statistics: mostly nothing.
fn sample_weight() -> u64 {
    thread_local! {
        static LOOKUPS: Cell<u64> = const { Cell::new(0) };
    }
    LOOKUPS.with(|lookups| {
        let number = lookups.get();
        lookups.set(number.wrapping_add(1));
        if number.is_multiple_of(SAMPLE) {
            SAMPLE
        } else {
            0
        }
    })
}

fn found_in_table(value: TableValue) -> Found {
    Found::Value(Value::in_table(value))
}

fn into_value(found: Option<Found>) -> Option<Value> {
    match found {
        Some(Found::Value(value)) => Some(value),
        Some(Found::Tombstone) | None => None,
    }
}
