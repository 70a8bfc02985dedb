//! Whether a key, or anything in a range, was written since a sequence number that a snapshot
//! holds. What was written and deleted again since, of a key that was not there, may go unnoticed:
//! it is as it was.

use std::ops::Bound;
use std::sync::Arc;

use super::ReadPath;
use crate::base::iter::InternalIterator;
use crate::base::key::{MAX_SEQNO, SeqNo, Tag};
use crate::compaction::{RunFiles, RunIter};
use crate::db::iter::IterOptions;
use crate::db::keyspaces::KeyspaceInner;
use crate::error::Result;
use crate::fs::Purpose;
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
        for memtable in state.memtables() {
            if memtable.last_seq().is_some_and(|last| last > since)
                && let Some(key) = first_changed(memtable.iter(), range, since)?
            {
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
        for (_, run) in state.version.runs() {
            let files = run.overlapping_range(from.as_deref(), to.as_deref());
            let newer = files.iter().filter(|file| file.max_seq() > since);
            let files = RunFiles::Some(newer.cloned().collect());
            let iter = RunIter::new(Arc::clone(&self.tables), files, scan.clone());
            if let Some(key) = first_changed(iter, range, since)? {
                return Ok(Some(key));
            }
        }
        Ok(None)
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
