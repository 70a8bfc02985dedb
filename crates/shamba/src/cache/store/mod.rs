//! The memory that cached blocks and buffers lie in, mapped by the engine itself: what is charged for
//! it is what is resident of it.
//!
//! Memory comes in chunks of frames of a page ([`chunk`]). A block of about a page has a frame, a longer one a
//! run of frames; of shorter ones several of about a size share a span of frames. Whoever takes a piece is
//! charged for the whole of it. What is resident beside is charged as [`Role::Spare`]: frames that
//! were given back, of which a few are kept for who comes next, free slots of spans, and headers. Only
//! with a charge for it does a frame become resident, and what is free goes back to the system when others
//! need memory ([`Reclaim`]).
//!
//! Thread-safe; its lock is innermost, and while it is held the budget is asked only in the way that
//! never comes back here ([`Budget::try_reserve_now`]).

mod block;
mod chunk;

use std::fmt;
use std::ptr::NonNull;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use crate::budget::{Budget, Reclaim, Reservation, Role};
use crate::fs::PAGE;
pub(crate) use block::Block;
pub(in crate::cache) use block::{HEADER, Run};
use chunk::{Chunk, MOST_RUN, Span};

/// A class of slots: frames of a span, and slots they are cut into.
#[derive(Debug, Clone, Copy)]
struct Class {
    frames: u8,
    slots: u8,
}

const fn class(frames: u8, slots: u8) -> Class {
    Class { frames, slots }
}

impl Class {
    /// Bytes of a slot, with its header: whole cache lines.
    const fn slot(self) -> usize {
        let bytes = self.frames as usize * PAGE / self.slots as usize;
        bytes - bytes % HEADER
    }

    /// The bits of its slots.
    const fn all_free(self) -> u16 {
        u16::MAX >> (u16::BITS - self.slots as u32)
    }
}

/// The class of this number.
const fn class_of(number: u8) -> Class {
    match CLASSES.split_at_checked(number as usize) {
        Some((_, [class, ..])) => *class,
        _ => class(1, 1),
    }
}

/// The memory that so many bytes take.
pub(super) const fn memory_of(len: usize) -> u64 {
    Size::of(len).bytes()
}

/// The memory that so many pages take with the chunks they lie in.
#[cfg(test)]
pub(super) const fn room_for(pages: u64) -> u64 {
    pages * PAGE as u64 + pages.div_ceil(u64::BITS as u64 - 1) * Chunk::OVERHEAD
}

/// The classes by size. Spans of a frame are soonest free again. Steps are of a fifth, mostly, so that in the
/// middle a tenth of a slot is wasted; with half as many classes it would be a fifth, and with twice as many
/// there would be twice as many spans with few blocks.
const CLASSES: [Class; 23] = [
    class(1, 16),
    class(1, 12),
    class(1, 10),
    class(1, 9),
    class(1, 8),
    class(1, 7),
    class(1, 6),
    class(1, 5),
    class(2, 9),
    class(1, 4),
    class(2, 7),
    class(1, 3),
    class(2, 5),
    class(4, 9),
    class(1, 2),
    class(4, 7),
    class(2, 3),
    class(3, 4),
    class(4, 5),
    class(5, 4),
    class(3, 2),
    class(7, 4),
    class(5, 2),
];

/// The size of a piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Size {
    /// A slot of a class.
    Slot(u8),
    /// Whole frames, with the header elsewhere.
    Run(u32),
}

impl Size {
    /// What suits so many bytes best: a slot, unless whole frames are as good.
    const fn of(len: usize) -> Size {
        let frames = len.div_ceil(PAGE) + (len == 0) as usize;
        let mut class = 0;
        while class < CLASSES.len() {
            let slot = class_of(class as u8).slot();
            if slot >= len + HEADER && slot < frames * PAGE {
                return Size::Slot(class as u8);
            }
            class += 1;
        }
        Size::Run(frames as u32)
    }

    /// The bytes it takes.
    const fn bytes(self) -> u64 {
        match self {
            Size::Slot(class) => class_of(class).slot() as u64,
            Size::Run(frames) => frames as u64 * PAGE as u64,
        }
    }
}

/// Where a piece is.
#[derive(Debug, Clone, Copy)]
struct Place {
    chunk: u32,
    frame: u8,
    slot: u8,
    size: Size,
}

/// Where it is in memory: its header and its bytes.
struct Piece {
    place: Place,
    header: NonNull<u8>,
    bytes: NonNull<u8>,
}

/// The share of the limit that free frames may keep: enough for what comes in while blocks are on their
/// way out. Ten times as many would be missed by blocks; without any, each block that takes another's place
/// costs two calls of the system.
const IDLE_SHARE: u64 = 128;

/// Chunks looked at for free frames before there is another one.
const CHUNKS_SEEN: usize = 256;

/// Of those with room for a run of several frames so many are compared.
const CHUNKS_COMPARED: usize = 8;

/// A span: its chunk and its first frame.
type SpanId = (u32, u8);

/// The chunks, and what is free in them.
struct Frames {
    chunks: Vec<Chunk>,
    /// Numbers of chunks that were given back.
    vacant: Vec<u32>,
    /// Spans with free slots, by class.
    partial: [Vec<SpanId>; CLASSES.len()],
    /// Frames that are free and resident.
    idle: u64,
    /// Where to look first for free frames, and for those that are resident.
    next: usize,
    next_idle: usize,
    /// What is resident beside the pieces that are taken.
    spare: Reservation,
}

/// Memory for blocks and buffers, charged to a budget.
pub(crate) struct Store {
    budget: Arc<Budget>,
    frames: Mutex<Frames>,
}

impl Store {
    /// A store without memory, registered as a reclaimer of what is free in it.
    pub(crate) fn new(budget: Arc<Budget>) -> Arc<Self> {
        Arc::new_cyclic(|this: &Weak<Self>| {
            budget.add_reclaimer(Weak::clone(this) as Weak<dyn Reclaim>);
            let spare = budget.open_account(Role::Spare);
            let frames = Frames {
                chunks: Vec::new(),
                vacant: Vec::new(),
                partial: std::array::from_fn(|_| Vec::new()),
                idle: 0,
                next: 0,
                next_idle: 0,
                spare,
            };
            Store {
                budget,
                frames: Mutex::new(frames),
            }
        })
    }

    /// Takes a piece for `role`, charged with `extra` bytes more: out of `purse`, and what that does not have
    /// from the budget. Says how many bytes it takes, where they are not there.
    fn take(
        &self,
        role: Role,
        size: Size,
        extra: u64,
        purse: Option<Reservation>,
    ) -> Result<(Piece, Reservation), u64> {
        let mut purse = purse.unwrap_or_else(|| self.budget.open_account(Role::Spare));
        let mut frames = self.frames.lock();
        let (found, new) = frames.find(size, extra, &mut purse);
        let wanted = new + extra;
        let more = wanted.saturating_sub(purse.bytes());
        if more > 0 && purse.try_grow_now(more).is_err() {
            return Err(wanted);
        }
        purse.move_to(&mut frames.spare, new);
        let piece = frames.take(found, size).ok_or(wanted)?;
        let mut held = self.budget.open_account(role);
        frames.spare.move_to(&mut held, size.bytes());
        purse.move_to(&mut held, extra);
        Ok((piece, held))
    }

    /// Takes back a piece that nobody looks at any more, and its charge.
    fn give_back(&self, place: Place, held: &mut Reservation) {
        let mut frames = self.frames.lock();
        held.move_to(&mut frames.spare, place.size.bytes());
        frames.give_back(place);
        let most = self.budget.limit() / IDLE_SHARE / PAGE as u64;
        while frames.idle > most && frames.discard(None) {
            frames.spare.shrink(PAGE as u64);
        }
    }
}

impl Store {
    /// The budget it is charged to.
    pub(crate) fn budget(&self) -> &Arc<Budget> {
        &self.budget
    }
}

impl Reclaim for Store {
    fn reclaim(&self, bytes: u64) -> u64 {
        let mut frames = self.frames.lock();
        let before = frames.spare.bytes();
        let mut freed = 0;
        while freed < bytes && frames.discard(None) {
            frames.spare.shrink(PAGE as u64);
            freed = before - frames.spare.bytes();
        }
        freed
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store").finish_non_exhaustive()
    }
}

impl Frames {
    /// Where a piece could be (nowhere: in a chunk to come), and how many bytes are to be charged for what is
    /// not resident of it. Free frames elsewhere go back to the system for it, and their charge to
    /// `purse`, unless that has so much, and `extra`.
    fn find(&mut self, size: Size, extra: u64, purse: &mut Reservation) -> (Option<SpanId>, u64) {
        let page = PAGE as u64;
        let count = match size {
            Size::Slot(class) => match self.spans(class).and_then(|spans| spans.last()) {
                Some(span) => return (Some(*span), 0),
                None => class_of(class).frames.into(),
            },
            Size::Run(count) if count > MOST_RUN => 0,
            Size::Run(count) => count,
        };
        let found = match count {
            0 => None,
            _ => self.find_frames(count),
        };
        let new = match (found, size) {
            (Some((_, absent)), _) => u64::from(absent) * page,
            (None, Size::Run(count)) => u64::from(count) * page + Chunk::OVERHEAD,
            (None, Size::Slot(_)) => u64::from(count) * page + Chunk::OVERHEAD,
        };
        let place = found.map(|(place, _)| place);
        while new + extra > purse.bytes() && self.idle > 0 && self.discard(place) {
            self.spare.move_to(purse, page);
        }
        (place, new)
    }

    /// So many free frames in a row, and how many of them are not resident.
    fn find_frames(&mut self, count: u32) -> Option<(SpanId, u32)> {
        let mut best: Option<(SpanId, u32)> = None;
        let mut seen = 0;
        for step in 0..self.chunks.len().min(CHUNKS_SEEN) {
            let at = (self.next + step) % self.chunks.len();
            let found = self.chunks.get(at).and_then(|chunk| chunk.find(count));
            let Some((frame, absent)) = found else {
                continue;
            };
            if best.is_none_or(|(_, least)| absent < least) {
                best = Some(((at as u32, frame as u8), absent));
            }
            seen += 1;
            // A resident one is as good as any. Where there is none, so is any.
            if absent == 0 || self.idle == 0 || count > 1 && seen == CHUNKS_COMPARED {
                break;
            }
        }
        if let Some(((chunk, _), _)) = best {
            self.next = chunk as usize;
        }
        best
    }

    /// Takes a piece where [`Self::find`] found room for it.
    fn take(&mut self, found: Option<SpanId>, size: Size) -> Option<Piece> {
        let (number, frame) = found.unwrap_or_else(|| self.grow(size));
        let chunk = self.chunks.get_mut(number as usize)?;
        let idle = chunk.idle();
        let mut slot = 0;
        match size {
            Size::Slot(class) => {
                let partial = self.partial.get_mut(usize::from(class))?;
                let span = chunk.spans.get_mut(usize::from(frame))?;
                if partial.last() != Some(&(number, frame)) {
                    *span = Span {
                        at: partial.len() as u32,
                        free: class_of(class).all_free(),
                    };
                    partial.push((number, frame));
                    chunk.take(frame.into(), class_of(class).frames.into());
                }
                let span = chunk.spans.get_mut(usize::from(frame))?;
                slot = span.free.trailing_zeros() as u8;
                span.free &= span.free.wrapping_sub(1);
                if span.free == 0 {
                    partial.pop();
                }
            }
            Size::Run(count) if count <= MOST_RUN => chunk.take(frame.into(), count),
            Size::Run(_) => {}
        }
        self.idle -= u64::from(idle.saturating_sub(chunk.idle()));
        let place = Place {
            chunk: number,
            frame,
            slot,
            size,
        };
        let (header, bytes) = match size {
            Size::Slot(class) => {
                let start = usize::from(slot) * class_of(class).slot();
                (chunk.at(frame, start), chunk.at(frame, start + HEADER))
            }
            Size::Run(_) => (chunk.header(frame), chunk.at(frame, 0)),
        };
        Some(Piece {
            place,
            header,
            bytes,
        })
    }

    /// Adds a chunk for a piece, which it will have at its first frame.
    fn grow(&mut self, size: Size) -> SpanId {
        let chunk = match size {
            Size::Run(count) if count > MOST_RUN => Chunk::large(count),
            _ => Chunk::new(),
        };
        let vacant = self.vacant.pop();
        let number = vacant.unwrap_or(self.chunks.len() as u32);
        match self.chunks.get_mut(number as usize) {
            Some(place) => *place = chunk,
            None => self.chunks.push(chunk),
        }
        (number, 1)
    }

    fn give_back(&mut self, place: Place) {
        let Some(chunk) = self.chunks.get_mut(place.chunk as usize) else {
            return;
        };
        let freed = match place.size {
            Size::Slot(class) => {
                let Some(span) = chunk.spans.get_mut(usize::from(place.frame)) else {
                    return;
                };
                let Some(partial) = self.partial.get_mut(usize::from(class)) else {
                    return;
                };
                if span.free == 0 {
                    span.at = partial.len() as u32;
                    partial.push((place.chunk, place.frame));
                }
                span.free |= 1 << place.slot;
                if span.free != class_of(class).all_free() {
                    return;
                }
                let at = span.at;
                partial.swap_remove(at as usize);
                if let Some(&(moved, frame)) = partial.get(at as usize)
                    && let Some(moved) = self.chunks.get_mut(moved as usize)
                    && let Some(span) = moved.spans.get_mut(usize::from(frame))
                {
                    span.at = at;
                }
                class_of(class).frames.into()
            }
            Size::Run(count) if count <= MOST_RUN => count,
            Size::Run(count) => {
                *chunk = Chunk::none();
                self.vacant.push(place.chunk);
                let page = PAGE as u64;
                return self.spare.shrink(u64::from(count) * page + Chunk::OVERHEAD);
            }
        };
        if let Some(chunk) = self.chunks.get_mut(place.chunk as usize) {
            chunk.give_back(place.frame.into(), freed);
        }
        self.idle += u64::from(freed);
        (self.next, self.next_idle) = (place.chunk as usize, place.chunk as usize);
    }

    /// Gives a free frame back to the system, none of the chunk of `except`, and with its last frame the chunk; false if
    /// there is none. The caller has the frame's charge.
    fn discard(&mut self, except: Option<SpanId>) -> bool {
        let all = self.chunks.len();
        for _ in 0..all {
            let at = self.next_idle % all;
            let excepted = except.is_some_and(|(chunk, _)| chunk as usize == at);
            let chunk = self.chunks.get_mut(at).filter(|_| !excepted);
            let Some(chunk) = chunk.filter(|chunk| chunk.idle() > 0) else {
                self.next_idle = at + 1;
                continue;
            };
            chunk.discard();
            self.idle -= 1;
            if chunk.is_empty() && chunk.idle() == 0 {
                *chunk = Chunk::none();
                self.vacant.push(at as u32);
                self.spare.shrink(Chunk::OVERHEAD);
            }
            return true;
        }
        false
    }

    fn spans(&self, class: u8) -> Option<&Vec<SpanId>> {
        self.partial.get(usize::from(class))
    }
}

#[cfg(test)]
mod tests;
