//! Slots of a few sizes, each size in frames of its own, without gaps: the last slot of a size
//! moves to where one is given back. What is given back is so always the end of a size, and whole
//! frames come free. One owner.

use crate::cache::store::FrameRun;
use crate::fs::PAGE;

/// How many slots of each size a frame has: up to 452 bytes each size is a tenth more than the one
/// before, or less, so that a twentieth of a slot is wasted on average; then up to a third more.
const SLOTS: [u8; 42] = [
    128, 110, 102, 88, 82, 76, 71, 66, 61, 57, 53, 49, 46, 43, 40, 37, 35, 33, 31, 29, 27, 25, 24,
    22, 21, 19, 18, 17, 16, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3,
];

/// Bits of a slot's number among those of its size.
const NUMBER_BITS: u32 = 26;

/// How many sizes are looked at for a slot that is free before a frame is taken.
const LARGER: usize = 2;

/// A size of slots, by its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cache) struct SlotSize(u8);

impl SlotSize {
    /// The least size for so many bytes; none where a third of a page is too little.
    pub(super) fn of(len: usize) -> Option<SlotSize> {
        let smaller = SLOTS.partition_point(|slots| bytes_of(*slots) < len);
        (smaller < SLOTS.len()).then_some(SlotSize(smaller as u8))
    }

    /// How many slots a frame has.
    pub(super) fn in_frame(self) -> usize {
        SLOTS
            .get(usize::from(self.0))
            .map_or(1, |slots| usize::from(*slots))
    }

    /// Bytes of a slot.
    pub(in crate::cache) fn bytes(self) -> usize {
        bytes_of(self.in_frame() as u8)
    }
}

/// Bytes of a slot of which a frame has so many.
const fn bytes_of(slots: u8) -> usize {
    PAGE / slots as usize / 4 * 4
}

/// Where a slot is: its size, and its number among those of that size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cache) struct SlotAt(u32);

impl SlotAt {
    fn new(size: SlotSize, number: u32) -> SlotAt {
        SlotAt(u32::from(size.0) << NUMBER_BITS | number)
    }

    pub(in crate::cache) fn size(self) -> SlotSize {
        SlotSize((self.0 >> NUMBER_BITS) as u8)
    }

    fn number(self) -> usize {
        (self.0 & ((1 << NUMBER_BITS) - 1)) as usize
    }
}

/// The slots of a size.
#[derive(Debug, Default)]
struct Slots {
    frames: Vec<FrameRun>,
    taken: u32,
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

    /// How many frames there are.
    #[cfg(test)]
    pub(super) fn frames(&self) -> usize {
        self.sizes.iter().map(|slots| slots.frames.len()).sum()
    }

    /// The size of a free slot for what has a size: of that one, or of a little larger one.
    pub(super) fn room(&self, size: SlotSize) -> Option<SlotSize> {
        let sizes = self.sizes.iter().enumerate().skip(size.0.into());
        let mut sizes = sizes
            .take(1 + LARGER)
            .map(|(at, slots)| (SlotSize(at as u8), slots));
        let free = |(size, slots): &(SlotSize, &Slots)| {
            (slots.taken as usize) < slots.frames.len() * size.in_frame()
        };
        sizes.find(free).map(|(size, _)| size)
    }

    /// Adds a frame to a size; false where that has as many slots as can be told apart.
    pub(super) fn add_frame(&mut self, size: SlotSize, frame: FrameRun) -> bool {
        let sizes = usize::from(size.0) + 1;
        if self.sizes.len() < sizes {
            self.sizes.resize_with(sizes, Slots::default);
        }
        let slots = self.sizes.get_mut(usize::from(size.0));
        let few =
            |slots: &&mut Slots| (slots.frames.len() + 1) * size.in_frame() < 1 << NUMBER_BITS;
        let slots = slots.filter(few);
        slots.map(|slots| slots.frames.push(frame)).is_some()
    }

    /// Takes a slot of a size that has room.
    pub(super) fn take(&mut self, size: SlotSize) -> Option<(SlotAt, &mut [u8])> {
        let slots = self.sizes.get_mut(usize::from(size.0))?;
        let at = SlotAt::new(size, slots.taken);
        if at.number() >= slots.frames.len() * size.in_frame() {
            return None;
        }
        slots.taken += 1;
        self.taken += 1;
        Some((at, self.get_mut(at)?))
    }

    /// The bytes of a slot.
    pub(super) fn get(&self, at: SlotAt) -> Option<&[u8]> {
        let (size, number) = (at.size(), at.number());
        let frames = &self.sizes.get(usize::from(size.0))?.frames;
        let start = number % size.in_frame() * size.bytes();
        frames
            .get(number / size.in_frame())?
            .get(start..start + size.bytes())
    }

    /// The same, to change.
    pub(super) fn get_mut(&mut self, at: SlotAt) -> Option<&mut [u8]> {
        let (size, number) = (at.size(), at.number());
        let frames = &mut self.sizes.get_mut(usize::from(size.0))?.frames;
        let start = number % size.in_frame() * size.bytes();
        let frame = frames.get_mut(number / size.in_frame())?;
        frame.get_mut(start..start + size.bytes())
    }

    /// Gives a slot back. The last one of its size, whose place is told, moves there.
    pub(super) fn give_back(&mut self, at: SlotAt) -> Option<SlotAt> {
        let size = at.size();
        let slots = self.sizes.get_mut(usize::from(size.0))?;
        let last = SlotAt::new(size, slots.taken.checked_sub(1)?);
        slots.taken -= 1;
        self.taken -= 1;
        if last == at {
            return None;
        }
        let mut moved = [0; PAGE / 3];
        let moved = moved.get_mut(..size.bytes())?;
        moved.copy_from_slice(self.get(last)?);
        self.get_mut(at)?.copy_from_slice(moved);
        Some(last)
    }

    /// Drops the frames of a size that have nothing; says how many there were.
    pub(super) fn drop_frames(&mut self, size: SlotSize) -> usize {
        let Some(slots) = self.sizes.get_mut(usize::from(size.0)) else {
            return 0;
        };
        let needed = (slots.taken as usize).div_ceil(size.in_frame());
        let dropped = slots.frames.len() - needed;
        slots.frames.truncate(needed);
        if slots.frames.len() < slots.frames.capacity() / 4 {
            slots.frames.shrink_to_fit();
        }
        dropped
    }

    /// Shows all slots that are taken, to change them.
    pub(super) fn each_mut(&mut self, mut change: impl FnMut(&mut [u8])) {
        for (size, slots) in self.sizes.iter_mut().enumerate() {
            let bytes = SlotSize(size as u8).bytes();
            let all = slots.frames.iter_mut().flat_map(|frame| {
                let whole = PAGE / bytes * bytes;
                let whole = frame.get_mut(..whole).unwrap_or_default();
                whole
                    .chunks_exact_mut(bytes)
                    .take(SLOTS.get(size).map_or(0, |slots| usize::from(*slots)))
            });
            all.take(slots.taken as usize).for_each(&mut change);
        }
    }

    /// How many slots of a size are taken.
    pub(super) fn count(&self, size: SlotSize) -> usize {
        let slots = self.sizes.get(usize::from(size.0));
        slots.map_or(0, |slots| slots.taken as usize)
    }

    /// The taken slot of a size and of a number below [`Self::count`].
    pub(super) fn nth_of(&self, size: SlotSize, number: usize) -> SlotAt {
        SlotAt::new(size, number as u32)
    }

    /// The taken slot of a number below [`Self::len`], counted over all sizes.
    pub(super) fn nth(&self, mut number: usize) -> Option<SlotAt> {
        for (size, slots) in self.sizes.iter().enumerate() {
            if number < slots.taken as usize {
                return Some(SlotAt::new(SlotSize(size as u8), number as u32));
            }
            number -= slots.taken as usize;
        }
        None
    }
}

/// What a frame of a size takes beside itself: its place in the list, which may double.
pub(super) const LISTED: usize = 2 * size_of::<FrameRun>();

#[cfg(test)]
mod tests {
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
        // A key and a value of 32 bytes each waste nothing.
        assert_eq!(SlotSize::of(76).unwrap().bytes(), 76);
    }

    #[test]
    fn slots_stay_dense_and_their_frames_go() {
        let budget = Budget::new(1 << 20);
        let store = Store::new(budget.clone());
        let mut slab = Slab::default();
        let sizes = [76, 300].map(|len| SlotSize::of(len).unwrap());
        let mut places = Vec::new();
        for value in 0..400u32 {
            let size = sizes[value as usize % 2];
            if slab.room(size) != Some(size) {
                slab.add_frame(size, store.run(Role::Entries, 1, 0, None).unwrap());
            }
            let (at, bytes) = slab.take(size).unwrap();
            bytes[..4].copy_from_slice(&value.to_le_bytes());
            places.push((value, at));
        }
        assert_eq!(
            (slab.len(), slab.frames()),
            (400, 200_usize.div_ceil(53) + 200_usize.div_ceil(13))
        );
        let mut seed = 7usize;
        while let Some(last) = places.len().checked_sub(1) {
            seed = seed.wrapping_mul(1_103_515_245).wrapping_add(12_345);
            let (_, at) = places.swap_remove((seed >> 8) % (last + 1));
            if let Some(moved) = slab.give_back(at) {
                let place = places.iter_mut().find(|(_, place)| *place == moved);
                place.unwrap().1 = at;
            }
            slab.drop_frames(at.size());
            for (value, at) in &places {
                assert_eq!(slab.get(*at).unwrap()[..4], value.to_le_bytes());
            }
            let mut all: Vec<_> = (0..slab.len()).filter_map(|n| slab.nth(n)).collect();
            all.sort_by_key(|at| at.0);
            let mut wanted: Vec<_> = places.iter().map(|(_, at)| *at).collect();
            wanted.sort_by_key(|at| at.0);
            assert_eq!(all, wanted);
        }
        assert_eq!((slab.len(), slab.frames()), (0, 0));
        assert_eq!(budget.used_by(Role::Entries), 0);
    }

    #[test]
    fn what_has_a_little_less_takes_a_slot_that_is_free() {
        let budget = Budget::new(1 << 20);
        let store = Store::new(budget);
        let mut slab = Slab::default();
        let [small, large] = [76, 84].map(|len| SlotSize::of(len).unwrap());
        assert_eq!(slab.room(small), None);
        slab.add_frame(large, store.run(Role::Entries, 1, 0, None).unwrap());
        assert_eq!(slab.room(small), Some(large));
        assert_eq!(slab.room(SlotSize::of(40).unwrap()), None);
    }
}
