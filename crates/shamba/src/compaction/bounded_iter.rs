//! What merges read: cursors that only go forward; and one over a part of another's keys, for what
//! a cut merge writes and what it leaves.
//!
//! As thread-safe as what they wrap.

use crate::base::iter::InternalIterator;
use crate::base::key::Tag;
use crate::error::Result;

/// A cursor that is read once, from its start to its end.
pub(crate) trait Forward {
    /// To the first entry.
    fn start(&mut self) -> Result<()>;
    /// To the following entry. After an error there is none.
    fn advance(&mut self) -> Result<()>;
    /// Key, tag and value (empty for a tombstone) of the present entry, if there is one.
    fn entry(&self) -> Option<(&[u8], Tag, &[u8])>;
}

impl<I: InternalIterator> Forward for I {
    fn start(&mut self) -> Result<()> {
        self.seek_to_first()?;
        materialize(self)
    }

    fn advance(&mut self) -> Result<()> {
        self.next()?;
        materialize(self)
    }

    fn entry(&self) -> Option<(&[u8], Tag, &[u8])> {
        self.valid().then(|| (self.key(), self.tag(), self.value()))
    }
}

/// Until the cursor is at an entry and holds its value.
#[inline]
fn materialize(cursor: &mut impl InternalIterator) -> Result<()> {
    while cursor.is_deferred() {
        cursor.materialize()?;
    }
    Ok(())
}

/// The keys of `inner` after `after` and up to `up_to`, all versions of each.
pub(crate) struct BoundedIter<'a, I> {
    inner: I,
    after: Option<&'a [u8]>,
    up_to: Option<&'a [u8]>,
}

impl<'a, I: InternalIterator> BoundedIter<'a, I> {
    /// Keys up to this one, or all.
    pub(crate) fn up_to(inner: I, key: Option<&'a [u8]>) -> Self {
        BoundedIter {
            inner,
            after: None,
            up_to: key,
        }
    }

    /// Keys after this one.
    pub(crate) fn after(inner: I, key: &'a [u8]) -> Self {
        BoundedIter {
            inner,
            after: Some(key),
            up_to: None,
        }
    }
}

impl<I: InternalIterator> Forward for BoundedIter<'_, I> {
    fn start(&mut self) -> Result<()> {
        let Some(after) = self.after else {
            return self.inner.start();
        };
        self.inner.seek(after, Tag::OLDEST)?;
        while self.inner.valid() && self.inner.key() <= after {
            self.inner.next()?;
        }
        materialize(&mut self.inner)
    }

    fn advance(&mut self) -> Result<()> {
        self.inner.advance()
    }

    fn entry(&self) -> Option<(&[u8], Tag, &[u8])> {
        let entry = self.inner.entry()?;
        self.up_to.is_none_or(|end| entry.0 <= end).then_some(entry)
    }
}
