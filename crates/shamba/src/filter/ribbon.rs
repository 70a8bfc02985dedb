//! Blocks of ribbon columns: a module's columns, or any part of them.
//!
//! A block holds its module's columns one after another, each on its own bytes, so that a part of
//! them is cut out by copying ([`shrink`]); a header says which columns are there. Any columns of
//! one partition, of whatever modules, answer independently: `n` of them let an absent key through
//! at a rate of `2^-n`. Bytes are specified in docs/format.md, "Filter modules"; the equations are
//! those of [`super::banding`]. Pure.

use super::banding::{self, Row, Solution};

/// Bytes before the columns.
pub(super) const HEADER: usize = 7;

/// The most columns of one module: the bits of the mask.
pub(crate) const MODULE_COLUMNS: usize = 8;

/// What the header of a block says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct RibbonHeader {
    /// Bit j: the module's column j is in this block.
    mask: u8,
    seed: u8,
    /// The module's column 0 compares this bit of the fingerprint.
    first: u8,
    /// Bytes of a column.
    column_len: u32,
}

impl RibbonHeader {
    /// The header of a sound block and its columns.
    #[inline]
    fn parse(block: &[u8]) -> Option<(RibbonHeader, &[u8])> {
        let (bytes, columns) = block.split_first_chunk::<HEADER>()?;
        let [mask, seed, first, a, b, c, d] = *bytes;
        let header = RibbonHeader {
            mask,
            seed,
            first,
            column_len: u32::from_le_bytes([a, b, c, d]),
        };
        let len = u64::from(mask.count_ones()) * u64::from(header.column_len);
        (len == columns.len() as u64 && header.column_len as usize >= WINDOW)
            .then_some((header, columns))
    }

    /// The equation of a hash.
    #[inline]
    fn row(&self, hash: u64) -> Row {
        row(hash, self.seed, self.column_len)
    }

    fn block(self, columns: usize) -> Vec<u8> {
        let mut block = Vec::with_capacity(HEADER + columns * self.column_len as usize);
        block.extend_from_slice(&[self.mask, self.seed, self.first]);
        block.extend_from_slice(&self.column_len.to_le_bytes());
        block
    }
}

/// Bytes that hold any window.
const WINDOW: usize = shamba_model::ribbon::LEAST_COLUMN;

/// The block of the module that has the columns from `first` on of a solution. A solution without
/// columns, which [`banding::solve`] gives up with, makes a block without columns.
pub(super) fn block(solution: &Solution, first: usize, columns: usize) -> Box<[u8]> {
    let from = first * solution.column_len;
    let bytes = (solution.columns).get(from..from + columns * solution.column_len);
    let header = RibbonHeader {
        mask: match bytes {
            Some(_) => (1u16 << columns).wrapping_sub(1) as u8,
            None => 0,
        },
        seed: solution.seed,
        first: first as u8,
        column_len: solution.column_len as u32,
    };
    let mut block = header.block(columns);
    block.extend_from_slice(bytes.unwrap_or_default());
    block.into()
}

/// Which of the columns turn the key of this hash away; none if the block may contain it. A block
/// that is not sound turns nobody away.
#[inline]
pub(super) fn rejecting_columns(block: &[u8], hash: u64) -> u8 {
    let Some((header, columns)) = RibbonHeader::parse(block) else {
        return 0;
    };
    let len = header.column_len as usize;
    let window = Window::of(&header.row(hash), header.first);
    let mut differ = 0;
    let mut mask = header.mask;
    let mut at = window.at;
    // No branch on what a column says: at a rate of a half it would be mispredicted.
    while mask != 0 {
        let column = mask.trailing_zeros();
        mask &= mask - 1;
        let Some(wrong) = window.differs(columns, at, column) else {
            return 0;
        };
        differ |= wrong << column;
        at += len;
    }
    differ
}

/// What the header of a sound block says that has the first columns of its module.
#[derive(Debug, Clone, Copy)]
pub(super) struct Columns {
    seed: u8,
    first: u8,
    count: u8,
    len: u32,
}

impl Columns {
    /// What the header of this block says; none if there are gaps or nothing.
    pub(super) fn of(block: &[u8]) -> Option<Self> {
        let (header, _) = RibbonHeader::parse(block)?;
        let count = header.mask.trailing_ones();
        (count > 0 && header.mask.count_ones() == count).then_some(Columns {
            seed: header.seed,
            first: header.first,
            count: count as u8,
            len: header.column_len,
        })
    }

    /// How many columns there are.
    pub(super) fn count(&self) -> u8 {
        self.count
    }

    /// The equation of a hash.
    #[inline]
    pub(super) fn row(&self, hash: u64) -> Row {
        row(hash, self.seed, self.len)
    }

    /// Whether equations are the same in other columns.
    #[inline]
    pub(super) fn same_rows(&self, other: &Columns) -> bool {
        (self.seed, self.len) == (other.seed, other.len)
    }

    /// Whether their block may contain a key, where the key's equation is known.
    #[inline]
    pub(super) fn may_contain(&self, block: &[u8], row: &Row) -> bool {
        let Some((_, columns)) = block.split_first_chunk::<HEADER>() else {
            return true;
        };
        let window = Window::of(row, self.first);
        let differ = match self.count {
            // What a page has: the usual number, in one go.
            4 => self.differ(columns, &window, 4),
            count => self.differ(columns, &window, count),
        };
        differ == 0
    }

    #[inline(always)]
    fn differ(&self, columns: &[u8], window: &Window, count: u8) -> u8 {
        let mut at = window.at;
        let mut differ = 0;
        for column in 0..count {
            differ |= window.differs(columns, at, column.into()).unwrap_or(0);
            at += self.len as usize;
        }
        differ
    }
}

/// The equation of a hash in columns of `len` bytes.
#[inline]
fn row(hash: u64, seed: u8, len: u32) -> Row {
    Row::of(banding::seeded(hash, seed), banding::starts(len as usize))
}

/// What is looked at in a column.
struct Window {
    /// The byte in which it starts.
    at: usize,
    /// A window starts inside a byte; its coefficients are moved to the byte's first bit, and the
    /// last of them spill into a 17th byte.
    low: u128,
    high: u8,
    /// Bit j: what the block's module's column j is to sum up to.
    expected: u32,
}

impl Window {
    #[inline]
    fn of(row: &Row, first: u8) -> Self {
        let inside = (row.start % 8) as u32;
        Window {
            at: row.start / 8,
            low: row.coefficients << inside,
            high: (row.coefficients >> 1 >> (127 - inside)) as u8,
            expected: row.fingerprint.checked_shr(first.into()).unwrap_or(0),
        }
    }

    /// 1 if the column whose window is at this byte does not sum up to what it should, else 0;
    /// nothing past the last column.
    #[inline]
    fn differs(&self, columns: &[u8], at: usize, column: u32) -> Option<u8> {
        let ([bytes @ .., last], _) = columns.get(at..)?.split_first_chunk::<WINDOW>()?;
        let window = u128::from_le_bytes(*bytes);
        let sum = banding::parity(window & self.low ^ u128::from(last & self.high));
        Some(sum ^ (self.expected >> column) as u8 & 1)
    }
}

/// Which columns of its module a block has; none if it is not sound.
pub(crate) fn columns(block: &[u8]) -> u8 {
    RibbonHeader::parse(block).map_or(0, |(header, _)| header.mask)
}

/// The block with only those of its columns that are in `keep`. A block that is not sound stays
/// without columns.
pub(crate) fn shrink(block: &[u8], keep: u8) -> Vec<u8> {
    let Some((header, bytes)) = RibbonHeader::parse(block) else {
        return EMPTY.into();
    };
    let kept = RibbonHeader {
        mask: header.mask & keep,
        ..header
    };
    let mut out = kept.block(kept.mask.count_ones() as usize);
    append(header, bytes, kept.mask, &mut out);
    out
}

/// Appends the columns in `wanted` of a block's bytes.
fn append(header: RibbonHeader, bytes: &[u8], wanted: u8, out: &mut Vec<u8>) {
    let present = (0..MODULE_COLUMNS).filter(|column| header.mask >> column & 1 == 1);
    for (column, bytes) in present.zip(bytes.chunks_exact(header.column_len as usize)) {
        if wanted >> column & 1 == 1 {
            out.extend_from_slice(bytes);
        }
    }
}

/// A block without columns.
pub(super) const EMPTY: [u8; HEADER] = [0, 0, 0, WINDOW as u8, 0, 0, 0];
