//! A cursor over a memtable, which it keeps alive. Not shared between threads; see
//! [`InternalIterator`] for its protocol. `prev` is a search, `next` is not.

use std::sync::Arc;

use super::Memtable;
use super::arena::Node;
use crate::base::iter::InternalIterator;
use crate::base::key::Tag;
use crate::error::Result;

/// A cursor over a memtable.
#[derive(Debug)]
pub(crate) struct MemtableIter {
    memtable: Arc<Memtable>,
    at: Option<Node>,
}

impl MemtableIter {
    /// A cursor at no entry.
    pub(super) fn new(memtable: Arc<Memtable>) -> Self {
        MemtableIter { memtable, at: None }
    }
}

impl InternalIterator for MemtableIter {
    #[inline]
    fn valid(&self) -> bool {
        self.at.is_some()
    }

    #[inline]
    fn key(&self) -> &[u8] {
        self.at
            .map_or(&[], |node| self.memtable.list.arena().key(node))
    }

    #[inline]
    fn tag(&self) -> Tag {
        self.at
            .map_or(Tag::OLDEST, |node| self.memtable.list.arena().tag(node))
    }

    #[inline]
    fn value(&self) -> &[u8] {
        self.at
            .map_or(&[], |node| self.memtable.list.arena().value(node))
    }

    fn seek_to_first(&mut self) -> Result<()> {
        self.at = self.memtable.list.first();
        Ok(())
    }

    fn seek_to_last(&mut self) -> Result<()> {
        self.at = self.memtable.list.last();
        Ok(())
    }

    fn seek(&mut self, key: &[u8], tag: Tag) -> Result<()> {
        self.at = self.memtable.list.at_or_after(key, tag);
        Ok(())
    }

    fn seek_for_prev(&mut self, key: &[u8], tag: Tag) -> Result<()> {
        self.at = self.memtable.list.at_or_before(key, tag);
        Ok(())
    }

    #[inline]
    fn next(&mut self) -> Result<()> {
        self.at = self.at.and_then(|node| self.memtable.list.next(node));
        Ok(())
    }

    fn prev(&mut self) -> Result<()> {
        self.at = self.at.and_then(|node| self.memtable.list.prev(node));
        Ok(())
    }
}
