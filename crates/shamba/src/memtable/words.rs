//! Words of memory that nodes of an arena are written into and read from, also as bytes. Which
//! words may be read is for the arena to know. Thread-safe: the words are atomics.
#![expect(
    unsafe_code,
    reason = "entry bytes are handed out as slices of a region that others append to"
)]

use std::sync::atomic::{AtomicU32, Ordering};

use crate::base::pages::Pages;

/// Bytes of a word.
pub(super) const WORD: usize = 4;

/// Words of memory, zero at first.
#[derive(Debug)]
pub(super) struct Words(Pages<AtomicU32>);

impl Words {
    #[inline]
    fn at(&self, at: usize) -> &AtomicU32 {
        #[expect(
            clippy::indexing_slicing,
            reason = "nodes lie within the region; a load for each step of each search"
        )]
        &self.0[at]
    }

    #[inline]
    pub(super) fn load(&self, at: usize) -> u32 {
        self.at(at).load(Ordering::Relaxed)
    }

    #[inline]
    pub(super) fn store(&self, at: usize, value: u32) {
        self.at(at).store(value, Ordering::Relaxed);
    }

    /// Writes the concatenation of byte strings from the start of a word on.
    #[inline]
    pub(super) fn store_bytes<const PARTS: usize>(&self, mut at: usize, parts: [&[u8]; PARTS]) {
        let mut word = [0u8; WORD];
        let mut filled = 0;
        for part in parts {
            let mut rest = part;
            while let Some((to, &from)) = word.get_mut(filled).zip(rest.first()) {
                if filled == 0 {
                    let (chunks, tail) = rest.as_chunks::<WORD>();
                    for chunk in chunks {
                        self.store(at, u32::from_ne_bytes(*chunk));
                        at += 1;
                    }
                    rest = tail;
                    for (to, from) in word.iter_mut().zip(rest) {
                        *to = *from;
                        filled += 1;
                    }
                    break;
                }
                *to = from;
                filled += 1;
                rest = rest.get(1..).unwrap_or_default();
                if filled == WORD {
                    self.store(at, u32::from_ne_bytes(word));
                    at += 1;
                    word = [0; WORD];
                    filled = 0;
                }
            }
        }
        if filled > 0 {
            self.store(at, u32::from_ne_bytes(word));
        }
    }

    /// `len` bytes from byte `start` of the region on.
    ///
    /// # Safety
    /// The words they lie in must not be written for as long as the slice lives, and earlier writes
    /// must have happened before this call.
    #[inline]
    pub(super) unsafe fn bytes(&self, start: usize, len: usize) -> &[u8] {
        let (first, last) = (start / WORD, (start + len).div_ceil(WORD));
        let Some(words) = self.0.get(first..last) else {
            debug_assert!(
                false,
                "bytes {start}..{} of {} words",
                start + len,
                self.0.len()
            );
            return &[];
        };
        let base = words.as_ptr().cast::<u8>();
        // SAFETY: `start % WORD + len` is at most the length of `words` in bytes, atomics may be
        // read as the bytes they consist of, and the caller vouches that nothing writes them.
        unsafe { std::slice::from_raw_parts(base.add(start % WORD), len) }
    }
}

/// Where links are loaded and stored: the region itself, or a stand-in that a schedule checker
/// watches.
pub(super) trait Links: Send + Sync {
    /// Links for a region of `words` words, all zero.
    fn zeroed(words: usize) -> Self;
    /// The region that nodes' other words are in.
    fn words(&self) -> &Words;
    /// The link at a word, with all that was written before it was stored.
    fn load_acquire(&self, at: usize) -> u32;
    /// Stores a link, making all written before visible with it.
    fn store_release(&self, at: usize, value: u32);
}

impl Links for Words {
    fn zeroed(words: usize) -> Self {
        Words(Pages::zeroed(words))
    }

    #[inline]
    fn words(&self) -> &Words {
        self
    }

    #[inline]
    fn load_acquire(&self, at: usize) -> u32 {
        self.at(at).load(Ordering::Acquire)
    }

    #[inline]
    fn store_release(&self, at: usize, value: u32) {
        self.at(at).store(value, Ordering::Release);
    }
}
