//! Point lookups, one at a time; `multi_get` makes many, with the same functions.
//!
//! The way of a lookup: [`ReadPath::read`] takes a read state and a sequence number, a
//! [`PointReader`] asks the memtables, then the table of one file of each run, newest first; a
//! [`Get`](crate::table::Get) takes it through a table, and [`PointReader::record`] counts what it
//! did there and says what the answer means.
//!
//! No lock: a lookup loads the keyspace's read state and the visible sequence number. It must not
//! pair an old state with a number published after the state was replaced, nor a new state with an
//! older number (a compaction may have dropped what that number could see), so it looks whether a
//! change of the state began meanwhile, and if so loads it until it stays the same. A caller's
//! snapshot is registered and needs no such care.
//!
//! What the loop over tables calls at each is `inline(always)`: the compiler leaves four of these
//! calls standing otherwise, a seventh of a lookup's instructions (`shamba-bench cpu`).

mod changed;
mod entries;
mod merged;
mod multi_get;
mod pointed;
mod reload;
mod value;

use std::cell::Cell;
use std::sync::Arc;

use super::background::Background;
use super::context::DbContext;
use super::files::Files;
use super::keyspaces::{KeyspaceInner, ReadState};
use super::visibility::{SnapshotPoint, Visibility};
use crate::base::clock::Moment;
use crate::base::expiring::{self, EXPIRY_BYTES};
use crate::base::key::{EntryKind, SeqNo};
use crate::base::pointer::ValuePointer;
use crate::base::sample;
use crate::cache::{Candidate, Epoch};
use crate::error::{Error, Result};
use crate::memtable::EntryPlace;
use crate::metrics::Counter;
use crate::table::{Get, GetState, Lookup, LookupTotals, Opened, TableCache, TableGet, TableValue};
use crate::version::FileMeta;
pub(super) use pointed::{LocatedValue, gather, pointed, pointer_in};
pub use value::Value;

/// Where the newest entry of a key is, an operand: in which memtable, and there.
#[derive(Clone, Copy)]
pub(super) struct OperandPlace {
    memtable: usize,
    entry: EntryPlace,
}

/// What a key's newest entry is.
pub(super) enum Found<V = Value> {
    Value(V),
    Tombstone,
    /// An operand: the value is what it comes to with what lies below ([`merged`]).
    Operand,
    /// The value lies in a value file, where [`PointReader::pointer`] says ([`pointed`]).
    Pointer,
}

impl<V> Found<V> {
    /// Whether the key has a value: with an operand it has one whatever lies below.
    fn is_value(&self) -> bool {
        matches!(self, Found::Value(_) | Found::Operand | Found::Pointer)
    }

    /// The value, unless the key is deleted, or there is none yet.
    pub(super) fn into_value(self) -> Option<V> {
        match self {
            Found::Value(value) => Some(value),
            Found::Tombstone | Found::Operand | Found::Pointer => None,
        }
    }
}

impl Found<&[u8]> {
    /// With a copy of the value.
    #[inline]
    pub(super) fn copied(self) -> Found {
        match self {
            Found::Value(value) => Found::Value(Value::owned(value)),
            Found::Tombstone => Found::Tombstone,
            Found::Operand => Found::Operand,
            Found::Pointer => Found::Pointer,
        }
    }
}

/// Where a lookup is: in a file of a level.
#[derive(Clone, Copy)]
pub(super) struct TableVisit<'a> {
    pub(super) level: usize,
    pub(super) file: &'a FileMeta,
    /// What the lookup weighs in what is sampled; mostly nothing.
    pub(super) weight: u64,
}

/// Looks keys up in one keyspace, at one point, and counts it. Has one owner.
pub(super) struct PointReader<'a> {
    pub(super) path: &'a ReadPath,
    keyspace: &'a KeyspaceInner,
    pub(super) state: &'a ReadState,
    seq: SeqNo,
    /// The moment at which it reads: of a snapshot, else when it first comes to what expires.
    time: Cell<Option<Moment>>,
    /// Where the value lies that was found last in a value file.
    pointer: Cell<ValuePointer>,
    /// Where the operand is that was found last in a memtable.
    newest_operand: Cell<Option<OperandPlace>>,
    /// When it began to read, where the cache may be asked for entries.
    epoch: Option<Epoch>,
    /// Whether blocks that tables pin may be used instead of the cache's.
    use_pinned: bool,
    pub(super) totals: LookupTotals,
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
        snapshot: Option<SnapshotPoint>,
    ) -> Result<Option<Value>> {
        self.read(keyspace, snapshot, 1, |reader| {
            let value = match reader.find(key) {
                Ok(None | Some(Found::Tombstone)) => return (0, Ok(None)),
                Ok(Some(Found::Value(value))) => return (1, Ok(Some(value))),
                Ok(Some(Found::Operand)) => reader.find_merged(key).map(Found::into_value),
                Ok(Some(Found::Pointer)) => reader.find_pointed(key).map(Found::into_value),
                Err(error) => Err(error),
            };
            (u64::from(matches!(value, Ok(Some(_)))), value)
        })
    }

    /// Whether a key has a value; copies none.
    pub(in crate::db) fn contains_key(
        &self,
        keyspace: &KeyspaceInner,
        key: &[u8],
        snapshot: Option<SnapshotPoint>,
    ) -> Result<bool> {
        self.read(keyspace, snapshot, 1, |reader| {
            let found = match reader.find_in_memtables(key) {
                Some(found) => Ok(found.is_value()),
                None => {
                    let lookup = reader.lookup(key).for_key_only();
                    let found = reader.find_below_memtables(&lookup);
                    found.map(|found| found.is_some_and(|found| found.is_value()))
                }
            };
            (u64::from(matches!(found, Ok(true))), found)
        })
    }

    /// So many lookups at the snapshot, or now, counted: `find` makes them with a reader, and says
    /// how many found a value.
    #[inline]
    pub(super) fn read<T>(
        &self,
        keyspace: &KeyspaceInner,
        snapshot: Option<SnapshotPoint>,
        lookups: u64,
        find: impl FnOnce(&mut PointReader<'_>) -> (u64, Result<T>),
    ) -> Result<T> {
        self.shared.check_open()?;
        let epoch = entries::epoch_of(&self.shared, keyspace);
        let (state, seq) = match snapshot {
            Some(snapshot) => (keyspace.state(), snapshot.seq),
            None => keyspace.read_point(|| self.visibility.newest()),
        };
        // Once the state is loaded: that of a keyspace being dropped is emptied after it says so.
        keyspace.check_alive()?;
        let mut reader = PointReader {
            path: self,
            keyspace,
            state: &state,
            seq,
            time: Cell::new(snapshot.map(|snapshot| snapshot.time)),
            pointer: Cell::new(ValuePointer::NOWHERE),
            newest_operand: Cell::new(None),
            epoch: epoch.filter(|_| keyspace.entries().shows_all_to(seq)),
            use_pinned: self.tables.may_pin(),
            totals: LookupTotals::default(),
        };
        let (found, done) = find(&mut reader);
        self.count_reads(lookups, found, &reader.totals);
        self.count_lookups(keyspace, lookups, found);
        done
    }

    /// Adds lookups to the database's counters.
    fn count_reads(&self, lookups: u64, found: u64, totals: &LookupTotals) {
        self.shared.metrics().add_all(&[
            (Counter::lookups, lookups),
            (Counter::lookups_found, found),
            (Counter::keys_hashed, totals.hashes),
            (Counter::tables_probed, totals.tables),
            (Counter::filter_negatives, totals.negatives),
            (Counter::false_positives, totals.false_positives),
            (Counter::cache_hits, totals.hits),
        ]);
        if totals.entry_hits + totals.entry_misses > 0 {
            self.shared.metrics().add_all(&[
                (Counter::entry_hits, totals.entry_hits),
                (Counter::entry_misses, totals.entry_misses),
            ]);
        }
        if totals.has_reads() {
            self.shared.metrics().add_all(&[
                (Counter::corrupt_filters, totals.corrupt_filters),
                (Counter::data_reads, totals.data.reads.into()),
                (Counter::data_pages, totals.data.pages.into()),
                (Counter::index_reads, totals.index.reads.into()),
                (Counter::index_pages, totals.index.pages.into()),
                (Counter::filter_reads, totals.filter.reads.into()),
                (Counter::filter_pages, totals.filter.pages.into()),
                (Counter::read_batches, totals.batches),
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

impl<'a> PointReader<'a> {
    /// The newest entry of a key in the memtables, its value as it lies there.
    #[inline]
    pub(super) fn find_in_memtables(&self, key: &[u8]) -> Option<Found<&'a [u8]>> {
        let mut memtables = self.state.memtables().enumerate();
        let (memtable, (tag, value, entry)) = memtables.find_map(|(at, memtable)| {
            let newest = memtable.find(key, self.seq)?;
            Some((at, newest))
        })?;
        Some(match tag.kind() {
            Some(EntryKind::Put) => Found::Value(value),
            Some(EntryKind::Expiring) => match expiring::at(value, self.time()) {
                Some(value) => Found::Value(value),
                None => Found::Tombstone,
            },
            Some(EntryKind::Operand) => {
                let place = entry.map(|entry| OperandPlace { memtable, entry });
                self.newest_operand.set(place);
                Found::Operand
            }
            Some(EntryKind::Pointer | EntryKind::ExpiringPointer) => self.pointer_of(tag, value),
            Some(EntryKind::Delete) | None => Found::Tombstone,
        })
    }

    /// The newest entry of a key.
    #[inline(always)]
    fn find(&mut self, key: &[u8]) -> Result<Option<Found>> {
        match self.find_in_memtables(key) {
            Some(found) => Ok(Some(found.copied())),
            None => self.find_below_memtables(&self.lookup(key)),
        }
    }

    /// The moment at which is read.
    #[cold]
    fn time(&self) -> Moment {
        let time = self.time.get();
        let time = time.unwrap_or_else(|| self.path.shared.now());
        self.time.set(Some(time));
        time
    }

    /// Looks again whether memory is plenty: many lookups take a while.
    pub(super) fn refresh(&mut self) {
        self.use_pinned = self.path.tables.may_pin();
    }

    /// A key to look for in tables.
    #[inline]
    pub(super) fn lookup<'k>(&self, key: &'k [u8]) -> Lookup<'k> {
        Lookup::new(key, self.seq, self.path.shared.options().hash_sharing)
    }

    /// The newest entry in tables of the key looked up.
    #[inline]
    fn find_in_tables(
        &mut self,
        lookup: &Lookup<'_>,
        candidate: &mut Option<Candidate>,
    ) -> Result<Option<Found>> {
        let weight = sample::weight();
        for (level, run) in self.state.version.runs() {
            let Some(file) = run.find(lookup.key()) else {
                continue;
            };
            let visit = TableVisit {
                level,
                file,
                weight,
            };
            let opened = self.path.tables.visit(file)?;
            let Some(opened) = opened.as_deref() else {
                return Err(Error::Closed);
            };
            let mut state = self.enter(&visit, opened, lookup);
            let mut get = self.begin(&visit, opened, lookup, &mut state);
            let answer = get.finish();
            if let Some(found) = self.record(&visit, &get, answer, candidate)? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// A lookup at the entrance of a file's table.
    #[inline]
    pub(super) fn enter(
        &self,
        visit: &TableVisit<'_>,
        opened: &Opened,
        lookup: &Lookup<'_>,
    ) -> GetState {
        let reads = self.keyspace.limits().module_reads(visit.file);
        GetState::new(opened.table(), lookup, reads)
    }

    /// Begins to ask the table, with what is pinned of it if that may be used. Of a sample it is
    /// also noted what the model expects, and what is not pinned.
    #[inline]
    pub(super) fn begin<'g>(
        &self,
        visit: &TableVisit<'_>,
        opened: &'g Opened,
        lookup: &'g Lookup<'g>,
        state: &'g mut GetState,
    ) -> Get<'g> {
        let pinned = opened.pinned().filter(|_| self.use_pinned);
        let mut get = Get::new(opened.table(), pinned, lookup, state);
        if visit.weight > 0 {
            get.forecast();
            if self.use_pinned {
                let (tables, slot) = (&self.path.tables, visit.file.slot());
                tables.missed(slot, opened, get.partition());
            }
        }
        get
    }

    /// Records what a visit did and came to, in all counters, and says what it means.
    #[inline(always)]
    pub(super) fn record(
        &mut self,
        visit: &TableVisit<'_>,
        get: &Get<'_>,
        answer: Result<TableGet>,
        candidate: &mut Option<Candidate>,
    ) -> Result<Option<Found>> {
        if let Some(candidate) = candidate {
            candidate.cost += get.trace().cost_of_repeating();
        }
        match answer {
            Ok(TableGet::Absent) => {
                self.count(visit, get, Some(false));
                get.count_visit(false, visit.weight);
                Ok(None)
            }
            Ok(TableGet::Found { tag, value }) => {
                self.count(visit, get, Some(true));
                get.count_visit(true, visit.weight);
                Ok(Some(match tag.kind() {
                    Some(EntryKind::Put) => Found::Value(Value::in_table(value)),
                    Some(EntryKind::Expiring) => {
                        // What is true for a while only is not kept.
                        *candidate = None;
                        self.unless_expired(value)
                    }
                    Some(EntryKind::Operand) => {
                        *candidate = None;
                        Found::Operand
                    }
                    Some(EntryKind::Pointer | EntryKind::ExpiringPointer) => {
                        *candidate = None;
                        self.pointer_in_table(tag, value)
                    }
                    Some(EntryKind::Delete) | None => Found::Tombstone,
                }))
            }
            Err(error) => {
                self.count(visit, get, None);
                Err(error)
            }
        }
    }

    /// What an entry with a time to live is at the moment.
    #[cold]
    fn unless_expired(&self, stored: TableValue) -> Found {
        match expiring::at(&stored, self.time()) {
            Some(_) => Found::Value(Value::in_table(stored.skip(EXPIRY_BYTES))),
            None => Found::Tombstone,
        }
    }

    /// Counts what a visit did: whether it found the key, `None` where it came to no answer.
    #[inline]
    pub(super) fn count(&mut self, visit: &TableVisit<'_>, get: &Get<'_>, found: Option<bool>) {
        let trace = get.trace();
        self.totals.add(trace);
        if visit.weight > 0 || trace.is_rare() {
            self.count_in_level(visit, get, found);
        }
    }

    /// Counts a visit of the sample, or one that did what few do: for the level, and for the file.
    #[cold]
    fn count_in_level(&self, visit: &TableVisit<'_>, get: &Get<'_>, found: Option<bool>) {
        let TableVisit { level, weight, .. } = *visit;
        let (trace, counters) = (get.trace(), self.keyspace.level_counters());
        counters.record(level, found, trace, get.skipped(), weight);
        if weight == 0 {
            return;
        }
        // Others like it used as many pinned blocks, without which the cache's time would stand
        // still.
        if trace.pinned > 0 {
            self.path.tables.advance(u64::from(trace.pinned) * weight);
        }
    }
}
