//! Brings a table's blocks into memory, through the block cache.
//!
//! No lock is held across a read. A block that the cache has no room for is used where it was read,
//! in the scratch buffer. A thread may hold one scratch buffer at a time, so whoever fetches a
//! block drops the one before first.

use std::ops::{Deref, Range};
use std::sync::Arc;

use super::format::{self, Codec};
use super::lookup::Reads;
use super::reader::Table;
use crate::budget::{Reservation, Role};
use crate::cache::{Block, BlockKey, IoBuf, Priority};
use crate::error::{Error, Result};
use crate::fs::{BlockKind, PAGE, Purpose, ReadTag};

/// A block in memory.
#[derive(Debug)]
pub(super) enum BlockRef {
    /// In the cache, or lately so.
    Cached(Arc<Block>),
    /// Where it was read, for this use only.
    Scratch { buf: IoBuf, len: usize },
    /// Decompressed for this use only.
    Loose {
        bytes: Box<[u8]>,
        _held: Reservation,
    },
}

impl Deref for BlockRef {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match self {
            BlockRef::Cached(block) => block,
            BlockRef::Scratch { buf, len } => buf.get(..*len).unwrap_or_default(),
            BlockRef::Loose { bytes, .. } => bytes,
        }
    }
}

impl Table {
    fn block_key(&self, page: u32) -> BlockKey {
        BlockKey {
            file: self.cache_id,
            page,
            part: 0,
        }
    }

    /// A block if the cache has it.
    #[inline]
    pub(super) fn resident(&self, page: u32) -> Option<BlockRef> {
        self.cache.get(&self.block_key(page)).map(BlockRef::Cached)
    }

    /// A block, from the cache or else from storage; then `fill` offers it to the cache.
    #[inline]
    pub(super) fn fetch(
        &self,
        pages: Range<u32>,
        tag: ReadTag,
        fill: bool,
        reads: &mut Reads,
    ) -> Result<BlockRef> {
        if let Some(block) = self.resident(pages.start) {
            reads.hits += 1;
            return Ok(block);
        }
        reads.reads += 1;
        reads.pages += u64::from(pages.end - pages.start);
        let (start, count) = (pages.start, pages.end.saturating_sub(pages.start));
        let mut buf = self.io.acquire(count as usize * PAGE);
        self.read_pages(&mut buf, start, tag)?;
        let (codec, stored) =
            format::open_block(&buf, self.salt, start).map_err(|d| self.damage(start, d))?;
        let len = stored.len();
        let scratch = codec == Codec::Raw;
        if scratch && !fill {
            return Ok(BlockRef::Scratch { buf, len });
        }
        let mut bytes = format::decode(codec, stored).map_err(|d| self.damage(start, d))?;
        if fill {
            let key = self.block_key(start);
            match self.cache.insert(key, tag.kind, priority(tag), bytes) {
                Ok(block) => return Ok(BlockRef::Cached(block)),
                Err(_) if scratch => return Ok(BlockRef::Scratch { buf, len }),
                Err(refused) => bytes = refused,
            }
        }
        let budget = self.cache.budget();
        let held = budget.reserve(Role::Iterators, bytes.len() as u64);
        Ok(BlockRef::Loose { bytes, _held: held })
    }

    /// Reads and checks a block.
    pub(super) fn read_block(&self, pages: Range<u32>, tag: ReadTag) -> Result<Box<[u8]>> {
        let mut buf = self
            .io
            .acquire((pages.end.saturating_sub(pages.start)) as usize * PAGE);
        self.read_pages(&mut buf, pages.start, tag)?;
        format::read_block(&buf, self.salt, pages.start).map_err(|d| self.damage(pages.start, d))
    }

    /// Fills `buf` with pages from `page` on.
    pub(super) fn read_pages(&self, buf: &mut [u8], page: u32, tag: ReadTag) -> Result<()> {
        self.file
            .read_exact_at(buf, u64::from(page) * PAGE as u64, tag)
            .map_err(|e| match e.kind() {
                std::io::ErrorKind::UnexpectedEof => {
                    self.damage(page, format::Damage("the file ends before this block"))
                }
                _ => Error::io("read", &*self.path, e),
            })
    }

    pub(super) fn damage(&self, page: u32, damage: format::Damage) -> Error {
        Error::corruption(&*self.path, u64::from(page) * PAGE as u64, damage.0)
    }
}

/// Indexes and first modules are what nearly every lookup in their range needs.
const fn priority(tag: ReadTag) -> Priority {
    match tag.kind {
        BlockKind::Index | BlockKind::Filter(0) => Priority::High,
        _ => Priority::Low,
    }
}

/// The label of a read.
pub(super) const fn label(kind: BlockKind, purpose: Purpose) -> ReadTag {
    ReadTag { kind, purpose }
}
