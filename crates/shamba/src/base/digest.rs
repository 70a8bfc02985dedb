//! The one hash of a key that every filter works from (hash sharing, section 4).
//!
//! A lookup computes a [`KeyDigest`] at most once; every module of every filter derives its own
//! bits from a *remix* of it, so that modules are independent.

use xxhash_rust::xxh3::xxh3_64;

/// A 64-bit digest of a user key. The same on every machine and in every table: it is on storage,
/// in the sense that filters are built from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct KeyDigest(u64);

impl KeyDigest {
    /// Hashes a user key (XXH3, 64 bits).
    #[inline]
    pub(crate) fn of(key: &[u8]) -> Self {
        KeyDigest(xxh3_64(key))
    }

    /// The module's own view of the digest: a bijective finaliser (the one of splitmix64) over the
    /// digest and an odd multiple of the module's number.
    #[inline]
    pub(crate) fn remix(self, module: u32) -> u64 {
        let mut z = self.0.wrapping_add(
            u64::from(module)
                .wrapping_add(1)
                .wrapping_mul(0x9e37_79b9_7f4a_7c15),
        );
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}
