//! The iterator contract shared by memtables, tables, runs and their merge.

use std::path::PathBuf;

use super::key::Tag;
use crate::error::Result;

/// A cursor over entries in tree order ([`super::key::compare`]). It starts invalid; a positioning
/// call makes it valid if there is such an entry. `key`, `tag` and `value` may be called only while
/// it is valid (they return empty values otherwise) and borrow until the next positioning call.
/// After an error the cursor is invalid; it may be positioned again. `next` and `prev` on an
/// invalid cursor do nothing.
pub(crate) trait InternalIterator: Send {
    /// Whether the cursor is at an entry.
    fn valid(&self) -> bool;
    /// The user key of the present entry.
    fn key(&self) -> &[u8];
    /// The tag of the present entry.
    fn tag(&self) -> Tag;
    /// The value of the present entry (empty for a tombstone).
    fn value(&self) -> &[u8];
    /// To the first entry.
    fn seek_to_first(&mut self) -> Result<()>;
    /// To the last entry.
    fn seek_to_last(&mut self) -> Result<()>;
    /// To the first entry at or after (`key`, `tag`).
    fn seek(&mut self, key: &[u8], tag: Tag) -> Result<()>;
    /// To the last entry at or before (`key`, `tag`).
    fn seek_for_prev(&mut self, key: &[u8], tag: Tag) -> Result<()>;
    /// To the following entry.
    fn next(&mut self) -> Result<()>;
    /// To the preceding entry.
    fn prev(&mut self) -> Result<()>;
    /// Whether the cursor waits in front of entries that it has not read, as only those do that
    /// were told to, or at an entry whose value it does not hold, as those of merges do where
    /// memory is short. It is valid then, `key` and `tag` bound what comes (going forward, no entry
    /// comes before them, backward none after), there is no value, and before any other step it has
    /// to be settled.
    fn is_deferred(&self) -> bool {
        false
    }
    /// Reads what the cursor waits for, and goes to the entry there, if there is one; or gets the
    /// value.
    fn materialize(&mut self) -> Result<()> {
        Ok(())
    }
    /// The file that it reads, to be named where that is damaged; empty if it reads none.
    fn file(&self) -> PathBuf {
        PathBuf::new()
    }
}

/// Where a cursor is going.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    /// To greater entries.
    Forward,
    /// To smaller ones.
    Backward,
}

impl Direction {
    /// The tag that, going there, comes before every other of its key.
    pub(crate) const fn first_tag(self) -> Tag {
        match self {
            Direction::Forward => Tag::NEWEST,
            Direction::Backward => Tag::OLDEST,
        }
    }
}
