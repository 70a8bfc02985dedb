//! A growable byte buffer that starts on a page boundary, as direct I/O demands.
//!
//! Its memory is mapped from the system ([`Pages`]): buffers come in many sizes, and in the heap of
//! the process's allocator each would leave a gap that stays resident. One owner at a time: it is
//! plain data without interior mutability.

use std::ops::{Deref, DerefMut};

use super::PAGE;
use crate::base::pages::Pages;

#[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C, align(4096))]
struct Page([u8; PAGE]);

/// Bytes whose first address is a multiple of [`PAGE`], and whose allocation is whole pages.
#[derive(Default)]
pub struct AlignedBuf {
    /// Room for more than was asked for, so that it seldom has to move: only what is touched is
    /// resident.
    pages: Option<Pages<Page>>,
    /// The most pages that were in view.
    touched: usize,
    len: usize,
}

impl AlignedBuf {
    /// An empty buffer that allocates nothing.
    #[must_use]
    pub const fn new() -> Self {
        AlignedBuf {
            pages: None,
            touched: 0,
            len: 0,
        }
    }

    /// A buffer of `len` zero bytes.
    #[must_use]
    pub fn zeroed(len: usize) -> Self {
        let mut buf = AlignedBuf::new();
        buf.set_len(len);
        buf
    }

    /// The bytes that are resident, for memory accounts.
    #[must_use]
    pub fn allocated(&self) -> usize {
        self.touched * PAGE
    }

    fn whole(&self) -> &[u8] {
        bytemuck::cast_slice(self.pages.as_deref().unwrap_or_default())
    }

    /// Sets the length; bytes that come into view hold zeros or whatever was there before.
    pub fn set_len(&mut self, len: usize) {
        let pages = len.div_ceil(PAGE);
        let had = self.pages.as_ref().map_or(0, |pages| pages.len());
        if pages > had {
            let room = match had {
                0 => pages,
                _ => pages.next_power_of_two(),
            };
            let mut larger = Pages::<Page>::zeroed(room);
            let old = self.pages.as_deref().unwrap_or_default();
            let old = old.get(..self.touched).unwrap_or_default();
            if let Some((start, _)) = larger.split_at_mut_checked(old.len()) {
                start.copy_from_slice(old);
            }
            self.pages = Some(larger);
        }
        self.touched = self.touched.max(pages);
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
        self.whole().get(..self.len).unwrap_or_default()
    }
}

impl DerefMut for AlignedBuf {
    fn deref_mut(&mut self) -> &mut [u8] {
        let pages = self.pages.as_deref_mut().unwrap_or_default();
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(pages);
        bytes.get_mut(..self.len).unwrap_or_default()
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
        fn behaves_like_a_vector(
            ops in proptest::collection::vec((any::<bool>(), 0usize..9000), 0..20)
        ) {
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
