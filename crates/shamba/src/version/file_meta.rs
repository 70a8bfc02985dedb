//! A table file as the tree knows it, and the list of those nobody needs any more.
//!
//! Files are shared as `Arc<FileMeta>` by versions, iterators and compactions. Whoever installs an
//! edit that removes a file marks it obsolete; when the last holder lets go, its number lands on
//! the [`Obsolete`] list, and maintenance deletes the file. So a file that anyone can still read is
//! never deleted.

use std::ops::Deref;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;

use super::file_stats::FileStats;
use crate::base::key::SeqNo;
use crate::table::{Stated, TableFile, TableSlot};

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
}

/// A file of the tree. Dereferences to its [`FileInfo`].
#[derive(Debug)]
pub(crate) struct FileMeta {
    info: FileInfo,
    /// What lookups have seen of it.
    pub(crate) stats: FileStats,
    /// The open table, while it is open.
    pub(crate) slot: TableSlot,
    busy: AtomicBool,
    doom: OnceLock<Arc<Obsolete>>,
}

impl FileMeta {
    /// A file with fresh statistics.
    #[cfg(test)]
    pub(crate) fn new(info: FileInfo) -> Self {
        FileMeta::with_stats(info, FileStats::default())
    }

    /// A file with inherited statistics.
    pub(crate) fn with_stats(info: FileInfo, stats: FileStats) -> Self {
        FileMeta {
            info,
            stats,
            slot: TableSlot::default(),
            busy: AtomicBool::new(false),
            doom: OnceLock::new(),
        }
    }

    /// Whether a compaction has it as an input.
    pub(crate) fn is_busy(&self) -> bool {
        self.busy.load(Ordering::Acquire)
    }

    /// Takes it as a compaction's input; `false` when another compaction has it.
    pub(crate) fn try_claim(&self) -> bool {
        !self.busy.swap(true, Ordering::AcqRel)
    }

    /// Gives it back.
    pub(crate) fn release(&self) {
        self.busy.store(false, Ordering::Release);
    }

    /// Says that no version refers to it any more: its number goes to `list` once the last holder
    /// lets go. Called after the edit that removes it is durable.
    pub(crate) fn mark_obsolete(&self, list: &Arc<Obsolete>) {
        // A second mark is harmless: the number still goes to one list, once.
        let _ = self.doom.set(Arc::clone(list));
    }
}

impl Deref for FileMeta {
    type Target = FileInfo;

    fn deref(&self) -> &FileInfo {
        &self.info
    }
}

impl TableFile for FileMeta {
    fn number(&self) -> u64 {
        self.info.number
    }

    fn slot(&self) -> &TableSlot {
        &self.slot
    }

    fn stated(&self) -> Stated<'_> {
        Stated {
            size: self.info.size,
            salt: self.info.salt,
            entries: self.info.entries,
            tombstones: self.info.tombstones,
            smallest: &self.info.smallest,
            largest: &self.info.largest,
            min_seq: self.info.min_seq,
            max_seq: self.info.max_seq,
        }
    }
}

impl Drop for FileMeta {
    fn drop(&mut self) {
        if let Some(list) = self.doom.get() {
            list.push(self.info.number, self.slot.cache_id());
        }
    }
}

/// The numbers of files that can be deleted. Any thread may add; maintenance takes.
#[derive(Debug, Default)]
pub(crate) struct Obsolete {
    /// Each file's number and its name in the block cache.
    files: Mutex<Vec<(u64, u64)>>,
}

impl Obsolete {
    /// Adds a file.
    pub(crate) fn push(&self, number: u64, cache_id: u64) {
        self.files.lock().push((number, cache_id));
    }

    /// Takes all files added so far.
    pub(crate) fn take(&self) -> Vec<(u64, u64)> {
        std::mem::take(&mut *self.files.lock())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_obsolete_file_is_listed_when_its_last_holder_lets_go() {
        let list = Arc::new(Obsolete::default());
        let file = |number| {
            Arc::new(FileMeta::new(FileInfo {
                number,
                ..FileInfo::default()
            }))
        };
        let (live, dead) = (file(1), file(2));
        let holder = Arc::clone(&dead);
        dead.mark_obsolete(&list);
        drop((live, dead));
        assert_eq!(list.take(), []);
        drop(holder);
        assert_eq!(list.take(), [(2, 0)]);
        assert_eq!(list.take(), []);
    }

    #[test]
    fn a_file_is_claimed_once() {
        let file = FileMeta::new(FileInfo::default());
        assert!(file.try_claim());
        assert!(!file.try_claim());
        assert!(file.is_busy());
        file.release();
        assert!(!file.is_busy() && file.try_claim());
    }
}
