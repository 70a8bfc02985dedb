//! What small allocations take of the heap, where there are many of them, and giving back the holes
//! that they leave. `tests/charged_memory.rs` compares what is charged with every allocation that
//! is made.
//!
//! Thread-safe. Large allocations are the system's affair: it is told to map them one by one.

use std::sync::Once;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Allocations of this size and more leave holes in the heap that the C library keeps for long.
pub(crate) const LARGE: u64 = 128 << 10;

/// Tables in and out of jobs after which the heap has hundreds of KiB of holes.
pub(crate) const MANY: usize = 512;

/// The holes that work leaves in the heap, counted in tables read and written.
#[derive(Debug, Default)]
pub(super) struct Holes(AtomicUsize);

impl Holes {
    /// Counts more of them, and gives the heap's free pages back once they are [`MANY`].
    pub(super) fn add(&self, tables: usize) {
        if self.0.fetch_add(tables, Relaxed) + tables >= MANY {
            self.0.store(0, Relaxed);
            give_back_free_pages();
        }
    }
}

/// Bytes that the heap gives up for an allocation of so many (glibc): a header of a word, in steps
/// of two words, at least four; nothing for none.
pub(crate) const fn allocated(bytes: usize) -> usize {
    const WORD: usize = size_of::<usize>();
    let chunk = (bytes + WORD).next_multiple_of(2 * WORD);
    match bytes {
        0 => 0,
        _ if chunk < 4 * WORD => 4 * WORD,
        _ => chunk,
    }
}

/// The same for so many bytes behind an `Arc`.
pub(crate) const fn shared(bytes: usize) -> usize {
    allocated(2 * size_of::<AtomicUsize>() + bytes)
}

/// The length of a key from which on copies of keys leave such holes: of these there are many, each
/// by itself.
pub(crate) const LONG_KEY: u64 = 32 << 10;

/// Has the C library map allocations of [`LARGE`] and more one by one for good, and unmap them when
/// they are freed. It does so at first, but raises the size to the largest that was freed, and
/// keeps that much and more in each thread's heap: after a value of 2 MiB three threads keep 6 MiB
/// or more that nobody uses. Called when the first entry of that size is written or read; to the
/// whole process such allocations cost page faults from then on.
pub(crate) fn map_large_allocations() {
    static ONCE: Once = Once::new();
    if !LONG_KEYS.is_completed() {
        ONCE.call_once(|| map_allocations_from(LARGE));
    }
}

/// The same for allocations of [`LONG_KEY`] and more, from the first key of that length on: with
/// keys of 64 KiB, and tables of 64 MiB, the heap has 20 MiB of holes otherwise.
pub(crate) fn map_long_keys() {
    LONG_KEYS.call_once(|| map_allocations_from(LONG_KEY));
}

static LONG_KEYS: Once = Once::new();

#[cfg_attr(
    all(target_os = "linux", target_env = "gnu"),
    expect(unsafe_code, reason = "a call of the C library's")
)]
#[cfg_attr(
    not(all(target_os = "linux", target_env = "gnu")),
    expect(unused_variables, reason = "another C library")
)]
fn map_allocations_from(bytes: u64) {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: it takes no pointer, may be called by any thread, and changes nothing that is in use.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, bytes as libc::c_int);
    }
}

/// Gives free pages of the heap back to the system, for work that took much of it. The C library
/// keeps them otherwise, for each thread its own, and the process has twice what it uses.
///
/// It goes through the whole heap, the program's own part included, which takes milliseconds: now
/// and then in long work, which with `background_threads(0)` a writer's thread does.
#[cfg_attr(
    all(target_os = "linux", target_env = "gnu"),
    expect(unsafe_code, reason = "a call of the C library's")
)]
fn give_back_free_pages() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: it takes no pointer, may be called by any thread, and moves nothing that is in use.
    unsafe {
        libc::malloc_trim(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_have_a_header_and_round_sizes() {
        let sizes = [0, 1, 24, 25, 40, 41].map(allocated);
        assert_eq!(sizes, [0, 32, 32, 48, 48, 64]);
        assert_eq!(shared(8), 32);
    }
}
