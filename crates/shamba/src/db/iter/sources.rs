//! What a caller's iterator merges: views of the memtables and the runs of a read state.
//! Single-threaded.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::covers::RangeCovers;
use crate::base::iter::InternalIterator;
use crate::base::key::{SeqNo, Tag};
use crate::compaction::{MergeIter, RunFiles, RunIter};
use crate::db::DbShared;
use crate::db::keyspaces::ReadState;
use crate::error::Result;
use crate::filter::FilteredScan;
use crate::fs::Purpose;
use crate::memtable::MemtableView;
use crate::metrics::{Counter, Metrics};
use crate::table::ScanOptions;
use crate::version::ValueFiles;

/// A source an iterator merges.
#[expect(
    clippy::large_enum_variant,
    reason = "most are runs; all are made at once, in one list"
)]
pub(super) enum IterSource {
    Memtable(MemtableView),
    Run(RunIter),
}

macro_rules! each {
    ($self:ident, $iter:ident => $call:expr) => {
        match $self {
            IterSource::Memtable($iter) => $call,
            IterSource::Run($iter) => $call,
        }
    };
}

impl InternalIterator for IterSource {
    #[inline]
    fn valid(&self) -> bool {
        each!(self, iter => iter.valid())
    }
    #[inline]
    fn key(&self) -> &[u8] {
        each!(self, iter => iter.key())
    }
    #[inline]
    fn tag(&self) -> Tag {
        each!(self, iter => iter.tag())
    }
    #[inline]
    fn value(&self) -> &[u8] {
        each!(self, iter => iter.value())
    }
    fn seek_to_first(&mut self) -> Result<()> {
        each!(self, iter => iter.seek_to_first())
    }
    fn seek_to_last(&mut self) -> Result<()> {
        each!(self, iter => iter.seek_to_last())
    }
    fn seek(&mut self, key: &[u8], tag: Tag) -> Result<()> {
        each!(self, iter => iter.seek(key, tag))
    }
    fn seek_for_prev(&mut self, key: &[u8], tag: Tag) -> Result<()> {
        each!(self, iter => iter.seek_for_prev(key, tag))
    }
    #[inline]
    fn next(&mut self) -> Result<()> {
        each!(self, iter => iter.next())
    }
    fn prev(&mut self) -> Result<()> {
        each!(self, iter => iter.prev())
    }
    #[inline]
    fn is_deferred(&self) -> bool {
        each!(self, iter => iter.is_deferred())
    }
    fn materialize(&mut self) -> Result<()> {
        each!(self, iter => iter.materialize())
    }
    fn file(&self) -> PathBuf {
        each!(self, iter => iter.file())
    }
}

/// What one source takes, in bytes, without what it holds of a table.
const SOURCE_BYTES: u64 = (size_of::<IterSource>() + MergeIter::<IterSource>::CHILD_BYTES) as u64;

/// What an iterator merges.
pub(super) struct IterSources {
    pub(super) merge: MergeIter<IterSource>,
    /// What they take, in bytes, without what they hold of tables; and what is kept for them of the
    /// version once it was replaced.
    pub(super) bytes: u64,
    /// Where one of them says so when its memtable is gone; none without memtables.
    pub(super) lost: Option<Arc<AtomicBool>>,
    /// What range tombstones hide of them; none where there are none.
    pub(super) covers: Option<Box<RangeCovers>>,
    /// The value files that their entries point to.
    pub(super) values: ValueFiles,
}

/// A merge over everything that readers of `seq` see of a read state, newest first; of tables what
/// the scan asks filters for, if it asks them, and some of what it does not.
pub(super) fn sources(
    db: &DbShared,
    state: &ReadState,
    seq: SeqNo,
    fill_cache: bool,
    asks: Option<&Arc<FilteredScan>>,
) -> IterSources {
    let budget = db.inner().shared().budget();
    let runs = || state.version.levels().iter().flat_map(|level| level.runs());
    let count = 1 + state.frozen.len() + runs().count();
    let scan = ScanOptions {
        purpose: Purpose::Scan,
        sources: count,
        fill_cache,
        readahead_pages: 0,
        lazy: true,
        budget: budget.clone(),
    };
    let mut sources = Vec::with_capacity(count);
    let mut lost = None;
    let mut seen = Vec::new();
    for memtable in state.memtables() {
        if let Some(view) = memtable.view(seq, budget, count, &mut lost) {
            seen.push(memtable);
            sources.push(IterSource::Memtable(view));
        }
    }
    let memtables = seen.iter().copied().enumerate();
    let numbered = runs().enumerate().map(|(at, run)| (seen.len() + at, run));
    let tables = db.inner().files().tables();
    let covers = RangeCovers::new(tables, (memtables, lost.as_ref()), numbered, seq);
    sources.extend(runs().map(|run| {
        let files = RunFiles::Run(run.clone());
        let mut run = RunIter::new(tables.clone(), files, scan.clone());
        if let Some(asks) = asks {
            run.stay_within(asks);
        }
        IterSource::Run(run)
    }));
    IterSources {
        bytes: sources.capacity() as u64 * SOURCE_BYTES + state.version.bytes_of_change(),
        merge: MergeIter::new(sources),
        lost,
        covers,
        values: state.version.value_files().clone(),
    }
}

/// Counts what became of asking the filters of tables.
pub(super) fn count_filtered_scan(scan: &FilteredScan, metrics: &Metrics) {
    let [probes, negatives, pages, damaged] = scan.counts().take();
    for (counter, count) in [
        (Counter::scan_filter_probes, probes),
        (Counter::scan_filter_negatives, negatives),
        (Counter::scan_filter_pages, pages),
        (Counter::corrupt_filters, damaged),
    ] {
        if count > 0 {
            metrics.add(counter, count);
        }
    }
}
