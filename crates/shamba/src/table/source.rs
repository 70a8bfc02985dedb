//! A table's file, as its reader and its opening see it: pages, and errors that name their place.

use std::path::PathBuf;
use std::sync::Arc;

use arc_swap::Guard;

use super::files::{FileHandle, OpenFile, OpenFiles};
use super::format::{self, Damage, FORMAT_VERSION, Footer, FooterError};
use crate::base::interner::Interner;
use crate::cache::{BlockCache, IoPool};
use crate::error::{Error, Result};
use crate::filter::FilterPlan;
use crate::fs::{BlockKind, PAGE, Purpose, ReadTag};

/// What the tables of a database share.
#[derive(Debug)]
pub(super) struct Home {
    /// The files of the folder.
    pub(super) files: OpenFiles,
    pub(super) cache: Arc<BlockCache>,
    pub(super) io: Arc<IoPool>,
    pub(super) plans: Interner<FilterPlan>,
}

impl Home {
    /// Where the table of a number lies.
    pub(super) fn path(&self, number: u64) -> PathBuf {
        self.files.path(number)
    }
}

/// The label of a read.
pub(super) const fn label(kind: BlockKind, purpose: Purpose) -> ReadTag {
    ReadTag {
        kind,
        last: None,
        purpose,
    }
}

/// A table's file.
pub(super) struct TableSource {
    pub(super) handle: Arc<FileHandle>,
    pub(super) number: u64,
    pub(super) home: Arc<Home>,
}

impl TableSource {
    pub(super) fn path(&self) -> PathBuf {
        self.home.path(self.number)
    }

    /// Fills `buf` with pages from `page` on.
    pub(super) fn read_pages(&self, buf: &mut [u8], page: u32, tag: ReadTag) -> Result<()> {
        let open = self.file()?;
        let Some(open) = &*open else {
            return Err(Error::Closed);
        };
        open.file
            .read_exact_at(buf, u64::from(page) * PAGE as u64, tag)
            .map_err(|e| self.read_error(page, e))
    }

    /// The file, open for the time of the guard at least, which is never `None`.
    #[inline]
    pub(super) fn file(&self) -> Result<Guard<Option<Arc<OpenFile>>>> {
        self.home.files.get(&self.handle)
    }

    /// What it means that pages from `page` on could not be read.
    pub(super) fn read_error(&self, page: u32, error: std::io::Error) -> Error {
        match error.kind() {
            std::io::ErrorKind::UnexpectedEof => {
                self.damage(page, Damage("the file ends before this block"))
            }
            _ => Error::io("read", self.path(), error),
        }
    }

    pub(super) fn damage(&self, page: u32, damage: Damage) -> Error {
        Error::corruption(self.path(), u64::from(page) * PAGE as u64, damage.0)
    }

    /// The footer, the bytes of properties and top-level index, and the pages of all partitions.
    pub(super) fn read_meta(&self) -> Result<(Footer, Box<[u8]>, u32)> {
        let len = self.handle.len();
        let pages = u32::try_from(len / PAGE as u64).unwrap_or(0);
        let truncated = Damage("the length is not one of a table; the file may be truncated");
        let last = pages
            .checked_sub(1)
            .filter(|_| len.is_multiple_of(PAGE as u64))
            .ok_or_else(|| self.damage(0, truncated))?;
        let tag = label(BlockKind::Footer, Purpose::Background);
        let mut buf = self.home.io.acquire(PAGE);
        self.read_pages(&mut buf, last, tag)?;
        let (footer, inline) = Footer::open(&buf).map_err(|error| match error {
            FooterError::Damage(d) => self.damage(last, d),
            FooterError::Version(found) => Error::UnsupportedFormat {
                file: self.path(),
                found,
                supported: FORMAT_VERSION,
            },
        })?;
        if footer.meta_page.checked_add(footer.meta_pages) != Some(last) {
            return Err(self.damage(last, truncated));
        }
        if footer.meta_pages == 0 {
            return Ok((footer, inline.into(), last));
        }
        drop(buf);
        let range = footer.meta_page..last;
        let mut buf = self.home.io.acquire(footer.meta_pages as usize * PAGE);
        self.read_pages(&mut buf, range.start, tag)?;
        let meta = format::read_block(&buf, footer.salt, range.start)
            .map_err(|d| self.damage(range.start, d))?;
        Ok((footer, meta, range.start))
    }
}
