//! Sizes that all of a store goes by.

/// The bytes of a block's header.
pub(in crate::cache) const HEADER: usize = 32;

/// Slots are so many bytes long, or a multiple of it: a header.
pub(super) const UNIT: usize = HEADER;

/// The most slots of a span: a bit each of a word.
pub(super) const MOST_SLOTS: usize = u32::BITS as usize;

/// A span: the number of its chunk, and its first frame.
pub(super) type SpanId = (u32, u8);
