//! CRC-32C, by the `crc32c` crate: hardware speed, and every change of up to four adjacent bytes
//! is certain to be noticed, which a hash does not promise.

/// The checksum of `bytes`, started from `seed` so that the same bytes in another place differ.
#[inline]
pub(crate) fn checksum(seed: u32, bytes: &[u8]) -> u32 {
    crc32c::crc32c_append(seed, bytes)
}
