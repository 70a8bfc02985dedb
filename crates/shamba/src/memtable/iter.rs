//! A cursor over a memtable, which it keeps alive. Not shared between threads; see
//! [`InternalIterator`] for its protocol. `prev` is a search, `next` is not.

use std::sync::Arc;

use super::Memtable;
use super::arena::{Arena, Node};
use super::skiplist::SkipList;
use super::words::Words;
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

    /// The entries; `None` while there is none.
    #[inline]
    fn list(&self) -> Option<&SkipList<Words>> {
        self.memtable.list.get()
    }

    /// The present entry and the memory it is in.
    #[inline]
    fn entry(&self) -> Option<(&Arena<Words>, Node)> {
        Some((self.list()?.arena(), self.at?))
    }
}

impl InternalIterator for MemtableIter {
    #[inline]
    fn valid(&self) -> bool {
        self.at.is_some()
    }

    #[inline]
    fn key(&self) -> &[u8] {
        self.entry().map_or(&[], |(arena, node)| arena.key(node))
    }

    #[inline]
    fn tag(&self) -> Tag {
        self.entry()
            .map_or(Tag::OLDEST, |(arena, node)| arena.tag(node))
    }

    #[inline]
    fn value(&self) -> &[u8] {
        self.entry().map_or(&[], |(arena, node)| arena.value(node))
    }

    fn seek_to_first(&mut self) -> Result<()> {
        self.at = self.list().and_then(|list| list.first());
        Ok(())
    }

    fn seek_to_last(&mut self) -> Result<()> {
        self.at = self.list().and_then(|list| list.last());
        Ok(())
    }

    fn seek(&mut self, key: &[u8], tag: Tag) -> Result<()> {
        self.at = self.list().and_then(|list| list.at_or_after(key, tag));
        Ok(())
    }

    fn seek_for_prev(&mut self, key: &[u8], tag: Tag) -> Result<()> {
        self.at = self.list().and_then(|list| list.at_or_before(key, tag));
        Ok(())
    }

    #[inline]
    fn next(&mut self) -> Result<()> {
        self.at = self
            .list()
            .zip(self.at)
            .and_then(|(list, node)| list.next(node));
        Ok(())
    }

    fn prev(&mut self) -> Result<()> {
        self.at = self
            .list()
            .zip(self.at)
            .and_then(|(list, node)| list.prev(node));
        Ok(())
    }
}
