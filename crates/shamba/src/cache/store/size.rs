//! The sizes of pieces: slots, cut from spans of frames, and whole frames.

use super::layout::{HEADER, MOST_SLOTS, UNIT};
use crate::fs::PAGE;

/// The most units of a slot: two pages and a half. Of what is longer the last page wastes a sixth
/// at most.
pub(super) const MOST_UNITS: usize = 320;

/// The least units of a slot: of shorter ones a frame would have more than a span can count.
pub(super) const LEAST_UNITS: usize = PAGE / UNIT / MOST_SLOTS;

/// How slots of a size are cut: from so many frames, so many slots.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cut {
    pub(super) frames: u8,
    pub(super) slots: u8,
}

impl Cut {
    /// The bits of its slots.
    pub(super) const fn all_free(self) -> u32 {
        u32::MAX >> (u32::BITS - self.slots as u32)
    }

    /// The bytes of a slot with its part of what is left over.
    const fn bytes_each(self) -> usize {
        self.frames as usize * PAGE / self.slots as usize
    }
}

/// A cut of fewer frames is as good if no more than so much of them is left over, in thousandths:
/// in the first spans of a size, and in those after them. Of each size that is in use one span is
/// half empty, of which a small budget feels more than of what is left over. A column of a filter
/// has a quarter of a page and its header: of 19 in five frames a fiftieth would be left over, of
/// 31 in eight next to nothing. With a fiftieth 1 % more is read of uniform keys with 10 % of the
/// memory for filters and indexes, and with 40 % of it 5 to 10 % more where keys are absent.
const LEFT_OVER: [usize; 2] = [250, 5];

/// So many spans of a size are cut from few frames.
pub(super) const FEW_SPANS: u32 = 8;

/// The cuts by units of a slot, for the first spans of a size and for those after them.
const CUTS: [[Cut; MOST_UNITS + 1]; 2] = [cuts(LEFT_OVER[0]), cuts(LEFT_OVER[1])];

#[expect(
    clippy::indexing_slicing,
    reason = "called for constants only: the compiler would tell"
)]
const fn cuts(left_over: usize) -> [Cut; MOST_UNITS + 1] {
    let mut cuts = [Cut {
        frames: 1,
        slots: 1,
    }; MOST_UNITS + 1];
    let mut units = LEAST_UNITS;
    while units <= MOST_UNITS {
        let (mut least, mut frames) = (usize::MAX, 1);
        while frames <= 8 && least > left_over {
            let slots = frames * PAGE / (units * UNIT);
            let left = (frames * PAGE - slots * units * UNIT) * 1000 / (frames * PAGE);
            if slots > 0 && slots <= MOST_SLOTS && left < least {
                least = left;
                cuts[units] = Cut {
                    frames: frames as u8,
                    slots: slots as u8,
                };
            }
            frames += 1;
        }
        units += 1;
    }
    cuts
}

/// The cut for slots of so many units, in one of the first spans or in one of those after them.
pub(super) const fn cut(units: u16, many: bool) -> Cut {
    let [few, later] = &CUTS;
    let cuts = if many { later } else { few };
    match cuts.split_at_checked(units as usize) {
        Some((_, [cut, ..])) => *cut,
        _ => Cut {
            frames: 1,
            slots: 1,
        },
    }
}

/// The memory that so many bytes take.
pub(in crate::cache) const fn memory_of(len: usize) -> u64 {
    Size::of(len).bytes()
}

/// The size of a piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Size {
    /// So many slots in a row of so many units, or of a little more, with the header at the
    /// beginning.
    Slots { units: u16, count: u8 },
    /// Whole frames, with the header elsewhere.
    FrameRun(u32),
}

/// The most slots of a piece.
const MOST_PARTS: u8 = 8;

impl Size {
    /// What suits so many bytes best: a slot, unless whole frames are as good.
    pub(super) const fn of(len: usize) -> Size {
        let frames = len.div_ceil(PAGE) + (len == 0) as usize;
        let units = Size::units(len + HEADER);
        if units <= MOST_UNITS && cut(units as u16, true).bytes_each() < frames * PAGE {
            return Size::Slots {
                units: units as u16,
                count: 1,
            };
        }
        Size::FrameRun(frames as u32)
    }

    /// What suits bytes that consist of about equal parts, of which the last ones may go: a slot
    /// for each, where that is hardly more.
    pub(super) fn of_parts(len: usize, parts: u8) -> Size {
        let whole = Size::of(len);
        let count = usize::from(parts);
        // One part has what all have beside their parts.
        let each = len.saturating_sub(BESIDE_PARTS).div_ceil(count.max(1));
        let alone = HEADER + BESIDE_PARTS + each;
        let units = Size::units((len + HEADER).div_ceil(count.max(1)).max(alone));
        let fits = parts > 1
            && parts <= MOST_PARTS
            && units <= MOST_UNITS
            && usize::from(cut(units as u16, true).slots) >= count
            && (units * UNIT * count) as u64 <= whole.bytes() + whole.bytes() / PARTS_COST;
        if fits {
            Size::Slots {
                units: units as u16,
                count: parts,
            }
        } else {
            whole
        }
    }

    /// The units of a slot for so many bytes.
    pub(super) fn units_of(len: usize) -> u16 {
        Size::units(len + HEADER).min(MOST_UNITS) as u16
    }

    const fn units(bytes: usize) -> usize {
        let units = bytes.div_ceil(UNIT);
        if units < LEAST_UNITS {
            return LEAST_UNITS;
        }
        units
    }

    /// The bytes it takes, at least.
    pub(super) const fn bytes(self) -> u64 {
        match self {
            Size::Slots { units, count } => units as u64 * UNIT as u64 * count as u64,
            Size::FrameRun(frames) => frames as u64 * PAGE as u64,
        }
    }
}

/// Bytes that a block has beside its parts: the header of ribbon columns (docs/format.md, "Filter
/// modules"). With fewer a block of one column could take two slots, and was given up instead.
const BESIDE_PARTS: usize = 7;

/// Slots for the parts of a block may take more than one slot would by one in so many bytes.
const PARTS_COST: u64 = 8;

#[cfg(test)]
mod tests {
    use super::*;

    /// However long columns are: else nothing is freed when one of the last two goes.
    #[test]
    fn what_is_left_of_parts_has_a_slot_for_each() {
        for (column, all) in (64..1200).flat_map(|column| [(column, 2), (column, 3), (column, 4)]) {
            let len = |parts: u8| BESIDE_PARTS + usize::from(parts) * column;
            let Size::Slots { units, count } = Size::of_parts(len(all), all) else {
                continue;
            };
            let slots = |parts| (HEADER + len(parts)).div_ceil(usize::from(units) * UNIT);
            if count == all {
                assert!(
                    (1..=all).all(|parts| slots(parts) <= usize::from(parts)),
                    "{column}"
                );
            }
        }
    }

    #[test]
    fn columns_of_filters_leave_next_to_nothing_over() {
        let Size::Slots { units, count: 4 } = Size::of_parts(PAGE, 4) else {
            panic!("a page of four columns has a slot for each");
        };
        let cut = cut(units, true);
        let bytes = usize::from(cut.frames) * PAGE;
        let left = bytes - usize::from(cut.slots) * usize::from(units) * UNIT;
        assert!(left * 200 < bytes, "{left} of {bytes} bytes are left over");
    }
}
