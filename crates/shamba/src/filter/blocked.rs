//! The cache-line-blocked Bloom filter: all bits of a key lie in one line of 512 bits, so that a
//! probe touches one cache line (Putze, Sanders, Singler 2007).

use super::{STEP, fast_range};

/// Bytes in a line.
pub(super) const LINE: usize = 64;

/// Sets the bits of a hash.
#[inline]
pub(super) fn add(block: &mut [u8], hash: u64, hashes: u8) {
    let (lines, _) = block.as_chunks_mut::<LINE>();
    let mut h = hash.wrapping_mul(STEP);
    let at = fast_range(h, lines.len() as u64) as usize;
    let Some(line) = lines.get_mut(at) else {
        return;
    };
    for _ in 0..hashes {
        h = (h ^ h >> 32).wrapping_mul(STEP);
        let bit = (h >> 55) as usize;
        if let Some(byte) = line.get_mut(bit / 8) {
            *byte |= 1 << (bit % 8);
        }
    }
}

/// Whether all bits of a hash are set.
#[inline]
pub(super) fn may_contain(block: &[u8], hash: u64, hashes: u8) -> bool {
    let (lines, _) = block.as_chunks::<LINE>();
    let mut h = hash.wrapping_mul(STEP);
    let Some(line) = lines.get(fast_range(h, lines.len() as u64) as usize) else {
        return true;
    };
    (0..hashes).all(|_| {
        h = (h ^ h >> 32).wrapping_mul(STEP);
        let bit = (h >> 55) as usize;
        line.get(bit / 8)
            .is_none_or(|byte| byte >> (bit % 8) & 1 == 1)
    })
}
