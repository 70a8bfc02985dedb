//! A cursor over a part of another's keys: what a cut merge writes, and what it leaves.
//!
//! Forward only, and as thread-safe as what it wraps.

use crate::base::iter::InternalIterator;
use crate::base::key::Tag;
use crate::error::Result;

/// The keys of `inner` after `after` and up to `up_to`, all versions of each.
pub(crate) struct Part<'a, I> {
    inner: I,
    after: Option<&'a [u8]>,
    up_to: Option<&'a [u8]>,
}

impl<'a, I: InternalIterator> Part<'a, I> {
    /// Keys up to this one, or all.
    pub(crate) fn up_to(inner: I, key: Option<&'a [u8]>) -> Self {
        Part {
            inner,
            after: None,
            up_to: key,
        }
    }

    /// Keys after this one.
    pub(crate) fn after(inner: I, key: &'a [u8]) -> Self {
        Part {
            inner,
            after: Some(key),
            up_to: None,
        }
    }
}

impl<I: InternalIterator> InternalIterator for Part<'_, I> {
    fn valid(&self) -> bool {
        self.inner.valid() && self.up_to.is_none_or(|end| self.inner.key() <= end)
    }

    fn key(&self) -> &[u8] {
        self.inner.key()
    }

    fn tag(&self) -> Tag {
        self.inner.tag()
    }

    fn value(&self) -> &[u8] {
        self.inner.value()
    }

    fn seek_to_first(&mut self) -> Result<()> {
        let Some(after) = self.after else {
            return self.inner.seek_to_first();
        };
        self.inner.seek(after, Tag::OLDEST)?;
        while self.inner.valid() && self.inner.key() <= after {
            self.inner.next()?;
        }
        Ok(())
    }

    fn seek_to_last(&mut self) -> Result<()> {
        match self.up_to {
            Some(end) => self.inner.seek_for_prev(end, Tag::OLDEST),
            None => self.inner.seek_to_last(),
        }
    }

    fn seek(&mut self, key: &[u8], tag: Tag) -> Result<()> {
        match self.after {
            Some(after) if key <= after => self.seek_to_first(),
            _ => self.inner.seek(key, tag),
        }
    }

    fn seek_for_prev(&mut self, key: &[u8], tag: Tag) -> Result<()> {
        match self.up_to {
            Some(end) if key > end => self.seek_to_last(),
            _ => self.inner.seek_for_prev(key, tag),
        }
    }

    fn next(&mut self) -> Result<()> {
        self.inner.next()
    }

    fn prev(&mut self) -> Result<()> {
        self.inner.prev()
    }
}
