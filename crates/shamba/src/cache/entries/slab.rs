//! Slots of a few sizes, each size in groups of its own, without gaps: the last slot of a size
//! moves to where one is given back. What is given back is so always the end of a size, and whole
//! groups come free. A group is a block of the store, of which the shards of a cache share the
//! frames: those that have a few entries each would otherwise have a frame each for them. One
//! owner.

use crate::cache::store::Block;
use crate::fs::PAGE;

/// How many slots of each size a page would have: up to 452 bytes each size is a tenth more than
/// the one before, or less, so that a twentieth of a slot is wasted on average; then up to a third
/// more.
const SLOTS: [u8; 42] = [
    128, 110, 102, 88, 82, 76, 71, 66, 61, 57, 53, 49, 46, 43, 40, 37, 35, 33, 31, 29, 27, 25, 24,
    22, 21, 19, 18, 17, 16, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3,
];

/// Bytes of the slots of a group, or less, where a frame is cut for it: in each shard a group of
/// each size is half empty on average.
const GROUP: usize = 1216;

/// The most slots of a group, and the most of those that it needs to have where frames are cut
/// already: any slot of the store between serves.
const MOST_IN_GROUP: usize = 1 << SLOT_BITS;
const LEAST_IN_GROUP: usize = 8;

/// The most bytes of a group.
pub(super) const LARGEST_GROUP: usize = 3072;

/// Bits of the number of a slot in its group, and of that of a group among those of its size.
const SLOT_BITS: u32 = 5;
const GROUP_BITS: u32 = 21;

/// How many sizes are looked at for a slot that is free before there is another group.
const LARGER: usize = 2;

/// Bytes of a group of slots.
#[derive(Debug, Clone, Copy)]
pub(super) struct GroupBytes {
    pub(super) least: usize,
    pub(super) best: usize,
    pub(super) most: usize,
}

/// A size of slots, by its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::cache) struct SlotSize(u8);

impl SlotSize {
    /// The least size for so many bytes; none where a third of a page is too little.
    pub(super) fn of(len: usize) -> Option<SlotSize> {
        let smaller = SLOTS.partition_point(|slots| bytes_of(*slots) < len);
        (smaller < SLOTS.len()).then_some(SlotSize(smaller as u8))
    }

    /// Bytes of a slot.
    pub(in crate::cache) fn bytes(self) -> usize {
        SLOTS
            .get(usize::from(self.0))
            .map_or(PAGE, |slots| bytes_of(*slots))
    }

    /// The bytes that a group must have, had best have, and may have.
    pub(super) fn group_bytes(self) -> GroupBytes {
        let each = self.bytes();
        let most = (LARGEST_GROUP / each).min(MOST_IN_GROUP);
        let best = (GROUP / each).max(3).min(most);
        let least = (GROUP / each).clamp(1, LEAST_IN_GROUP);
        let [least, best, most] = [least, best, most].map(|slots| slots * each);
        GroupBytes { least, best, most }
    }

    /// How many slots a group of so many bytes has.
    pub(super) fn in_group(self, bytes: usize) -> usize {
        (bytes / self.bytes()).min(MOST_IN_GROUP)
    }
}

/// Bytes of a slot of which a page has so many.
const fn bytes_of(slots: u8) -> usize {
    PAGE / slots as usize / 4 * 4
}

/// Where a slot is: its size, the number of its group among those of that size, and its own in the
/// group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cache) struct SlotAt(u32);

impl SlotAt {
    fn new(size: SlotSize, group: usize, slot: usize) -> SlotAt {
        SlotAt(
            u32::from(size.0) << (GROUP_BITS + SLOT_BITS)
                | (group as u32) << SLOT_BITS
                | slot as u32,
        )
    }

    pub(in crate::cache) fn size(self) -> SlotSize {
        SlotSize((self.0 >> (GROUP_BITS + SLOT_BITS)) as u8)
    }

    fn group(self) -> usize {
        (self.0 >> SLOT_BITS & ((1 << GROUP_BITS) - 1)) as usize
    }

    fn slot(self) -> usize {
        (self.0 & ((1 << SLOT_BITS) - 1)) as usize
    }
}

/// The slots of a size. All groups are full but the last.
#[derive(Debug, Default)]
struct Slots {
    groups: Vec<Block>,
    taken: u32,
    /// Slots taken of the last group.
    in_last: u8,
}

impl Slots {
    /// How many slots of a group are taken, of a size.
    fn taken_of(&self, size: SlotSize, group: usize) -> usize {
        match self.groups.get(group) {
            Some(_) if group + 1 == self.groups.len() => self.in_last.into(),
            Some(group) => size.in_group(group.len()),
            None => 0,
        }
    }

    fn has_room(&self, size: SlotSize) -> bool {
        let last = self.groups.last();
        last.is_some_and(|last| usize::from(self.in_last) < size.in_group(last.len()))
    }

    /// The last slot that is taken.
    fn last(&self, size: SlotSize) -> Option<SlotAt> {
        let group = self.groups.len().checked_sub(1)?;
        match usize::from(self.in_last).checked_sub(1) {
            Some(slot) => Some(SlotAt::new(size, group, slot)),
            None => {
                let group = group.checked_sub(1)?;
                Some(SlotAt::new(size, group, self.taken_of(size, group) - 1))
            }
        }
    }
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Slab {
    /// By size, up to the largest that was used.
    sizes: Vec<Slots>,
    taken: u32,
}

impl Slab {
    /// How many slots are taken.
    pub(super) fn len(&self) -> usize {
        self.taken as usize
    }

    /// How many groups there are.
    pub(super) fn groups(&self) -> usize {
        self.sizes.iter().map(|slots| slots.groups.len()).sum()
    }

    /// The size of a free slot for what has a size: of that one, or of a little larger one.
    pub(super) fn room(&self, size: SlotSize) -> Option<SlotSize> {
        let sizes = self.sizes.iter().enumerate().skip(size.0.into());
        let mut sizes = sizes
            .take(1 + LARGER)
            .map(|(at, slots)| (SlotSize(at as u8), slots));
        let free = |(size, slots): &(SlotSize, &Slots)| slots.has_room(*size);
        sizes.find(free).map(|(size, _)| size)
    }

    /// Adds a group to a size that has no free slot; false where it has as many as can be told
    /// apart.
    pub(super) fn add_group(&mut self, size: SlotSize, group: Block) -> bool {
        let sizes = usize::from(size.0) + 1;
        if self.sizes.len() < sizes {
            self.sizes.resize_with(sizes, Slots::default);
        }
        let slots = self.sizes.get_mut(usize::from(size.0));
        let few = |slots: &&mut Slots| slots.groups.len() < 1 << GROUP_BITS;
        let Some(slots) = slots.filter(few) else {
            return false;
        };
        debug_assert!(!slots.has_room(size), "all groups but the last are full");
        slots.groups.push(group);
        slots.in_last = 0;
        true
    }

    /// Takes a slot of a size that has room.
    pub(super) fn take(&mut self, size: SlotSize) -> Option<(SlotAt, &mut [u8])> {
        let slots = self.sizes.get_mut(usize::from(size.0))?;
        if !slots.has_room(size) {
            return None;
        }
        let at = SlotAt::new(size, slots.groups.len() - 1, slots.in_last.into());
        slots.in_last += 1;
        slots.taken += 1;
        self.taken += 1;
        Some((at, self.get_mut(at)?))
    }

    /// The bytes of a slot.
    pub(super) fn get(&self, at: SlotAt) -> Option<&[u8]> {
        let bytes = at.size().bytes();
        let groups = &self.sizes.get(usize::from(at.size().0))?.groups;
        let start = at.slot() * bytes;
        groups.get(at.group())?.get(start..start + bytes)
    }

    /// The same, to change.
    pub(super) fn get_mut(&mut self, at: SlotAt) -> Option<&mut [u8]> {
        let bytes = at.size().bytes();
        let groups = &mut self.sizes.get_mut(usize::from(at.size().0))?.groups;
        let start = at.slot() * bytes;
        groups
            .get_mut(at.group())?
            .get_mut()?
            .get_mut(start..start + bytes)
    }

    /// Gives a slot back. The last one of its size, whose place is told, moves there.
    pub(super) fn give_back(&mut self, at: SlotAt) -> Option<SlotAt> {
        let size = at.size();
        let last = self.sizes.get(usize::from(size.0))?.last(size)?;
        if last != at {
            let mut moved = [0; PAGE / 3];
            let moved = moved.get_mut(..size.bytes())?;
            moved.copy_from_slice(self.get(last)?);
            self.get_mut(at)?.copy_from_slice(moved);
        }
        let slots = self.sizes.get_mut(usize::from(size.0))?;
        debug_assert_eq!(
            last.group() + 1,
            slots.groups.len(),
            "an empty group goes before another slot is given back"
        );
        slots.in_last = last.slot() as u8;
        slots.taken -= 1;
        self.taken -= 1;
        (last != at).then_some(last)
    }

    /// The group of a number below [`Self::groups`], counted over all sizes.
    pub(super) fn group(&mut self, mut number: usize) -> Option<&mut Block> {
        for slots in &mut self.sizes {
            let groups = slots.groups.len();
            if number < groups {
                return slots.groups.get_mut(number);
            }
            number -= groups;
        }
        None
    }

    /// Drops the last group of a size if it has nothing; gives the memory it took.
    pub(super) fn drop_empty_group(&mut self, size: SlotSize) -> Option<u64> {
        let slots = self.sizes.get_mut(usize::from(size.0))?;
        let group = slots.groups.pop_if(|_| slots.in_last == 0)?;
        let last = slots.groups.last();
        slots.in_last = last.map_or(0, |last| size.in_group(last.len()) as u8);
        if slots.groups.len() < slots.groups.capacity() / 4 {
            slots.groups.shrink_to_fit();
        }
        Some(group.charge())
    }

    /// Shows all slots that are taken, to change them.
    pub(super) fn each_mut(&mut self, mut change: impl FnMut(&mut [u8])) {
        for (size, slots) in self.sizes.iter_mut().enumerate() {
            let bytes = SlotSize(size as u8).bytes();
            let groups = slots.groups.iter_mut().filter_map(Block::get_mut);
            let each = groups.flat_map(|group| group.chunks_exact_mut(bytes).take(MOST_IN_GROUP));
            each.take(slots.taken as usize).for_each(&mut change);
        }
    }

    /// How many slots of a size are taken.
    pub(super) fn count(&self, size: SlotSize) -> usize {
        let slots = self.sizes.get(usize::from(size.0));
        slots.map_or(0, |slots| slots.taken as usize)
    }

    /// A taken slot of a size, by a number below [`Self::count`]: each of a group as likely as
    /// another.
    pub(super) fn draw_of(&self, size: SlotSize, number: usize) -> Option<SlotAt> {
        let slots = self.sizes.get(usize::from(size.0))?;
        let (group, slot) = (
            number % slots.groups.len().max(1),
            number / slots.groups.len().max(1),
        );
        match slots.taken_of(size, group) {
            0 => slots.last(size),
            taken => Some(SlotAt::new(size, group, slot % taken)),
        }
    }

    /// A taken slot, by a number below [`Self::len`].
    pub(super) fn draw(&self, mut number: usize) -> Option<SlotAt> {
        for (size, slots) in self.sizes.iter().enumerate() {
            if number < slots.taken as usize {
                return self.draw_of(SlotSize(size as u8), number);
            }
            number -= slots.taken as usize;
        }
        None
    }

    /// The last taken slot of each size that has any.
    pub(super) fn ends(&self) -> impl Iterator<Item = SlotAt> + '_ {
        let sizes = self.sizes.iter().enumerate();
        sizes.filter_map(|(size, slots)| slots.last(SlotSize(size as u8)))
    }

    /// The slot before one of its size.
    pub(super) fn before(&self, at: SlotAt) -> Option<SlotAt> {
        let size = at.size();
        let slots = self.sizes.get(usize::from(size.0))?;
        match at.slot().checked_sub(1) {
            Some(slot) => Some(SlotAt::new(size, at.group(), slot)),
            None => {
                let group = at.group().checked_sub(1)?;
                let slot = slots.taken_of(size, group).checked_sub(1)?;
                Some(SlotAt::new(size, group, slot))
            }
        }
    }
}

/// What a group takes beside itself: its place in the list, which may double.
pub(super) const LISTED: usize = 2 * size_of::<Block>();

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::budget::{Budget, Role};
    use crate::cache::Store;

    #[test]
    fn sizes_ascend_and_hold_what_they_are_for() {
        let sizes = SLOTS.map(bytes_of);
        assert!(sizes.is_sorted_by(|a, b| a < b), "{sizes:?}");
        assert!(
            sizes
                .windows(2)
                .skip(1)
                .all(|pair| pair[1] * 3 <= pair[0] * 4 + 12)
        );
        for len in 0..=PAGE / 3 {
            let size = SlotSize::of(len).map(SlotSize::bytes);
            assert!(
                size.is_some_and(|bytes| bytes >= len) || len > 1364,
                "{len}"
            );
        }
        assert_eq!(SlotSize::of(PAGE / 3 + 1), None);
        for size in (0..SLOTS.len()).map(|size| SlotSize(size as u8)) {
            let GroupBytes { least, best, most } = size.group_bytes();
            assert!(
                size.bytes() <= least && least <= best && best <= most,
                "{size:?}"
            );
            assert!(most <= LARGEST_GROUP && size.in_group(most) * size.bytes() == most);
        }
        // A key and a value of 32 bytes each waste nothing.
        assert_eq!(SlotSize::of(76).unwrap().bytes(), 76);
    }

    fn add_group(slab: &mut Slab, store: &Arc<Store>, size: SlotSize) {
        let bytes = size.group_bytes();
        let lens = bytes.least..=bytes.most;
        let zeros = [0; LARGEST_GROUP];
        let group = store.block_between(Role::Entries, &zeros, lens, bytes.best, |_| 0);
        assert!(slab.add_group(size, group.unwrap()));
    }

    #[test]
    fn slots_stay_dense_and_their_groups_go() {
        let budget = Budget::new(1 << 20);
        let store = Store::new(budget.clone());
        let mut slab = Slab::default();
        let sizes = [76, 300].map(|len| SlotSize::of(len).unwrap());
        let mut places = Vec::new();
        // Free slots of other sizes, as filters leave them: groups differ.
        let others = [700, 900, 1500].map(|len: usize| {
            let block = |_| store.block(Role::Data, (&vec![1; len], 1), 0, None);
            (0..4).map(block).collect::<Result<Vec<_>, _>>().unwrap()
        });
        drop(others.map(|blocks| blocks.into_iter().skip(1).collect::<Vec<_>>()));
        for value in 0..400u32 {
            let size = sizes[value as usize % 2];
            if slab.room(size) != Some(size) {
                add_group(&mut slab, &store, size);
            }
            let (at, bytes) = slab.take(size).unwrap();
            bytes[..4].copy_from_slice(&value.to_le_bytes());
            places.push((value, at));
        }
        assert_eq!(slab.len(), 400);
        assert!(slab.groups() < 400 / 8 + 400 / 3, "{}", slab.groups());
        let mut seed = 7usize;
        while let Some(last) = places.len().checked_sub(1) {
            seed = seed.wrapping_mul(1_103_515_245).wrapping_add(12_345);
            let (_, at) = places.swap_remove((seed >> 8) % (last + 1));
            if let Some(moved) = slab.give_back(at) {
                let place = places.iter_mut().find(|(_, place)| *place == moved);
                place.unwrap().1 = at;
            }
            let before = slab.groups();
            let dropped = slab.drop_empty_group(at.size());
            assert_eq!(slab.groups(), before - usize::from(dropped.is_some()));
            assert_ne!(dropped, Some(0));
            if let Some(group) = slab.group(seed % (slab.groups() + 1)) {
                group.repack();
            }
            for (value, at) in &places {
                assert_eq!(slab.get(*at).unwrap()[..4], value.to_le_bytes());
            }
            let mut all = Vec::new();
            for end in slab.ends() {
                all.extend(std::iter::successors(Some(end), |at| slab.before(*at)));
            }
            all.sort_by_key(|at| at.0);
            let mut wanted: Vec<_> = places.iter().map(|(_, at)| *at).collect();
            wanted.sort_by_key(|at| at.0);
            assert_eq!(all, wanted);
            assert!((0..slab.len()).all(|n| wanted.contains(&slab.draw(n).unwrap())));
        }
        assert_eq!((slab.len(), slab.groups()), (0, 0));
        assert_eq!(budget.used_by(Role::Entries), 0);
    }

    #[test]
    fn groups_take_what_slots_of_the_store_are_free() {
        let budget = Budget::new(1 << 20);
        let store = Store::new(budget.clone());
        let mut slab = Slab::default();
        let size = SlotSize::of(76).unwrap();
        let mut blocks: Vec<_> = (0..4)
            .map(|_| store.block(Role::Data, (&[1; 1500], 1), 0, None).unwrap())
            .collect();
        let used = budget.used();
        blocks.pop();
        add_group(&mut slab, &store, size);
        // No frame more, and all of the slot serves.
        assert_eq!(budget.used(), used);
        assert_eq!(slab.sizes[usize::from(size.0)].groups[0].len(), 1504);
        (0..19).for_each(|_| assert!(slab.take(size).is_some()));
        assert!(slab.take(size).is_none());
    }

    #[test]
    fn what_has_a_little_less_takes_a_slot_that_is_free() {
        let store = Store::new(Budget::new(1 << 20));
        let mut slab = Slab::default();
        let [small, large] = [76, 84].map(|len| SlotSize::of(len).unwrap());
        assert_eq!(slab.room(small), None);
        add_group(&mut slab, &store, large);
        assert_eq!(slab.room(small), Some(large));
        assert_eq!(slab.room(SlotSize::of(40).unwrap()), None);
    }
}
