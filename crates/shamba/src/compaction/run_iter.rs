//! A cursor over one run: its disjoint files one after another, each opened when it is reached.
//!
//! A lazy one waits in front of a file, whose smallest (or largest) key is known, and opens the
//! file only when that key comes first. Holds at most one table open at a time. One of a scan that
//! can ask filters leaves tables out whose filters say that they have no key of it, wherever it
//! would look for its place in them: so it yields what the scan wants, and not all of the run.
//! Single-threaded.

use std::path::PathBuf;
use std::sync::Arc;

use crate::base::iter::{Direction, InternalIterator};
use crate::base::key::Tag;
use crate::error::Result;
use crate::filter::FilteredScan;
use crate::fs::Purpose;
use crate::table::{ScanAnswer, ScanOptions, ScanVisit, Table, TableCache, TableIter};
use crate::version::{FileMeta, Run};

/// Disjoint files, ascending: a whole run, which is shared, or some of one.
pub(crate) enum RunFiles {
    Run(Arc<Run>),
    Some(Vec<FileMeta>),
}

impl RunFiles {
    fn len(&self) -> usize {
        match self {
            RunFiles::Run(run) => run.files().len(),
            RunFiles::Some(files) => files.len(),
        }
    }

    fn get(&self, at: usize) -> Option<&FileMeta> {
        match self {
            RunFiles::Run(run) => run.file_at(at),
            RunFiles::Some(files) => files.get(at),
        }
    }

    /// The position of the first file whose largest key is at or after `key`.
    fn lower_bound(&self, key: &[u8]) -> usize {
        match self {
            RunFiles::Run(run) => run.lower_bound(key),
            RunFiles::Some(files) => files.partition_point(|file| *file.largest() < *key),
        }
    }

    /// How many files have their smallest key at or before `key`.
    fn starting_by(&self, key: &[u8]) -> usize {
        match self {
            RunFiles::Run(run) => run.starting_by(key),
            RunFiles::Some(files) => files.partition_point(|file| *file.smallest() <= *key),
        }
    }
}

/// A cursor over a run's files.
pub(crate) struct RunIter {
    tables: Arc<TableCache>,
    files: RunFiles,
    scan: ScanOptions,
    /// What the scan asks filters.
    asks: Option<Arc<FilteredScan>>,
    at: usize,
    current: Option<TableIter>,
    /// Set while the cursor waits in front of file `at`: where it is going.
    waits: Option<Direction>,
}

/// What became of asking a table.
enum Asked {
    Passed(Option<(Arc<Table>, ScanVisit)>),
    LeftOut,
}

impl RunIter {
    pub(crate) fn new(tables: Arc<TableCache>, files: RunFiles, scan: ScanOptions) -> Self {
        RunIter {
            tables,
            files,
            scan,
            asks: None,
            at: 0,
            current: None,
            waits: None,
        }
    }

    /// Has it be of a scan that asks filters.
    pub(crate) fn stay_within(&mut self, asks: &Arc<FilteredScan>) {
        self.asks = Some(Arc::clone(asks));
    }

    /// Asks file `at`, where the scan would look for its place.
    #[cold]
    fn ask(&self, scan: &FilteredScan, at: usize) -> Result<Asked> {
        let Some(file) = self.files.get(at) else {
            return Ok(Asked::Passed(None));
        };
        let table = self.tables.get(file)?;
        Ok(match table.ask_scan_filter(scan, self.scan.fill_cache)? {
            ScanAnswer::Absent => Asked::LeftOut,
            ScanAnswer::Maybe(visit) => Asked::Passed(visit.map(|visit| (table, visit))),
        })
    }

    /// Whether file `at` is left out; if not, what is to be counted once the scan has found its
    /// place there.
    fn passes(&self, at: usize) -> Result<Asked> {
        match &self.asks {
            Some(scan) => self.ask(scan, at),
            None => Ok(Asked::Passed(None)),
        }
    }

    /// Counts a scan that passed the filter of a table and has found its place there, at a key.
    fn count_visit(&self, visit: Option<(Arc<Table>, ScanVisit)>, key: &[u8]) {
        if let (Some((table, visit)), Some(scan)) = (visit, &self.asks)
            && self.scan.fill_cache
        {
            let here = self.current.as_ref().filter(|iter| iter.valid());
            let found = here.is_some_and(|iter| scan.is_of(iter.key()));
            // One that began within its range has not looked at all of it.
            if !found && !scan.is_whole_from(key) {
                return;
            }
            table.count_scan_visit(scan, &visit, found);
        }
    }

    /// Opens file `at`; past the last there is none.
    fn open(&mut self, at: usize) -> Result<Option<&mut TableIter>> {
        self.waits = None;
        if self.current.is_none() || self.at != at {
            self.current = None;
            let Some(file) = self.files.get(at) else {
                return Ok(None);
            };
            let table = match self.scan.purpose {
                Purpose::Background => self.tables.get_once(file)?,
                _ => self.tables.get(file)?,
            };
            self.at = at;
            self.current = Some(table.iter(self.scan.clone()));
        }
        Ok(self.current.as_mut())
    }

    /// To the end of file `at` that comes first: waits there, or goes to the entry.
    fn reach(&mut self, at: usize, direction: Direction) -> Result<()> {
        if self.scan.lazy && at < self.files.len() {
            self.current = None;
            (self.at, self.waits) = (at, Some(direction));
            return Ok(());
        }
        match (self.open(at)?, direction) {
            (Some(iter), Direction::Forward) => iter.seek_to_first(),
            (Some(iter), Direction::Backward) => iter.seek_to_last(),
            (None, _) => Ok(()),
        }
    }

    /// Goes on past a file that is left out, to the one before or after it, if there is one.
    fn leave_out(&mut self, next: Option<usize>, direction: Direction) -> Result<()> {
        (self.current, self.waits) = (None, None);
        match next {
            Some(next) => self.reach(next, direction),
            None => Ok(()),
        }
    }

    /// Counts for the file what a scan has just read of it to find its place there.
    fn count_seek(&mut self) {
        if self.scan.purpose != Purpose::Scan {
            return;
        }
        let pages = self.current.as_mut().map_or(0, TableIter::take_pages_read);
        if pages > 0
            && let Some(file) = self.files.get(self.at)
        {
            self.tables.count_seek_pages(file.slot(), pages);
        }
    }

    /// The key that bounds what the cursor waits for.
    fn bound(&self, direction: Direction) -> &[u8] {
        self.files.get(self.at).map_or(&[], |file| match direction {
            Direction::Forward => file.smallest(),
            Direction::Backward => file.largest(),
        })
    }

    /// Moves on to the following files while the present one is exhausted.
    fn settle_forward(&mut self) -> Result<()> {
        while self.current.as_ref().is_some_and(|iter| !iter.valid()) {
            self.reach(self.at + 1, Direction::Forward)?;
        }
        Ok(())
    }

    fn settle_on(&mut self, direction: Direction) -> Result<()> {
        match direction {
            Direction::Forward => self.settle_forward(),
            Direction::Backward => self.settle_backward(),
        }
    }

    fn settle_backward(&mut self) -> Result<()> {
        while self.current.as_ref().is_some_and(|iter| !iter.valid()) {
            let Some(before) = self.at.checked_sub(1) else {
                self.current = None;
                break;
            };
            self.reach(before, Direction::Backward)?;
        }
        Ok(())
    }
}

impl InternalIterator for RunIter {
    #[inline]
    fn valid(&self) -> bool {
        self.waits.is_some() || self.current.as_ref().is_some_and(TableIter::valid)
    }

    #[inline]
    fn key(&self) -> &[u8] {
        match (self.waits, &self.current) {
            (Some(direction), _) => self.bound(direction),
            (None, Some(iter)) => iter.key(),
            (None, None) => &[],
        }
    }

    #[inline]
    fn tag(&self) -> Tag {
        match (self.waits, &self.current) {
            (Some(direction), _) => direction.first_tag(),
            (None, Some(iter)) => iter.tag(),
            (None, None) => Tag::OLDEST,
        }
    }

    #[inline]
    fn value(&self) -> &[u8] {
        self.current.as_ref().map_or(&[], |iter| iter.value())
    }

    fn seek_to_first(&mut self) -> Result<()> {
        self.reach(0, Direction::Forward)?;
        self.settle_forward()
    }

    fn seek_to_last(&mut self) -> Result<()> {
        let Some(last) = self.files.len().checked_sub(1) else {
            return Ok(());
        };
        self.reach(last, Direction::Backward)?;
        self.settle_backward()
    }

    fn seek(&mut self, key: &[u8], tag: Tag) -> Result<()> {
        let at = self.files.lower_bound(key);
        if self
            .files
            .get(at)
            .is_some_and(|file| *file.smallest() > *key)
        {
            self.reach(at, Direction::Forward)?;
            return self.settle_forward();
        }
        let visit = match self.passes(at)? {
            Asked::Passed(visit) => visit,
            Asked::LeftOut => return self.leave_out(Some(at + 1), Direction::Forward),
        };
        match self.open(at)? {
            Some(iter) => {
                iter.take_pages_read();
                iter.seek(key, tag)?;
                self.count_seek();
                self.count_visit(visit, key);
            }
            None => self.current = None,
        }
        self.settle_forward()
    }

    fn seek_for_prev(&mut self, key: &[u8], tag: Tag) -> Result<()> {
        let Some(at) = self.files.starting_by(key).checked_sub(1) else {
            (self.current, self.waits) = (None, None);
            return Ok(());
        };
        if self
            .files
            .get(at)
            .is_some_and(|file| *file.largest() < *key)
        {
            self.reach(at, Direction::Backward)?;
            return self.settle_backward();
        }
        let visit = match self.passes(at)? {
            Asked::Passed(visit) => visit,
            Asked::LeftOut => return self.leave_out(at.checked_sub(1), Direction::Backward),
        };
        if let Some(iter) = self.open(at)? {
            iter.take_pages_read();
            iter.seek_for_prev(key, tag)?;
            self.count_seek();
            self.count_visit(visit, key);
        }
        self.settle_backward()
    }

    #[inline]
    fn next(&mut self) -> Result<()> {
        if self.waits.is_none()
            && let Some(current) = &mut self.current
            && current.advance()?
        {
            return Ok(());
        }
        self.materialize()?;
        match self.current.as_mut().filter(|iter| iter.valid()) {
            Some(iter) => iter.next()?,
            None => return Ok(()),
        }
        self.settle_forward()
    }

    fn prev(&mut self) -> Result<()> {
        self.materialize()?;
        match self.current.as_mut().filter(|iter| iter.valid()) {
            Some(iter) => iter.prev()?,
            None => return Ok(()),
        }
        self.settle_backward()
    }

    #[inline]
    fn is_deferred(&self) -> bool {
        self.waits.is_some() || self.current.as_ref().is_some_and(TableIter::is_deferred)
    }

    fn materialize(&mut self) -> Result<()> {
        let Some(direction) = self.waits else {
            let Some(iter) = self.current.as_mut().filter(|iter| iter.is_deferred()) else {
                return Ok(());
            };
            let direction = iter.going();
            iter.materialize()?;
            return self.settle_on(direction);
        };
        if let Some(iter) = self.open(self.at)? {
            match direction {
                Direction::Forward => iter.seek_to_first()?,
                Direction::Backward => iter.seek_to_last()?,
            }
        }
        self.settle_on(direction)
    }

    fn file(&self) -> PathBuf {
        let file = self.files.get(self.at);
        file.map_or_else(PathBuf::new, |file| self.tables.path_of(file.number()))
    }
}
