//! Writes the tables of a flush or compaction: entries in, finished tables out.
//!
//! Runs on one background thread, holds no lock, and touches nothing but new files: until its
//! caller installs the result, a failure or crash leaves only orphans.

mod pieces;
mod ranges;
mod values;

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::ops::{Deref, DerefMut};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use self::ranges::RangesAhead;
use self::values::ValueWriter;
use super::collapse::{Collapse, Collapsed};
use super::filtering::{Filtered, Filtering};
use super::{Forward, FragmentMerge, Retain, Verdict};
use crate::base::checksum::checksum;
use crate::base::fragment::Fragment;
use crate::base::key::{EntryKind, SeqNo, Tag};
use crate::budget::{
    Budget, LARGE, MANY, Reservation, Role, allocated, long_keys_of_table, new_tables,
};
use crate::error::{Error, Result};
use crate::fs::{Access, Fs};
use crate::operator::Operator;
use crate::table::{Prepared, TableBuildOptions, TableBuilder, table_name};
use crate::version::{Expiry, FileInfo};

pub(crate) use self::pieces::PiecesWriter;
pub(crate) use self::values::Separation;

/// Where and how output tables are written.
pub(crate) struct MergeOutput<'a> {
    pub(crate) fs: &'a Arc<dyn Fs>,
    pub(crate) dir: &'a Path,
    pub(crate) budget: &'a Arc<Budget>,
    pub(crate) next_file: &'a AtomicU64,
    pub(crate) options: TableBuildOptions,
    /// Bytes at which a new table is begun, between two keys.
    pub(crate) target_file: u64,
    /// Keys at which one is begun, whatever their size.
    pub(crate) target_keys: u64,
    /// Whether tables are made durable one by one, and not by the caller, all together.
    pub(crate) sync: bool,
    /// By which operands are merged.
    pub(crate) operator: Option<Operator>,
    /// What is asked about entries that nobody may read by now.
    pub(crate) filtering: Option<Filtering<'a>>,
    /// Which values go to value files.
    pub(crate) separation: Separation<'a>,
    /// Called now and then; where it fails the job gives up with its error.
    pub(crate) on_the_way: Box<dyn Fn() -> Result<()> + 'a>,
}

/// A table that was written, and synced if its [`MergeOutput`] says so.
#[derive(Debug)]
pub(crate) struct NewTable {
    /// What the tree is told of it; when it enters the tree is not known yet.
    pub(crate) info: FileInfo,
    /// What is handed on to readers.
    pub(crate) prepared: Option<Box<Prepared>>,
}

/// A list of so many tables is counted in what a job is let in with.
const FEW_TABLES: usize = 16;

/// Tables of one job, which may be thousands, and the memory that this list takes.
#[derive(Debug)]
pub(crate) struct NewTables {
    tables: Vec<NewTable>,
    /// The value files.
    values: Vec<NewTable>,
    memory: Reservation,
    /// The largest limit since the job began: what the list took under it is taken.
    limit: u64,
    /// Entries that had expired.
    expired: u64,
    filtered: Filtered,
    /// Operands that became parts of others, or of values.
    collapsed: u64,
}

impl NewTables {
    /// The value files among them.
    pub(crate) fn values(&self) -> &[NewTable] {
        &self.values
    }

    /// All, value files too.
    pub(crate) fn all(&self) -> impl Iterator<Item = &NewTable> + Clone {
        self.tables.iter().chain(&self.values)
    }

    /// Adds a value file.
    pub(super) fn push_values(&mut self, table: NewTable) -> Result<()> {
        self.push_to(table, true)
    }

    fn push(&mut self, table: NewTable) -> Result<()> {
        self.push_to(table, false)
    }

    /// Adds a table, for which there must be memory: an edit is made of the list, which takes as
    /// much again.
    fn push_to(&mut self, table: NewTable, values: bool) -> Result<()> {
        let list = if values {
            &mut self.values
        } else {
            &mut self.tables
        };
        let keys = [&table.info.smallest, &table.info.largest];
        let keys: usize = keys.iter().map(|key| allocated(key.len())).sum();
        let values = size_of_val(&*table.info.points_to);
        let full = list.len() == list.capacity();
        let places = if full { (list.len() / 4).max(4) } else { 0 };
        let bytes = (keys + values + places * size_of::<NewTable>()) as u64;
        let limit = self.memory.limit();
        self.limit = self.limit.max(limit);
        if list.len() < FEW_TABLES {
            self.memory.grow(bytes);
        } else if self.memory.bytes() + bytes > new_tables(self.limit)
            || !self.memory.grow_waiting(bytes)
        {
            // A moment's shortage has passed: others hold what it needs for good.
            return Err(Error::BudgetTooSmall {
                limit,
                needed: limit.saturating_mul(2),
            });
        }
        list.reserve_exact(places);
        list.push(table);
        Ok(())
    }

    /// The bytes at which the next table is to be begun where `wanted` is asked for: more, once the
    /// list has taken most of what it may.
    fn target_file(&self, wanted: u64) -> u64 {
        let (most, taken) = (new_tables(self.memory.limit()), self.memory.bytes());
        if taken > most / 4 * 3 {
            wanted.saturating_mul(most / most.saturating_sub(taken).max(most / 256 + 1))
        } else {
            wanted
        }
    }

    /// How many entries had expired and are in none of them.
    pub(crate) fn expired(&self) -> u64 {
        self.expired
    }

    /// How many operands became parts of others, or of values.
    pub(crate) fn collapsed(&self) -> u64 {
        self.collapsed
    }

    /// What the filter did.
    pub(crate) fn filtered(&self) -> Filtered {
        self.filtered
    }

    /// What writing them left of holes in the heap beside those that were counted table by table
    /// ([`Budget::left_holes`]): [`MANY`] where entries are large.
    pub(crate) fn holes(&self) -> usize {
        // Several of half that size leave as much.
        let large = |table: &NewTable| 2 * table.info.size / table.info.entries.max(1) >= LARGE;
        if self.all().any(large) { MANY } else { 0 }
    }
}

impl Deref for NewTables {
    type Target = [NewTable];

    fn deref(&self) -> &[NewTable] {
        &self.tables
    }
}

impl DerefMut for NewTables {
    fn deref_mut(&mut self) -> &mut [NewTable] {
        &mut self.tables
    }
}

/// The path of a table file.
pub(crate) fn table_path(dir: &Path, number: u64) -> PathBuf {
    dir.join(table_name(number))
}

/// Writes what `retain` keeps of `entries` (from the first), and of range tombstones, into tables.
/// On error the tables written so far are removed.
pub(crate) fn write_tables<I: Forward>(
    entries: &mut I,
    ranges: Option<FragmentMerge>,
    mut retain: Retain,
    output: &MergeOutput<'_>,
) -> Result<NewTables> {
    let mut done = NewTables {
        tables: Vec::new(),
        values: Vec::new(),
        memory: output.budget.reserve(Role::Compaction, 0),
        limit: output.budget.limit(),
        expired: 0,
        filtered: Filtered::default(),
        collapsed: 0,
    };
    let result = run(entries, ranges, &mut retain, output, &mut done);
    if let Err(error) = result {
        for number in done.all().map(|table| table.info.number) {
            // An orphan left behind here is removed by the next open.
            let _ = output.fs.remove(&table_path(output.dir, number));
        }
        return Err(error);
    }
    Ok(done)
}

struct Current {
    number: u64,
    builder: TableBuilder,
    shadowed_before: u64,
    expiry: Expiry,
    operands: u64,
    /// Bytes of values that its entries point to, by value file.
    points_to: BTreeMap<u64, u64>,
}

fn run<I: Forward>(
    entries: &mut I,
    ranges: Option<FragmentMerge>,
    retain: &mut Retain,
    output: &MergeOutput<'_>,
    done: &mut NewTables,
) -> Result<()> {
    let mut tables = TablesInTheMaking {
        output,
        done,
        current: None,
        range: None,
        shadowed_before: 0,
        values: ValueWriter::new(output),
    };
    let ranges = ranges.map(RangesAhead::new).transpose()?;
    let result = write_kept(entries, ranges, retain, &mut tables);
    if result.is_err() {
        tables.values.abandon();
        if let Some(current) = tables.current {
            let _ = output.fs.remove(&table_path(output.dir, current.number));
        }
    }
    result
}

/// Writes what is kept of entries, as far as it is not collapsed or filtered, and of range
/// tombstones.
fn write_kept<I: Forward>(
    entries: &mut I,
    mut ranges: Option<RangesAhead>,
    retain: &mut Retain,
    tables: &mut TablesInTheMaking<'_, '_>,
) -> Result<()> {
    let output = tables.output;
    let mut collapse = Collapse::new(output.operator.as_ref(), output.budget);
    let held_to = retain.held_to();
    let mut since_check = 0u32;
    entries.start()?;
    while let Some((key, present, value)) = entries.entry() {
        // Whoever waits for flushes, or for the database to close, is not kept waiting for a whole
        // merge.
        since_check += 1;
        if since_check >= 1024 {
            since_check = 0;
            (output.on_the_way)()?;
        }
        tables.shadowed_before = retain.shadowed;
        if let Some(ranges) = ranges.as_mut().filter(|ranges| ranges.is_behind(Some(key))) {
            // What waits comes before them.
            collapse.end(|entry| tables.write(entry, held_to))?;
            ranges.go_to(Some(key), retain, tables)?;
        }
        let over = ranges.as_ref().map_or(&[][..], RangesAhead::over);
        // What no reader can see is left out; what only some snapshot sees counts as shadowed.
        if let Verdict::Keep(tag) = retain.judge(key, present, value, over) {
            // Operands wait for what lies in a value file.
            let is_base = retain.is_chained() && collapse.is_waiting();
            let loaded = match tag.kind() {
                Some(EntryKind::Pointer) if is_base => tables.values.load(key, tag, value)?,
                _ => None,
            };
            let (tag, value) = match &loaded {
                Some(value) => (Tag::new(tag.seq(), EntryKind::Put), &**value),
                None => (tag, value),
            };
            let entry = Collapsed {
                key,
                seq: present.seq(),
                tag,
                value,
                settled: retain.is_settled(),
                is_seen: true,
            };
            collapse.add(entry, retain, |entry| tables.write(entry, held_to))?;
        }
        entries.advance()?;
    }
    tables.shadowed_before = retain.shadowed;
    collapse.end(|entry| tables.write(entry, held_to))?;
    if let Some(ranges) = &mut ranges {
        ranges.go_to(None, retain, tables)?;
    }
    tables.done.expired = retain.expired;
    tables.done.collapsed = collapse.collapsed;
    tables.values.finish(tables.done)?;
    finish(tables.current.take(), retain.shadowed, output, tables.done)
}

/// The tables of a job, of which the last may not be finished.
struct TablesInTheMaking<'t, 'o> {
    output: &'t MergeOutput<'o>,
    done: &'t mut NewTables,
    current: Option<Current>,
    /// The range tombstones over the keys that come, as far as they are in no table yet.
    range: Option<Fragment>,
    /// How many entries were shadowed before the present one.
    shadowed_before: u64,
    values: ValueWriter<'o>,
}

impl TablesInTheMaking<'_, '_> {
    /// Writes an entry, as the filter leaves it if nobody held its number.
    fn write(&mut self, entry: Collapsed<'_>, held_to: Option<SeqNo>) -> Result<()> {
        let Collapsed { key, tag, .. } = entry;
        let value = match tag.kind() {
            // Of one that has expired there is a value.
            Some(EntryKind::Delete) => &[],
            _ => entry.value,
        };
        match &self.output.filtering {
            Some(filtering) if entry.is_seen && Some(entry.seq) > held_to => {
                let done = &mut self.done.filtered;
                let left = match self.values.load(key, tag, value)? {
                    Some(pointed) => filtering.apply_pointed((key, tag), value, &pointed, done)?,
                    None => filtering.apply((key, tag), value, done)?,
                };
                // One that is removed at the bottom leaves nothing.
                let removed = left.tag != tag && left.tag.kind() == Some(EntryKind::Delete);
                if removed && entry.settled {
                    return Ok(());
                }
                self.add(key, left.tag, &left.value)
            }
            _ => self.add(key, tag, value),
        }
    }

    fn add(&mut self, key: &[u8], tag: Tag, value: &[u8]) -> Result<()> {
        // All versions of a key are in one table, or two tables of a run would meet.
        self.end_full_table(key, false)?;
        self.current()?;
        let (tag, value) = self.values.place(key, tag, value, self.done)?;
        let Some(current) = &mut self.current else {
            return Ok(());
        };
        if let Some(moment) = values::expiry_of(tag, value) {
            current.expiry.add(moment);
        }
        if let Some(pointer) = values::pointed_to(tag, value) {
            let sum = current.points_to.entry(pointer.file).or_default();
            *sum = sum.saturating_add(pointer.len);
        }
        current.operands += u64::from(tag.kind() == Some(EntryKind::Operand));
        current.builder.add(key, tag, value)
    }
}

/// Bytes of keys that leave as much of holes in the heap as a table does: with keys of 4 KiB the
/// free pages are given back for each sixteen tables.
const KEYS_OF_HOLE: usize = 256;

/// A table has so many times the bytes, at least, that its smallest and largest key have: the tree
/// knows these of each table, in memory. Of keys of 64 bytes that is the least `target_file`. With
/// half of it, data of 14 times the budget fits what may be known of tables if all keys are long;
/// twice of it makes tables twice as large as was asked for where keys of 64 bytes are to be in the
/// smallest.
const KEYS_IN_TABLE: u64 = 32;

/// The same where keys are long for the budget, of which little is left for merges otherwise.
const LONG_KEYS_IN_TABLE: u64 = 8 * KEYS_IN_TABLE;

/// Whether a table should end before a key.
fn is_full(table: &TableBuilder, key: &[u8], target: u64, output: &MergeOutput<'_>) -> bool {
    let (len, keys) = (table.estimated_len(), table.known_key_bytes());
    let times = if keys > long_keys_of_table(output.budget.limit()) {
        LONG_KEYS_IN_TABLE
    } else {
        KEYS_IN_TABLE
    };
    len >= target && len >= times * keys
        || table.keys() >= output.target_keys
        || table.is_full_before(key)
}

/// The options of the table of this number: its salt, and one of the filters.
fn options_of(number: u64, all: &TableBuildOptions) -> TableBuildOptions {
    let mut options = all.clone();
    // By chance, not by the number: after a checkpoint or a restored backup two databases go on
    // from one counter, and a table of one is not to be taken for a table of the other.
    options.salt = RandomState::new().hash_one(number) as u32;
    let draw = checksum(0, &number.to_le_bytes());
    if let Some((filter, share)) = options.other_filter.take()
        && f64::from(draw) < share * f64::from(u32::MAX)
    {
        options.filter = filter;
    }
    options
}

/// Begins the file of a table of this number.
fn begin_file(
    (fs, dir): (&Arc<dyn Fs>, &Path),
    number: u64,
    options: &TableBuildOptions,
    memory: Reservation,
) -> Result<TableBuilder> {
    let path = table_path(dir, number);
    let file = fs
        .create(&path, Access::Direct)
        .map_err(|e| Error::io("create", &path, e))?;
    let options = options_of(number, options);
    Ok(TableBuilder::new(file, path, options, memory))
}

fn begin(output: &MergeOutput<'_>, shadowed_before: u64) -> Result<Current> {
    let number = output.next_file.fetch_add(1, Ordering::Relaxed);
    let memory = output.budget.reserve(Role::Compaction, 0);
    let builder = begin_file((output.fs, output.dir), number, &output.options, memory)?;
    Ok(Current {
        number,
        builder,
        shadowed_before,
        expiry: Expiry::default(),
        operands: 0,
        points_to: BTreeMap::new(),
    })
}

fn finish(
    current: Option<Current>,
    shadowed: u64,
    output: &MergeOutput<'_>,
    done: &mut NewTables,
) -> Result<()> {
    let Some(current) = current else {
        return Ok(());
    };
    let (number, ranges) = (current.number, current.builder.range_tombstones());
    match current.builder.finish(output.sync) {
        Ok(summary) => {
            // What the tree will know of the table, without opening it.
            let keys = summary.properties.smallest.len() + summary.properties.largest.len();
            let info = FileInfo {
                garbage: shadowed.saturating_sub(current.shadowed_before),
                expiry: current.expiry,
                ranges,
                operands: current.operands,
                points_to: current.points_to.into_iter().collect(),
                ..NewTable::info_of(number, &summary)
            };
            let pushed = done.push(NewTable {
                info,
                prepared: summary.prepared.map(Box::new),
            });
            // The builder leaves holes between what stays of it in the heap.
            output.budget.left_holes(1 + keys / KEYS_OF_HOLE);
            // Of a table that is in no list nobody else knows.
            pushed.inspect_err(|_| {
                let _ = output.fs.remove(&table_path(output.dir, number));
            })
        }
        Err(error) => {
            let _ = output.fs.remove(&table_path(output.dir, number));
            Err(error)
        }
    }
}
