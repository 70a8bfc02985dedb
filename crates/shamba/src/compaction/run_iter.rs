//! A cursor over one run: its disjoint files one after another, each opened when it is reached.
//!
//! Holds at most one table open at a time. Single-threaded.

use std::ops::Deref;
use std::sync::Arc;

use crate::base::iter::InternalIterator;
use crate::base::key::Tag;
use crate::error::Result;
use crate::table::{ScanOptions, TableCache, TableIter};
use crate::version::{FileMeta, Run};

/// Disjoint files, ascending: a whole run, which is shared, or some of one.
pub(crate) enum Files {
    Run(Arc<Run>),
    Some(Vec<Arc<FileMeta>>),
}

impl Deref for Files {
    type Target = [Arc<FileMeta>];

    fn deref(&self) -> &Self::Target {
        match self {
            Files::Run(run) => run.files(),
            Files::Some(files) => files,
        }
    }
}

/// A cursor over a run's files.
pub(crate) struct RunIter {
    tables: Arc<TableCache>,
    files: Files,
    scan: ScanOptions,
    at: usize,
    current: Option<TableIter>,
}

impl RunIter {
    pub(crate) fn new(tables: Arc<TableCache>, files: Files, scan: ScanOptions) -> Self {
        RunIter {
            tables,
            files,
            scan,
            at: 0,
            current: None,
        }
    }

    /// Opens file `at`; past the last there is none.
    fn open(&mut self, at: usize) -> Result<Option<&mut TableIter>> {
        if self.current.is_none() || self.at != at {
            self.current = None;
            let Some(file) = self.files.get(at) else {
                return Ok(None);
            };
            let table = self.tables.get(file.number, &file.slot)?;
            self.at = at;
            self.current = Some(table.iter(self.scan.clone()));
        }
        Ok(self.current.as_mut())
    }

    fn present(&self) -> Option<&TableIter> {
        self.current.as_ref().filter(|iter| iter.valid())
    }

    /// Moves on to the following files while the present one is exhausted.
    fn settle_forward(&mut self) -> Result<()> {
        while self.current.as_ref().is_some_and(|iter| !iter.valid()) {
            match self.open(self.at + 1)? {
                Some(iter) => iter.seek_to_first()?,
                None => break,
            }
        }
        Ok(())
    }

    fn settle_backward(&mut self) -> Result<()> {
        while self.current.as_ref().is_some_and(|iter| !iter.valid()) {
            let Some(before) = self.at.checked_sub(1) else {
                self.current = None;
                break;
            };
            match self.open(before)? {
                Some(iter) => iter.seek_to_last()?,
                None => break,
            }
        }
        Ok(())
    }
}

impl InternalIterator for RunIter {
    fn valid(&self) -> bool {
        self.present().is_some()
    }

    fn key(&self) -> &[u8] {
        self.present().map_or(&[], |iter| iter.key())
    }

    fn tag(&self) -> Tag {
        self.present().map_or(Tag::OLDEST, |iter| iter.tag())
    }

    fn value(&self) -> &[u8] {
        self.present().map_or(&[], |iter| iter.value())
    }

    fn seek_to_first(&mut self) -> Result<()> {
        if let Some(iter) = self.open(0)? {
            iter.seek_to_first()?;
        }
        self.settle_forward()
    }

    fn seek_to_last(&mut self) -> Result<()> {
        let Some(last) = self.files.len().checked_sub(1) else {
            return Ok(());
        };
        if let Some(iter) = self.open(last)? {
            iter.seek_to_last()?;
        }
        self.settle_backward()
    }

    fn seek(&mut self, key: &[u8], tag: Tag) -> Result<()> {
        let at = self.files.partition_point(|file| *file.largest < *key);
        match self.open(at)? {
            Some(iter) => iter.seek(key, tag)?,
            None => self.current = None,
        }
        self.settle_forward()
    }

    fn seek_for_prev(&mut self, key: &[u8], tag: Tag) -> Result<()> {
        let Some(at) = self
            .files
            .partition_point(|file| *file.smallest <= *key)
            .checked_sub(1)
        else {
            self.current = None;
            return Ok(());
        };
        if let Some(iter) = self.open(at)? {
            iter.seek_for_prev(key, tag)?;
        }
        self.settle_backward()
    }

    fn next(&mut self) -> Result<()> {
        match self.current.as_mut().filter(|iter| iter.valid()) {
            Some(iter) => iter.next()?,
            None => return Ok(()),
        }
        self.settle_forward()
    }

    fn prev(&mut self) -> Result<()> {
        match self.current.as_mut().filter(|iter| iter.valid()) {
            Some(iter) => iter.prev()?,
            None => return Ok(()),
        }
        self.settle_backward()
    }
}
