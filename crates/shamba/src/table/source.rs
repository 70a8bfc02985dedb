//! A table's file, as its reader and its opening see it: pages, and errors that name their place.
//! Thread-safe.

use std::path::PathBuf;
use std::sync::Arc;

use arc_swap::Guard;

use super::files::{FileHandle, OpenFile, OpenFiles};
use super::format::{self, Codec, Damage, DecodeError, FORMAT_VERSION, Footer, FooterError};
use super::properties::Properties;
use super::range_tombstones::RangeTombstones;
use super::stated::Stated;
use super::stated_scan_filter::ScanFilter;
use super::top_index::{ParsedTop, TopIndex};
use crate::base::coding::take_bytes;
use crate::base::interner::Interner;
use crate::budget::{
    LARGE, LONG_KEY, Reservation, allocated, least_limit_for_key, least_limit_for_meta,
    map_large_allocations, map_long_keys, most_of_key, most_of_meta,
};
use crate::cache::{BlockCache, IoBuf, IoPool};
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
    pub(super) home: Arc<Home>,
}

impl TableSource {
    pub(super) fn path(&self) -> PathBuf {
        self.home.path(self.handle.number())
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

    pub(super) fn undecodable(&self, page: u32, error: DecodeError) -> Error {
        match error {
            DecodeError::Damage(damage) => self.damage(page, damage),
            DecodeError::Feature(feature) => Error::MissingFeature {
                file: self.path(),
                feature,
            },
        }
    }

    /// Where properties and top-level index are. They are read into a buffer, and not copied:
    /// whoever has it waits for no other memory.
    pub(super) fn read_meta(&self) -> Result<Meta> {
        let len = self.handle.len();
        let pages = u32::try_from(len / PAGE as u64).unwrap_or(0);
        let truncated = Damage("the length is not one of a table; the file may be truncated");
        let last = pages
            .checked_sub(1)
            .filter(|_| len.is_multiple_of(PAGE as u64))
            .ok_or_else(|| self.damage(0, truncated))?;
        // The last page says where the rest is.
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
        let (len, pages) = (inline.len(), footer.meta_page);
        // A small table: all of it is in this page.
        if footer.meta_pages == 0 {
            let pages = last;
            return Ok(Meta {
                footer,
                buf,
                len,
                pages,
            });
        }
        drop(buf);
        // A larger one has a block in front of the footer. Its length is what the table says, so it
        // is bounded.
        let bytes = u64::from(footer.meta_pages) * PAGE as u64;
        let limit = self.home.cache.budget().limit();
        if bytes > most_of_meta(limit) {
            return Err(Error::BudgetTooSmall {
                limit,
                needed: least_limit_for_meta(bytes),
            });
        }
        if bytes >= LARGE {
            map_large_allocations();
        }
        let mut buf = self.home.io.acquire(bytes as usize);
        self.read_pages(&mut buf, pages, tag)?;
        let damage = |d| self.damage(pages, d);
        // No writer compresses it.
        let len = match format::open_block(&buf, footer.salt, pages).map_err(damage)? {
            (Codec::Raw, meta) => meta.len(),
            _ => return Err(damage(Damage("what a table says of itself is compressed"))),
        };
        Ok(Meta {
            footer,
            buf,
            len,
            pages,
        })
    }
}

impl TableSource {
    /// Reads what an open table needs: its footer, its filter plan, its top-level index and its
    /// range tombstones, for which `held` takes the memory first. `stated` is what the table is
    /// compared with, if it is of a tree.
    pub(super) fn open_meta(
        &self,
        stated: Option<&Stated<'_>>,
        held: &mut Reservation,
    ) -> Result<OpenedMeta> {
        loop {
            let meta = self.read_meta()?;
            let footer = meta.footer;
            let damage = |d| self.damage(footer.meta_page, d);
            let (properties, encoded) = meta.parts().map_err(damage)?;
            // Read anew once there is memory for it: the buffer is not held while others are waited
            // for.
            let scratch = match footer.meta_pages {
                0 => 0,
                _ => ParsedTop::scratch(encoded.len()),
            };
            if try_hold(held, scratch as u64) {
                let (properties, [smallest, largest, encoded_ranges]) =
                    Properties::decode_beside_keys(properties).map_err(damage)?;
                let more = RangeTombstones::memory_for(encoded_ranges.len());
                if !try_hold(held, (scratch + more) as u64) {
                    drop(meta);
                    held.resize((scratch + more) as u64);
                    continue;
                }
                let ranges = (more > 0)
                    .then(|| RangeTombstones::decode(encoded_ranges, (smallest, largest)));
                let ranges = ranges.transpose().map_err(damage)?;
                // Before anything of it is believed: is it the table that the tree means?
                if let Some(stated) = stated {
                    let size = self.handle.len();
                    let count = ranges.as_ref().map_or(0, RangeTombstones::len) as u64;
                    stated
                        .check(size, &footer, &properties, [smallest, largest], count)
                        .map_err(damage)?;
                }
                self.check_keys(properties.longest_key)?;
                let modules = properties.modules();
                // Tables that were planned alike share their plan.
                let plan = properties.filter.for_readers();
                let plan = self.home.plans.share(Arc::new(plan));
                let top = ParsedTop::of(encoded, modules, meta.pages);
                let top = top.map_err(damage)?;
                let bytes = (scratch + more + allocated(top.memory())) as u64;
                if try_hold(held, bytes) {
                    return Ok(OpenedMeta {
                        footer,
                        plan,
                        top: top.build(),
                        ranges: ranges.map(Box::new),
                        scan_filter: properties.scan_filter.map(|of| Box::new(of.for_readers())),
                    });
                }
                drop(top);
                drop(meta);
                held.resize(bytes);
            } else {
                drop(meta);
                held.resize(scratch as u64);
            }
        }
    }

    /// Refuses keys that were written under a larger budget, if this one does not hold them.
    fn check_keys(&self, longest: u32) -> Result<()> {
        let (longest, limit) = (u64::from(longest), self.home.cache.budget().limit());
        if longest >= LONG_KEY {
            map_long_keys();
        }
        if longest <= most_of_key(limit) {
            Ok(())
        } else {
            Err(Error::BudgetTooSmall {
                limit,
                needed: least_limit_for_key(longest),
            })
        }
    }
}

/// What an open table has in memory.
pub(super) struct OpenedMeta {
    pub(super) footer: Footer,
    pub(super) plan: Arc<FilterPlan>,
    pub(super) top: TopIndex,
    pub(super) ranges: Option<Box<RangeTombstones>>,
    pub(super) scan_filter: Option<Box<ScanFilter>>,
}

/// To so many bytes at least, without waiting for others'.
fn try_hold(held: &mut Reservation, bytes: u64) -> bool {
    let missing = bytes.saturating_sub(held.bytes());
    missing == 0 || held.try_grow(missing)
}

/// Properties and top-level index, as they were read.
pub(super) struct Meta {
    pub(super) footer: Footer,
    buf: IoBuf,
    len: usize,
    /// The pages of all partitions.
    pub(super) pages: u32,
}

impl Meta {
    /// The bytes of the properties, and of the top-level index.
    pub(super) fn parts(&self) -> Result<(&[u8], &[u8]), Damage> {
        let mut input = self.buf.get(..self.len).unwrap_or_default();
        let properties = take_bytes(&mut input).ok_or(Damage("the properties end early"))?;
        Ok((properties, input))
    }
}
