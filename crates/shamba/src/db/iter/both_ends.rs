//! Iteration from both ends: an owned pair for each key of a range, in order, each once.
//!
//! One cursor serves whichever end is asked first; the other end gets one of its own when it is
//! asked, at the same moment of the database. One thread at a time.

use super::Cursor;
use crate::db::Value;
use crate::db::visibility::SnapshotPoint;
use crate::error::{Error, Result};

/// The keys of a range and their values at one moment, in the order of keys: a
/// [`DoubleEndedIterator`], so that `rev` and `next_back` go backward. Nothing is yielded after an
/// error. To seek within it, use a [`Cursor`].
///
/// ```
/// # fn main() -> shamba::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = shamba::Options::new().open(dir.path())?;
/// for (key, value) in [("a", "1"), ("b", "2"), ("c", "3")] {
///     db.put(key, value)?;
/// }
/// for entry in db.range("a".."c") {
///     let (key, value) = entry?;
///     println!("{} is {}", key.escape_ascii(), value.escape_ascii());
/// }
/// let last = db.iter().next_back().unwrap()?;
/// assert_eq!(last.0, b"c");
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct Iter {
    /// At the entry taken last at the end that was asked first; nothing once all were taken.
    first: Option<Cursor>,
    /// Which end that is, once one was asked.
    first_end: Option<End>,
    /// At the entry taken last at the other end.
    second: Option<Box<Cursor>>,
    /// Why the cursor could not be made: told once.
    failed: Option<Error>,
}

/// An end of the range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Front,
    Back,
}

impl Iter {
    pub(crate) fn new(cursor: Result<Cursor>) -> Self {
        let (first, failed) = match cursor {
            Ok(cursor) => (Some(cursor), None),
            Err(error) => (None, Some(error)),
        };
        Iter {
            first,
            first_end: None,
            second: None,
            failed,
        }
    }

    /// The next entry at an end, none once the ends have met.
    #[inline]
    fn take(&mut self, end: End) -> Option<Result<(Vec<u8>, Value)>> {
        // The way of all steps but the first while one end alone is asked.
        if let Some(cursor) = &mut self.first
            && self.first_end == Some(end)
            && self.second.is_none()
        {
            let moved = match end {
                End::Front => cursor.next(),
                End::Back => cursor.prev(),
            };
            return match moved {
                Ok(()) if cursor.valid() => Some(Ok(entry(cursor))),
                ended => self.end(ended),
            };
        }
        self.take_anew(end)
    }

    /// After the last entry, or an error, the cursors are let go of.
    #[cold]
    fn end(&mut self, ended: Result<()>) -> Option<Result<(Vec<u8>, Value)>> {
        (self.first, self.second) = (None, None);
        ended.err().map(Err)
    }

    /// [`Self::take`] where an end is asked for the first time, or both are.
    #[cold]
    fn take_anew(&mut self, end: End) -> Option<Result<(Vec<u8>, Value)>> {
        if let Some(error) = self.failed.take() {
            return Some(Err(error));
        }
        match self.go_on(end) {
            Ok(Some(entry)) => Some(Ok(entry)),
            ended => self.end(ended.map(drop)),
        }
    }

    fn go_on(&mut self, end: End) -> Result<Option<(Vec<u8>, Value)>> {
        let Some(first) = &mut self.first else {
            return Ok(None);
        };
        let asked = *self.first_end.get_or_insert(end);
        let (cursor, other) = match (&mut self.second, asked == end) {
            (None, true) => {
                to_next(first, end)?;
                (&*first, None)
            }
            (Some(second), true) => {
                to_next(first, end)?;
                (&*first, Some(&**second))
            }
            (second, false) => {
                let cursor = match second {
                    Some(cursor) => cursor,
                    None => second.insert(Box::new(first.again()?)),
                };
                to_next(cursor, end)?;
                (&**cursor, Some(&*first))
            }
        };
        let apart = other.is_none_or(|other| match end {
            End::Front => cursor.key() < other.key(),
            End::Back => cursor.key() > other.key(),
        });
        Ok((cursor.valid() && apart).then(|| entry(cursor)))
    }
}

impl Cursor {
    /// Another one over the same keys at the same moment, not positioned.
    fn again(&mut self) -> Result<Cursor> {
        let point = SnapshotPoint {
            seq: self.seq,
            time: self.time(),
        };
        let options = self.options.clone();
        Cursor::new(&self.db, &self.keyspace, options, Some(point))
    }
}

/// The pair that a cursor is at.
#[inline]
fn entry(cursor: &Cursor) -> (Vec<u8>, Value) {
    (cursor.key().to_vec(), Value::owned(cursor.value()))
}

/// To the next entry from an end, the first one where the cursor has no place yet.
fn to_next(cursor: &mut Cursor, end: End) -> Result<()> {
    match (cursor.valid(), end) {
        (true, End::Front) => cursor.next(),
        (true, End::Back) => cursor.prev(),
        (false, End::Front) => cursor.seek_to_first(),
        (false, End::Back) => cursor.seek_to_last(),
    }
}

impl Iterator for Iter {
    type Item = Result<(Vec<u8>, Value)>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        self.take(End::Front)
    }
}

impl DoubleEndedIterator for Iter {
    #[inline]
    fn next_back(&mut self) -> Option<Self::Item> {
        self.take(End::Back)
    }
}

impl std::iter::FusedIterator for Iter {}
