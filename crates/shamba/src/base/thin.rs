//! A head with bytes behind it in one allocation, shared, by pointers of one word: `Arc<(H, [u8])>`
//! for what there are very many of. An `Arc` of it would take two words in each place that holds
//! it, two more for its counts, and could not be made with bytes of any length.
//!
//! Thread-safe as an `Arc` is. The head is dropped with the last holder.
#![expect(
    unsafe_code,
    reason = "the bytes lie behind the head, in memory of a length that no type says"
)]

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::marker::PhantomData;
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

/// More holders than this would be a leak, and twice of it would wrap.
const MOST_HOLDERS: u32 = u32::MAX / 2;

/// A shared head and its bytes. Dereferences to the head.
pub(crate) struct Thin<H> {
    at: NonNull<Shared<H>>,
    owns: PhantomData<Shared<H>>,
}

#[repr(C)]
struct Shared<H> {
    holders: AtomicU32,
    /// How many bytes follow.
    len: u32,
    head: H,
}

// SAFETY: all holders share the head and the bytes, and the last one drops the head, as with an
// `Arc`.
unsafe impl<H: Send + Sync> Send for Thin<H> {}
// SAFETY: as above.
unsafe impl<H: Send + Sync> Sync for Thin<H> {}

/// The layout of an allocation with so many bytes behind the head, and where they begin.
fn layout<H>(len: usize) -> (Layout, usize) {
    let bytes = Layout::array::<u8>(len);
    match bytes.and_then(|bytes| Layout::new::<Shared<H>>().extend(bytes)) {
        Ok((layout, start)) => (layout, start),
        // No address space holds it.
        Err(_) => handle_alloc_error(Layout::new::<Shared<H>>()),
    }
}

impl<H> Thin<H> {
    /// A head and a copy of bytes, less than 4 GiB.
    pub(crate) fn new(head: H, bytes: &[u8]) -> Self {
        let (layout, start) = layout::<H>(bytes.len());
        let len = u32::try_from(bytes.len()).unwrap_or_else(|_| handle_alloc_error(layout));
        let shared = Shared {
            holders: AtomicU32::new(1),
            len,
            head,
        };
        // SAFETY: the layout is not empty, since there is a count in it; the head and the bytes lie
        // in it one behind the other.
        unsafe {
            let Some(at) = NonNull::new(alloc(layout)) else {
                handle_alloc_error(layout)
            };
            let behind = at.add(start);
            at.cast().write(shared);
            behind.copy_from_nonoverlapping(NonNull::from(bytes).cast(), bytes.len());
            Thin {
                at: at.cast(),
                owns: PhantomData,
            }
        }
    }

    fn shared(&self) -> &Shared<H> {
        // SAFETY: it lives as long as a holder does.
        unsafe { self.at.as_ref() }
    }

    /// The bytes.
    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        let len = self.shared().len as usize;
        // Without the way to a layout, which is to be had once.
        let start = const { size_of::<Shared<H>>() };
        // SAFETY: so many bytes were written there and never change; bytes need no padding before
        // them.
        unsafe { NonNull::slice_from_raw_parts(self.at.cast::<u8>().add(start), len).as_ref() }
    }

    /// The bytes of its allocation.
    pub(crate) fn allocation(&self) -> usize {
        layout::<H>(self.shared().len as usize).0.size()
    }
}

impl<H> Deref for Thin<H> {
    type Target = H;

    #[inline]
    fn deref(&self) -> &H {
        &self.shared().head
    }
}

impl<H> Clone for Thin<H> {
    #[inline]
    fn clone(&self) -> Self {
        // A new holder is made of one that is there, so nothing is to be seen first.
        if self.shared().holders.fetch_add(1, Ordering::Relaxed) > MOST_HOLDERS {
            std::process::abort();
        }
        Thin {
            at: self.at,
            owns: PhantomData,
        }
    }
}

impl<H> Drop for Thin<H> {
    #[inline]
    fn drop(&mut self) {
        if self.shared().holders.fetch_sub(1, Ordering::Release) != 1 {
            return;
        }
        // What other holders did comes before what the drop does. A load and no fence, which
        // ThreadSanitizer does not know.
        self.shared().holders.load(Ordering::Acquire);
        let (layout, _) = layout::<H>(self.shared().len as usize);
        // SAFETY: this was the last holder, and it was allocated with this layout.
        unsafe {
            self.at.drop_in_place();
            dealloc(self.at.cast().as_ptr(), layout);
        }
    }
}

impl<H: std::fmt::Debug> std::fmt::Debug for Thin<H> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        (**self).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn bytes_of_any_length_lie_behind_any_head() {
        for len in [0, 1, 7, 8, 9, 1000] {
            let bytes: Vec<u8> = (0..len).map(|i| i as u8).collect();
            let small = Thin::new(7u8, &bytes);
            let large = Thin::new((7u64, 9u8), &bytes);
            assert_eq!((*small, small.bytes()), (7, &*bytes));
            assert_eq!((*large, large.bytes()), ((7, 9), &*bytes));
            assert!(small.allocation() >= len + 9 && small.allocation() < len + 17);
        }
        assert_eq!(size_of::<Option<Thin<u64>>>(), 8);
    }

    #[test]
    fn the_last_of_many_holders_drops_the_head() {
        let head = Arc::new(());
        let thin = Thin::new(Arc::clone(&head), b"bytes");
        std::thread::scope(|scope| {
            for _ in 0..3 {
                let held = thin.clone();
                scope.spawn(move || {
                    for _ in 0..20 {
                        assert_eq!(held.clone().bytes(), b"bytes");
                    }
                });
            }
        });
        assert_eq!(Arc::strong_count(&head), 2);
        drop(thin);
        assert_eq!(Arc::strong_count(&head), 1);
    }
}
