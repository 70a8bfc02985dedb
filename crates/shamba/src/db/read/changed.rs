//! Whether a key, or anything in a range, was written since a sequence number that a snapshot
//! holds. What was written and deleted again since, of a key that was not there, may go unnoticed:
//! it is as it was.

use std::ops::Bound;
use std::sync::Arc;

use super::ReadPath;
use crate::base::fragment::Fragment;
use crate::base::iter::InternalIterator;
use crate::base::key::{MAX_SEQNO, SeqNo, Tag};
use crate::compaction::{RunFiles, RunIter};
use crate::db::iter::IterOptions;
use crate::db::keyspaces::KeyspaceInner;
use crate::error::Result;
use crate::fs::Purpose;
use crate::memtable::Memtable;
use crate::table::{Get, GetState, Lookup, ModuleReads, ScanOptions, TableGet};
use crate::version::FileMeta;

impl ReadPath {
    /// Whether a key was written since.
    pub(in crate::db) fn key_changed_since(
        &self,
        keyspace: &KeyspaceInner,
        key: &[u8],
        since: SeqNo,
    ) -> Result<bool> {
        self.shared.check_open()?;
        let state = keyspace.state();
        keyspace.check_alive()?;
        let mut memtables = state.memtables();
        if let Some((tag, _)) = memtables.find_map(|memtable| memtable.get(key, MAX_SEQNO)) {
            return Ok(tag.seq() > since);
        }
        let lookup = Lookup::new(key, MAX_SEQNO, self.shared.options().hash_sharing);
        let lookup = lookup.for_key_only();
        let newer = |file: &&FileMeta| file.max_seq() > since;
        let files = state.version.runs().filter_map(|(_, run)| run.find(key));
        for file in files.filter(newer) {
            let table = self.tables.get(file)?;
            let mut get = GetState::new(&table, &lookup, ModuleReads::UpTo(u8::MAX));
            if let TableGet::Found { tag, .. } =
                Get::new(&table, None, &lookup, &mut get).finish()?
            {
                return Ok(tag.seq() > since);
            }
        }
        Ok(false)
    }

    /// A key of a range that was written since, if there is one.
    pub(in crate::db) fn range_changed_since(
        &self,
        keyspace: &KeyspaceInner,
        range: &IterOptions,
        since: SeqNo,
    ) -> Result<Option<Vec<u8>>> {
        self.shared.check_open()?;
        let state = keyspace.state();
        keyspace.check_alive()?;
        // Memtables first, which have most of what is new.
        for memtable in state.memtables() {
            if memtable.last_seq().is_none_or(|last| last <= since) {
                continue;
            }
            let deleted = first_deleted(memtable, range, since);
            if let Some(key) = deleted.or(first_changed(memtable.iter(), range, since)?) {
                return Ok(Some(key));
            }
        }
        let scan = ScanOptions {
            purpose: Purpose::Scan,
            sources: 1,
            fill_cache: range.fill_cache,
            readahead_pages: 0,
            lazy: false,
            budget: self.shared.budget().clone(),
        };
        let end = |bound: &'_ Bound<Vec<u8>>| match bound {
            Bound::Included(key) | Bound::Excluded(key) => Some(key.clone()),
            Bound::Unbounded => None,
        };
        let (from, to) = (end(&range.lower), end(&range.upper));
        // Then the files that may have anything newer; of these the ranges are in memory.
        for (_, run) in state.version.runs() {
            let files = run.overlapping_range(from.as_deref(), to.as_deref());
            let newer = files.iter().filter(|file| file.max_seq() > since);
            let newer: Vec<FileMeta> = newer.cloned().collect();
            for file in newer.iter().filter(|file| file.ranges() > 0) {
                let table = self.tables.get(file)?;
                let from = from.as_deref().unwrap_or_default();
                let newer = |one: &Fragment| one.seqs.first().is_some_and(|seq| *seq > since);
                let deleted = table.ranges().and_then(|ranges| {
                    let mut newer = ranges.all_from(from).filter(newer);
                    newer.find_map(|one| range.first_between(&one.start, &one.end))
                });
                if deleted.is_some() {
                    return Ok(deleted);
                }
            }
            let files = RunFiles::Some(newer);
            let iter = RunIter::new(Arc::clone(&self.tables), files, scan.clone());
            if let Some(key) = first_changed(iter, range, since)? {
                return Ok(Some(key));
            }
        }
        Ok(None)
    }
}

/// A key from which on keys of a range were deleted by a range since, in a memtable.
fn first_deleted(memtable: &Arc<Memtable>, range: &IterOptions, since: SeqNo) -> Option<Vec<u8>> {
    if !memtable.has_ranges() {
        return None;
    }
    let mut key = match &range.lower {
        Bound::Included(key) | Bound::Excluded(key) => key.clone(),
        Bound::Unbounded => Vec::new(),
    };
    loop {
        let cover = memtable.cover_of(&key, MAX_SEQNO);
        if cover.seq > since
            && let Some(first) = range.first_between(&key, &cover.end)
        {
            return Some(first);
        }
        if cover.end.is_empty() || range.past_upper(&cover.end) {
            return None;
        }
        key = cover.end;
    }
}

/// The first key in a range with an entry that was written since.
fn first_changed(
    mut iter: impl InternalIterator,
    range: &IterOptions,
    since: SeqNo,
) -> Result<Option<Vec<u8>>> {
    match &range.lower {
        Bound::Unbounded => iter.seek_to_first()?,
        Bound::Included(key) => iter.seek(key, Tag::NEWEST)?,
        Bound::Excluded(key) => iter.seek(key, Tag::OLDEST)?,
    }
    while iter.valid() && !range.past_upper(iter.key()) {
        if iter.tag().seq() > since && !range.before_lower(iter.key()) {
            return Ok(Some(iter.key().to_vec()));
        }
        iter.next()?;
    }
    Ok(None)
}
