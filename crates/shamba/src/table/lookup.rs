//! What a point lookup carries from table to table, what it counts, and what it finds.
//!
//! A [`Lookup`] lives on one thread for one key; [`LookupStats`] may sum up many lookups.

use std::cell::Cell;
use std::ops::{Deref, Range};

use crate::base::digest::KeyDigest;
use crate::base::key::{SeqNo, Tag};
use crate::cache::Block;
use crate::filter::MAX_MODULES;
use crate::fs::BlockKind;

/// A key looked for, at a snapshot.
#[derive(Debug)]
pub(crate) struct Lookup<'a> {
    key: &'a [u8],
    tag: Tag,
    digest: Cell<Option<KeyDigest>>,
    /// Compute the digest once for all tables (hash sharing), not once for each.
    share_digest: bool,
    /// Read a filter module only where it is expected to save reads.
    by_worth: bool,
    /// The value found is left out.
    key_only: bool,
    /// The partition of the table asked last.
    partition: Cell<Option<u32>>,
}

impl<'a> Lookup<'a> {
    /// Looks for the newest entry of `key` at or before `snapshot`.
    pub(crate) fn new(key: &'a [u8], snapshot: SeqNo, share_digest: bool) -> Self {
        Lookup {
            key,
            tag: Tag::seek(snapshot),
            digest: Cell::new(None),
            share_digest,
            by_worth: false,
            key_only: false,
            partition: Cell::new(None),
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

    /// Reads filter modules where that is expected to save reads, not up to a file's limit.
    pub(crate) fn reading_by_worth(self, by_worth: bool) -> Self {
        Lookup { by_worth, ..self }
    }

    /// Asks whether the key is there: what is found comes with an empty value, and copies nothing.
    pub(crate) fn for_key_only(self) -> Self {
        Lookup {
            key_only: true,
            ..self
        }
    }

    /// Whether the value found is left out.
    pub(super) fn key_only(&self) -> bool {
        self.key_only
    }

    /// Whether modules are read by their worth.
    pub(super) fn by_worth(&self) -> bool {
        self.by_worth
    }

    /// The partition of the table asked last, if the key is in the range of one.
    pub(crate) fn partition(&self) -> Option<u32> {
        self.partition.get()
    }

    /// A table begins to use the lookup.
    pub(super) fn enter_table(&self, partition: Option<u32>) {
        self.partition.set(partition);
        if !self.share_digest {
            self.digest.set(None);
        }
    }

    /// The key's digest, computed when first asked for.
    #[inline]
    pub(super) fn digest(&self, stats: &mut LookupStats) -> KeyDigest {
        match self.digest.get() {
            Some(digest) => digest,
            None => {
                let digest = KeyDigest::of(self.key);
                stats.hashes += 1;
                self.digest.set(Some(digest));
                digest
            }
        }
    }
}

/// How blocks of one kind were come by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Reads {
    /// Blocks found in the cache.
    pub(crate) hits: u64,
    /// Blocks read from storage.
    pub(crate) reads: u64,
    /// Pages of the blocks read from storage.
    pub(crate) pages: u64,
}

impl Reads {
    fn add(&mut self, other: &Reads) {
        self.hits += other.hits;
        self.reads += other.reads;
        self.pages += other.pages;
    }
}

/// What lookups did in tables.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct LookupStats {
    /// Data blocks.
    pub(crate) data: Reads,
    /// Index blocks.
    pub(crate) index: Reads,
    /// Filter blocks, by module.
    pub(crate) filter: [Reads; MAX_MODULES],
    /// Lookups that a module ended.
    pub(crate) negatives: [u64; MAX_MODULES],
    /// Lookups of absent keys that a module let pass.
    pub(crate) false_positives: [u64; MAX_MODULES],
    /// Key digests computed.
    pub(crate) hashes: u64,
    /// Tables asked.
    pub(crate) tables: u64,
    /// Filter blocks that were damaged and therefore ignored.
    pub(crate) corrupt_filters: u64,
    /// No module of this number or above was asked.
    pub(crate) modules: usize,
    /// Times that blocks were read together.
    pub(crate) batches: u64,
}

/// What all filter modules did together.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct FilterStats {
    pub(crate) reads: Reads,
    pub(crate) negatives: u64,
    pub(crate) false_positives: u64,
}

impl LookupStats {
    /// How blocks of a kind were come by.
    #[inline]
    pub(super) fn reads_of(&mut self, kind: BlockKind) -> &mut Reads {
        let module = match kind {
            BlockKind::Filter(module) => usize::from(module),
            BlockKind::Index => return &mut self.index,
            _ => return &mut self.data,
        };
        // A plan has no more modules than there are counters.
        self.filter.get_mut(module).unwrap_or(&mut self.data)
    }

    /// A module ended a lookup.
    #[inline]
    pub(super) fn rule_out(&mut self, module: usize) {
        if let Some(count) = self.negatives.get_mut(module) {
            *count += 1;
        }
    }

    /// The filter modules together. A lookup counts as one false positive however many modules let
    /// it pass.
    pub(crate) fn all_filters(&self) -> FilterStats {
        let mut sum = FilterStats::default();
        let modules = self
            .filter
            .iter()
            .zip(&self.negatives)
            .zip(&self.false_positives);
        for ((reads, negatives), false_positives) in modules.take(self.modules) {
            sum.reads.add(reads);
            sum.negatives += negatives;
            sum.false_positives = sum.false_positives.max(*false_positives);
        }
        sum
    }

    /// Everything read, of all kinds.
    #[cfg(test)]
    pub(crate) fn total(&self) -> Reads {
        let mut total = self.data;
        total.add(&self.index);
        for reads in &self.filter {
            total.add(reads);
        }
        total
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

impl Deref for TableValue {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            TableValue::Shared { block, range } => block.get(range.clone()).unwrap_or_default(),
            TableValue::Owned(bytes) => bytes,
        }
    }
}

/// What a table says of a lookup.
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
