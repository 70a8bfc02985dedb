//! The bytes of a memtable's entries: written once each, then read by anyone.
//!
//! This file is the memtable's only unsafe code. One writer at a time appends with
//! [`ByteArena::push`]; a reader may read a range once its offset has been published to it by a
//! release store that it saw with an acquire load (the skiplist's links do that).
#![expect(unsafe_code, reason = "readers share the buffer with the one writer")]

use std::cell::UnsafeCell;

/// A buffer of fixed capacity that only grows.
pub(super) struct ByteArena {
    /// Cells of single bytes: a byte is written at most once, before anyone may read it.
    bytes: Box<[UnsafeCell<u8>]>,
}

// SAFETY: a byte is written before its range is published and never again; see `push` and `get`.
unsafe impl Sync for ByteArena {}

impl ByteArena {
    pub(super) fn new(capacity: usize) -> Self {
        let zeroed = vec![0u8; capacity].into_boxed_slice();
        // SAFETY: `UnsafeCell<u8>` has the layout of `u8`, so the slice is the same allocation
        // under another type, owned once.
        let bytes = unsafe { Box::from_raw(Box::into_raw(zeroed) as *mut [UnsafeCell<u8>]) };
        ByteArena { bytes }
    }

    pub(super) fn capacity(&self) -> usize {
        self.bytes.len()
    }

    /// Copies `from` to `at..`; false when it does not fit. Only the one writer calls this, and
    /// only for ranges it has not published.
    pub(super) fn push(&self, at: usize, from: &[u8]) -> bool {
        let Some(range) = at
            .checked_add(from.len())
            .and_then(|end| self.bytes.get(at..end))
        else {
            return false;
        };
        // SAFETY: the range is in bounds and unpublished, so no reader looks at it, and there is
        // one writer.
        unsafe {
            std::ptr::copy_nonoverlapping(from.as_ptr(), range.as_ptr() as *mut u8, from.len())
        };
        true
    }

    /// The bytes from `at` to `end`, a range that was published to the caller; empty when it is out
    /// of bounds.
    #[inline]
    pub(super) fn get(&self, at: usize, end: usize) -> &[u8] {
        let Some(range) = self.bytes.get(at..end) else {
            return &[];
        };
        // SAFETY: published bytes are never written again.
        unsafe { std::slice::from_raw_parts(range.as_ptr() as *const u8, range.len()) }
    }
}
