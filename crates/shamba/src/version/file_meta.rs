//! A table file as the tree knows it.
//!
//! A [`FileMeta`] is shared by versions, iterators and compactions. Whoever installs an edit that
//! removes a file marks it obsolete; when the last holder lets go, its number lands on the
//! [`Obsolete`] list.
//!
//! There may be hundreds of thousands of files under a small budget, so a file is one allocation:
//! its numbers are packed behind its keys. What lookups saw of it is kept with its open table
//! ([`TableSlot`]), by partition; here is only when it was asked last.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use shamba_model::expected_reads::Visits;

use super::expiry::Expiry;
use super::obsolete::Obsolete;
use crate::base::coding::{put_varint, take_varint};
use crate::base::key::SeqNo;
use crate::base::once_arc::OnceArc;
use crate::base::thin::Thin;
use crate::budget::{Reservation, Role, allocated, shared};
use crate::table::{Stated, TableFile, TableSlot};

/// The module limit that lets a lookup probe every module a filter has.
const ALL_MODULES: u8 = u8::MAX;

/// What the manifest records of a file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct FileInfo {
    /// The file's number, which is its name.
    pub(crate) number: u64,
    /// Its length in bytes.
    pub(crate) size: u64,
    /// How many entries it holds, tombstones included.
    pub(crate) entries: u64,
    /// How many of them are tombstones.
    pub(crate) tombstones: u64,
    /// Entries shadowed by a newer entry of the same key in this file, kept for snapshots only.
    pub(crate) garbage: u64,
    /// The smallest user key.
    pub(crate) smallest: Box<[u8]>,
    /// The largest user key, inclusive.
    pub(crate) largest: Box<[u8]>,
    /// The smallest sequence number.
    pub(crate) min_seq: SeqNo,
    /// The largest sequence number.
    pub(crate) max_seq: SeqNo,
    /// When it was written, on the database's install counter.
    pub(crate) created: u64,
    /// Bytes of its filter blocks.
    pub(crate) filter_bytes: u64,
    /// Bytes of its index blocks.
    pub(crate) index_bytes: u64,
    /// What its blocks' checksums start from: tells it from every other table.
    pub(crate) salt: u32,
    /// When its entries expire.
    pub(crate) expiry: Expiry,
    /// How many fragments of range tombstones it has.
    pub(crate) ranges: u64,
    /// How many of its entries are operands; 0 also where nobody counted them.
    pub(crate) operands: u64,
    /// The value files that its entries point to, with the bytes of the values there; of a value
    /// file its own number, and the bytes of all its values.
    pub(crate) points_to: Vec<(u64, u64)>,
}

/// A file of the tree, shared: a clone is another holder.
#[derive(Clone)]
pub(crate) struct FileMeta(Thin<FileHead>);

/// What has no fixed value, and where the keys end. Behind it lie the smallest key, the largest and
/// the numbers ([`pack`]).
#[derive(Debug)]
struct FileHead {
    /// The open table, while it is open.
    slot: TableSlot,
    /// Only a file that leaves the tree has one.
    doom: OnceArc<Doom>,
    busy: AtomicBool,
    /// How many filter modules a lookup probes without asking.
    module_limit: AtomicU8,
    /// How long ago a lookup asked it: [`UNKNOWN`], [`LONG_AGO`], or epochs that have ended since,
    /// the one in which it was asked included.
    asked: AtomicU8,
    smallest: u16,
    largest: u16,
}

const _: () = assert!(size_of::<Thin<FileHead>>() == 8 && size_of::<FileHead>() == 24);

/// No epoch has ended in the file's life, and nothing is known of those it comes from.
const UNKNOWN: u8 = 0;

/// Never since it was written, or more epochs ago than a byte counts.
const LONG_AGO: u8 = u8::MAX;

/// What is done when the last holder lets go.
#[derive(Debug)]
struct Doom {
    list: Arc<Obsolete>,
    number: u64,
    bytes: u32,
    _held: Reservation,
}

const DOOM_BYTES: u64 = shared(size_of::<Doom>()) as u64;

/// What a file takes in the leaf of its run: the pointer and two prefixes, and its part of the
/// leaf's own.
pub(super) const PLACE_BYTES: usize = 25;

/// The numbers of a file.
#[derive(Debug, Clone, Copy, Default)]
struct Numbers {
    number: u64,
    size: u64,
    entries: u64,
    tombstones: u64,
    garbage: u64,
    min_seq: SeqNo,
    max_seq: SeqNo,
    created: u64,
    filter_bytes: u64,
    index_bytes: u64,
    expiry: Expiry,
    ranges: u64,
    operands: u64,
    salt: u32,
}

/// The keys and behind them the numbers, of which most are small. The number comes first, being
/// asked for alone.
fn pack(info: &FileInfo) -> Vec<u8> {
    let mut out = Vec::with_capacity(info.smallest.len() + info.largest.len() + 64);
    out.extend_from_slice(&info.smallest);
    out.extend_from_slice(&info.largest);
    for number in [
        info.number,
        info.size,
        info.entries,
        info.tombstones,
        info.garbage,
        info.min_seq,
        info.max_seq.wrapping_sub(info.min_seq),
        info.created,
        info.filter_bytes,
        info.index_bytes,
        info.expiry.first,
        info.expiry.last.wrapping_sub(info.expiry.first),
        info.ranges,
        info.operands,
    ] {
        put_varint(&mut out, number);
    }
    out.extend_from_slice(&info.salt.to_le_bytes());
    for &(file, bytes) in &info.points_to {
        put_varint(&mut out, file);
        put_varint(&mut out, bytes);
    }
    out
}

impl Numbers {
    /// The numbers that were packed, and what lies behind them.
    fn unpack(mut bytes: &[u8]) -> (Numbers, &[u8]) {
        let mut next = || take_varint(&mut bytes).unwrap_or(0);
        let mut numbers = Numbers {
            number: next(),
            size: next(),
            entries: next(),
            tombstones: next(),
            garbage: next(),
            min_seq: next(),
            max_seq: next(),
            created: next(),
            filter_bytes: next(),
            index_bytes: next(),
            expiry: Expiry {
                first: next(),
                last: next(),
            },
            ranges: next(),
            operands: next(),
            salt: 0,
        };
        numbers.expiry.last = numbers.expiry.last.wrapping_add(numbers.expiry.first);
        numbers.max_seq = numbers.max_seq.wrapping_add(numbers.min_seq);
        let (salt, rest) = bytes.split_first_chunk().unwrap_or((&[0; 4], &[]));
        numbers.salt = u32::from_le_bytes(*salt);
        (numbers, rest)
    }
}

/// Reads one of the numbers by its place among those that [`pack`] writes, past no more than come
/// before.
macro_rules! numbers {
    ($($(#[$doc:meta])* $name:ident at $at:expr;)*) => {$(
        $(#[$doc])*
        pub(crate) fn $name(&self) -> u64 {
            self.number_at($at)
        }
    )*};
}

impl FileMeta {
    /// A file of which nothing was seen yet.
    pub(crate) fn new(info: &FileInfo) -> Self {
        FileMeta::with_slot(info, TableSlot::default())
    }

    /// The same, where something is known of its partitions.
    pub(crate) fn with_slot(info: &FileInfo, slot: TableSlot) -> Self {
        let len = |key: &[u8]| u16::try_from(key.len()).unwrap_or(u16::MAX);
        let head = FileHead {
            slot,
            doom: OnceArc::new(),
            busy: AtomicBool::new(false),
            module_limit: AtomicU8::new(ALL_MODULES),
            asked: AtomicU8::new(UNKNOWN),
            smallest: len(&info.smallest),
            largest: len(&info.largest),
        };
        FileMeta(Thin::new(head, &pack(info)))
    }

    /// What it takes in the tree, in bytes.
    pub(crate) fn memory(&self) -> u64 {
        (allocated(self.0.allocation()) + PLACE_BYTES) as u64
    }

    /// The length of its smallest or its largest key, whichever is longer.
    pub(crate) fn longer_key(&self) -> usize {
        self.smallest().len().max(self.largest().len())
    }

    /// The smallest user key.
    #[inline]
    pub(crate) fn smallest(&self) -> &[u8] {
        let end = usize::from(self.0.smallest);
        self.0.bytes().get(..end).unwrap_or_default()
    }

    /// The largest user key, inclusive.
    #[inline]
    pub(crate) fn largest(&self) -> &[u8] {
        let start = usize::from(self.0.smallest);
        let end = start + usize::from(self.0.largest);
        self.0.bytes().get(start..end).unwrap_or_default()
    }

    /// Filter bits that it has for each entry.
    pub(crate) fn filter_bits(&self) -> f64 {
        self.filter_bytes() as f64 * 8.0 / self.entries().max(1) as f64
    }

    fn packed_numbers(&self) -> &[u8] {
        let start = usize::from(self.0.smallest) + usize::from(self.0.largest);
        self.0.bytes().get(start..).unwrap_or_default()
    }

    fn numbers(&self) -> Numbers {
        Numbers::unpack(self.packed_numbers()).0
    }

    /// The value files that its entries point to, with the bytes of the values there; of a value
    /// file its own number, and the bytes of all its values.
    pub(crate) fn pointed_to(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let mut rest = Numbers::unpack(self.packed_numbers()).1;
        std::iter::from_fn(move || Some((take_varint(&mut rest)?, take_varint(&mut rest)?)))
    }

    #[inline]
    fn number_at(&self, at: usize) -> u64 {
        let mut numbers = self.packed_numbers();
        for _ in 0..at {
            take_varint(&mut numbers);
        }
        take_varint(&mut numbers).unwrap_or(0)
    }

    numbers! {
        /// The file's number, which is its name.
        number at 0;
        /// Its length in bytes.
        size at 1;
        /// How many entries it holds, tombstones included.
        entries at 2;
        /// How many of them are tombstones.
        tombstones at 3;
        /// Entries shadowed by a newer entry of the same key in this file, kept for snapshots only.
        garbage at 4;
        /// The smallest sequence number.
        min_seq at 5;
        /// When it was written, on the database's install counter.
        created at 7;
        /// Bytes of its filter blocks.
        filter_bytes at 8;
        /// Bytes of its index blocks.
        index_bytes at 9;
        /// How many fragments of range tombstones it has.
        ranges at 12;
        /// How many of its entries are operands; 0 also where nobody counted them.
        operands at 13;
    }

    /// When its entries expire.
    pub(crate) fn expiry(&self) -> Expiry {
        self.numbers().expiry
    }

    /// The largest sequence number.
    pub(crate) fn max_seq(&self) -> SeqNo {
        self.numbers().max_seq
    }

    /// All that the manifest records of it.
    pub(crate) fn info(&self) -> FileInfo {
        let numbers = self.numbers();
        FileInfo {
            number: numbers.number,
            size: numbers.size,
            entries: numbers.entries,
            tombstones: numbers.tombstones,
            garbage: numbers.garbage,
            smallest: self.smallest().into(),
            largest: self.largest().into(),
            min_seq: numbers.min_seq,
            max_seq: numbers.max_seq,
            created: numbers.created,
            filter_bytes: numbers.filter_bytes,
            index_bytes: numbers.index_bytes,
            expiry: numbers.expiry,
            ranges: numbers.ranges,
            operands: numbers.operands,
            salt: numbers.salt,
            points_to: self.pointed_to().collect(),
        }
    }

    /// Where its open table is kept.
    #[inline]
    pub(crate) fn slot(&self) -> &TableSlot {
        &self.0.slot
    }

    /// Whether a compaction has it as an input.
    pub(crate) fn is_busy(&self) -> bool {
        self.0.busy.load(Ordering::Acquire)
    }

    /// Takes it as a compaction's input; `false` when another compaction has it.
    pub(crate) fn try_claim(&self) -> bool {
        !self.0.busy.swap(true, Ordering::AcqRel)
    }

    /// Gives it back.
    pub(crate) fn release(&self) {
        self.0.busy.store(false, Ordering::Release);
    }

    /// Says that no version refers to it any more: its number goes to `list`, which is charged for
    /// it, once the last holder lets go. Called after the edit that removes it is durable.
    pub(crate) fn mark_obsolete(&self, list: &Arc<Obsolete>) {
        if self.0.doom.get().is_some() {
            return;
        }
        self.0.doom.get_or_set(Arc::new(Doom {
            list: Arc::clone(list),
            number: self.number(),
            bytes: u32::try_from(self.memory()).unwrap_or(u32::MAX),
            _held: list.budget().reserve_at_once(Role::Seen, DOOM_BYTES),
        }));
    }
}

/// What lookups saw of it: what its partitions' statistics say, summed up. Hints: where memory is
/// short there are none, and that changes no answer.
impl FileMeta {
    /// Its visits of late; `None` when nothing is known of them.
    pub(crate) fn visits(&self) -> Option<Visits> {
        let visits = self.slot().all_visits();
        if visits.is_some_and(|visits| !visits.is_none()) {
            return visits;
        }
        // A file that was open, and of which nothing is kept, may have been asked.
        let forgotten = visits.is_none() && self.slot().cache_id() != 0;
        let known = self.0.asked.load(Ordering::Relaxed) != UNKNOWN;
        (known && !forgotten).then(Visits::default)
    }

    /// Pages that scans read of it to find their place in it, since it was written or the database
    /// was opened: what would not have been read were it merged with what lies below it.
    pub(crate) fn seek_pages(&self) -> u64 {
        self.slot().seek_pages().into()
    }

    /// Ends an epoch. One thread at a time.
    pub(crate) fn end_epoch(&self) {
        let ago = match (
            self.slot().take_accessed(),
            self.0.asked.load(Ordering::Relaxed),
        ) {
            (true, _) => 1,
            (false, UNKNOWN | LONG_AGO) => LONG_AGO,
            (false, ago) => ago + 1,
        };
        self.0.asked.store(ago, Ordering::Relaxed);
    }

    /// The last of so many epochs in which it was asked; 0 for none that is known.
    pub(crate) fn last_access(&self, epochs: u64) -> u64 {
        match self.0.asked.load(Ordering::Relaxed) {
            UNKNOWN | LONG_AGO => 0,
            ago => (epochs + 1).saturating_sub(ago.into()),
        }
    }

    /// Says of a new file that nobody asks it but those of whom its partitions' statistics say so.
    pub(crate) fn set_known(&self) {
        self.0.asked.store(LONG_AGO, Ordering::Relaxed);
    }

    /// How many modules a lookup probes without asking.
    #[inline]
    pub(crate) fn module_limit(&self) -> u8 {
        self.0.module_limit.load(Ordering::Relaxed)
    }

    /// Sets how many modules a lookup probes without asking.
    pub(crate) fn set_module_limit(&self, limit: u8) {
        // Readers share the line; most limits stay as they are.
        if self.module_limit() != limit {
            self.0.module_limit.store(limit, Ordering::Relaxed);
        }
    }
}

impl std::fmt::Debug for FileMeta {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FileMeta")
            .field("info", &self.info())
            .field("visits", &self.visits())
            .finish_non_exhaustive()
    }
}

impl TableFile for FileMeta {
    fn number(&self) -> u64 {
        FileMeta::number(self)
    }

    fn slot(&self) -> &TableSlot {
        FileMeta::slot(self)
    }

    fn stated(&self) -> Stated<'_> {
        let numbers = self.numbers();
        Stated {
            size: numbers.size,
            salt: numbers.salt,
            entries: numbers.entries,
            tombstones: numbers.tombstones,
            smallest: self.smallest(),
            largest: self.largest(),
            min_seq: numbers.min_seq,
            max_seq: numbers.max_seq,
            ranges: numbers.ranges,
        }
    }
}

impl Drop for FileHead {
    fn drop(&mut self) {
        if let Some(doom) = self.doom.get() {
            doom.list.push(doom.number, self.slot.cache_id());
            doom.list.release(doom.bytes.into());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(number: u64) -> FileMeta {
        FileMeta::new(&FileInfo {
            number,
            ..FileInfo::default()
        })
    }

    #[test]
    fn a_file_is_claimed_once() {
        let file = file(0);
        assert!(file.try_claim());
        assert!(!file.try_claim());
        assert!(file.is_busy());
        file.release();
        assert!(!file.is_busy() && file.try_claim());
    }

    /// A quarter of a million of them fit 56 MiB.
    #[test]
    fn a_file_keeps_what_it_was_made_of_in_little_memory() {
        let info = FileInfo {
            number: 250_000,
            size: 4 << 20,
            entries: 40_000,
            tombstones: 100,
            garbage: 7,
            smallest: [7; 64].into(),
            largest: [8; 64].into(),
            min_seq: 10_000_000_000,
            max_seq: 10_100_000_000,
            created: 200_000,
            filter_bytes: 50_000,
            index_bytes: 40_000,
            salt: u32::MAX,
            expiry: Expiry::default(),
            ranges: 0,
            operands: 0,
            points_to: Vec::new(),
        };
        let expires = FileInfo {
            expiry: Expiry {
                first: 1_800_000_000_000,
                last: 1_800_000_060_000,
            },
            ranges: 300,
            operands: 20_000,
            points_to: vec![(249_000, 1 << 20), (250_001, 16)],
            ..info.clone()
        };
        assert_eq!(FileMeta::new(&expires).info(), expires);
        let file = FileMeta::new(&info);
        assert_eq!(file.info(), info);
        assert_eq!(
            (file.smallest(), file.largest()),
            (&[7; 64][..], &[8; 64][..])
        );
        let sizes = [file.size(), file.filter_bytes(), file.index_bytes()];
        assert_eq!(sizes, [info.size, info.filter_bytes, info.index_bytes]);
        let counts = [file.entries(), file.tombstones(), file.garbage()];
        assert_eq!(counts, [info.entries, info.tombstones, info.garbage]);
        let order = [
            file.number(),
            file.min_seq(),
            file.max_seq(),
            file.created(),
        ];
        assert_eq!(
            order,
            [info.number, info.min_seq, info.max_seq, info.created]
        );
        assert!(file.memory() <= 234, "{}", file.memory());
        let extreme = FileInfo {
            min_seq: u64::MAX,
            max_seq: 0,
            size: u64::MAX,
            largest: vec![9; usize::from(u16::MAX)].into(),
            ..FileInfo::default()
        };
        assert_eq!(FileMeta::new(&extreme).info(), extreme);
    }

    #[test]
    fn a_file_is_known_as_unasked_once_an_epoch_has_ended() {
        let (new, told) = (file(1), file(2));
        assert_eq!((new.visits(), new.last_access(0)), (None, 0));
        told.set_known();
        assert_eq!(told.visits(), Some(Visits::default()));
        new.end_epoch();
        assert_eq!(new.visits(), Some(Visits::default()));
        assert_eq!(new.last_access(1), 0);
    }
}
