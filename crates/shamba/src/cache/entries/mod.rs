//! Entries in the cache: a key that is looked up often takes its own bytes there, not those of the
//! page it lies in, and its lookups need neither filter nor index.
//!
//! An entry says what the tables of a keyspace have of a key: its newest value, or that it has
//! none. Memtables are asked before it, so that a write needs to know nothing of it; when a
//! memtable goes over into tables, the entries of its keys are brought up to date before readers
//! see the change ([`BlockCache::update_entries`]). A reader may have looked into tables before and
//! offer what it found after it: it tells the [`Epoch`] at which it began, and what is of an
//! earlier one is refused. So is a hit: who reads several keys at one point sees no key of a later
//! one. Where what tables have changes otherwise ([`BlockCache::change_entries`]), nothing is
//! looked up or offered until that is over.
//!
//! What comes in is worth more than what is to go for it, as with blocks: the lookups expected of
//! its key in a window, by a sketch of their own ([`PageFrequency`](crate::value)), times the page
//! reads that each costs without it: data blocks count whether they are in memory or not, since
//! the entry is to take their place. Only while memory is short anything is looked up or offered.
//!
//! Thread-safe: entries are part of the cache's shards, by the hash of their key, under their
//! locks. All of it is hints, but for staying up to date.

mod hot;
mod slab;

use std::sync::atomic::{AtomicU64, Ordering};

use super::BlockCache;
use super::replacement::replacement;
use super::shard::{Evicted, Shard};
use crate::base::digest::KeyDigest;
use crate::base::key::SeqNo;
use crate::budget::{Role, Shortage};
pub(super) use hot::{EntryView, HotEntries};
use hot::{NewEntry, beside_frame};
pub(super) use slab::{SlotAt, SlotSize};

/// The number of a keyspace in a cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SpaceId(u32);

impl SpaceId {
    fn hash(self, digest: KeyDigest) -> u64 {
        digest.remix(u32::MAX - self.0)
    }
}

/// A keyspace, for the entries that are cached of it.
#[derive(Debug)]
pub(crate) struct EntrySpace {
    id: SpaceId,
    /// Even, but while what its tables have changes.
    epoch: AtomicU64,
    /// No table of it has anything newer.
    newest: AtomicU64,
}

/// A time in which what the tables of a keyspace have of a key only changes with its entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Epoch(u64);

impl EntrySpace {
    /// The epoch, to be asked for before the tables that are read; `None` while what they have
    /// changes.
    #[inline]
    pub(crate) fn epoch(&self) -> Option<Epoch> {
        let epoch = self.epoch.load(Ordering::SeqCst);
        epoch.is_multiple_of(2).then_some(Epoch(epoch))
    }

    fn is_at(&self, epoch: Epoch) -> bool {
        self.epoch.load(Ordering::SeqCst) == epoch.0
    }

    /// Whether who reads at a sequence number sees the newest entry of every key in tables, in the
    /// epoch that was asked for before.
    #[inline]
    pub(crate) fn shows_all_to(&self, seq: SeqNo) -> bool {
        seq >= self.newest.load(Ordering::SeqCst)
    }
}

/// What is in the cache of a key.
#[derive(Debug)]
pub(crate) enum CachedEntry {
    /// Its value; none where it has none.
    Known(Option<Box<[u8]>>),
    /// Nothing.
    Unknown(Candidate),
}

/// A key that was not in the cache, on its way through tables.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Candidate {
    hash: u64,
    /// Lookups expected of it in a window.
    expected: f32,
    /// Page reads that it would have been spared.
    pub(crate) cost: f32,
}

/// A change of what tables have, under way: its keyspace has no entries until it is over.
#[derive(Debug)]
pub(crate) struct EntriesChange<'a> {
    cache: &'a BlockCache,
    space: &'a EntrySpace,
}

impl Drop for EntriesChange<'_> {
    fn drop(&mut self) {
        self.cache.remove_entries(self.space);
        self.space.epoch.fetch_add(1, Ordering::SeqCst);
    }
}

impl BlockCache {
    /// For the entries of a keyspace whose tables have nothing newer than a sequence number.
    pub(crate) fn entry_space(&self, newest: SeqNo) -> EntrySpace {
        EntrySpace {
            id: SpaceId(self.next_space.fetch_add(1, Ordering::Relaxed)),
            epoch: AtomicU64::new(0),
            newest: AtomicU64::new(newest),
        }
    }

    /// Whether lookups are to ask for entries: while memory is short, and value decides what it
    /// holds.
    #[inline]
    pub(crate) fn uses_entries(&self) -> bool {
        (self.policy.under_pressure() || self.is_eager()) && self.policy.is_active()
    }

    /// Whether tests want entries however much memory there is.
    #[inline]
    fn is_eager(&self) -> bool {
        #[cfg(feature = "testing")]
        return self.eager.load(Ordering::Relaxed);
        #[cfg(not(feature = "testing"))]
        false
    }

    /// Uses entries from now on however much memory there is.
    #[cfg(feature = "testing")]
    pub(crate) fn always_keep_entries(&self) {
        self.eager.store(true, Ordering::Relaxed);
    }

    /// What is known of a key, of a reader that began in an epoch. Counts a lookup of it.
    pub(crate) fn entry(
        &self,
        (space, epoch): (&EntrySpace, Epoch),
        (key, digest): (&[u8], KeyDigest),
        key_only: bool,
    ) -> CachedEntry {
        let hash = space.id.hash(digest);
        let mut shard = self.shard(hash).lock();
        let used = shard.advance(&self.policy);
        if space.is_at(epoch)
            && let Some(value) = shard.entries.get(hash, (space.id, key), used)
        {
            let copy = |value: &[u8]| {
                if key_only {
                    Box::default()
                } else {
                    value.into()
                }
            };
            return CachedEntry::Known(value.map(copy));
        }
        // Before crowded counters are halved.
        if let Some(bytes) = shard.entries.wants_counters(shard.bytes())
            && let Some(held) = self.budget.try_reserve_now(Role::Tables, bytes)
        {
            shard.entries.grow_counters(held);
        }
        shard.entries.record(hash, used, &self.policy);
        CachedEntry::Unknown(Candidate {
            hash,
            expected: shard.entries.frequency.value_of(hash, 0),
            cost: 0.0,
        })
    }

    /// Offers what a reader that began in an epoch found in tables of a key: its newest value, or
    /// that it has none.
    pub(crate) fn offer_entry(
        &self,
        (space, epoch): (&EntrySpace, Epoch),
        of: Candidate,
        key: &[u8],
        value: Option<&[u8]>,
    ) {
        let entry = NewEntry {
            hash: of.hash,
            space: space.id,
            key,
            value,
            saves: of.cost,
            uses: 0,
        };
        let Some((size, bytes)) = entry.size().zip(entry.bytes()) else {
            return;
        };
        let density = of.expected * of.cost / bytes as f32;
        if density <= self.policy.price() {
            return;
        }
        let mut shard = self.shard(of.hash).lock();
        // Counted before the epoch is looked at: who changes it looks at this count after it.
        self.entries.fetch_add(1, Ordering::SeqCst);
        let wanted = space.is_at(epoch) && !shard.entries.contains(&entry);
        if !wanted || !self.insert_entry(&mut shard, entry, size, of.expected) {
            self.entries.fetch_sub(1, Ordering::SeqCst);
            shard.entries.stats.refused += 1;
        }
    }

    /// Puts an entry of which so many lookups are expected into its shard, for what ranks lower;
    /// false where nothing does.
    fn insert_entry(
        &self,
        shard: &mut Shard,
        mut entry: NewEntry<'_>,
        size: SlotSize,
        expected: f32,
    ) -> bool {
        let by = replacement(&self.policy);
        let density = expected * entry.saves / (size.bytes() as f32);
        entry.uses = shard.entries.rates.uses_for(expected);
        // What is evicted may be slots of other sizes, or parts of blocks: until a slot is free.
        while !shard.entries.insert(&entry, shard.accesses) {
            let extra = beside_frame(size.in_frame());
            let room = match self.store.run(Role::Entries, 1, extra, None) {
                Ok(frame) => shard.entries.add_frame(size, frame, &self.policy),
                Err(Shortage(_)) => {
                    let evicted = shard.make_slot(by, density, &self.policy);
                    matches!(evicted, Evicted::Freed(_))
                }
            };
            if !room {
                return false;
            }
        }
        true
    }

    /// Tables have something newer of these keys from now on, up to a sequence number, which no
    /// reader sees yet but in memtables: each has this value, or none.
    pub(crate) fn update_entries(
        &self,
        space: &EntrySpace,
        newest: SeqNo,
        each: impl FnOnce(&mut dyn FnMut(&[u8], Option<&[u8]>)),
    ) {
        space.newest.fetch_max(newest, Ordering::SeqCst);
        space.epoch.fetch_add(2, Ordering::SeqCst);
        if self.has_no_entries() {
            return;
        }
        each(&mut |key, value| {
            let hash = space.id.hash(KeyDigest::of(key));
            let mut shard = self.shard(hash).lock();
            shard.entries.update(hash, space.id, key, value);
        });
    }

    /// What the tables of a keyspace have changes until the guard is dropped.
    pub(crate) fn change_entries<'a>(&'a self, space: &'a EntrySpace) -> EntriesChange<'a> {
        space.epoch.fetch_add(1, Ordering::SeqCst);
        EntriesChange { cache: self, space }
    }

    fn has_no_entries(&self) -> bool {
        self.entries.load(Ordering::SeqCst) == 0
    }

    /// Nothing is cached any more of a keyspace, which is gone.
    pub(crate) fn end_entries(&self, space: &EntrySpace) {
        space.epoch.fetch_or(1, Ordering::SeqCst);
        self.remove_entries(space);
    }

    /// Drops what is cached of a keyspace. Takes time in the number of all entries.
    fn remove_entries(&self, space: &EntrySpace) {
        for shard in &self.shards {
            shard.lock().entries.remove_space(space.id, &self.policy);
        }
    }
}
