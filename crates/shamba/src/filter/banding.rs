//! Solves the linear system behind ribbon columns.
//!
//! Every key gives one equation over GF(2): the bits of a column at the key's window of
//! [`WIDTH`] slots, picked by its coefficients, sum to a bit of its fingerprint. All columns share
//! the coefficients, so that elimination ("banding") is done once for all of them, and each column
//! is then solved from its own fingerprint bits. Standard ribbon, not the homogeneous one, whose
//! columns are correlated (Dillinger, Hübschle-Schneider, Sanders, Walzer, "Fast Succinct Retrieval
//! and Approximate Membership using Ribbon", 2022, section 2). Equations are specified in
//! docs/format.md, "Filter modules".
//!
//! Protocol: [`solve`] with the hashes of a partition's keys gives a [`Solution`]. Pure.

use shamba_model::ribbon::{self, WIDTH};

use super::fast_range;

/// The most columns of one filter: the bits of a fingerprint.
pub(super) const MAX_COLUMNS: usize = 32;

/// Seeds tried before more slots are.
const SEEDS: u8 = 32;

/// Times that slots are added before columns are given up: they have doubled by then.
const GROWTHS: u32 = 48;

/// Columns solved at a time.
const LANES: usize = 4;

/// The most buckets the sort before banding has.
const MAX_BUCKETS: usize = 1 << 16;

/// The equation of a key.
pub(super) struct Row {
    /// The first slot of its window.
    pub(super) start: usize,
    /// Which slots of the window are summed; the first always is.
    pub(super) coefficients: u128,
    /// Bit j is the sum in column j.
    pub(super) fingerprint: u32,
}

/// A hash under a seed. One to one, so equal results mean equal hashes, and equal equations.
#[inline]
pub(super) const fn seeded(hash: u64, seed: u8) -> u64 {
    (hash ^ (seed as u64).wrapping_mul(0xd6e8_feb8_6659_fd93)).wrapping_mul(super::STEP)
}

/// Where windows may start in columns of this many bytes: all that 17 bytes from their first are
/// inside the column for.
#[inline]
pub(super) const fn starts(column_len: usize) -> usize {
    (column_len * 8).saturating_sub(WIDTH)
}

impl Row {
    /// The equation of a seeded hash.
    #[inline]
    pub(super) const fn of(seeded: u64, starts: usize) -> Row {
        let mixed = seeded ^ seeded >> 32;
        let low = mixed.wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let high = mixed.wrapping_mul(0x94d0_49bb_1331_11eb);
        let sums = mixed.wrapping_mul(0xff51_afd7_ed55_8ccd);
        let low = low ^ low >> 32;
        let high = high ^ high >> 32;
        Row {
            start: fast_range(seeded, starts as u64) as usize,
            coefficients: (high as u128) << 64 | low as u128 | 1,
            fingerprint: (sums >> 32) as u32,
        }
    }
}

/// The columns over one set of keys.
#[derive(Debug)]
pub(super) struct Solution {
    /// The seed of the equations.
    pub(super) seed: u8,
    /// Bytes of a column.
    pub(super) column_len: usize,
    /// The columns one after another; none if there is no solution.
    pub(super) columns: Vec<u8>,
}

/// The equations in echelon form: the row of slot i starts at slot i.
#[derive(Default)]
struct Band {
    coefficients: Vec<u128>,
    fingerprints: Vec<u32>,
}

/// Solves `columns` columns over `hashes`, starting with columns of `column_len` bytes.
pub(super) fn solve(
    hashes: impl Iterator<Item = u64> + Clone,
    column_len: usize,
    columns: usize,
) -> Solution {
    let columns = columns.min(MAX_COLUMNS);
    let mut column_len = column_len.max(ribbon::LEAST_COLUMN);
    let mut band = Band::default();
    for _ in 0..GROWTHS {
        for seed in 0..SEEDS {
            if band.fill(hashes.clone(), seed, column_len) {
                return Solution {
                    seed,
                    column_len,
                    columns: band.solve(column_len, columns),
                };
            }
        }
        column_len += (column_len / 64).max(1);
    }
    Solution {
        seed: 0,
        column_len: ribbon::LEAST_COLUMN,
        columns: Vec::new(),
    }
}

/// Whether one try at solving succeeds.
#[cfg(test)]
pub(super) fn solvable(
    hashes: impl Iterator<Item = u64> + Clone,
    seed: u8,
    column_len: usize,
) -> bool {
    Band::default().fill(hashes, seed, column_len)
}

/// The most memory that [`solve`] and its result hold, in bytes.
pub(super) fn memory(keys: usize, column_len: usize, columns: usize) -> usize {
    // One growth is allowed for: two in a row are as rare as a hash collision.
    let column_len = column_len + (column_len / 64).max(1);
    let buckets = starts(column_len).min(MAX_BUCKETS) + 1;
    column_len * 8 * (size_of::<u128>() + size_of::<u32>())
        + column_len * columns
        + keys * size_of::<u64>()
        + buckets * size_of::<u32>()
}

impl Band {
    /// Eliminates the equations of all hashes; false if they contradict each other.
    #[expect(
        clippy::indexing_slicing,
        reason = "a window starts WIDTH slots before the end, and a row's first coefficient is the \
                  last of its window at most; checks in this loop cost a tenth of the build"
    )]
    fn fill(
        &mut self,
        hashes: impl Iterator<Item = u64> + Clone,
        seed: u8,
        column_len: usize,
    ) -> bool {
        let starts = starts(column_len);
        self.coefficients.clear();
        self.coefficients.resize(column_len * 8, 0);
        self.fingerprints.clear();
        self.fingerprints.resize(column_len * 8, 0);
        for hash in sorted(hashes, seed, starts) {
            let row = Row::of(hash, starts);
            let (mut at, mut fingerprint) = (row.start, row.fingerprint);
            // In halves: the next coefficient is in the lower one, so that no shift has to be of
            // all lengths. Each step waits for the one before.
            let (mut low, mut high) = halves(row.coefficients);
            loop {
                let pivot = halves(self.coefficients[at]);
                // The first coefficient of an equation is 1.
                if pivot.0 == 0 {
                    self.coefficients[at] = u128::from(high) << 64 | u128::from(low);
                    self.fingerprints[at] = fingerprint;
                    break;
                }
                low ^= pivot.0;
                high ^= pivot.1;
                fingerprint ^= self.fingerprints[at];
                if low == 0 {
                    if high == 0 {
                        if fingerprint == 0 {
                            break;
                        }
                        return false;
                    }
                    (low, high) = (high, 0);
                    at += 64;
                }
                let zeros = low.trailing_zeros();
                low = low >> zeros | high << 1 << (63 - zeros);
                high >>= zeros;
                at += zeros as usize;
            }
        }
        true
    }

    /// Solves the columns from the last slot to the first. Slots without an equation are zero.
    fn solve(&self, column_len: usize, columns: usize) -> Vec<u8> {
        let mut solution = vec![0; column_len * columns];
        for (group, out) in solution.chunks_mut(column_len * LANES).enumerate() {
            let shift = group * LANES;
            // The bits of the window that starts at the slot, in each column.
            let mut window = [0u128; LANES];
            let rows = self.coefficients.iter().zip(&self.fingerprints);
            for (slot, (&coefficients, &fingerprint)) in rows.enumerate().rev() {
                for (lane, window) in window.iter_mut().enumerate() {
                    *window <<= 1;
                    let sum =
                        parity(coefficients & *window) ^ (fingerprint >> (shift + lane)) as u8 & 1;
                    *window |= u128::from(sum);
                }
                if slot % 8 == 0 {
                    let bytes = out.iter_mut().skip(slot / 8).step_by(column_len);
                    for (byte, window) in bytes.zip(&window) {
                        *byte = *window as u8;
                    }
                }
            }
        }
        solution
    }
}

/// The lower and the upper half.
#[inline]
const fn halves(bits: u128) -> (u64, u64) {
    (bits as u64, (bits >> 64) as u64)
}

/// The sum of all bits.
#[inline]
pub(super) const fn parity(bits: u128) -> u8 {
    (((bits >> 64) as u64 ^ bits as u64).count_ones() & 1) as u8
}

/// Hashes under a seed in the order of where their windows start (in few buckets for very many):
/// elimination in this order finds what it needs in the nearest cache and takes fewer steps.
#[expect(
    clippy::indexing_slicing,
    reason = "a bucket is below their number, and counts of hashes sum to the hashes"
)]
fn sorted(hashes: impl Iterator<Item = u64> + Clone, seed: u8, starts: usize) -> Vec<u64> {
    let buckets = starts.min(MAX_BUCKETS);
    let bucket = |hash| fast_range(hash, buckets as u64) as usize;
    let mut ends = vec![0u32; buckets + 1];
    let mut count = 0;
    for hash in hashes.clone() {
        ends[bucket(seeded(hash, seed)) + 1] += 1;
        count += 1;
    }
    for i in 1..ends.len() {
        ends[i] += ends[i - 1];
    }
    let mut sorted = vec![0; count];
    for hash in hashes {
        let hash = seeded(hash, seed);
        let end = &mut ends[bucket(hash)];
        sorted[*end as usize] = hash;
        *end += 1;
    }
    sorted
}
