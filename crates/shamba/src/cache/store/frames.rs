//! The chunks of a store, and what is free in them. Plain data under the store's lock.

use std::ptr::NonNull;

use super::chunk::{Chunk, MOST_RUN, Partial, Span};
use super::layout::{HEADER, SpanId};
use super::size::{Cut, FEW_SPANS, MOST_UNITS, Size, cut};
use crate::budget::Reservation;
use crate::fs::PAGE;

/// Chunks looked at for free frames before there is another one.
const CHUNKS_SEEN: usize = 256;

/// Of those with room for a run of several frames so many are compared.
const CHUNKS_COMPARED: usize = 8;

/// A slot may be larger than what comes into it by one in so many, where there is one free.
const ROOMIER: u16 = 8;

/// Of spans with free slots so many are looked at for several in a row, and so many are compared
/// that have them: the fullest gets what comes in, so that the others empty. Of slots for columns a
/// span has 31: blocks of four leave three, so that full spans are looked at, too. With sixteen
/// those that have room were missed and others cut: a tenth of the memory lay in free slots where
/// that suffices for nearly all filters.
const SPANS_SEEN: usize = 256;
const SPANS_COMPARED: usize = 4;

/// A bit for each slot from which on so many are free.
fn in_a_row(free: u32, count: u8) -> u32 {
    (1..count).fold(free, |starts, next| starts & free >> next)
}

/// The bits of so many slots from one on.
fn slots(slot: u8, count: u8) -> u32 {
    let ones = u32::MAX
        .checked_shr(u32::BITS - u32::from(count))
        .unwrap_or(0);
    ones.checked_shl(slot.into()).unwrap_or(0)
}

/// The chunks, and what is free in them.
pub(super) struct Frames {
    pub(super) chunks: Vec<Chunk>,
    /// Numbers of chunks that were given back.
    vacant: Vec<u32>,
    /// Spans with free slots, by the units of a slot.
    partial: [Vec<Partial>; MOST_UNITS + 1],
    /// Spans by the units of a slot.
    spans: [u32; MOST_UNITS + 1],
    /// Frames that are free and resident.
    pub(super) idle: u64,
    /// Bytes of free slots.
    pub(super) loose: u64,
    /// Where to look first for free slots: another place with each look.
    turn: usize,
    /// Where to look first for free frames, and for those that are resident.
    next: usize,
    next_idle: usize,
    /// What is resident beside the pieces that are taken.
    pub(super) spare: Reservation,
}

/// Where a piece is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Location {
    pub(super) chunk: u32,
    pub(super) frame: u8,
    pub(super) slot: u8,
    /// How many slots; none of whole frames.
    pub(super) slots: u8,
}

/// Where it is in memory: its header and its bytes.
pub(super) struct SpanPiece {
    pub(super) place: Location,
    pub(super) header: NonNull<u8>,
    pub(super) bytes: NonNull<u8>,
}

/// Where a piece could be.
#[derive(Debug, Clone, Copy)]
pub(super) enum Vacancy {
    /// In a span that has free slots.
    Slot(SpanId),
    /// In free frames.
    Frames(SpanId),
    /// In a chunk to come.
    NewChunk,
}

impl Frames {
    pub(super) fn new(spare: Reservation) -> Self {
        Frames {
            chunks: Vec::new(),
            vacant: Vec::new(),
            partial: std::array::from_fn(|_| Vec::new()),
            spans: [0; MOST_UNITS + 1],
            idle: 0,
            loose: 0,
            turn: 0,
            next: 0,
            next_idle: 0,
            spare,
        }
    }

    /// Where a piece could be, and how many bytes are to be charged for what is not resident of it.
    /// Free frames elsewhere go back to the system for it, and their charge to `purse`, unless that
    /// has so much, and `extra`.
    pub(super) fn find(
        &mut self,
        size: Size,
        is_block: bool,
        extra: u64,
        purse: &mut Reservation,
    ) -> (Vacancy, u64) {
        let page = PAGE as u64;
        let (count, header) = match size {
            Size::Slots { units, count } => match self.partly_free(units, count) {
                Some(span) => return (Vacancy::Slot(span), 0),
                None => (u32::from(self.next_cut(units, count).0.frames), false),
            },
            Size::FrameRun(count) => (count, is_block),
        };
        let found = if count <= MOST_RUN {
            self.find_frames(count, header)
        } else {
            None
        };
        let (room, new) = match found {
            Some((place, absent)) => (Vacancy::Frames(place), u64::from(absent) * page),
            None => {
                let header = header || count > MOST_RUN;
                let frames = u64::from(count) + u64::from(header);
                (Vacancy::NewChunk, frames * page + Chunk::OVERHEAD)
            }
        };
        let except = match room {
            Vacancy::Frames(place) => Some(place),
            _ => None,
        };
        while new + extra > purse.bytes() && self.idle > 0 && self.discard(except) {
            self.spare.move_to(purse, page);
        }
        (room, new)
    }

    /// A span with so many free slots in a row of so many units, or of a little more if there is
    /// none.
    pub(super) fn partly_free(&mut self, units: u16, count: u8) -> Option<SpanId> {
        let mut roomier = units..=units.saturating_add(units / ROOMIER);
        roomier.find_map(|units| self.fullest(units, count, None))
    }

    /// Of the spans of so many units that have so many free slots in a row the one that has the
    /// fewest, of some: not always of the same, of which those could be left that nothing fits
    /// into.
    pub(super) fn fullest(
        &mut self,
        units: u16,
        count: u8,
        except: Option<SpanId>,
    ) -> Option<SpanId> {
        let spans = self.partial.get(usize::from(units))?;
        self.turn = self.turn.wrapping_add(1);
        let from = self.turn.checked_rem(spans.len())?;
        let (before, after) = spans.split_at_checked(from)?;
        let others = after.iter().chain(before).take(SPANS_SEEN);
        let fits = others
            .filter(|span| in_a_row(span.free, count) != 0 && Some(span.span()) != except)
            .take(SPANS_COMPARED);
        let fullest = fits.min_by_key(|span| span.free.count_ones());
        fullest.map(|span| span.span())
    }

    /// The bytes that a piece is charged; `size` is that of whole frames.
    pub(super) fn bytes_of(&self, place: Location, size: Size) -> u64 {
        match self.span((place.chunk, place.frame)) {
            Some(span) if place.slots > 0 => u64::from(place.slots) * span.bytes(),
            _ => size.bytes(),
        }
    }

    /// The bytes that are resident as long as a piece is taken; `size` is that of whole frames.
    pub(super) fn kept_by(&self, place: Location, size: Size) -> u64 {
        match self.span((place.chunk, place.frame)) {
            Some(span) if place.slots > 0 => {
                u64::from(cut(span.units, span.many).frames) * PAGE as u64
            }
            _ => size.bytes(),
        }
    }

    pub(super) fn span(&self, (chunk, frame): SpanId) -> Option<Span> {
        let chunk = self.chunks.get(chunk as usize)?;
        chunk.spans.get(usize::from(frame)).copied()
    }

    fn span_mut(&mut self, (chunk, frame): SpanId) -> Option<&mut Span> {
        let chunk = self.chunks.get_mut(chunk as usize)?;
        chunk.spans.get_mut(usize::from(frame))
    }

    /// How many slots of a span are free.
    pub(super) fn free_slots(&self, span: Span) -> u32 {
        self.free_in(span).count_ones()
    }

    /// The slots of a span that are free, a bit for each.
    fn free_in(&self, span: Span) -> u32 {
        let partial = self.partial.get(usize::from(span.units));
        let listed = partial.and_then(|partial| partial.get(span.at as usize));
        listed.map_or(0, |listed| listed.free)
    }

    /// So many free frames in a row, and how many of them, and of the headers if one is wanted, are
    /// not resident.
    fn find_frames(&mut self, count: u32, header: bool) -> Option<(SpanId, u32)> {
        let mut best: Option<(SpanId, u32)> = None;
        let mut seen = 0;
        for step in 0..self.chunks.len().min(CHUNKS_SEEN) {
            let at = (self.next + step) % self.chunks.len();
            let found = self.chunks.get(at).and_then(|chunk| chunk.find(count));
            let Some((frame, absent)) = found else {
                continue;
            };
            let without = self.chunks.get(at).is_none_or(|chunk| !chunk.has_headers());
            let absent = absent + u32::from(header && without);
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
    pub(super) fn take(&mut self, room: Vacancy, size: Size, is_block: bool) -> Option<SpanPiece> {
        // Where the piece begins: memory that is mapped, or a chunk mapped for it.
        let (number, frame) = match room {
            Vacancy::Slot(place) | Vacancy::Frames(place) => place,
            Vacancy::NewChunk => self.grow(size),
        };
        let chunk = self.chunks.get_mut(number as usize)?;
        let idle = chunk.idle();
        match size {
            // Slots that no span has free: frames are cut into a span of them first.
            Size::Slots { units, count } if !matches!(room, Vacancy::Slot(_)) => {
                let (cut, many) = self.next_cut(units, count);
                let chunk = self.chunks.get_mut(number as usize)?;
                chunk.take(frame.into(), cut.frames.into());
                self.idle -= u64::from(idle - chunk.idle());
                self.begin_span((number, frame), units, many);
            }
            Size::Slots { .. } => {}
            // Whole frames; longer runs have a chunk to themselves.
            Size::FrameRun(count) => {
                if count <= MOST_RUN {
                    chunk.take(frame.into(), count);
                }
                if is_block {
                    chunk.add_header();
                }
                self.idle -= u64::from(idle - chunk.idle());
                let place = Location {
                    chunk: number,
                    frame,
                    slot: 0,
                    slots: 0,
                };
                return Some(SpanPiece {
                    place,
                    header: chunk.header(frame),
                    bytes: chunk.at(frame, 0),
                });
            }
        }
        match size {
            Size::Slots { count, .. } => self.take_slots((number, frame), count),
            Size::FrameRun(_) => None,
        }
    }

    /// How the next span is cut, of which so many slots are wanted in a row, and whether there are
    /// many.
    fn next_cut(&self, units: u16, count: u8) -> (Cut, bool) {
        let spans = self.spans.get(usize::from(units)).copied().unwrap_or(0);
        let many = spans >= FEW_SPANS || cut(units, false).slots < count;
        (cut(units, many), many)
    }

    /// Cuts frames into slots.
    fn begin_span(&mut self, (number, frame): SpanId, units: u16, many: bool) {
        let chunk = self.chunks.get_mut(number as usize);
        let span = chunk.and_then(|chunk| chunk.spans.get_mut(usize::from(frame)));
        if let (Some(span), Some(partial)) = (span, self.partial.get_mut(usize::from(units))) {
            *span = Span {
                at: partial.len() as u32,
                units,
                many,
            };
            let free = cut(units, many).all_free();
            partial.push(Partial::new((number, frame), free));
            self.loose += u64::from(cut(units, many).slots) * span.bytes();
            if let Some(spans) = self.spans.get_mut(usize::from(units)) {
                *spans += 1;
            }
        }
    }

    /// Takes slots of a span that has so many free ones in a row.
    pub(super) fn take_slots(&mut self, (number, frame): SpanId, count: u8) -> Option<SpanPiece> {
        let span = self.span((number, frame))?;
        let slot = in_a_row(self.free_in(span), count).trailing_zeros() as u8;
        self.take_of_span(span, slot, count);
        let chunk = self.chunks.get(number as usize)?;
        let start = usize::from(slot) * span.bytes() as usize;
        let place = Location {
            chunk: number,
            frame,
            slot,
            slots: count,
        };
        Some(SpanPiece {
            place,
            header: chunk.at(frame, start),
            bytes: chunk.at(frame, start + HEADER),
        })
    }

    /// Takes the free slots right below a piece, for it to move down by as many; says how many.
    pub(super) fn take_below(&mut self, place: Location) -> u8 {
        let Some(span) = self.span((place.chunk, place.frame)) else {
            return 0;
        };
        let below = u32::BITS - u32::from(place.slot);
        let free = self.free_in(span);
        let count = (free.checked_shl(below).unwrap_or(0)).leading_ones() as u8;
        if count > 0 {
            self.take_of_span(span, place.slot - count, count);
        }
        count
    }

    /// Takes so many free slots of a span from one on.
    fn take_of_span(&mut self, span: Span, slot: u8, count: u8) {
        let partial = self.partial.get_mut(usize::from(span.units));
        let listed = partial.and_then(|partial| partial.get_mut(span.at as usize));
        let Some(listed) = listed else {
            return;
        };
        listed.free &= !slots(slot, count);
        self.loose -= u64::from(count) * span.bytes();
        if listed.free == 0 {
            self.forget_partial(span);
        }
    }

    /// Takes a span off the list of those with free slots.
    fn forget_partial(&mut self, span: Span) {
        let Some(partial) = self.partial.get_mut(usize::from(span.units)) else {
            return;
        };
        if span.at as usize >= partial.len() {
            return;
        }
        let gone = partial.swap_remove(span.at as usize).span();
        let moved = partial.get(span.at as usize).map(|moved| moved.span());
        for (span, at) in [(Some(gone), Span::FULL), (moved, span.at)] {
            if let Some(span) = span.and_then(|span| self.span_mut(span)) {
                span.at = at;
            }
        }
    }

    /// Adds a chunk for a piece, which it will have at its first frame.
    fn grow(&mut self, size: Size) -> SpanId {
        let chunk = match size {
            Size::FrameRun(count) if count > MOST_RUN => Chunk::large(count),
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

    pub(super) fn give_back(&mut self, place: Location, size: Size, is_block: bool) {
        let Some(chunk) = self.chunks.get_mut(place.chunk as usize) else {
            return;
        };
        let freed = match size {
            _ if place.slots > 0 => match self.give_slot_back(place) {
                Some(frames) => frames,
                None => return,
            },
            Size::Slots { .. } => return,
            Size::FrameRun(count) if count <= MOST_RUN => count,
            Size::FrameRun(count) => {
                *chunk = Chunk::none();
                self.vacant.push(place.chunk);
                let frames = u64::from(count) + 1;
                return self.spare.shrink(frames * PAGE as u64 + Chunk::OVERHEAD);
            }
        };
        if let Some(chunk) = self.chunks.get_mut(place.chunk as usize) {
            let idle = chunk.idle();
            chunk.give_back(place.frame.into(), freed);
            if is_block && place.slots == 0 {
                chunk.remove_header();
            }
            self.idle += u64::from(chunk.idle() - idle);
        }
        (self.next, self.next_idle) = (place.chunk as usize, place.chunk as usize);
    }

    /// Gives slots back, and says how many frames are free with them if they were the last of their
    /// span.
    pub(super) fn give_slot_back(&mut self, place: Location) -> Option<u32> {
        let id = (place.chunk, place.frame);
        let chunk = self.chunks.get_mut(place.chunk as usize)?;
        let span = chunk.spans.get_mut(usize::from(place.frame))?;
        let partial = self.partial.get_mut(usize::from(span.units))?;
        if span.at == Span::FULL {
            span.at = partial.len() as u32;
            partial.push(Partial::new(id, 0));
        }
        let listed = partial.get_mut(span.at as usize)?;
        listed.free |= slots(place.slot, place.slots);
        let (span, free) = (*span, listed.free);
        self.loose += u64::from(place.slots) * span.bytes();
        let cut = cut(span.units, span.many);
        (free == cut.all_free()).then(|| {
            self.forget_partial(span);
            if let Some(spans) = self.spans.get_mut(usize::from(span.units)) {
                *spans -= 1;
            }
            self.loose -= u64::from(cut.slots) * span.bytes();
            cut.frames.into()
        })
    }

    /// Gives a free frame back to the system, none of the chunk of `except`, and with its last
    /// frame the chunk; false if there is none. The caller has the frame's charge.
    pub(super) fn discard(&mut self, except: Option<SpanId>) -> bool {
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
}
