//! A table's blocks: brings them into memory, through the block cache, and checks what was read.
//!
//! A [`TableBlocks`] is shared by all who read the table, and is `Sync` and immutable. No lock is
//! held across a read. A block that the cache has no room for is used where it was read, in the
//! scratch buffer. A thread may hold one scratch buffer at a time, so whoever fetches a block drops
//! the one before first.

use std::borrow::Cow;
use std::ops::{Deref, Range};
use std::sync::Arc;

use super::format::{self, Codec, DecodeError};
use super::source::TableSource;
use crate::budget::{
    LARGE, Reservation, Role, least_limit_for_block, map_large_allocations, most_of_block,
};
use crate::cache::{Block, BlockCache, BlockKey, IoBuf, Owner, Priority};
use crate::error::{Error, Result};
use crate::fs::{BlockKind, PAGE, Purpose, ReadTag};
use crate::value::PartitionStats;

/// A block in memory.
#[derive(Debug)]
pub(super) enum BlockRef {
    /// In the cache, or lately so.
    Cached(Block),
    /// Where it was read, for this use only.
    Scratch { buf: IoBuf, len: usize },
    /// Decompressed for this use only.
    Loose {
        bytes: Box<[u8]>,
        _held: Reservation,
    },
}

/// How long a block is once it is decompressed.
pub(super) struct DecodedLen {
    /// All of it.
    pub(super) in_memory: usize,
    /// What is allocated for that.
    pub(super) allocated: usize,
}

/// A block as it was read, checked and not yet decompressed.
pub(super) struct Raw {
    buf: IoBuf,
    start: u32,
    codec: Codec,
    len: usize,
}

impl Raw {
    pub(super) fn stored(&self, blocks: &TableBlocks) -> Result<&[u8]> {
        let short = format::Damage("the block is shorter than its length says");
        let stored = self.buf.get(..self.len);
        stored.ok_or_else(|| blocks.damage(self.start, short))
    }

    /// The payload: the stored bytes themselves, or decompressed.
    pub(super) fn decode<'a>(
        &self,
        blocks: &TableBlocks,
        stored: &'a [u8],
    ) -> Result<Cow<'a, [u8]>> {
        match self.codec {
            Codec::Raw => Ok(Cow::Borrowed(stored)),
            codec => format::decode(codec, stored)
                .map(|bytes| Cow::Owned(bytes.into_vec()))
                .map_err(|e| blocks.undecodable(self.start, e)),
        }
    }

    fn into_scratch(self) -> BlockRef {
        BlockRef::Scratch {
            buf: self.buf,
            len: self.len,
        }
    }
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

/// The blocks of one table.
pub(super) struct TableBlocks {
    source: TableSource,
    cache_id: u64,
    salt: u32,
    partition_stats: Arc<PartitionStats>,
}

impl TableBlocks {
    /// The blocks of a file, whose checksums are bound to `salt`. `cache_id` names it in the cache.
    pub(super) fn new(
        source: TableSource,
        cache_id: u64,
        salt: u32,
        partition_stats: Arc<PartitionStats>,
    ) -> Self {
        TableBlocks {
            source,
            cache_id,
            salt,
            partition_stats,
        }
    }

    /// The file.
    pub(super) fn source(&self) -> &TableSource {
        &self.source
    }

    #[inline]
    pub(super) fn cache(&self) -> &Arc<BlockCache> {
        &self.source.home.cache
    }

    /// What is known of the partitions that the blocks belong to.
    #[inline]
    pub(super) fn partition_stats(&self) -> &PartitionStats {
        &self.partition_stats
    }

    /// The name in the cache of the block that starts at a page.
    #[inline]
    pub(super) fn block_key(&self, page: u32) -> BlockKey {
        BlockKey {
            file: self.cache_id,
            page,
        }
    }

    /// A block if the cache has it.
    #[inline]
    pub(super) fn resident(&self, page: u32) -> Option<BlockRef> {
        self.cache()
            .get(&self.block_key(page))
            .map(BlockRef::Cached)
    }

    /// A block if the cache has it, to be read for a purpose: what merges read is no sign that
    /// anybody will read it again.
    #[inline]
    pub(super) fn resident_for(&self, page: u32, purpose: Purpose) -> Option<BlockRef> {
        match purpose {
            Purpose::Background => self.peek(page).map(BlockRef::Cached),
            _ => self.resident(page),
        }
    }

    /// A block if the cache has it; does not count as a use.
    pub(super) fn peek(&self, page: u32) -> Option<Block> {
        self.cache().peek(&self.block_key(page))
    }

    /// An index or data block of a partition, from the cache or else from storage; then `fill`
    /// offers it to the cache.
    #[inline]
    pub(super) fn fetch(
        &self,
        pages: Range<u32>,
        partition: usize,
        tag: ReadTag,
        fill: bool,
    ) -> Result<BlockRef> {
        match self.resident_for(pages.start, tag.purpose) {
            Some(block) => Ok(block),
            None => self.read(pages, partition, tag, fill),
        }
    }

    /// The same of one that the cache does not have.
    pub(super) fn read(
        &self,
        pages: Range<u32>,
        partition: usize,
        tag: ReadTag,
        fill: bool,
    ) -> Result<BlockRef> {
        let read = self.read_raw(pages, tag)?;
        self.admit(read, partition, tag.kind, fill)
    }

    /// A block that was read, to use; then `fill` offers it to the cache.
    pub(super) fn admit(
        &self,
        read: Raw,
        partition: usize,
        kind: BlockKind,
        fill: bool,
    ) -> Result<BlockRef> {
        let start = read.start;
        let stored = read.stored(self)?;
        let scratch = read.codec == Codec::Raw;
        if scratch && !fill {
            return Ok(read.into_scratch());
        }
        let decoded = format::decoded_len(read.codec, stored);
        self.check_bytes(read.buf.len() + decoded, kind)?;
        let bytes = read.decode(self, stored)?;
        if fill && let Some(block) = self.offer(start, partition, kind, &bytes) {
            return Ok(BlockRef::Cached(block));
        }
        let bytes = match bytes {
            Cow::Borrowed(_) => return Ok(read.into_scratch()),
            Cow::Owned(bytes) => bytes.into_boxed_slice(),
        };
        // Nobody who has a buffer waits for others' memory.
        drop(read);
        let budget = self.cache().budget();
        let held = budget.reserve(Role::Iterators, bytes.len() as u64);
        Ok(BlockRef::Loose { bytes, _held: held })
    }

    pub(super) fn offer(
        &self,
        page: u32,
        partition: usize,
        kind: BlockKind,
        bytes: &[u8],
    ) -> Option<Block> {
        self.cache()
            .insert(self.owner(page, partition, kind), bytes)
    }

    pub(super) fn owner(&self, page: u32, partition: usize, kind: BlockKind) -> Owner<'_> {
        Owner {
            key: self.block_key(page),
            kind,
            priority: Priority::of(kind),
            partitions: match kind {
                BlockKind::Index | BlockKind::Filter(_) => Some(&self.partition_stats),
                _ => None,
            },
            partition: partition as u32,
            rejected_by: 0,
        }
    }

    /// Offers a block that came along and nobody needed yet.
    pub(super) fn offer_unasked(&self, page: u32, partition: usize, kind: BlockKind, bytes: &[u8]) {
        self.cache().offer(self.owner(page, partition, kind), bytes);
    }

    /// Refuses a data block that was written under a larger budget, if this one does not hold it.
    pub(super) fn check_fits(&self, pages: &Range<u32>, kind: BlockKind) -> Result<()> {
        self.check_bytes(pages.len() * PAGE, kind)
    }

    /// Refuses a data block that takes so many bytes while it is decompressed.
    fn check_bytes(&self, bytes: usize, kind: BlockKind) -> Result<()> {
        let (bytes, limit) = (bytes as u64, self.cache().budget().limit());
        if bytes >= LARGE {
            map_large_allocations();
        }
        if kind == BlockKind::Data && bytes > most_of_block(limit) {
            return Err(Error::BudgetTooSmall {
                limit,
                needed: least_limit_for_block(bytes),
            });
        }
        Ok(())
    }

    /// Reads and checks a block.
    pub(super) fn read_raw(&self, pages: Range<u32>, tag: ReadTag) -> Result<Raw> {
        self.check_fits(&pages, tag.kind)?;
        let (start, count) = (pages.start, pages.end.saturating_sub(pages.start));
        let mut buf = self.buffer(count as usize * PAGE);
        self.read_pages(&mut buf, start, tag)?;
        self.open_raw(buf, start)
    }

    /// The length of a block that was read, if it is sound.
    pub(super) fn decoded_len(&self, pages: &[u8], page: u32) -> Option<DecodedLen> {
        let (codec, stored) = format::open_block(pages, self.salt, page).ok()?;
        let allocated = format::decoded_len(codec, stored);
        Some(DecodedLen {
            in_memory: match codec {
                Codec::Raw => stored.len(),
                _ => allocated,
            },
            allocated,
        })
    }

    /// The payload of a block that was read, decompressed.
    pub(super) fn payload_in<'a>(&self, pages: &'a [u8], page: u32) -> Result<Cow<'a, [u8]>> {
        let damage = |d| self.damage(page, d);
        match format::open_block(pages, self.salt, page).map_err(damage)? {
            (Codec::Raw, stored) => Ok(Cow::Borrowed(stored)),
            (codec, stored) => {
                let decoded = format::decode(codec, stored);
                let bytes = decoded.map_err(|e| self.undecodable(page, e))?;
                Ok(Cow::Owned(bytes.into_vec()))
            }
        }
    }

    /// The same, put into a buffer.
    pub(super) fn decode_into(&self, pages: &[u8], page: u32, out: &mut Vec<u8>) -> Result<()> {
        let read = format::read_block_into(pages, self.salt, page, out);
        read.map_err(|e| self.undecodable(page, e))
    }

    /// Checks a block that was read.
    pub(super) fn open_raw(&self, buf: IoBuf, start: u32) -> Result<Raw> {
        let (codec, stored) =
            format::open_block(&buf, self.salt, start).map_err(|d| self.damage(start, d))?;
        let len = stored.len();
        Ok(Raw {
            buf,
            start,
            codec,
            len,
        })
    }

    /// Reads and checks a block, past the cache. It is copied, so that who has it may read others.
    pub(super) fn read_block(&self, pages: Range<u32>, tag: ReadTag) -> Result<BlockRef> {
        self.check_bytes(2 * pages.len() * PAGE, tag.kind)?;
        let (start, count) = (pages.start, pages.end.saturating_sub(pages.start));
        let mut buf = self.buffer(count as usize * PAGE);
        self.read_pages(&mut buf, start, tag)?;
        let damage = |d| self.damage(start, d);
        let (codec, stored) = format::open_block(&buf, self.salt, start).map_err(damage)?;
        let decoded = stored.len().max(format::decoded_len(codec, stored));
        self.check_bytes(buf.len() + decoded, tag.kind)?;
        let decoded = format::decode(codec, stored);
        let bytes = decoded.map_err(|e| self.undecodable(start, e))?;
        drop(buf);
        let budget = self.cache().budget();
        let held = budget.reserve(Role::IoBuffers, bytes.len() as u64);
        Ok(BlockRef::Loose { bytes, _held: held })
    }

    /// A buffer to read into; waits for its turn.
    pub(super) fn buffer(&self, bytes: usize) -> IoBuf {
        self.source.home.io.acquire(bytes)
    }

    /// Fills `buf` with pages from `page` on.
    pub(super) fn read_pages(&self, buf: &mut [u8], page: u32, tag: ReadTag) -> Result<()> {
        self.source.read_pages(buf, page, tag)
    }

    pub(super) fn damage(&self, page: u32, damage: format::Damage) -> Error {
        self.source.damage(page, damage)
    }

    fn undecodable(&self, page: u32, error: DecodeError) -> Error {
        self.source.undecodable(page, error)
    }
}
