//! A chunk of memory, mapped from the system, that a store cuts pieces from.
//!
//! A chunk is [`FRAMES`] frames of a page. The first has a header for each other frame, which
//! serves the block that begins there; so a block of a page takes a page, and not a little more
//! than one. It is resident only if there are such blocks. What is free may be resident or not.
//! Plain data under the store's lock: it hands out addresses, and borrows none of its memory.
#![expect(unsafe_code, reason = "free frames are given back to the system")]

use std::ptr::NonNull;

use super::layout::{SpanId, UNIT};
use crate::base::pages::Pages;
use crate::fs::PAGE;

/// Frames of a chunk, with that of the headers: a bit each of a word.
pub(super) const FRAMES: u32 = u64::BITS;

/// The most frames of a run within a chunk; a longer one has a mapping of its own.
pub(super) const MOST_RUN: u32 = FRAMES / 2;

/// From one header to the next in the headers' frame: all of it for those of all frames, and a
/// cache line, so that two counts of owners never share one.
const HEADER_STRIDE: usize = PAGE / FRAMES as usize;

#[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C, align(4096))]
pub(super) struct Frame([u8; PAGE]);

/// A span of frames that is cut into slots, as far as it is known to its first frame.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Span {
    /// Where it is in the list of those with free slots of its size; [`Span::FULL`]: it has none.
    pub(super) at: u32,
    /// The size of a slot.
    pub(super) units: u16,
    /// Whether it was cut when there were many of this size.
    pub(super) many: bool,
}

impl Span {
    /// The place of a span without free slots.
    pub(super) const FULL: u32 = u32::MAX;

    /// Bytes of a slot.
    pub(super) fn bytes(self) -> u64 {
        u64::from(self.units) * UNIT as u64
    }
}

/// A span with free slots, in the list of those of its size. The slots are known here and not with
/// the span itself, for whoever compares spans to see many of them side by side.
#[derive(Debug, Clone, Copy)]
pub(super) struct Partial {
    /// The number of its chunk, and in the lower bits its first frame.
    place: u32,
    /// A bit for each free slot.
    pub(super) free: u32,
}

/// Bits of the number of a frame in a chunk: with them the numbers of chunks suffice for 16 TiB.
const FRAME_BITS: u32 = FRAMES.ilog2();

impl Partial {
    pub(super) fn new((chunk, frame): SpanId, free: u32) -> Partial {
        let place = chunk << FRAME_BITS | u32::from(frame);
        Partial { place, free }
    }

    pub(super) fn span(self) -> SpanId {
        let frame = self.place & (FRAMES - 1);
        (self.place >> FRAME_BITS, frame as u8)
    }
}

pub(super) struct Chunk {
    pages: Pages<Frame>,
    /// A bit for each frame that holds nothing.
    free: u64,
    /// A bit for each frame that is resident.
    resident: u64,
    /// Headers in the first frame that are in use.
    headers: u32,
    /// By first frame.
    pub(super) spans: Box<[Span]>,
}

/// Bits of `count` frames from `frame` on.
fn bits(frame: u32, count: u32) -> u64 {
    let ones = u64::MAX.checked_shr(FRAMES - count).unwrap_or(0);
    ones.checked_shl(frame).unwrap_or(0)
}

impl Chunk {
    /// What a chunk takes beside its frames: what is known of its spans, and its places in lists,
    /// which have room for twice as many.
    pub(super) const OVERHEAD: u64 = (FRAMES as usize
        * (size_of::<Span>() + 2 * size_of::<Partial>())
        + 2 * size_of::<Chunk>()) as u64;

    pub(super) fn new() -> Self {
        Chunk {
            pages: Pages::zeroed(FRAMES as usize),
            free: !1,
            resident: 0,
            headers: 0,
            spans: vec![Span::default(); FRAMES as usize].into_boxed_slice(),
        }
    }

    /// A chunk that is one run, after a frame for its header.
    pub(super) fn large(frames: u32) -> Self {
        Chunk {
            pages: Pages::zeroed(frames as usize + 1),
            free: 0,
            resident: 1,
            headers: 0,
            spans: Box::default(),
        }
    }

    /// No chunk.
    pub(super) fn none() -> Self {
        Chunk {
            pages: Pages::zeroed(0),
            free: 0,
            resident: 0,
            headers: 0,
            spans: Box::default(),
        }
    }

    /// Whether nothing is in it.
    pub(super) fn is_empty(&self) -> bool {
        self.free == !1
    }

    /// Bytes of it that are resident.
    #[cfg(test)]
    pub(super) fn resident_bytes(&self) -> u64 {
        let frames = if self.spans.is_empty() {
            self.pages.len() as u64
        } else {
            self.resident.count_ones().into()
        };
        frames * PAGE as u64
    }

    /// Frames that are resident and hold nothing: the free ones, and that of the headers if there
    /// are none.
    fn idle_frames(&self) -> u64 {
        (self.free | u64::from(self.headers == 0)) & self.resident
    }

    /// How many frames are resident and hold nothing; none of a run with a mapping of its own.
    pub(super) fn idle(&self) -> u32 {
        if self.spans.is_empty() {
            0
        } else {
            self.idle_frames().count_ones()
        }
    }

    /// Whether the headers' frame is resident.
    pub(super) fn has_headers(&self) -> bool {
        self.resident & 1 != 0
    }

    /// Takes a header; their frame is resident from now on.
    pub(super) fn add_header(&mut self) {
        self.resident |= 1;
        self.headers += 1;
    }

    /// Gives a header back.
    pub(super) fn remove_header(&mut self) {
        debug_assert!(self.headers > 0, "headers are given back once");
        self.headers = self.headers.saturating_sub(1);
    }

    /// Where `count` frames in a row are free, and how many of them are not resident. Of one frame
    /// a resident one, if there is one.
    pub(super) fn find(&self, count: u32) -> Option<(u32, u32)> {
        let idle = self.free & self.resident;
        let mut starts = match count {
            1 if idle != 0 => idle,
            _ => self.free,
        };
        // Twice as many in a row with each step, and then the rest.
        let mut have = 1;
        while have < count {
            let step = have.min(count - have);
            starts &= starts >> step;
            have += step;
        }
        let frame = (starts != 0).then(|| starts.trailing_zeros())?;
        let absent = bits(frame, count) & !self.resident;
        Some((frame, absent.count_ones()))
    }

    /// Takes frames that are free; they are resident from now on.
    pub(super) fn take(&mut self, frame: u32, count: u32) {
        let bits = bits(frame, count);
        debug_assert_eq!(self.free & bits, bits, "frames are taken once");
        self.free &= !bits;
        self.resident |= bits;
    }

    /// Gives back frames that were taken, and that nobody looks at any more.
    pub(super) fn give_back(&mut self, frame: u32, count: u32) {
        let bits = bits(frame, count);
        debug_assert_eq!(self.free & bits, 0, "frames are given back once");
        self.free |= bits;
    }

    /// Gives a frame that is resident and holds nothing back to the system; false if there is none.
    pub(super) fn discard(&mut self) -> bool {
        let idle = self.idle_frames();
        if idle == 0 {
            return false;
        }
        let frame = idle.trailing_zeros();
        // SAFETY: the frame holds nothing, so nobody has its address but this chunk, which is
        // borrowed mutably.
        unsafe { self.pages.discard(frame as usize..frame as usize + 1) };
        self.resident &= !bits(frame, 1);
        true
    }

    /// Where a byte of a frame, or of those after it, is.
    pub(super) fn at(&self, frame: u8, byte: usize) -> NonNull<u8> {
        let start: NonNull<u8> = self.pages.start().cast();
        let at = usize::from(frame) * PAGE + byte;
        // SAFETY: this says where a place is, and looks at nothing there.
        unsafe { start.add(at.min(self.pages.len() * PAGE)) }
    }

    /// Where the header of a run is that begins at a frame.
    pub(super) fn header(&self, frame: u8) -> NonNull<u8> {
        self.at(0, usize::from(frame) * HEADER_STRIDE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_in_the_list_names_any_span() {
        let last = (1 << (u32::BITS - FRAME_BITS)) - 1;
        for span in [(0, 1), (1, 0), (last, 63)] {
            assert_eq!(Partial::new(span, 5).span(), span);
        }
        assert_eq!(size_of::<Partial>(), size_of::<SpanId>());
    }

    #[test]
    fn runs_are_found_where_frames_are_free_in_a_row() {
        let mut chunk = Chunk::new();
        assert_eq!(chunk.find(1), Some((1, 1)));
        assert_eq!(chunk.find(63), Some((1, 63)));
        assert_eq!(chunk.find(64), None);
        chunk.take(1, 3);
        chunk.take(6, 1);
        assert_eq!(chunk.find(2), Some((4, 2)));
        assert_eq!(chunk.find(3), Some((7, 3)));
        chunk.give_back(1, 3);
        assert_eq!((chunk.idle(), chunk.find(1)), (3, Some((1, 0))));
        assert_eq!(chunk.find(5), Some((1, 2)), "two of them are not resident");
        assert!(chunk.discard());
        assert_eq!((chunk.idle(), chunk.find(1)), (2, Some((2, 0))));
        chunk.give_back(6, 1);
        while chunk.discard() {}
        assert!(chunk.is_empty());
        assert_eq!(chunk.find(32), Some((1, 32)));
    }
}
