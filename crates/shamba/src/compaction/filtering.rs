//! A caller's filter of entries, and what it makes of those of a merge.

use std::borrow::Cow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use crate::base::expiring;
use crate::base::key::{EntryKind, MAX_VALUE_LEN, Tag};
use crate::budget::{Budget, Reservation, Role, least_limit_for_value, most_of_value};
use crate::error::{Error, Result};

/// What becomes of an entry, as a [`CompactionFilter`] says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CompactionDecision {
    /// It stays as it is.
    Keep,
    /// It is deleted.
    Remove,
    /// Its value becomes this one, of at most 64 MiB and a sixteenth of the memory budget. An entry
    /// with a time to live keeps its time.
    Change(Vec<u8>),
}

/// Decides about entries as compactions write them: to drop what nobody needs any more, or to bring
/// values into another form, without reads and writes of its own.
///
/// It is asked about each entry that a compaction merges and that nobody reads past: not about
/// deletions, nor about what has expired, nor about operands ([`Db::merge`](crate::Db::merge)) and
/// what they are yet to be merged into, nor about values in pieces (longer than a sixteenth of the
/// memory budget, or from a reader), nor about what an open snapshot, transaction or iterator may
/// see. What it decides is seen by all who begin to read later, and by nobody else.
/// When that is, is not said: an entry is asked about when its file is merged, once or many times,
/// and flushes, and files that compactions only move, ask about none.
/// [`Db::compact_range`](crate::Db::compact_range) asks about all entries of its range.
///
/// Where somebody who may see what was decided about began to read while a compaction went on, and
/// still does when it ends, it is done again without the filter.
///
/// It runs on the threads that compact, of which several may do so at once, and is best quick. It
/// may read the database and take snapshots; it may not write to it, or wait for what does. Where
/// it panics, its compaction fails with
/// [`Error::CompactionFilterPanicked`](crate::Error::CompactionFilterPanicked): nothing changes,
/// and it is tried again later.
pub trait CompactionFilter: Send + Sync {
    /// What becomes of an entry.
    fn decide(&self, key: &[u8], value: &[u8]) -> CompactionDecision;
}

impl<F> CompactionFilter for F
where
    F: Fn(&[u8], &[u8]) -> CompactionDecision + Send + Sync,
{
    fn decide(&self, key: &[u8], value: &[u8]) -> CompactionDecision {
        self(key, value)
    }
}

/// The filter of a merge.
pub(crate) struct Filtering<'a> {
    pub(crate) keyspace: &'a str,
    pub(crate) filter: &'a dyn CompactionFilter,
    pub(crate) budget: &'a Arc<Budget>,
}

/// How many entries a filter removed, and how many it changed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Filtered {
    pub(crate) removed: u64,
    pub(crate) changed: u64,
}

/// An entry after a filter; none where it is gone.
pub(crate) struct FilteredEntry<'v> {
    pub(crate) tag: Tag,
    pub(crate) value: Cow<'v, [u8]>,
    /// For a value that is new.
    _memory: Option<Reservation>,
}

impl<'v> FilteredEntry<'v> {
    /// An entry that no filter is asked about.
    pub(crate) fn kept(tag: Tag, value: &'v [u8]) -> Self {
        FilteredEntry {
            tag,
            value: Cow::Borrowed(value),
            _memory: None,
        }
    }
}

impl Filtering<'_> {
    /// An entry, with its value as it is stored, as the filter leaves it: a tombstone where it is
    /// deleted.
    pub(crate) fn apply<'v>(
        &self,
        (key, tag): (&[u8], Tag),
        stored: &'v [u8],
        done: &mut Filtered,
    ) -> Result<FilteredEntry<'v>> {
        let expiry = match tag.kind() {
            Some(EntryKind::Put) => &[],
            Some(EntryKind::Expiring) => stored.get(..expiring::EXPIRY_BYTES).unwrap_or(stored),
            Some(_) | None => {
                return Ok(FilteredEntry::kept(tag, stored));
            }
        };
        let value = stored.get(expiry.len()..).unwrap_or_default();
        match self.decide(key, value)? {
            CompactionDecision::Keep => Ok(FilteredEntry::kept(tag, stored)),
            CompactionDecision::Remove => {
                done.removed += 1;
                let deleted = Tag::new(tag.seq(), EntryKind::Delete);
                Ok(FilteredEntry::kept(deleted, &[]))
            }
            CompactionDecision::Change(value) => {
                self.check_len(value.len())?;
                done.changed += 1;
                let stored = [expiry, &value].concat();
                let bytes = (value.capacity() + stored.len()) as u64;
                Ok(FilteredEntry {
                    tag,
                    _memory: Some(self.budget.reserve(Role::Compaction, bytes)),
                    value: Cow::Owned(stored),
                })
            }
        }
    }

    /// The same of an entry that points to its value: the pointer stays if the value does.
    pub(crate) fn apply_pointed<'v>(
        &self,
        (key, tag): (&[u8], Tag),
        stored: &'v [u8],
        value: &[u8],
        done: &mut Filtered,
    ) -> Result<FilteredEntry<'v>> {
        let expires = tag.kind().is_some_and(EntryKind::expires);
        let (kind, expiry) = if expires {
            let expiry = stored.get(..expiring::EXPIRY_BYTES).unwrap_or(stored);
            (EntryKind::Expiring, expiry)
        } else {
            (EntryKind::Put, &[][..])
        };
        let whole = [expiry, value].concat();
        let _held = self.budget.reserve(Role::Compaction, whole.len() as u64);
        let inline = Tag::new(tag.seq(), kind);
        let left = self.apply((key, inline), &whole, done)?;
        Ok(match left.value {
            Cow::Borrowed(_) if left.tag == inline => FilteredEntry::kept(tag, stored),
            Cow::Borrowed(_) => FilteredEntry::kept(left.tag, &[]),
            Cow::Owned(value) => FilteredEntry {
                tag: left.tag,
                value: Cow::Owned(value),
                _memory: left._memory,
            },
        })
    }

    fn decide(&self, key: &[u8], value: &[u8]) -> Result<CompactionDecision> {
        let decide = || self.filter.decide(key, value);
        catch_unwind(AssertUnwindSafe(decide)).map_err(|_| Error::CompactionFilterPanicked {
            keyspace: self.keyspace.to_owned(),
            key: key.to_vec(),
        })
    }

    fn check_len(&self, len: usize) -> Result<()> {
        let most = most_of_value(self.budget.limit()).min(MAX_VALUE_LEN as u64);
        if len as u64 <= most {
            return Ok(());
        }
        Err(Error::ValueTooLarge {
            len,
            max: most as usize,
            needed: (len <= MAX_VALUE_LEN).then(|| least_limit_for_value(len as u64)),
        })
    }
}
