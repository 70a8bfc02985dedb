//! The entries of a shard: keys of any keyspace with their values, or with the knowledge that they
//! have none. With the shard locked.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hashbrown::HashTable;

use super::slab::{LISTED, Slab, SlotAt, SlotSize};
use super::{CachedValue, SpaceId};
use crate::base::digest::KeyDigest;
use crate::budget::Reservation;
use crate::cache::stats::KindStats;
use crate::cache::store::Block;
use crate::value::{MOST_USES, PageFrequency, PolicyState, UseRates};

/// What stands before a key in its slot.
const HEAD: usize = 12;

/// Bits of the length of a key, and of a value.
const LEN_BITS: u32 = 12;

/// The length of no value.
const NONE: u32 = (1 << LEN_BITS) - 1;

/// Bytes of the table for each entry: a slot of one that is between 7/16 and 7/8 full.
const INDEXED: usize = (size_of::<u32>() + 1) * 2;

/// Bits of the count of an entry's uses, and of the reads it saves, which are kept in halves.
const COUNT_BITS: u32 = 4;
const HALVES: f32 = 2.0;

/// Counters of lookups for each entry that is held, if they are crowded: most keys that are looked
/// up are in none, and who comes in is known by them alone. With half of it 3 % more is read under
/// the smallest budgets with skewed lookups, with a quarter 5 %; at larger ones neither is felt.
const COUNTERS_PER_ENTRY: usize = 16;

/// A group of entries counts as so many blocks in how long a window is: what is told apart are
/// entries, of which each is used less often than a block.
const BLOCKS_OF_GROUP: i64 = 1;

/// A counter for so many bytes of a shard at least, before there are entries. With four times of it
/// uniform lookups read more under some budgets: counts of few counters are of others.
const BYTES_PER_COUNTER: u64 = 256;

/// Half-lives that a shard ends at once: after as many every count is 0.
const HALVED_AT_ONCE: u32 = 16;

/// An entry as it lies in its slot.
#[derive(Debug, Clone, Copy)]
pub(in crate::cache) struct EntryView<'a> {
    space: SpaceId,
    key: &'a [u8],
    value: Option<&'a [u8]>,
    /// The shard's accesses at its last use.
    pub(in crate::cache) used: u32,
    saves: u8,
    pub(in crate::cache) uses: u8,
    bytes: usize,
}

impl<'a> EntryView<'a> {
    fn of(slot: &'a [u8]) -> Option<Self> {
        let (head, rest) = slot.split_first_chunk::<HEAD>()?;
        let [used, space, packed] = [0, 4, 8].map(|at| {
            let word = head.get(at..).and_then(|word| word.first_chunk());
            word.map_or(0, |word| u32::from_le_bytes(*word))
        });
        let (key, value) = (packed & NONE, packed >> LEN_BITS & NONE);
        let (key, rest) = rest.split_at_checked(key as usize)?;
        let value = match value {
            NONE => None,
            len => Some(rest.get(..len as usize)?),
        };
        Some(EntryView {
            space: SpaceId(space),
            key,
            value,
            used,
            saves: (packed >> (2 * LEN_BITS)) as u8 & MOST_USES,
            uses: (packed >> (2 * LEN_BITS + COUNT_BITS)) as u8,
            bytes: slot.len() + INDEXED,
        })
    }

    /// Page reads that a lookup of it saves.
    pub(in crate::cache) fn saves(&self) -> f32 {
        f32::from(self.saves) / HALVES
    }

    /// The memory it takes.
    pub(in crate::cache) fn bytes(&self) -> usize {
        self.bytes
    }

    /// It, to be kept over a restart.
    pub(in crate::cache) fn held(&self) -> HeldEntry<'a> {
        HeldEntry {
            space: self.space,
            key: self.key,
            uses: self.uses,
            saves: self.saves(),
        }
    }

    /// The hash of its key.
    pub(in crate::cache) fn hash(&self) -> u64 {
        self.space.hash(KeyDigest::of(self.key))
    }
}

/// An entry in the cache, or an absent key, as it is kept over a restart.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct HeldEntry<'a> {
    pub(crate) space: SpaceId,
    pub(crate) key: &'a [u8],
    /// How often it was used lately.
    pub(crate) uses: u8,
    /// Page reads that a lookup of it saves.
    pub(crate) saves: f32,
}

/// An entry on its way into a shard.
#[derive(Debug, Clone, Copy)]
pub(in crate::cache) struct NewEntry<'a> {
    pub(super) hash: u64,
    pub(super) space: SpaceId,
    pub(super) key: &'a [u8],
    /// None for a key that has no value.
    pub(super) value: Option<&'a [u8]>,
    /// Page reads that a lookup of it saves.
    pub(super) saves: f32,
    /// How often it was used lately.
    pub(super) uses: u8,
}

impl NewEntry<'_> {
    fn len(&self) -> usize {
        HEAD + self.key.len() + self.value.map_or(0, <[u8]>::len)
    }

    /// The size of its slot; none where it is too long.
    pub(super) fn size(&self) -> Option<SlotSize> {
        SlotSize::of(self.len())
    }

    /// The memory it would take.
    pub(super) fn bytes(&self) -> Option<usize> {
        self.size().map(|size| size.bytes() + INDEXED)
    }

    /// The reads that a lookup saves, as they are kept.
    pub(super) fn saves(&self) -> f32 {
        self.halves() / HALVES
    }

    fn halves(&self) -> f32 {
        (self.saves * HALVES)
            .round()
            .clamp(1.0, f32::from(MOST_USES))
    }

    fn write(&self, used: u32, slot: &mut [u8]) {
        let value = self.value.map_or(NONE, |value| value.len() as u32);
        let counts = self.halves() as u32 | u32::from(self.uses.min(MOST_USES)) << COUNT_BITS;
        let packed = self.key.len() as u32 | value << LEN_BITS | counts << (2 * LEN_BITS);
        let head = [used, self.space.0, packed].map(u32::to_le_bytes);
        let value = self.value.unwrap_or_default();
        let bytes = head.as_flattened().iter().chain(self.key).chain(value);
        for (to, from) in slot.iter_mut().zip(bytes) {
            *to = *from;
        }
    }
}

/// What a group of so many slots takes beside itself.
pub(super) const fn beside_group(slots: usize) -> u64 {
    (LISTED + slots * INDEXED) as u64
}

/// The entries of a shard.
#[derive(Debug)]
pub(in crate::cache) struct HotEntries {
    table: HashTable<SlotAt>,
    slab: Slab,
    /// How often keys were looked up that were not here.
    pub(in crate::cache) frequency: PageFrequency,
    /// How many there are of each count of uses.
    counts: [u32; MOST_USES as usize + 1],
    /// What it means that an entry was used so often.
    pub(in crate::cache) rates: UseRates,
    /// For the counters of `frequency`.
    held: Option<Reservation>,
    /// How many there are in all shards.
    all: Arc<AtomicU64>,
    pub(in crate::cache) stats: KindStats,
}

impl HotEntries {
    /// None; those of all shards are counted in `all`.
    pub(in crate::cache) fn new(all: Arc<AtomicU64>) -> Self {
        HotEntries {
            table: HashTable::new(),
            slab: Slab::default(),
            frequency: PageFrequency::of_keys(),
            counts: [0; MOST_USES as usize + 1],
            rates: UseRates::new(),
            held: None,
            all,
            stats: KindStats::default(),
        }
    }

    fn len(&self) -> usize {
        self.slab.len()
    }

    fn view(&self, at: SlotAt) -> Option<EntryView<'_>> {
        EntryView::of(self.slab.get(at)?)
    }

    /// How many there are of a size, or of all.
    pub(in crate::cache) fn count(&self, size: Option<SlotSize>) -> usize {
        size.map_or(self.len(), |size| self.slab.count(size))
    }

    /// An entry, by a number below [`Self::count`].
    pub(in crate::cache) fn draw(
        &self,
        size: Option<SlotSize>,
        number: usize,
    ) -> Option<(SlotAt, EntryView<'_>)> {
        let at = match size {
            Some(size) => self.slab.draw_of(size, number)?,
            None => self.slab.draw(number)?,
        };
        Some((at, self.view(at)?))
    }

    /// The hash of the entry in a slot, and how often it was used.
    pub(in crate::cache) fn uses_at(&self, at: SlotAt) -> Option<(u64, u8)> {
        self.view(at).map(|entry| (entry.hash(), entry.uses))
    }

    fn find(&self, hash: u64, space: SpaceId, key: &[u8]) -> Option<SlotAt> {
        let is_it = |at: &SlotAt| {
            let entry = self.view(*at);
            entry.is_some_and(|entry| entry.key == key && entry.space == space)
        };
        self.table.find(hash, is_it).copied()
    }

    /// Whether a key is here.
    pub(super) fn contains(&self, entry: &NewEntry<'_>) -> bool {
        self.find(entry.hash, entry.space, entry.key).is_some()
    }

    /// The value of a key, if the key is here; counts as a use at so many accesses.
    #[inline]
    pub(super) fn get(
        &mut self,
        hash: u64,
        (space, key): (SpaceId, &[u8]),
        used: u32,
    ) -> Option<Option<&[u8]>> {
        let at = self.find(hash, space, key)?;
        let uses = self.view(at)?.uses;
        self.rates.record(uses);
        let slot = self.slab.get_mut(at)?;
        *slot.first_chunk_mut()? = used.to_le_bytes();
        let more = (uses + 1).min(MOST_USES);
        set_uses(slot, more);
        self.count_uses(uses, -1);
        self.count_uses(more, 1);
        self.stats.hits += 1;
        self.view(at).map(|entry| entry.value)
    }

    /// Counts a lookup of a key that is not here, at so many accesses.
    pub(super) fn record(&mut self, hash: u64, accesses: u32, policy: &PolicyState) {
        (self.frequency).end_if_crowded(accesses, policy, &policy.keys);
        self.frequency.record(hash, 1);
    }

    /// Adds an entry where a slot is free for it; false where none is.
    pub(super) fn insert(&mut self, entry: &NewEntry<'_>, used: u32) -> bool {
        let room = entry.size().and_then(|size| self.slab.room(size));
        let Some((at, slot)) = room.and_then(|size| self.slab.take(size)) else {
            return false;
        };
        entry.write(used, slot);
        let slab = &self.slab;
        (self.table).insert_unique(entry.hash, at, |at| hash_at(slab, *at));
        self.count_uses(entry.uses, 1);
        self.stats.inserts += 1;
        self.stats.blocks += 1;
        self.stats.bytes += (at.size().bytes() + INDEXED) as u64;
        true
    }

    /// Adds a group of slots of a size; false where there may be no more.
    pub(super) fn add_group(&mut self, size: SlotSize, group: Block, policy: &PolicyState) -> bool {
        policy.count_blocks(BLOCKS_OF_GROUP);
        let added = self.slab.add_group(size, group);
        if !added {
            policy.count_blocks(-BLOCKS_OF_GROUP);
        }
        added
    }

    /// What is in memory of a key is from now on that it has this value, or none, or nothing.
    pub(super) fn update(
        &mut self,
        hash: u64,
        (space, key): (SpaceId, &[u8]),
        value: CachedValue<'_>,
        policy: &PolicyState,
    ) {
        let Some(at) = self.find(hash, space, key) else {
            return;
        };
        let value = match value {
            CachedValue::Value(value) => Some(Some(value)),
            CachedValue::None => Some(None),
            CachedValue::Unknown => None,
        };
        let new = self.view(at).zip(value).map(|(entry, value)| NewEntry {
            hash,
            space,
            key,
            value,
            saves: entry.saves(),
            uses: entry.uses,
        });
        let used = self.view(at).map_or(0, |entry| entry.used);
        match (new, self.slab.get_mut(at)) {
            (Some(new), Some(slot)) if new.len() <= slot.len() => new.write(used, slot),
            _ => {
                self.remove(at, hash);
                self.drop_empty_group(at.size(), policy);
            }
        }
    }

    /// All entries, or those that come after the one in a slot.
    pub(in crate::cache) fn each(
        &self,
        after: Option<SlotAt>,
    ) -> impl Iterator<Item = (SlotAt, EntryView<'_>)> {
        let rest = after.and_then(|at| self.slab.before(at));
        let later = move |end: &SlotAt| after.is_none_or(|at| end.size() > at.size());
        let starts = rest.into_iter().chain(self.slab.ends().filter(later));
        let all = starts.flat_map(|at| std::iter::successors(Some(at), |at| self.slab.before(*at)));
        all.filter_map(|at| Some((at, self.view(at)?)))
    }

    /// Takes an entry out.
    pub(in crate::cache) fn remove(&mut self, at: SlotAt, hash: u64) {
        if let Ok(slot) = self.table.find_entry(hash, |place| *place == at) {
            slot.remove();
        }
        if let Some(uses) = self.view(at).map(|entry| entry.uses) {
            self.count_uses(uses, -1);
        }
        self.all.fetch_sub(1, Ordering::SeqCst);
        self.stats.blocks -= 1;
        self.stats.bytes -= (at.size().bytes() + INDEXED) as u64;
        if let Some(from) = self.slab.give_back(at)
            && let Some(moved) = self.view(at).map(|entry| entry.hash())
            && let Some(place) = self.table.find_mut(moved, |place| *place == from)
        {
            *place = at;
        }
    }

    /// Gives the last group of a size back if it has nothing; gives the memory it took.
    pub(in crate::cache) fn drop_empty_group(
        &mut self,
        size: SlotSize,
        policy: &PolicyState,
    ) -> Option<u64> {
        let bytes = self.slab.drop_empty_group(size)?;
        policy.count_blocks(-BLOCKS_OF_GROUP);
        Some(bytes)
    }

    /// A group of slots, by any number.
    pub(in crate::cache) fn group(&mut self, drawn: usize) -> Option<&mut Block> {
        let group = drawn.checked_rem(self.slab.groups())?;
        self.slab.group(group)
    }

    /// Takes out what is of the keyspaces that `gone` names, and gives the memory back.
    pub(super) fn remove_of(
        &mut self,
        gone: &impl Fn(SpaceId, &[u8]) -> bool,
        policy: &PolicyState,
    ) {
        let ends: Vec<SlotAt> = self.slab.ends().collect();
        for end in ends {
            // Backwards, since a removal moves the last entry of a size into the gap.
            let mut next = Some(end);
            while let Some(at) = next {
                next = self.slab.before(at);
                if let Some(entry) = self.view(at)
                    && gone(entry.space, entry.key)
                {
                    self.remove(at, entry.hash());
                    self.drop_empty_group(at.size(), policy);
                }
            }
        }
    }

    /// The bytes of as many counters as suit what is held, where those there are crowded and too
    /// few: of so many bytes of the shard at least a share, since who comes in first is known by
    /// them alone.
    pub(super) fn wants_counters(&self, resident: u64) -> Option<u64> {
        let more = self.suitable_counters(resident) > self.frequency.len();
        more.then_some(2 * self.frequency.len() as u64)
    }

    fn suitable_counters(&self, resident: u64) -> usize {
        (COUNTERS_PER_ENTRY * self.len()).max((resident / BYTES_PER_COUNTER) as usize)
    }

    /// Doubles the counters, which `held` is for.
    pub(super) fn grow_counters(&mut self, held: Reservation) {
        self.frequency.double();
        self.held = Some(held);
    }

    /// Gives back what is too much for the entries that are left, and so many bytes of the shard.
    pub(in crate::cache) fn shrink(&mut self, resident: u64) {
        let slab = &self.slab;
        self.table.shrink_to_fit(|at| hash_at(slab, *at));
        self.fold_counters(resident);
    }

    /// Gives the counters back that are too many for the entries that are left, and so many bytes
    /// of the shard.
    pub(in crate::cache) fn fold_counters(&mut self, resident: u64) {
        let most = 2 * self.suitable_counters(resident);
        while self.frequency.len() > most && self.frequency.fold() {
            if let Some(held) = &mut self.held {
                held.resize(self.frequency.len() as u64);
            }
        }
    }

    /// The shard had so many accesses so far; says whether a half-life is over.
    pub(in crate::cache) fn advance(&mut self, accesses: u32, policy: &PolicyState) -> bool {
        let ended = self.frequency.advance(accesses, policy, &policy.keys);
        for _ in 0..ended.min(HALVED_AT_ONCE) {
            self.end_half_life(policy);
        }
        ended > 0
    }

    #[cold]
    fn end_half_life(&mut self, policy: &PolicyState) {
        if !self.rates.end_half_life(&self.counts, &policy.uses) {
            return;
        }
        let mut counts = [0; MOST_USES as usize + 1];
        self.slab.each_mut(|slot| {
            let uses = EntryView::of(slot).map_or(0, |entry| entry.uses) / 2;
            set_uses(slot, uses);
            if let Some(count) = counts.get_mut(usize::from(uses)) {
                *count += 1;
            }
        });
        self.counts = counts;
    }

    fn count_uses(&mut self, uses: u8, more: i32) {
        if let Some(count) = self.counts.get_mut(usize::from(uses)) {
            *count = count.wrapping_add_signed(more);
        }
    }
}

/// The hash of the key of the entry in a slot.
fn hash_at(slab: &Slab, at: SlotAt) -> u64 {
    let entry = slab.get(at).and_then(EntryView::of);
    entry.map_or(0, |entry| entry.hash())
}

/// Sets the count of uses of the entry in a slot.
fn set_uses(slot: &mut [u8], uses: u8) {
    if let Some(counts) = slot.get_mut(HEAD - 1) {
        *counts = *counts & MOST_USES | uses << COUNT_BITS;
    }
}
