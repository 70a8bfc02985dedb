//! The groups of front-coded separators ([`super::front`]), and where they lie among their bits.

use super::bit_string::head;

/// Separators of a group. They are looked at in turn: with 32 a search takes 16 % longer and
/// separators of paths 2 % less; with 8 they take 4 % more, and a search no less, since there are
/// more levels.
pub(super) const GROUP: usize = 1 << GROUP_BITS;
pub(super) const GROUP_BITS: u32 = 4;

/// Bits of how wide numbers of a group are.
pub(super) const WIDTH: u32 = 5;

/// How many separators the ones of the uppermost group stand for each.
#[inline]
pub(super) fn top_step(count: usize) -> usize {
    let mut step = 1;
    while count.div_ceil(step) > GROUP {
        step <<= GROUP_BITS;
    }
    step
}

/// How many of the separators of a level, of which there are so many, are in a group after the
/// first of these.
#[inline]
pub(super) fn others(group: usize, count: usize) -> usize {
    count
        .saturating_sub((group << GROUP_BITS).saturating_add(1))
        .min(GROUP - 1)
}

/// The groups on the way to a separator.
pub(super) struct SeparatorGroups<'a> {
    count: usize,
    /// How many separators each of the level stands for.
    step: usize,
    /// The groups of the levels above but the uppermost one.
    before: usize,
    start_width: u32,
    /// Where the uppermost group begins.
    first: usize,
    bits: &'a [u8],
}

impl<'a> SeparatorGroups<'a> {
    /// Those of so many separators.
    #[inline]
    pub(super) fn new(bits: &'a [u8], count: usize, start_width: u32) -> Self {
        let step = top_step(count);
        let mut starts = 0usize;
        let mut below = step;
        while below > 1 {
            starts += count.div_ceil(below);
            below >>= GROUP_BITS;
        }
        SeparatorGroups {
            count,
            step,
            before: 0,
            start_width,
            first: starts.saturating_mul(start_width as usize),
            bits,
        }
    }

    /// How many separators each of the level stands for.
    #[inline]
    pub(super) fn step(&self) -> usize {
        self.step
    }

    #[inline]
    pub(super) fn top(&self) -> SeparatorGroup<'a> {
        SeparatorGroup::at(self.bits, self.first, self.count.div_ceil(self.step))
    }

    /// The group whose first separator is that of this number of the level, which is the one below
    /// then; `None` if it is the lowest.
    #[inline]
    pub(super) fn below(&mut self, number: usize) -> Option<SeparatorGroup<'a>> {
        if self.step == 1 {
            return None;
        }
        let start = (self.before + number).saturating_mul(self.start_width as usize);
        let start = head(self.bits, start).unbounded_shr(u64::BITS - self.start_width);
        self.before += self.count.div_ceil(self.step);
        self.step >>= GROUP_BITS;
        let count = others(number, self.count.div_ceil(self.step));
        let at = self.first.saturating_add(start as usize);
        Some(SeparatorGroup::at(self.bits, at, count))
    }
}

/// Separators of a group, which follow each other.
pub(super) struct SeparatorGroup<'a> {
    bits: &'a [u8],
    pub(super) count: usize,
    /// Bits of each number of those that say what is shared, and of each length.
    widths: [u32; 2],
    /// Where the next of these numbers stand.
    numbers: [usize; 2],
    /// Where that is which is stored of the next separator.
    pub(super) rest: usize,
}

/// How a separator follows from the one before.
pub(super) enum NextSeparator {
    Same,
    /// After so many bits it has a one, then so many others, of which the last is a one and the
    /// others are stored.
    Differs {
        shared: usize,
        len: usize,
    },
}

impl<'a> SeparatorGroup<'a> {
    /// One of so many separators that begins at this bit.
    #[inline]
    fn at(bits: &'a [u8], at: usize, count: usize) -> Self {
        let both = head(bits, at);
        let width = |before: u32| (both << before >> (u64::BITS - WIDTH)) as u32;
        let (shared, len) = (width(0), width(WIDTH));
        let shares = at.saturating_add(2 * WIDTH as usize);
        let lens = shares.saturating_add(count * shared as usize);
        SeparatorGroup {
            bits,
            count,
            widths: [shared, len],
            numbers: [shares, lens],
            rest: lens.saturating_add(count * len as usize),
        }
    }

    #[inline]
    pub(super) fn next(&mut self) -> NextSeparator {
        let ([shares, lens], [shared, len]) = (self.numbers, self.widths);
        let number = |at, width| head(self.bits, at).unbounded_shr(u64::BITS - width) as usize;
        self.numbers = [
            shares.saturating_add(shared as usize),
            lens.saturating_add(len as usize),
        ];
        match number(lens, len).checked_sub(1) {
            None => NextSeparator::Same,
            Some(len) => NextSeparator::Differs {
                shared: number(shares, shared),
                len,
            },
        }
    }

    /// Goes on behind what is stored of a separator with so many bits after its first own one.
    #[inline]
    pub(super) fn skip(&mut self, len: usize) {
        self.rest = self.rest.saturating_add(len.saturating_sub(1));
    }

    /// Bits that may be stored of the next separator.
    pub(super) fn left(&self) -> usize {
        (8 * self.bits.len()).saturating_sub(self.rest)
    }
}
