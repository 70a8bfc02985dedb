//! Point lookups, one at a time; `multi_get` makes many.
//!
//! No lock: a lookup loads the keyspace's read state and the visible sequence number. It must not
//! pair an old state with a number published after the state was replaced, nor a new state with
//! an older number (a compaction may have dropped what that number could see), so it looks whether a
//! change of the state began meanwhile, and if so loads it until it stays the same. A caller's
//! snapshot is registered and needs no such care.

mod multi_get;
mod value;

use std::cell::Cell;
use std::sync::Arc;

use super::background::Background;
use super::context::DbContext;
use super::files::Files;
use super::keyspaces::{KeyspaceInner, ReadState};
use super::visibility::Visibility;
use crate::base::key::{EntryKind, SeqNo, Tag};
use crate::base::sample;
use crate::error::Result;
use crate::metrics::Counter;
use crate::table::{
    GetState, Lookup, LookupStats, Opened, RuledOut, Table, TableCache, TableGet, TableValue,
};
use crate::value::Outcome;
use crate::version::FileMeta;
pub use value::Value;

/// What a key's newest entry is.
pub(super) enum Found {
    Value(Value),
    Tombstone,
}

/// Where a lookup is: in a file of a level.
#[derive(Clone, Copy)]
pub(super) struct Asking<'a> {
    pub(super) keyspace: &'a KeyspaceInner,
    pub(super) level: usize,
    pub(super) file: &'a FileMeta,
    /// What the lookup weighs in what is sampled; mostly nothing.
    pub(super) weight: u64,
}

impl Asking<'_> {
    /// Begins to ask the file's table.
    #[inline]
    pub(super) fn enter(
        &self,
        table: &Table,
        lookup: &Lookup<'_>,
        stats: &mut LookupStats,
    ) -> GetState {
        let mut visit = table.enter(lookup, self.file.module_limit(), stats);
        if self.weight > 0 {
            table.predict(&mut visit, lookup);
        }
        visit
    }

    /// Counts what was done in the table: whether the key was found, `None` where that failed.
    #[inline]
    pub(super) fn count(&self, table: &Table, visit: &GetState, found: Option<bool>) {
        let (trace, weight) = (visit.trace(), self.weight);
        if weight > 0 || trace.is_rare() {
            let counters = &self.keyspace.level_counters();
            counters.record(self.level, found, trace, table.skipped(visit), weight);
        }
    }
}

/// The way of lookups. Thread-safe.
pub(super) struct ReadPath {
    shared: Arc<DbContext>,
    visibility: Arc<Visibility>,
    tables: Arc<TableCache>,
    background: Arc<Background>,
}

impl ReadPath {
    pub(super) fn new(
        (shared, visibility): (&Arc<DbContext>, &Arc<Visibility>),
        files: &Files,
        background: &Arc<Background>,
    ) -> Self {
        ReadPath {
            shared: shared.clone(),
            visibility: visibility.clone(),
            tables: files.tables().clone(),
            background: background.clone(),
        }
    }

    pub(in crate::db) fn get(
        &self,
        keyspace: &KeyspaceInner,
        key: &[u8],
        snapshot: Option<SeqNo>,
    ) -> Result<Option<Value>> {
        self.look_up(keyspace, snapshot, |state, seq, stats| {
            let found = self.find(keyspace, state, key, seq, stats);
            found.map(into_value)
        })
    }

    /// Whether a key has a value; copies none.
    pub(in crate::db) fn contains_key(
        &self,
        keyspace: &KeyspaceInner,
        key: &[u8],
        snapshot: Option<SeqNo>,
    ) -> Result<bool> {
        let found = self.look_up(keyspace, snapshot, |state, seq, stats| {
            if let Some((tag, _)) = newest_in_memory(state, key, seq) {
                return Ok((tag.kind() == Some(EntryKind::Put)).then_some(()));
            }
            let lookup = self.lookup(keyspace, key, seq).for_key_only();
            let found = self.find_in_tables(keyspace, state, lookup, stats)?;
            Ok(into_value(found).map(drop))
        });
        found.map(|found| found.is_some())
    }

    /// One lookup, counted: what `find` finds at the snapshot, or now.
    #[inline]
    fn look_up<T>(
        &self,
        keyspace: &KeyspaceInner,
        snapshot: Option<SeqNo>,
        find: impl FnOnce(&ReadState, SeqNo, &mut LookupStats) -> Result<Option<T>>,
    ) -> Result<Option<T>> {
        self.shared.check_open()?;
        let (state, seq) = match snapshot {
            Some(seq) => (keyspace.state(), seq),
            None => keyspace.read_point(|| self.visibility.newest()),
        };
        // Once the state is loaded: that of a keyspace being dropped is emptied after it says so.
        keyspace.check_alive()?;
        let mut stats = LookupStats::default();
        let value = find(&state, seq, &mut stats);
        let found = u64::from(matches!(value, Ok(Some(_))));
        self.record(1, found, &stats);
        self.count_lookups(keyspace, 1, found);
        value
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
        if let Some(found) = find_in_memory(state, key, seq) {
            return Ok(Some(found));
        }
        let lookup = self.lookup(keyspace, key, seq);
        self.find_in_tables(keyspace, state, lookup, stats)
    }

    /// The newest entry in tables of the key looked up.
    #[inline]
    fn find_in_tables(
        &self,
        keyspace: &KeyspaceInner,
        state: &ReadState,
        lookup: Lookup<'_>,
        stats: &mut LookupStats,
    ) -> Result<Option<Found>> {
        let key = lookup.key();
        let weight = sample::weight();
        let may_pin = self.tables.policy().may_pin();
        for (level, run) in state.version.runs() {
            let Some(file) = run.find(key) else { continue };
            let asking = Asking {
                keyspace,
                level,
                file,
                weight,
            };
            let opened = self.tables.load(file.slot());
            let found = match &*opened {
                Some(opened) if may_pin => self.find_held(&asking, opened, &lookup, stats)?,
                Some(opened) => self.find_in(&asking, &opened.table, &lookup, stats)?,
                None => {
                    let table = self.tables.get(file)?;
                    self.find_in(&asking, &table, &lookup, stats)?
                }
            };
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    /// What a table has of the key.
    fn find_in(
        &self,
        asking: &Asking<'_>,
        table: &Table,
        lookup: &Lookup<'_>,
        stats: &mut LookupStats,
    ) -> Result<Option<Found>> {
        let mut visit = asking.enter(table, lookup, stats);
        let answer = table.finish(&mut visit, lookup, stats);
        self.conclude(asking, table, lookup, &visit, answer)
    }

    /// [`Self::find_in`] with what is pinned, if anything.
    #[inline]
    fn find_held(
        &self,
        asking: &Asking<'_>,
        opened: &Opened,
        lookup: &Lookup<'_>,
        stats: &mut LookupStats,
    ) -> Result<Option<Found>> {
        let table = &*opened.table;
        let Some(pinned) = opened.pinned() else {
            let found = self.find_in(asking, table, lookup, stats);
            if asking.weight > 0 {
                self.tables
                    .missed(asking.file.slot(), opened, lookup.partition());
            }
            return found;
        };
        let limit = asking.file.module_limit();
        let entered = table.enter_pinned(pinned, lookup, limit, stats);
        if asking.weight > 0 {
            return self.count_held(asking, opened, entered, lookup, stats);
        }
        match entered {
            Ok(mut visit) => {
                let answer = table.finish(&mut visit, lookup, stats);
                self.conclude(asking, table, lookup, &visit, answer)
            }
            Err(_) => {
                let outcome = table.outcome_of_pinned(lookup);
                self.note_visit(asking, table, lookup, outcome);
                Ok(None)
            }
        }
    }

    /// Goes on with a lookup of the sample. Others like it used as many blocks, without which the
    /// cache's time would stand still.
    #[inline(never)]
    fn count_held(
        &self,
        asking: &Asking<'_>,
        opened: &Opened,
        entered: std::result::Result<GetState, RuledOut>,
        lookup: &Lookup<'_>,
        stats: &mut LookupStats,
    ) -> Result<Option<Found>> {
        let table = &*opened.table;
        self.tables
            .missed(asking.file.slot(), opened, lookup.partition());
        let limit = asking.file.module_limit();
        let (mut visit, open) = match entered {
            Ok(visit) => (visit, true),
            Err(ended) => (table.ruled_out(ended, lookup, limit, stats), false),
        };
        self.tables.policy().advance(visit.held() * asking.weight);
        table.predict(&mut visit, lookup);
        let answer = match open {
            true => table.finish(&mut visit, lookup, stats),
            false => Ok(TableGet::Absent),
        };
        self.conclude(asking, table, lookup, &visit, answer)
    }

    pub(super) fn lookup<'k>(
        &self,
        keyspace: &KeyspaceInner,
        key: &'k [u8],
        seq: SeqNo,
    ) -> Lookup<'k> {
        let by_worth = keyspace.limits().by_worth();
        Lookup::new(key, seq, self.shared.options().hash_sharing).reading_by_worth(by_worth)
    }

    /// Uses the table of a file, which is opened if it isn't.
    #[inline]
    pub(super) fn with_table<T>(
        &self,
        file: &FileMeta,
        work: impl FnOnce(&Arc<Table>) -> Result<T>,
    ) -> Result<T> {
        match &*self.tables.load(file.slot()) {
            Some(opened) => work(&opened.table),
            None => work(&self.tables.get(file)?),
        }
    }

    /// Notes what a table answered, and says what it means.
    #[inline]
    pub(super) fn conclude(
        &self,
        asking: &Asking<'_>,
        table: &Table,
        lookup: &Lookup<'_>,
        visit: &GetState,
        answer: Result<TableGet>,
    ) -> Result<Option<Found>> {
        let weight = asking.weight;
        let found = matches!(answer, Ok(TableGet::Found { .. }));
        asking.count(table, visit, answer.is_ok().then_some(found));
        let answer = answer?;
        if weight > 0 {
            asking.file.record(found, weight, self.shared.budget());
        }
        let outcome = table.outcome(visit, lookup, found);
        self.note_visit(asking, table, lookup, outcome);
        Ok(match answer {
            TableGet::Found { tag, value } if tag.kind() == Some(EntryKind::Put) => {
                Some(found_in_table(value))
            }
            TableGet::Found { .. } => Some(Found::Tombstone),
            TableGet::Absent => None,
        })
    }

    /// Counts a visit of a partition: while memory is short every one, else a sample will do.
    #[inline]
    fn note_visit(
        &self,
        asking: &Asking<'_>,
        table: &Table,
        lookup: &Lookup<'_>,
        outcome: Outcome,
    ) {
        let visits = if self.tables.policy().count_every_access() {
            1
        } else {
            asking.weight as u16
        };
        if visits > 0
            && let Some(partition) = lookup.partition()
        {
            table.partition_stats().record(partition, outcome, visits);
        }
    }

    pub(super) fn record(&self, lookups: u64, found: u64, stats: &LookupStats) {
        let filter = stats.all_filters();
        let hits = stats.data.hits + stats.index.hits + filter.reads.hits;
        self.shared.metrics().add_all(&[
            (Counter::lookups, lookups),
            (Counter::lookups_found, found),
            (Counter::keys_hashed, stats.hashes),
            (Counter::tables_probed, stats.tables),
            (Counter::filter_negatives, filter.negatives),
            (Counter::false_positives, filter.false_positives),
            (Counter::cache_hits, hits),
        ]);
        let reads = stats.data.reads + stats.index.reads + filter.reads.reads;
        if reads + stats.batches + stats.corrupt_filters > 0 {
            self.shared.metrics().add_all(&[
                (Counter::corrupt_filters, stats.corrupt_filters),
                (Counter::data_reads, stats.data.reads),
                (Counter::data_pages, stats.data.pages),
                (Counter::index_reads, stats.index.reads),
                (Counter::index_pages, stats.index.pages),
                (Counter::filter_reads, filter.reads.reads),
                (Counter::filter_pages, filter.reads.pages),
                (Counter::read_batches, stats.batches),
            ]);
        }
    }

    /// Counts point lookups of a keyspace, and those that found a value.
    #[inline]
    fn count_lookups(&self, keyspace: &KeyspaceInner, lookups: u64, found: u64) {
        keyspace.operations().add_lookups(lookups, found);
        thread_local! {
            /// Lookups gathered, of any keyspace, and how many are to be counted at once: else all
            /// threads would share a line.
            static UNCOUNTED: Cell<(u64, u64)> = const { Cell::new((0, sample::SAMPLE)) };
        }
        let (before, batch) = UNCOUNTED.get();
        let gathered = before + lookups;
        if gathered < batch {
            UNCOUNTED.set((gathered, batch));
            return;
        }
        UNCOUNTED.set((0, sample::batch()));
        if keyspace.limits().count(gathered) {
            self.background.epoch_is_over(keyspace);
        }
    }
}

/// The newest entry of a key at or before `seq`, in the memtables.
#[inline]
pub(super) fn find_in_memory(state: &ReadState, key: &[u8], seq: SeqNo) -> Option<Found> {
    let (tag, value) = newest_in_memory(state, key, seq)?;
    Some(match tag.kind() {
        Some(EntryKind::Put) => Found::Value(Value::owned(value)),
        _ => Found::Tombstone,
    })
}

/// The newest entry of a key at or before `seq`, in the memtables, as it lies there.
#[inline]
fn newest_in_memory<'a>(state: &'a ReadState, key: &[u8], seq: SeqNo) -> Option<(Tag, &'a [u8])> {
    state
        .memtables()
        .find_map(|memtable| memtable.get(key, seq))
}

fn found_in_table(value: TableValue) -> Found {
    Found::Value(Value::in_table(value))
}

pub(super) fn into_value(found: Option<Found>) -> Option<Value> {
    match found {
        Some(Found::Value(value)) => Some(value),
        Some(Found::Tombstone) | None => None,
    }
}
