//! The standard Bloom filter: every hash sets a bit anywhere in the block.

use super::{STEP, fast_range};

/// Sets the bits of a hash.
#[inline]
pub(super) fn add(block: &mut [u8], hash: u64, hashes: u8) {
    let bits = block.len() as u64 * 8;
    let mut h = hash;
    for _ in 0..hashes {
        h = h.wrapping_mul(STEP);
        let at = fast_range(h, bits);
        if let Some(byte) = block.get_mut((at / 8) as usize) {
            *byte |= 1 << (at % 8);
        }
    }
}

/// Whether all bits of a hash are set.
#[inline]
pub(super) fn may_contain(block: &[u8], hash: u64, hashes: u8) -> bool {
    let bits = block.len() as u64 * 8;
    let mut h = hash;
    (0..hashes).all(|_| {
        h = h.wrapping_mul(STEP);
        let at = fast_range(h, bits);
        block
            .get((at / 8) as usize)
            .is_none_or(|byte| byte >> (at % 8) & 1 == 1)
    })
}
