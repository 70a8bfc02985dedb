//! A growable byte buffer that starts on a page boundary, as direct I/O demands.
//!
//! Built on a vector of page-sized structs, so it needs no `unsafe`. One owner at a time: it is
//! plain data without interior mutability.

use std::ops::{Deref, DerefMut};

use super::PAGE;

#[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C, align(4096))]
struct Page([u8; PAGE]);

const ZERO_PAGE: Page = Page([0; PAGE]);

/// Bytes whose first address is a multiple of [`PAGE`], and whose allocation is whole pages.
#[derive(Clone, Default)]
pub struct AlignedBuf {
    pages: Vec<Page>,
    len: usize,
}

impl AlignedBuf {
    /// An empty buffer that allocates nothing.
    #[must_use]
    pub const fn new() -> Self {
        AlignedBuf {
            pages: Vec::new(),
            len: 0,
        }
    }

    /// A buffer of `len` zero bytes.
    #[must_use]
    pub fn zeroed(len: usize) -> Self {
        AlignedBuf {
            // Zero pages come from the system without being touched.
            pages: bytemuck::zeroed_vec(len.div_ceil(PAGE)),
            len,
        }
    }

    /// The bytes allocated, for memory accounts.
    #[must_use]
    pub fn allocated(&self) -> usize {
        self.pages.capacity() * PAGE
    }

    /// Sets the length; bytes that come into view hold zeros or whatever was there before.
    pub fn set_len(&mut self, len: usize) {
        let pages = len.div_ceil(PAGE);
        if pages > self.pages.len() {
            self.pages.reserve_exact(pages - self.pages.len());
            self.pages.resize(pages, ZERO_PAGE);
        }
        self.len = len;
    }

    /// Forgets the contents and keeps the allocation.
    pub fn clear(&mut self) {
        self.len = 0;
    }

    /// Appends bytes.
    pub fn extend_from_slice(&mut self, bytes: &[u8]) {
        let start = self.len;
        self.set_len(start + bytes.len());
        if let Some(target) = self.get_mut(start..) {
            target.copy_from_slice(bytes);
        }
    }

    /// Drops the first `count` bytes (all of them if there are fewer) and moves the rest to the
    /// front.
    pub fn drain_front(&mut self, count: usize) {
        let count = count.min(self.len);
        let len = self.len;
        self.copy_within(count..len, 0);
        self.len -= count;
    }

    /// Lengthens the buffer with zeros to a whole number of pages.
    pub fn pad_to_page(&mut self) {
        let start = self.len;
        self.set_len(start.next_multiple_of(PAGE));
        if let Some(tail) = self.get_mut(start..) {
            tail.fill(0);
        }
    }
}

impl Deref for AlignedBuf {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        let bytes: &[u8] = bytemuck::cast_slice(&self.pages);
        bytes.get(..self.len).unwrap_or(bytes)
    }
}

impl DerefMut for AlignedBuf {
    fn deref_mut(&mut self) -> &mut [u8] {
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut self.pages);
        let len = self.len.min(bytes.len());
        bytes.split_at_mut(len).0
    }
}

impl std::fmt::Debug for AlignedBuf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AlignedBuf")
            .field("len", &self.len)
            .field("allocated", &self.allocated())
            .finish()
    }
}

/// Whether memory may be handed to direct I/O as it is.
pub(super) fn is_aligned(bytes: &[u8]) -> bool {
    bytes.as_ptr().addr().is_multiple_of(PAGE) && bytes.len().is_multiple_of(PAGE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn starts_on_a_page() {
        for len in [1, 4095, 4096, 4097, 100_000] {
            let buf = AlignedBuf::zeroed(len);
            assert_eq!(buf.as_ptr().addr() % PAGE, 0);
            assert_eq!(buf.len(), len);
            assert!(buf.iter().all(|&b| b == 0));
            assert!(buf.allocated() >= len);
        }
    }

    #[test]
    fn padding_is_zero_even_over_old_bytes() {
        let mut buf = AlignedBuf::new();
        buf.extend_from_slice(&[7; 5000]);
        buf.clear();
        buf.extend_from_slice(&[1, 2, 3]);
        buf.pad_to_page();
        assert_eq!(buf.len(), PAGE);
        assert_eq!(buf[..3], [1, 2, 3]);
        assert!(buf[3..].iter().all(|&b| b == 0));
    }

    proptest! {
        #[test]
        fn behaves_like_a_vector(ops in proptest::collection::vec((any::<bool>(), 0usize..9000), 0..20)) {
            let mut buf = AlignedBuf::new();
            let mut model: Vec<u8> = Vec::new();
            for (i, (drain, n)) in ops.into_iter().enumerate() {
                if drain {
                    buf.drain_front(n);
                    model.drain(..n.min(model.len()));
                } else {
                    let bytes = vec![i as u8 + 1; n];
                    buf.extend_from_slice(&bytes);
                    model.extend_from_slice(&bytes);
                }
                prop_assert_eq!(&*buf, model.as_slice());
            }
        }
    }
}
