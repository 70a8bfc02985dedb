//! The value of an entry with a time to live, as it is stored (docs/format.md, "Entries"): when it
//! expires, and what it is until then.

use super::clock::Moment;

/// The bytes of a moment before a value.
pub(crate) const EXPIRY_BYTES: usize = size_of::<Moment>();

/// When a stored value expires, and the value; `None` where it has not so many bytes.
#[inline]
pub(crate) fn split(stored: &[u8]) -> Option<(Moment, &[u8])> {
    let (expiry, value) = stored.split_first_chunk::<EXPIRY_BYTES>()?;
    Some((u64::from_le_bytes(*expiry), value))
}

/// The value at a moment: `None` once it has expired.
#[inline]
pub(crate) fn at(stored: &[u8], moment: Moment) -> Option<&[u8]> {
    let (expiry, value) = split(stored)?;
    (moment < expiry).then_some(value)
}
