//! The memory that cached blocks and buffers lie in, mapped by the engine itself: what is charged
//! for it is what is resident of it.
//!
//! Memory comes in chunks of frames of a page ([`chunk`]). A block of about a page has a frame, a
//! longer one a run of frames; of shorter ones several of a size share a span of frames, cut into
//! slots. Whoever takes a piece is charged for the whole of it. What is resident beside is charged
//! as [`Role::Spare`]: frames that were given back, of which a few are kept for who comes next, or
//! all while memory is plenty, free slots of spans, and headers. Only with a charge for it does a
//! frame become resident, and what is free goes back to the system when others need memory
//! ([`Reclaim`]).
//!
//! Slots come in small steps, since blocks of a tree have few sizes: an index, or some columns of a
//! filter, each of which has a slot, so that one may go without the others. When the mix of sizes
//! changes, spans are left half empty. A block then has its place in the fullest one, also of a
//! size a little larger, and those that are in emptier ones are moved ([`Block::repack`]), until
//! whole frames are free.
//!
//! Thread-safe; its lock is innermost, and while it is held the budget is asked only in the way
//! that never comes back here ([`Budget::try_reserve_now`]).

mod block;
mod chunk;
mod frame_run;
mod frames;
mod layout;
mod size;

use std::fmt;
use std::ops::RangeInclusive;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use crate::budget::{
    Budget, Reclaim, Reservation, Role, Shortage, idle_frames, loose_slots, plenty_of_memory,
};
use crate::fs::PAGE;
pub(crate) use block::Block;
pub(in crate::cache) use frame_run::FrameRun;
use frames::{Frames, Location, SpanPiece};
pub(in crate::cache) use layout::HEADER;
use size::Size;
pub(in crate::cache) use size::memory_of;

/// Free frames given back to the system at once, with the lock held: an upper bound of its time.
const TRIMMED_AT_ONCE: usize = 32;

/// The memory that so many pages of buffers take with the chunks they lie in.
#[cfg(test)]
pub(in crate::cache) const fn room_for(pages: u64) -> u64 {
    pages * PAGE as u64 + pages.div_ceil(u64::BITS as u64 - 1) * chunk::Chunk::OVERHEAD
}

/// The same of blocks of a page, which have headers.
#[cfg(test)]
pub(in crate::cache) const fn room_for_blocks(pages: u64) -> u64 {
    room_for(pages + pages.div_ceil(u64::BITS as u64 - 1))
}

/// Where a block would leave more slots free in a row.
enum Better {
    /// In a fuller span.
    Elsewhere(SpanPiece),
    /// So many slots, and bytes, further down.
    Below { slots: u8, bytes: usize },
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
            let frames = Frames::new(spare);
            Store {
                budget,
                frames: Mutex::new(frames),
            }
        })
    }

    /// Takes a piece for `role`, charged with `extra` bytes more: out of `purse`, and what that
    /// does not have from the budget. Says how many bytes it takes, where they are not there. A
    /// block of whole frames has a header beside them.
    fn take(
        &self,
        role: Role,
        size: Size,
        is_block: bool,
        extra: u64,
        purse: Option<Reservation>,
    ) -> Result<(SpanPiece, Reservation), Shortage> {
        let mut purse = purse.unwrap_or_else(|| self.budget.open_account(Role::Spare));
        let mut frames = self.frames.lock();
        let (room, new) = frames.find(size, is_block, extra, &mut purse);
        let wanted = new + extra;
        let more = wanted.saturating_sub(purse.bytes());
        if more > 0 && purse.try_grow_now(more).is_err() {
            return Err(Shortage(wanted));
        }
        purse.move_to(&mut frames.spare, new);
        let piece = frames.take(room, size, is_block).ok_or(Shortage(wanted))?;
        let mut held = self.budget.open_account(role);
        let bytes = frames.bytes_of(piece.place, size);
        frames.spare.move_to(&mut held, bytes);
        purse.move_to(&mut held, extra);
        Ok((piece, held))
    }

    /// Takes a free slot for so many bytes, as large as may be, charged with `extra` bytes more for
    /// the bytes it has room for, which are given; none where none is free.
    fn take_free_slot(
        &self,
        role: Role,
        lens: &RangeInclusive<usize>,
        extra: &impl Fn(usize) -> u64,
    ) -> Result<Option<(SpanPiece, Reservation, usize)>, Shortage> {
        let mut frames = self.frames.lock();
        let [least, most] = [lens.start(), lens.end()].map(|len| Size::units_of(*len));
        let Some(span) = (least..=most)
            .rev()
            .find_map(|units| frames.fullest(units, 1, None))
        else {
            return Ok(None);
        };
        let room = frames.span(span).map_or(0, |span| span.bytes() as usize) - HEADER;
        let extra = extra(room.min(*lens.end()));
        let mut held = self.budget.open_account(role);
        if held.try_grow_now(extra).is_err() {
            // A free frame has as much, and more.
            if frames.idle == 0 || !frames.discard(None) {
                return Err(Shortage(extra));
            }
            frames.spare.move_to(&mut held, PAGE as u64);
            held.shrink((PAGE as u64).saturating_sub(extra));
        }
        let piece = frames.take_slots(span, 1).ok_or(Shortage(extra))?;
        let bytes = frames.bytes_of(piece.place, Size::FrameRun(0));
        frames.spare.move_to(&mut held, bytes);
        Ok(Some((piece, held, room)))
    }

    /// Takes back a piece that nobody looks at any more, and its charge. `size` is that of whole
    /// frames.
    fn give_back(&self, place: Location, size: Size, is_block: bool, held: &mut Reservation) {
        let mut frames = self.frames.lock();
        let bytes = frames.bytes_of(place, size);
        held.move_to(&mut frames.spare, bytes);
        frames.give_back(place, size, is_block);
        // While memory is plenty nobody needs free frames: for the system it is more work to take
        // them back and give them out again than to copy what comes there.
        let limit = self.budget.limit();
        if self.budget.used() + plenty_of_memory(limit) > limit {
            self.trim_frames(&mut frames);
        }
    }

    /// Gives some free frames back, if there are more than are kept for who comes next; says
    /// whether there still are.
    fn trim_frames(&self, frames: &mut Frames) -> bool {
        let most = idle_frames(self.budget.limit()) / PAGE as u64;
        for _ in 0..TRIMMED_AT_ONCE {
            if frames.idle <= most || !frames.discard(None) {
                return false;
            }
            frames.spare.shrink(PAGE as u64);
        }
        frames.idle > most
    }

    /// Gives back all free frames but the few that are kept for who comes next.
    pub(in crate::cache) fn trim(&self) {
        while self.trim_frames(&mut self.frames.lock()) {}
    }

    /// Takes back those slots of a piece that so many bytes do not need, and their charge; says how
    /// many are left.
    fn give_tail_back(&self, place: Location, bytes: usize, held: &mut Reservation) -> u8 {
        let mut frames = self.frames.lock();
        let Some(span) = frames.span((place.chunk, place.frame)) else {
            return place.slots;
        };
        let each = span.bytes();
        let needed = bytes.div_ceil(each as usize).max(1) as u8;
        for slot in needed..place.slots {
            frames.give_slot_back(Location {
                slot: place.slot + slot,
                slots: 1,
                ..place
            });
            held.move_to(&mut frames.spare, each);
        }
        needed.min(place.slots)
    }

    /// While free slots take much memory: slots in a fuller span than that of a place, or else
    /// those that are free right below it. None where a block is as well off where it is.
    fn take_better(&self, place: Location) -> Option<Better> {
        let mut frames = self.frames.lock();
        if place.slots == 0 || frames.loose <= loose_slots(self.budget.limit()) {
            return None;
        }
        let span = frames.span((place.chunk, place.frame))?;
        // A roomier one would have to be charged.
        let here = Some((place.chunk, place.frame));
        if let Some(better) = frames.fullest(span.units, place.slots, here)
            // So nothing is moved to and fro.
            && frames.free_slots(frames.span(better)?) < frames.free_slots(span)
        {
            return frames
                .take_slots(better, place.slots)
                .map(Better::Elsewhere);
        }
        let slots = frames.take_below(place);
        let bytes = usize::from(slots) * span.bytes() as usize;
        (slots > 0).then_some(Better::Below { slots, bytes })
    }

    /// Whether slots are free for a block of so many bytes, of so many parts.
    pub(in crate::cache) fn has_slots(&self, len: usize, parts: u8) -> bool {
        let mut frames = self.frames.lock();
        match Size::of_parts(len, parts) {
            Size::Slots { units, count } => frames.partly_free(units, count).is_some(),
            Size::FrameRun(_) => false,
        }
    }

    /// Takes back so many slots of a span from one on, of a piece that has moved: its charge went
    /// with it.
    fn leave(&self, place: Location) {
        self.frames.lock().give_slot_back(place);
    }
}

impl Store {
    /// Bytes of free frames.
    pub(crate) fn idle(&self) -> u64 {
        self.frames.lock().idle * PAGE as u64
    }

    /// Bytes of free slots.
    pub(crate) fn loose(&self) -> u64 {
        self.frames.lock().loose
    }

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

#[cfg(test)]
mod tests;
