//! Memory that the engine maps itself, a page at a time from the system.
//!
//! What is large comes from here and not from the process's allocator, which keeps what was freed
//! and hands it out again resident. A [`Pages`] is zero at first. Its pages become resident when
//! they are first touched, one by one (they are kept from being merged to huge ones), and are the
//! system's again when it is dropped. So the memory to charge is that of the pages touched.
//!
//! Thread-safe as a boxed slice is. Where the system maps no more (it limits the number of mappings
//! of a process), on Windows, and under Miri, it is a boxed slice: the safe twin.
#![expect(
    unsafe_code,
    reason = "a mapping is handed out as a slice for as long as it lives"
)]

use std::ffi::c_void;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

use bytemuck::Zeroable;

/// The unit in which the system hands out memory, in bytes. Where its pages are larger, so is what
/// is resident of a region, by at most one of them.
pub(crate) const PAGE: usize = 4096;

/// A region of values whose bytes are zero at first.
#[derive(Debug)]
pub(crate) struct Pages<T> {
    start: NonNull<T>,
    len: usize,
    /// Whether it is mapped, or else a boxed slice.
    mapped: bool,
}

// SAFETY: the region owns its values as a boxed slice does.
unsafe impl<T: Send> Send for Pages<T> {}
// SAFETY: as above; it is shared by handing out `&[T]` only.
unsafe impl<T: Sync> Sync for Pages<T> {}

impl<T: Zeroable> Pages<T> {
    /// A region of `len` values, all zero. No page of it is resident.
    pub(crate) fn zeroed(len: usize) -> Self {
        // A type that must be dropped, or that is aligned to more than a page, has no place in a
        // mapping.
        let fits = align_of::<T>() <= PAGE && !std::mem::needs_drop::<T>();
        let mapped = match len.checked_mul(size_of::<T>()) {
            Some(bytes) if fits && !cfg!(miri) => map(bytes),
            _ => None,
        };
        match mapped {
            Some(start) => Pages {
                start: start.cast(),
                len,
                mapped: true,
            },
            None => Self::boxed(len),
        }
    }

    /// The same in memory of the process's allocator.
    fn boxed(len: usize) -> Self {
        let values: &mut [T] = Box::leak(bytemuck::zeroed_slice_box(len));
        Pages {
            start: NonNull::from(values).cast(),
            len,
            mapped: false,
        }
    }
}

/// Windows has other calls for this; large boxed slices are the system's pages there too.
#[cfg(not(unix))]
fn map(_bytes: usize) -> Option<NonNull<c_void>> {
    None
}

/// Maps so many bytes; `None` where there are none, or the system maps no more.
#[cfg(unix)]
fn map(bytes: usize) -> Option<NonNull<c_void>> {
    use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};
    if bytes == 0 || isize::try_from(bytes).is_err() {
        return None;
    }
    // A region is made for as much as it may ever hold; what is never touched is not to count
    // against what the system has promised.
    let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
    let rights = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: the system chooses a place where nothing is mapped.
    let start = unsafe { mmap_anonymous(std::ptr::null_mut(), bytes, rights, flags) }.ok()?;
    #[cfg(target_os = "linux")]
    // A kernel without huge pages refuses, and needs none.
    // SAFETY: the advice is for what was just mapped, and changes no byte of it.
    let _ = unsafe { rustix::mm::madvise(start, bytes, rustix::mm::Advice::LinuxNoHugepage) };
    NonNull::new(start)
}

impl<T> Pages<T> {
    /// Where the region starts. Who writes through it keeps `deref` from being called meanwhile.
    pub(crate) fn start(&self) -> NonNull<T> {
        self.start
    }

    /// How many values there are. It hides the slice's own, which borrows all of them: others may
    /// write some meanwhile, through [`Self::start`].
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Gives the pages of some values back to the system: they are zero when they are next touched.
    /// Of a boxed slice nothing is given back.
    ///
    /// # Safety
    /// Nobody may hold a borrow of any of these values, or touch them meanwhile.
    pub(crate) unsafe fn discard(&self, values: std::ops::Range<usize>) {
        let size = size_of::<T>();
        let inside = values.start <= values.end && values.end <= self.len;
        if !self.mapped || !inside || !(values.start * size).is_multiple_of(PAGE) {
            return;
        }
        // SAFETY: the values lie within what was mapped, and nobody looks at them.
        unsafe { discard_mapped(self.start.add(values.start).cast(), values.len() * size) };
    }
}

/// # Safety
/// The bytes must lie within one mapping, from the start of a page on, and nobody may look at them.
#[cfg(target_os = "linux")]
unsafe fn discard_mapped(start: NonNull<c_void>, bytes: usize) {
    let advice = rustix::mm::Advice::LinuxDontNeed;
    // SAFETY: as the caller says; afterwards they are zero, as they were at first.
    let done = unsafe { rustix::mm::madvise(start.as_ptr(), bytes, advice) };
    debug_assert!(done.is_ok(), "{done:?}");
}

/// Other systems promise nothing of what pages hold after such advice. They are mapped anew.
///
/// # Safety
/// As above.
#[cfg(all(unix, not(target_os = "linux")))]
unsafe fn discard_mapped(start: NonNull<c_void>, bytes: usize) {
    use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};
    let flags = MapFlags::PRIVATE | MapFlags::FIXED;
    let rights = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: as the caller says; what is replaced is the region's own.
    let done = unsafe { mmap_anonymous(start.as_ptr(), bytes, rights, flags) };
    debug_assert!(done.is_ok(), "{done:?}");
}

/// Never called, since nothing is mapped.
///
/// # Safety
/// None is needed.
#[cfg(not(unix))]
unsafe fn discard_mapped(_start: NonNull<c_void>, _bytes: usize) {}

/// # Safety
/// The bytes must be the whole of a mapping, which nobody uses any more.
#[cfg(unix)]
unsafe fn unmap(start: NonNull<c_void>, bytes: usize) {
    // SAFETY: as the caller says.
    let unmapped = unsafe { rustix::mm::munmap(start.as_ptr(), bytes) };
    debug_assert!(unmapped.is_ok(), "{unmapped:?}");
}

/// Never called, since nothing is mapped.
///
/// # Safety
/// None is needed.
#[cfg(not(unix))]
unsafe fn unmap(_start: NonNull<c_void>, _bytes: usize) {}

impl<T> Drop for Pages<T> {
    fn drop(&mut self) {
        let (start, len) = (self.start.as_ptr(), self.len);
        if self.mapped {
            // SAFETY: this is the whole of what was mapped, nobody borrows it any more, and its
            // values need no drop.
            unsafe { unmap(self.start.cast(), len * size_of::<T>()) };
        } else {
            // SAFETY: it was leaked from a box of this very slice, which nobody borrows any more.
            drop(unsafe { Box::from_raw(std::ptr::slice_from_raw_parts_mut(start, len)) });
        }
    }
}

impl<T> Deref for Pages<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        // SAFETY: the region has `len` values, aligned, zero at first, which is a value of `T`, and
        // later what was stored through borrows of it. It lives as long as the borrow of `self`.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl<T> DerefMut for Pages<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as for `deref`, and the borrow of `self` is the only one.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

    #[test]
    fn pages_are_zero_hold_what_is_stored_and_are_zero_again_in_the_next_region() {
        // Miri takes minutes for more.
        let lens: &[usize] = if cfg!(miri) {
            &[0, 1, 70]
        } else {
            &[0, 1, 1023, 1024, 5000, 1 << 20]
        };
        for &len in lens {
            for _ in 0..3 {
                let pages = Pages::<AtomicU32>::zeroed(len);
                assert_eq!(pages.len(), len);
                assert!(pages.iter().all(|word| word.load(Relaxed) == 0));
                for (i, word) in pages.iter().enumerate() {
                    word.store(i as u32 + 1, Relaxed);
                }
                let stored = |(i, word): (usize, &AtomicU32)| word.load(Relaxed) == i as u32 + 1;
                assert!(pages.iter().enumerate().all(stored));
            }
        }
        let mut bytes = Pages::<u8>::zeroed(10_000);
        bytes[9_999] = 7;
        assert_eq!(
            bytes.iter().map(|byte| usize::from(*byte)).sum::<usize>(),
            7
        );
    }

    #[test]
    fn the_twin_is_the_same_slice() {
        let mut boxed = Pages::<u16>::boxed(100);
        boxed[99] = 5;
        assert_eq!((boxed.len(), boxed[99], boxed[0]), (100, 5, 0));
    }

    #[cfg(target_os = "linux")]
    #[test]
    #[cfg_attr(miri, ignore = "Miri maps nothing")]
    fn what_was_not_touched_is_not_resident() {
        let len = 64 << 20;
        let mut pages = Pages::<u8>::zeroed(len);
        let resident = |pages: &Pages<u8>| {
            let start = pages.as_ptr() as usize;
            let mut seen = vec![0u64; len / PAGE];
            let map = std::fs::File::open("/proc/self/pagemap").unwrap();
            let place = (start / PAGE * size_of::<u64>()) as u64;
            let bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut seen);
            std::os::unix::fs::FileExt::read_exact_at(&map, bytes, place).unwrap();
            seen.iter().filter(|entry| *entry >> 63 == 1).count()
        };
        assert_eq!(resident(&pages), 0);
        for at in (0..len).step_by(16 * PAGE) {
            pages[at] = 1;
        }
        assert_eq!(resident(&pages), len / PAGE / 16);
    }
}
