//! A place in a data block, for whoever walks its entries. One owner.

use std::cmp::Ordering;
use std::ops::Range;

use super::{BAD_KIND, BlockEntry, DataBlock, Landing, MALFORMED};
use crate::base::key::{self, Tag};
use crate::table::format::Damage;

fn check_kind(entry: &BlockEntry) -> Result<(), Damage> {
    if entry.tag.allows(entry.value.len()) {
        Ok(())
    } else {
        Err(BAD_KIND)
    }
}

/// A place in a data block, with the key there. It does not borrow the block: every call is given
/// the same payload again. After an error or `false` it is at no entry.
#[derive(Debug, Default)]
pub(in crate::table) struct Cursor {
    key: Vec<u8>,
    tag: Option<Tag>,
    at: usize,
    value: Range<usize>,
    continues: bool,
}

impl Cursor {
    /// Whether the cursor is at an entry.
    #[inline]
    pub(in crate::table) fn valid(&self) -> bool {
        self.tag.is_some()
    }

    #[inline]
    pub(in crate::table) fn key(&self) -> &[u8] {
        &self.key
    }

    #[inline]
    pub(in crate::table) fn tag(&self) -> Tag {
        self.tag.unwrap_or(Tag::OLDEST)
    }

    /// Where in the payload the entry's value lies.
    #[inline]
    pub(in crate::table) fn value(&self) -> Range<usize> {
        self.value.clone()
    }

    /// To no entry.
    pub(in crate::table) fn clear(&mut self) {
        self.tag = None;
        self.key.clear();
        self.value = 0..0;
        self.at = 0;
    }

    /// Whether the entry last sought is behind newer ones of its key, which are the block's last:
    /// older ones may be in the next block.
    #[inline]
    pub(in crate::table) fn continues(&self) -> bool {
        self.continues
    }

    /// Memory held, in bytes.
    #[inline]
    pub(in crate::table) fn memory(&self) -> usize {
        self.key.capacity()
    }

    /// Reads the entry at an offset whose predecessor's key is in `self.key`.
    fn read(&mut self, block: &DataBlock<'_>, at: usize) -> Result<bool, Damage> {
        self.tag = None;
        if at >= block.entries.len() {
            self.clear();
            return Ok(false);
        }
        let entry = block.entry(at)?;
        if entry.shared > self.key.len() {
            return Err(MALFORMED);
        }
        check_kind(&entry)?;
        self.key.truncate(entry.shared);
        self.come_to(block, at, entry);
        Ok(true)
    }

    /// To an entry; what it shares with the one before it is in `self.key`.
    #[inline]
    fn come_to(&mut self, block: &DataBlock<'_>, at: usize, entry: BlockEntry) {
        self.key.extend_from_slice(block.bytes(&entry.suffix));
        self.at = at;
        self.value = entry.value;
        self.tag = Some(entry.tag);
    }

    /// To the first entry.
    pub(in crate::table) fn first(&mut self, block: &DataBlock<'_>) -> Result<bool, Damage> {
        self.clear();
        self.read(block, 0)
    }

    /// To the last entry.
    pub(in crate::table) fn last(&mut self, block: &DataBlock<'_>) -> Result<bool, Damage> {
        self.before(block, block.entries.len())
    }

    /// To the first entry at or after (`key`, `tag`).
    pub(in crate::table) fn seek(
        &mut self,
        block: &DataBlock<'_>,
        key: &[u8],
        tag: Tag,
    ) -> Result<bool, Damage> {
        self.clear();
        self.continues = false;
        match block.land(key, tag)? {
            Landing::Key { at, entry, .. } | Landing::Later { at, entry } => {
                let shared = key.get(..entry.shared).ok_or(MALFORMED)?;
                self.key.reserve(shared.len() + entry.suffix.len());
                check_kind(&entry)?;
                self.key.extend_from_slice(shared);
                self.come_to(block, at, entry);
                Ok(true)
            }
            Landing::End { same_key } => {
                self.continues = same_key;
                Ok(false)
            }
        }
    }

    /// To the last entry at or before (`key`, `tag`).
    pub(in crate::table) fn seek_for_prev(
        &mut self,
        block: &DataBlock<'_>,
        key: &[u8],
        tag: Tag,
    ) -> Result<bool, Damage> {
        if !self.seek(block, key, tag)? {
            return self.last(block);
        }
        match key::compare(&self.key, self.tag(), key, tag) {
            Ordering::Greater => self.prev(block),
            Ordering::Less | Ordering::Equal => Ok(true),
        }
    }

    /// Whether the entry is the block's first.
    pub(in crate::table) fn is_first(&self) -> bool {
        self.valid() && self.at == 0
    }

    /// Whether the entry is the block's last.
    #[inline]
    pub(in crate::table) fn is_last(&self, block: &DataBlock<'_>) -> bool {
        self.valid() && self.value.end >= block.entries.len()
    }

    /// To the following entry if there is one in this payload; else nothing changes, and
    /// [`Self::next`] will say why.
    #[inline]
    pub(in crate::table) fn advance(&mut self, payload: &[u8]) -> bool {
        let Ok(block) = DataBlock::parse(payload) else {
            return false;
        };
        let at = self.value.end;
        if !self.valid() || at >= block.entries.len() {
            return false;
        }
        match block.entry(at) {
            Ok(entry) if entry.shared <= self.key.len() && entry.tag.allows(entry.value.len()) => {
                self.key.truncate(entry.shared);
                self.come_to(&block, at, entry);
                true
            }
            _ => false,
        }
    }

    /// To the following entry.
    pub(in crate::table) fn next(&mut self, block: &DataBlock<'_>) -> Result<bool, Damage> {
        self.read(block, self.value.end)
    }

    /// To the preceding entry.
    pub(in crate::table) fn prev(&mut self, block: &DataBlock<'_>) -> Result<bool, Damage> {
        self.before(block, self.at)
    }

    /// To the entry that ends where `end` starts.
    fn before(&mut self, block: &DataBlock<'_>, end: usize) -> Result<bool, Damage> {
        let after = block
            .restarts
            .partition_point(|at| usize::from(u16::from_le_bytes(*at)) < end);
        let Some(restart) = after.checked_sub(1) else {
            self.clear();
            return Ok(false);
        };
        let at = block.restart(restart)?;
        self.clear();
        let mut valid = self.read(block, at)?;
        while valid && self.value.end < end {
            valid = self.next(block)?;
        }
        if valid && self.value.end == end {
            Ok(true)
        } else {
            self.clear();
            Err(MALFORMED)
        }
    }
}
