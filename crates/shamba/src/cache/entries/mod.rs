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
use crate::value::observed_of_entries;
pub(crate) use hot::HeldEntry;
pub(super) use hot::{EntryView, HotEntries};
use hot::{NewEntry, beside_group};
use slab::LARGEST_GROUP;
pub(super) use slab::{SlotAt, SlotSize};

/// An entry goes into the cache for so many others, or parts of blocks, at most. A group has fewer
/// slots of most sizes, and more than one comes free seldom.
const MOST_EVICTIONS: u32 = 64;

/// A group of slots at first.
const EMPTY: [u8; LARGEST_GROUP] = [0; LARGEST_GROUP];

/// The number of a keyspace in a cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SpaceId(u32);

impl SpaceId {
    fn hash(self, digest: KeyDigest) -> u64 {
        digest.remix(u32::MAX - self.0)
    }
}

/// A keyspace, for the entries that are cached of it.
#[derive(Debug)]
pub(crate) struct EntrySpace {
    id: SpaceId,
    /// Even, but while what its tables have changes, and when it has ended.
    epoch: AtomicU64,
    /// No table of it has anything newer.
    newest: AtomicU64,
}

/// A time in which what the tables of a keyspace have of a key only changes with its entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Epoch(u64);

impl EntrySpace {
    /// Its number in the cache, which is that of its entries.
    pub(crate) fn id(&self) -> SpaceId {
        self.id
    }

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

/// What a key has from now on.
#[derive(Debug, Clone, Copy)]
pub(crate) enum CachedValue<'a> {
    Value(&'a [u8]),
    None,
    /// What the cache does not keep.
    Unknown,
}

/// Says of a key whether nothing is known of it any more.
pub(crate) type IsGone<'a> = &'a dyn Fn(&[u8]) -> bool;

/// A key that was not in the cache, on its way through tables.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Candidate {
    hash: u64,
    /// Lookups expected of it in a window.
    expected: f32,
    /// Page reads that it would have been spared.
    pub(crate) cost: f32,
    /// How often it was used lately, of one that was in the cache before a restart.
    uses: Option<u8>,
}

/// A change of what tables have, under way: its keyspace has no entries until it is over.
#[derive(Debug)]
pub(crate) struct EntriesChange<'a> {
    cache: &'a BlockCache,
    space: &'a EntrySpace,
}

impl Drop for EntriesChange<'_> {
    fn drop(&mut self) {
        self.cache.remove_entries(|space, _| space == self.space.id);
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
        if shard.entries.frequency.is_crowded()
            && let Some(bytes) = shard.entries.wants_counters(shard.bytes())
            && let Some(held) = self.budget.try_reserve_now(Role::Tables, bytes)
        {
            shard.entries.grow_counters(held);
        }
        shard.entries.record(hash, used, &self.policy);
        CachedEntry::Unknown(Candidate {
            hash,
            expected: shard.entries.frequency.value_of(hash, 0),
            cost: 0.0,
            uses: None,
        })
    }

    /// A key that was in the cache before a restart: how often it was used lately, and the page
    /// reads that a lookup of it saved.
    pub(crate) fn candidate(
        &self,
        space: &EntrySpace,
        digest: KeyDigest,
        (uses, saves): (u8, f32),
    ) -> Candidate {
        let hash = space.id.hash(digest);
        let shard = self.shard(hash).lock();
        Candidate {
            hash,
            expected: shard.entries.rates.expected(uses),
            cost: saves,
            uses: Some(uses),
        }
    }

    /// Offers what a reader that began in an epoch found in tables of a key: its newest value, or
    /// that it has none. Says whether it is in the cache from now on.
    pub(crate) fn offer_entry(
        &self,
        (space, epoch): (&EntrySpace, Epoch),
        of: Candidate,
        key: &[u8],
        value: Option<&[u8]>,
    ) -> bool {
        let entry = NewEntry {
            hash: of.hash,
            space: space.id,
            key,
            value,
            saves: of.cost,
            uses: 0,
        };
        let Some((size, bytes)) = entry.size().zip(entry.bytes()) else {
            return false;
        };
        let observed = observed_of_entries(self.policy.observed_fraction());
        let density = observed * of.expected * entry.saves() / bytes as f32;
        // What is in memory turned most absent keys away for nothing.
        if of.cost == 0.0 || density <= self.policy.price() {
            return false;
        }
        let mut shard = self.shard(of.hash).lock();
        // Counted before the epoch is looked at: who changes it looks at this count after it.
        self.entries.fetch_add(1, Ordering::SeqCst);
        if space.is_at(epoch) && !shard.entries.contains(&entry) {
            let uses = of.uses;
            let uses = uses.unwrap_or_else(|| shard.entries.rates.uses_for(of.expected));
            if self.insert_entry(&mut shard, &NewEntry { uses, ..entry }, size, density) {
                return true;
            }
            shard.entries.stats.refused += 1;
        }
        self.entries.fetch_sub(1, Ordering::SeqCst);
        false
    }

    /// Puts an entry of which a byte is worth so much into its shard, for what ranks lower; false
    /// where nothing does, or too much would have to go.
    fn insert_entry(
        &self,
        shard: &mut Shard,
        entry: &NewEntry<'_>,
        size: SlotSize,
        density: f32,
    ) -> bool {
        let by = replacement(&self.policy);
        let mut evictions = 0;
        // What is evicted may be slots of other sizes, or parts of blocks: until a slot is free.
        while !shard.entries.insert(entry, shard.accesses) {
            let bytes = size.group_bytes();
            let extra = |bytes| beside_group(size.in_group(bytes));
            let block = self.store.block_between(
                Role::Entries,
                &EMPTY,
                bytes.least..=bytes.most,
                bytes.best,
                extra,
            );
            let room = match block {
                Ok(group) => shard.entries.add_group(size, group, &self.policy),
                Err(Shortage(_)) => {
                    evictions += 1;
                    let evicted = shard.make_slot(by, density, &self.policy);
                    evictions <= MOST_EVICTIONS && matches!(evicted, Evicted::Freed(_))
                }
            };
            if !room {
                return false;
            }
        }
        true
    }

    /// Tables have something newer of these keys from now on, up to a sequence number, which no
    /// reader sees yet but in memtables: each has this value, or none. Others of which nothing is
    /// known any more are `gone`.
    pub(crate) fn update_entries(
        &self,
        space: &EntrySpace,
        newest: SeqNo,
        gone: Option<IsGone<'_>>,
        each: impl FnOnce(&mut dyn FnMut(&[u8], CachedValue<'_>)),
    ) {
        space.newest.fetch_max(newest, Ordering::SeqCst);
        space.epoch.fetch_add(2, Ordering::SeqCst);
        if self.has_no_entries() {
            return;
        }
        if let Some(gone) = gone {
            self.remove_entries(|of, key| of == space.id && gone(key));
        }
        each(&mut |key, value| {
            let hash = space.id.hash(KeyDigest::of(key));
            let mut shard = self.shard(hash).lock();
            (shard.entries).update(hash, (space.id, key), value, &self.policy);
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

    /// Nothing is cached any more of keyspaces, which are gone. Takes time in the number of all
    /// entries.
    pub(crate) fn end_entries<'a>(&self, spaces: impl IntoIterator<Item = &'a EntrySpace>) {
        let mut ended: Vec<u32> = Vec::new();
        for space in spaces {
            space.epoch.fetch_or(1, Ordering::SeqCst);
            ended.push(space.id.0);
        }
        ended.sort_unstable();
        self.remove_entries(|space, _| ended.binary_search(&space.0).is_ok());
    }

    /// Drops what is cached of some keys of keyspaces.
    fn remove_entries(&self, gone: impl Fn(SpaceId, &[u8]) -> bool) {
        if self.has_no_entries() {
            return;
        }
        for shard in &self.shards {
            shard.lock().entries.remove_of(&gone, &self.policy);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::budget::Budget;
    use crate::cache::Store;

    fn cache() -> (Arc<Budget>, Arc<BlockCache>) {
        let budget = Budget::new(1 << 20);
        let cache = BlockCache::new(Store::new(budget.clone()), 1);
        cache.always_keep_entries();
        // At first nothing is expected of anything.
        let space = cache.entry_space(0);
        for number in 0..100u32 {
            look_up(&cache, &space, &number.to_be_bytes(), None);
        }
        cache.end_entries([&space]);
        (budget, cache)
    }

    fn ask(cache: &BlockCache, space: &EntrySpace, epoch: Epoch, key: &[u8]) -> CachedEntry {
        cache.entry((space, epoch), (key, KeyDigest::of(key)), false)
    }

    /// A lookup that finds this in tables; gives what the cache had of it.
    fn look_up(
        cache: &BlockCache,
        space: &EntrySpace,
        key: &[u8],
        value: Option<&[u8]>,
    ) -> Option<Option<Box<[u8]>>> {
        let epoch = space.epoch().unwrap();
        match ask(cache, space, epoch, key) {
            CachedEntry::Known(value) => Some(value),
            CachedEntry::Unknown(mut candidate) => {
                candidate.cost = 1.0;
                cache.offer_entry((space, epoch), candidate, key, value);
                None
            }
        }
    }

    #[test]
    fn entries_are_of_their_keyspace_and_empty_values_are_values() {
        let (budget, cache) = cache();
        let [one, other] = [(); 2].map(|()| cache.entry_space(0));
        let longest = [b'k'; 1200];
        let keys: [&[u8]; 3] = [b"", b"key", &longest];
        for key in keys {
            look_up(&cache, &one, key, Some(b""));
            look_up(&cache, &other, key, None);
        }
        for key in keys {
            let known = |space| look_up(&cache, space, key, Some(b"wrong"));
            assert_eq!(known(&one), Some(Some(Box::default())));
            assert_eq!(known(&other), Some(None));
        }
        // Neither is longer than a third of a page.
        look_up(&cache, &one, b"long", Some(&[7; 1400]));
        assert_eq!(look_up(&cache, &one, b"long", None), None);
        cache.end_entries([&one]);
        assert!(one.epoch().is_none());
        assert_eq!(cache.stats().entries().blocks, 3);
        assert_eq!(look_up(&cache, &other, b"key", None), Some(None));
        cache.end_entries([&other]);
        assert_eq!(
            (
                cache.stats().entries().blocks,
                cache.stats().entries().bytes
            ),
            (0, 0)
        );
        assert_eq!(budget.used_by(Role::Entries), 0);
    }

    #[test]
    fn values_that_outgrow_their_slots_leave_no_memory() {
        let (budget, cache) = cache();
        let space = cache.entry_space(0);
        let key = |number: u32| number.to_be_bytes();
        for number in 0..300 {
            look_up(&cache, &space, &key(number), Some(&[1; 30]));
        }
        let before = cache.stats().entries().blocks;
        assert!(before > 200 && budget.used_by(Role::Entries) > 0);
        cache.update_entries(&space, 1, None, |update| {
            (0..300).for_each(|number| update(&key(number), CachedValue::Value(&[2; 20])));
        });
        assert_eq!(cache.stats().entries().blocks, before);
        let known = (0..300).filter_map(|number| look_up(&cache, &space, &key(number), None));
        assert!(known.flatten().all(|value| *value == [2; 20]));
        cache.update_entries(&space, 2, None, |update| {
            (0..300).for_each(|number| update(&key(number), CachedValue::Value(&[3; 200])));
        });
        assert_eq!(
            (
                cache.stats().entries().blocks,
                budget.used_by(Role::Entries)
            ),
            (0, 0)
        );
    }

    #[test]
    fn counters_go_once_the_entries_are_gone() {
        let (_, cache) = cache();
        let space = cache.entry_space(0);
        let counters = || -> usize {
            let shards = cache.shards.iter();
            shards
                .map(|shard| shard.lock().entries.frequency.len())
                .sum()
        };
        let few = counters();
        for number in 0..20_000u32 {
            look_up(&cache, &space, &(number % 500).to_be_bytes(), None);
            look_up(&cache, &space, &(1000 + number).to_be_bytes(), None);
        }
        let many = counters();
        assert!(many >= 4 * few, "{few} {many}");
        cache.end_entries([&space]);
        // Half-lives pass, in which hardly any key is looked up.
        let other = cache.entry_space(0);
        for _ in 0..1 << 20 {
            look_up(&cache, &other, b"key", None);
        }
        assert!(counters() <= 2 * few, "{few} {} of {many}", counters());
    }

    /// Both what an entry is worth that is held, and one that is offered.
    #[test]
    fn what_is_expected_of_entries_counts_as_half_a_window_is_observed() {
        let (_, cache) = cache();
        let space = cache.entry_space(0);
        let epoch = space.epoch().unwrap();
        let offer = |key: &[u8; 3]| {
            let mut candidate = cache.candidate(&space, KeyDigest::of(key), (1, 1.0));
            candidate.uses = None;
            cache.offer_entry((&space, epoch), candidate, key, Some(b"value"))
        };
        assert!(offer(b"one"));
        let mut of_all = Vec::new();
        for number in 0..800u32 {
            ask(&cache, &space, epoch, &number.to_be_bytes());
            let mut shard = cache.shards[0].lock();
            // Shards are told now and then how much it is.
            if shard.accesses.is_multiple_of(32) {
                let part = (2.0 * cache.policy.observed_fraction()).min(1.0);
                of_all.push(shard.least(replacement(&cache.policy)) / part);
            }
        }
        assert!(cache.policy.observed_fraction() > 0.4 && of_all.len() > 20);
        let same = |worth: &f32| *worth > 0.0 && (worth / of_all[0] - 1.0).abs() < 0.01;
        assert!(of_all.iter().all(same), "{of_all:?}");
        for (price, offers) in [
            (0.75, [(b"two", 0.35, false), (b"six", 0.4, true)]),
            (0.95, [(b"ten", 0.45, false), (b"end", 0.5, true)]),
            (1.05, [(b"all", 0.5, false), (b"any", 1.0, false)]),
        ] {
            (0..1000).for_each(|_| cache.policy.note_marginal(price * of_all[0]));
            for (key, observed, taken) in offers {
                cache.policy.set_observed(observed);
                assert_eq!(offer(key), taken, "{observed} at {price}");
            }
        }
    }

    #[test]
    fn what_is_of_another_epoch_is_refused() {
        let (_, cache) = cache();
        let space = cache.entry_space(5);
        assert!(space.shows_all_to(5) && !space.shows_all_to(4));
        look_up(&cache, &space, b"held", Some(b"old"));
        let before = space.epoch().unwrap();
        let CachedEntry::Unknown(mut late) = ask(&cache, &space, before, b"late") else {
            panic!("it is there");
        };
        late.cost = 1.0;
        cache.update_entries(&space, 9, None, |update| {
            update(b"held", CachedValue::Value(b"new"))
        });
        assert!(!space.shows_all_to(8));
        cache.offer_entry((&space, before), late, b"late", Some(b"old"));
        assert!(matches!(
            ask(&cache, &space, before, b"held"),
            CachedEntry::Unknown(_)
        ));
        assert_eq!(look_up(&cache, &space, b"late", None), None);
        assert_eq!(
            look_up(&cache, &space, b"held", None),
            Some(Some(b"new"[..].into()))
        );
        let change = cache.change_entries(&space);
        assert!(space.epoch().is_none());
        drop(change);
        assert_eq!(look_up(&cache, &space, b"held", None), None);
    }
}
