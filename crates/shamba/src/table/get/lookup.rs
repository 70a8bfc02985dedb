//! What a point lookup carries from table to table, and what it finds.
//!
//! A [`Lookup`] lives on one thread for one key.

use std::cell::Cell;
use std::ops::{Deref, Range};

use crate::base::digest::KeyDigest;
use crate::base::key::{SeqNo, Tag};
use crate::cache::Block;
use crate::fs::PAGE;

/// No entry of the cache is longer.
const LONGEST_ENTRY: usize = PAGE / 3;

/// A key looked for, at a snapshot.
#[derive(Debug)]
pub(crate) struct Lookup<'a> {
    key: &'a [u8],
    tag: Tag,
    digest: Cell<Option<KeyDigest>>,
    /// Compute the digest once for all tables (hash sharing), not once for each.
    share_digest: bool,
    /// A longer value that is found is left out: an empty one is in its place.
    longest_value: usize,
    /// Nothing that is read for it is offered to the cache.
    in_passing: bool,
}

impl<'a> Lookup<'a> {
    /// Looks for the newest entry of `key` at or before `snapshot`.
    pub(crate) fn new(key: &'a [u8], snapshot: SeqNo, share_digest: bool) -> Self {
        Lookup {
            key,
            tag: Tag::seek(snapshot),
            digest: Cell::new(None),
            share_digest,
            longest_value: usize::MAX,
            in_passing: false,
        }
    }

    /// The user key.
    pub(crate) fn key(&self) -> &'a [u8] {
        self.key
    }

    /// The newest tag wanted.
    pub(crate) fn tag(&self) -> Tag {
        self.tag
    }

    /// Looks whether the key is there: what is found comes with an empty value, and copies nothing.
    pub(crate) fn for_key_only(self) -> Self {
        Lookup {
            longest_value: 0,
            ..self
        }
    }

    /// Looks the key up for an entry of the cache: nothing that is read for it stays in memory, and
    /// a value that is too long for an entry is left out.
    pub(crate) fn for_entry(self) -> Self {
        Lookup {
            in_passing: true,
            longest_value: LONGEST_ENTRY,
            ..self
        }
    }

    /// Whether nothing that is read for it is to stay in memory.
    pub(super) fn in_passing(&self) -> bool {
        self.in_passing
    }

    /// Whether the value found is left out.
    pub(crate) fn key_only(&self) -> bool {
        self.longest_value == 0
    }

    /// Whether a value of this length is left out.
    #[inline]
    pub(super) fn leaves_out(&self, len: usize) -> bool {
        len > self.longest_value
    }

    /// A table begins to use the lookup.
    #[inline]
    pub(super) fn enter_table(&self) {
        if !self.share_digest {
            self.digest.set(None);
        }
    }

    /// The key's digest, computed when first asked for, which is counted in `hashes`.
    #[inline]
    pub(crate) fn digest(&self, hashes: &mut u32) -> KeyDigest {
        match self.digest.get() {
            Some(digest) => digest,
            None => {
                let digest = KeyDigest::of(self.key);
                *hashes += 1;
                self.digest.set(Some(digest));
                digest
            }
        }
    }
}

/// A value found in a table, without a copy where its block is in the cache.
#[derive(Debug, Clone)]
pub(crate) enum TableValue {
    /// A part of a cached block.
    Shared {
        /// The block; holding it keeps it in memory and in the accounts.
        block: Block,
        /// Where in it the value lies.
        range: Range<usize>,
    },
    /// A copy, since the cache had no room for the block.
    Owned(Box<[u8]>),
}

impl TableValue {
    /// Without the first bytes.
    pub(crate) fn skip(self, bytes: usize) -> TableValue {
        match self {
            TableValue::Shared { block, range } => TableValue::Shared {
                range: (range.start + bytes).min(range.end)..range.end,
                block,
            },
            TableValue::Owned(all) => {
                TableValue::Owned(all.get(bytes..).unwrap_or_default().into())
            }
        }
    }
}

impl Deref for TableValue {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            TableValue::Shared { block, range } => block.get(range.clone()).unwrap_or_default(),
            TableValue::Owned(bytes) => bytes,
        }
    }
}

/// What a table answers.
#[derive(Debug, Clone)]
pub(crate) enum TableGet {
    /// The newest entry at the snapshot.
    Found {
        /// Its sequence number and kind (of a kind this build knows).
        tag: Tag,
        /// Its value; empty for a tombstone.
        value: TableValue,
    },
    /// No entry of the key at the snapshot.
    Absent,
}
