//! How an iterator comes from a place of its merge to an entry that its reader sees: past what is
//! newer, older or deleted. One thread at a time.

use super::sources::IterSource;
use super::{Cursor, Position};
use crate::base::expiring::{self, EXPIRY_BYTES};
use crate::base::iter::{Direction, InternalIterator};
use crate::base::key::{EntryKind, Tag};
use crate::error::{Error, Result};

impl Cursor {
    /// Puts the merge at a key, going in a direction, by `seek`. In sources older than a range
    /// tombstone over the key nothing is looked for that it hides.
    fn position(
        &mut self,
        direction: Direction,
        key: &[u8],
        seek: impl Fn(&mut IterSource) -> Result<()>,
    ) -> Result<()> {
        if let Some(covers) = &mut self.covers
            && let Some(hiding) = covers.hiding(key)?
        {
            return self.merge.seek_around(direction, hiding, seek);
        }
        self.merge.position(direction, seek)
    }

    /// To the first entry from one on.
    pub(super) fn seek_from(&mut self, key: &[u8], tag: Tag) -> Result<()> {
        self.position(Direction::Forward, key, |source| source.seek(key, tag))
    }

    /// To the last entry up to the oldest of a key.
    pub(super) fn seek_back_from(&mut self, key: &[u8]) -> Result<()> {
        self.position(Direction::Backward, key, |source| {
            source.seek_for_prev(key, Tag::OLDEST)
        })
    }

    /// To the first entry of a key greater than `key`.
    pub(super) fn seek_after(&mut self, key: &[u8]) -> Result<()> {
        self.merge.seek(key, Tag::OLDEST)?;
        while self.merge.valid() && self.merge.key() == key && !self.is_lost() {
            if self.merge.is_deferred() {
                self.merge.materialize()?
            } else {
                self.merge.next()?
            }
        }
        Ok(())
    }

    /// To the last entry of a key less than `key`.
    pub(super) fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        self.merge.seek_for_prev(key, Tag::NEWEST)?;
        while self.merge.valid() && self.merge.key() == key && !self.is_lost() {
            if self.merge.is_deferred() {
                self.merge.materialize()?
            } else {
                self.merge.prev()?
            }
        }
        Ok(())
    }

    /// From the merge's place on, to the first visible value.
    pub(super) fn settle_forward(&mut self) -> Result<()> {
        self.skip_forward(false)
    }

    /// The same, passing over what remains of the key in `self.key`.
    pub(super) fn settle_forward_past_key(&mut self) -> Result<()> {
        self.skip_forward(true)
    }

    #[inline(always)]
    fn may_be_hidden(&self, direction: Direction) -> bool {
        let covers = self.covers.as_ref();
        covers.is_some_and(|covers| !covers.is_clear(self.merge.key(), direction))
    }

    fn skip_forward(&mut self, mut hidden: bool) -> Result<()> {
        // Without what was lost, what comes next may not be the next.
        while self.merge.valid() && !self.is_lost() {
            if self.may_be_hidden(Direction::Forward) && self.pass_hidden(Direction::Forward)? {
                continue;
            }
            let tag = self.merge.tag();
            let key = self.merge.key();
            // Of what was not read yet no entry comes before `key`.
            if self.options.past_upper(key) {
                return Ok(());
            }
            if self.merge.is_deferred() {
                self.merge.materialize()?;
                continue;
            }
            // What is left of a key whose newest entry was seen; and of a table whose entries are
            // out of order, which no checksum tells, what one could come to for ever.
            if hidden && key <= self.key.as_slice() {
                self.merge.next()?;
                continue;
            }
            // The first entry of a key that the reader sees says what the key is.
            if tag.seq() <= self.seq {
                let is_value = tag.kind() == Some(EntryKind::Put);
                let expiry = if is_value {
                    Some(0)
                } else {
                    self.before_value(tag)
                };
                if let Some(expiry) = expiry {
                    self.expiry = expiry;
                    self.place = Position::Forward;
                    if !is_value && tag.kind().is_some_and(EntryKind::is_pointer) {
                        return self.load_forward(tag);
                    }
                    return Ok(());
                }
                if tag.kind() == Some(EntryKind::Operand) {
                    return self.merge_forward();
                }
                self.key.clear();
                self.key.extend_from_slice(self.merge.key());
                hidden = true;
            }
            self.merge.next()?;
        }
        Ok(())
    }

    /// How many bytes lie before the value of the merge's entry, if it has one.
    #[inline(never)]
    pub(super) fn before_value(&mut self, tag: Tag) -> Option<usize> {
        match tag.kind() {
            Some(EntryKind::Put) => Some(0),
            Some(EntryKind::Pointer) => Some(0),
            Some(EntryKind::Expiring | EntryKind::ExpiringPointer) => {
                let time = self.time();
                let live = expiring::at(self.merge.value(), time).is_some();
                live.then_some(EXPIRY_BYTES)
            }
            Some(EntryKind::Delete | EntryKind::Operand) | None => None,
        }
    }

    /// From the merge's place back, to the last key with a visible value; leaves the merge before
    /// all entries of that key.
    pub(super) fn settle_backward(&mut self) -> Result<()> {
        while self.merge.valid() && !self.is_lost() {
            if self.options.before_lower(self.merge.key()) {
                return Ok(());
            }
            if self.may_be_hidden(Direction::Backward) && self.pass_hidden(Direction::Backward)? {
                continue;
            }
            if self.merge.is_deferred() {
                self.merge.materialize()?;
                continue;
            }
            self.key.clear();
            self.key.extend_from_slice(self.merge.key());
            let mut visible = false;
            let mut has_operands = false;
            let mut is_pointer = false;
            // Entries of a key come oldest first here; the last one at or below our number counts.
            while self.merge.valid() && self.merge.key() == self.key.as_slice() && !self.is_lost() {
                if self.merge.is_deferred() {
                    self.merge.materialize()?;
                    continue;
                }
                let tag = self.merge.tag();
                if tag.seq() <= self.seq && self.is_hidden()? {
                    (visible, has_operands) = (false, false);
                } else if tag.kind() == Some(EntryKind::Operand) && tag.seq() <= self.seq {
                    has_operands = true;
                } else if tag.seq() <= self.seq {
                    has_operands = false;
                    let expiry = self.before_value(tag);
                    visible = expiry.is_some();
                    is_pointer = tag.kind().is_some_and(EntryKind::is_pointer);
                    if let Some(expiry) = expiry {
                        let value = self.merge.value().get(expiry..).unwrap_or_default();
                        self.value.clear();
                        self.value.extend_from_slice(value);
                    }
                }
                self.merge.prev()?;
            }
            // What they come to is found on the way that a reader goes.
            if has_operands && !self.is_lost() {
                return self.merge_backward();
            }
            if visible && !self.is_lost() {
                if is_pointer {
                    self.load_backward()?;
                }
                self.place = Position::Backward;
                return self.account();
            }
        }
        Ok(())
    }

    /// An error where the present key is not before the one that was left: in a table whose entries
    /// are out of order, which no checksum tells, one could go round for ever.
    #[inline]
    pub(super) fn check_before(&mut self, left: &[u8]) -> Result<()> {
        if self.place == Position::Nowhere || self.key() < left {
            return Ok(());
        }
        Err(self.out_of_order())
    }

    /// The error that a table's entries are out of order; at no entry then.
    #[cold]
    pub(super) fn out_of_order(&mut self) -> Error {
        self.place = Position::Nowhere;
        let name = self.keyspace.name();
        let what = format!("entries of keyspace `{name}` are out of order");
        Error::corruption(self.db.inner().shared().dir(), 0, what)
    }
}
