//! Blocks, which lie in a store's memory: they are shared and never change, but while they have one
//! owner. Charged to the budget until the last one lets go.
//!
//! Thread-safe: a [`Block`] is a reference count and bytes, as an `Arc<[u8]>` is.
#![expect(
    unsafe_code,
    reason = "owners of a piece hold its address; the store's safe part knows which pieces are taken"
)]

use std::fmt;
use std::ops::{Deref, RangeInclusive};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use super::frames::{Location, SpanPiece};
use super::layout::HEADER;
use super::size::Size;
use super::{Better, Store};
use crate::budget::{Account, Reservation, Role, Shortage};
use crate::fs::PAGE;

/// What stands before a block's bytes, or in its chunk's first frame. Small: a block may be a few
/// hundred bytes.
#[repr(C, align(32))]
struct BlockHeader {
    owners: AtomicU32,
    len: u32,
    store: Arc<Store>,
    account: Account,
    chunk: u32,
    frame: u8,
    /// The first slot, in the lower bits, and how many there are.
    slots: u8,
    /// From here to the bytes, in headers.
    away: u16,
}

/// Bits of the number of a slot, of which a span has 32.
const SLOT_BITS: u32 = 5;

const _: () = assert!(size_of::<BlockHeader>() == HEADER);

fn packed(slot: u8, slots: u8) -> u8 {
    slot | slots.saturating_sub(1) << SLOT_BITS
}

impl BlockHeader {
    /// One that lies where the piece says, of a block with one owner.
    fn new(piece: &SpanPiece, len: u32, store: Arc<Store>, account: Account) -> BlockHeader {
        // Within a chunk: 256 KiB.
        let away = piece.bytes.addr().get() - piece.header.addr().get();
        BlockHeader {
            owners: AtomicU32::new(1),
            len,
            store,
            account,
            chunk: piece.place.chunk,
            frame: piece.place.frame,
            slots: packed(piece.place.slot, piece.place.slots),
            away: (away / HEADER) as u16,
        }
    }

    /// The size of whole frames.
    fn size(&self) -> Size {
        Size::FrameRun((self.len as usize).div_ceil(PAGE).max(1) as u32)
    }

    fn place(&self) -> Location {
        // The header of slots stands just before the bytes.
        let in_slots = self.away == 1;
        Location {
            chunk: self.chunk,
            frame: self.frame,
            slot: self.slots & ((1 << SLOT_BITS) - 1),
            slots: u8::from(in_slots) * ((self.slots >> SLOT_BITS) + 1),
        }
    }
}

/// More owners than this are clones that were forgotten.
const MOST_OWNERS: u32 = u32::MAX / 2;

/// The bytes of a block, charged to the budget as long as anyone holds them. A clone is the same
/// block.
pub(crate) struct Block(NonNull<BlockHeader>);

// SAFETY: all that is shared is the count, which is atomic, and bytes that nobody writes but an
// only owner; the last owner takes the rest.
unsafe impl Send for Block {}
// SAFETY: as above.
unsafe impl Sync for Block {}

impl Store {
    /// A block of these bytes, of so many parts of which the last may go ([`Block::shorten`]),
    /// charged with `extra` bytes besides the memory they lie in; first out of `purse`. Says how
    /// many bytes of the budget it takes where they are not there.
    pub(in crate::cache) fn block(
        self: &Arc<Self>,
        role: Role,
        (bytes, parts): (&[u8], u8),
        extra: u64,
        purse: Option<Reservation>,
    ) -> Result<Block, Shortage> {
        let len = u32::try_from(bytes.len()).map_err(|_| Shortage(u64::MAX))?;
        let size = Size::of_parts(bytes.len(), parts);
        let (piece, held) = self.take(role, size, true, extra, purse)?;
        Ok(Block::written(self, piece, len, bytes, held.into_account()))
    }
}

impl Store {
    /// A block of as many of these bytes as suit a slot that is free, in a range; where none is, of
    /// so many. Charged with `extra` bytes for what it has besides.
    pub(in crate::cache) fn block_between(
        self: &Arc<Self>,
        role: Role,
        bytes: &[u8],
        lens: RangeInclusive<usize>,
        or: usize,
        extra: impl Fn(usize) -> u64,
    ) -> Result<Block, Shortage> {
        let Some((piece, held, room)) = self.take_free_slot(role, &lens, &extra)? else {
            let bytes = bytes.get(..or).unwrap_or(bytes);
            return self.block(role, (bytes, 1), extra(bytes.len()), None);
        };
        let bytes = bytes.get(..room.min(*lens.end())).unwrap_or(bytes);
        let (len, account) = (bytes.len() as u32, held.into_account());
        Ok(Block::written(self, piece, len, bytes, account))
    }
}

impl Block {
    /// Writes a block into a piece that was taken for it.
    fn written(
        store: &Arc<Store>,
        piece: SpanPiece,
        len: u32,
        bytes: &[u8],
        account: Account,
    ) -> Block {
        let header = BlockHeader::new(&piece, len, Arc::clone(store), account);
        let at = piece.header.cast::<BlockHeader>();
        // SAFETY: the piece was taken, so nobody else has its address: room for as many bytes as
        // its size says, and for a header, which is aligned as the pieces are.
        unsafe {
            piece
                .bytes
                .copy_from_nonoverlapping(NonNull::from(bytes).cast(), bytes.len());
            at.write(header);
        }
        Block(at)
    }

    #[inline]
    fn header(&self) -> &BlockHeader {
        // SAFETY: the header stays until the last owner lets go.
        unsafe { self.0.as_ref() }
    }

    /// What the block is charged, in bytes.
    pub(in crate::cache) fn charge(&self) -> u64 {
        self.header().account.bytes()
    }

    /// The bytes that stay resident as long as the block is held: all of its span, for what is
    /// beside it may go, or move, and it cannot.
    pub(crate) fn keeps(&self) -> u64 {
        let header = self.header();
        let frames = header.store.frames.lock();
        frames.kept_by(header.place(), header.size())
    }

    /// Whether nobody else holds the block.
    pub(in crate::cache) fn is_unshared(&self) -> bool {
        self.header().owners.load(Ordering::Acquire) == 1
    }

    /// Reads a few bytes for nothing but that they come near: where who searches the block will
    /// look first. Each may be far away; one after the other, as a search needs them, they would
    /// take as long as all of them.
    #[inline]
    pub(in crate::cache) fn touch(&self) {
        let bytes: &[u8] = self;
        for at in [bytes.len().saturating_sub(1), bytes.len() / 2] {
            std::hint::black_box(bytes.get(at).copied());
        }
    }

    /// Puts fewer bytes, of so many parts, in the place of these, where nobody else holds them and
    /// that frees memory. A block that has to move is charged with `extra` bytes as this one is.
    pub(in crate::cache) fn shorten(&mut self, bytes: &[u8], parts: u8, extra: u64) {
        let (header, size) = (self.header(), Size::of(bytes.len()));
        if !self.is_unshared() || bytes.len() > header.len as usize {
            return;
        }
        let (store, place) = (Arc::clone(&header.store), header.place());
        if place.slots > 1 {
            // SAFETY: nobody else holds the block, which is borrowed mutably, and it has room for
            // more.
            let header = unsafe {
                let at = self.0.add(usize::from(header.away)).cast::<u8>();
                at.copy_from_nonoverlapping(NonNull::from(bytes).cast(), bytes.len());
                self.0.as_mut()
            };
            header.len = bytes.len() as u32;
            let mut held = store.budget().resume(header.account);
            let slots = store.give_tail_back(place, HEADER + bytes.len(), &mut held);
            header.slots = packed(place.slot, slots);
            header.account = held.into_account();
        } else if size.bytes() < header.account.bytes().saturating_sub(extra) {
            let role = header.account.role();
            if let Ok(block) = store.block(role, (bytes, parts), extra, None)
                && block.charge() < self.charge()
            {
                *self = block;
            }
        }
    }

    /// Moves the bytes to where fewer free slots lie beside them, or down to where none lies below,
    /// where nobody else holds them and much memory is in free slots; says whether it did.
    pub(in crate::cache) fn repack(&mut self) -> bool {
        let header = self.header();
        if !self.is_unshared() {
            return false;
        }
        let Some(better) = header.store.take_better(header.place()) else {
            return false;
        };
        let store = Arc::clone(&header.store);
        match better {
            Better::Elsewhere(piece) => self.move_to(&store, piece),
            Better::Below { slots, bytes } => self.move_down(&store, slots, bytes),
        }
        true
    }

    /// Moves to a piece that was taken for it; nobody else holds it.
    fn move_to(&mut self, store: &Arc<Store>, piece: SpanPiece) {
        // The charge goes with the block: slots of either place are spare while they are free.
        let (len, account) = (self.header().len, self.header().account);
        let moved = Block::written(store, piece, len, self, account);
        let mut old = std::mem::replace(self, moved);
        // SAFETY: nobody else holds the old block, which is borrowed mutably.
        let header = unsafe { old.0.as_mut() };
        header.account = Account::new(account.role(), 0);
    }

    /// Moves down by so many slots and bytes, that were taken for it; nobody else holds it.
    fn move_down(&mut self, store: &Store, slots: u8, bytes: usize) {
        let (mut place, len) = (self.header().place(), self.header().len as usize);
        place.slot -= slots;
        // SAFETY: the slots right below were taken, so that nobody else has the address of any byte
        // from there to the end of the block, which nobody else holds and which is borrowed
        // mutably. Its header stands just before its bytes.
        unsafe {
            let from = self.0.cast::<u8>();
            let to = from.sub(bytes);
            to.copy_from(from, HEADER + len);
            self.0 = to.cast();
            self.0.as_mut().slots = packed(place.slot, place.slots);
        }
        place.slot += place.slots;
        place.slots = slots;
        store.leave(place);
    }

    /// The bytes, to change, where nobody else holds them.
    pub(in crate::cache) fn get_mut(&mut self) -> Option<&mut [u8]> {
        if !self.is_unshared() {
            return None;
        }
        let header = self.header();
        let (away, len) = (usize::from(header.away), header.len as usize);
        // SAFETY: as for `deref`; nobody else holds the block, which is borrowed mutably.
        unsafe {
            let bytes = self.0.add(away).cast::<u8>();
            Some(std::slice::from_raw_parts_mut(bytes.as_ptr(), len))
        }
    }

    /// Whether two are the same block.
    #[cfg(test)]
    pub(in crate::cache) fn is(&self, other: &Block) -> bool {
        self.0 == other.0
    }

    /// The last owner is gone.
    #[cold]
    fn free(&mut self) {
        // SAFETY: nobody else has the address any more, and nobody looks at the header again.
        let header = unsafe { self.0.read() };
        let mut held = header.store.budget().resume(header.account);
        let (store, place, size) = (&header.store, header.place(), header.size());
        store.give_back(place, size, true, &mut held);
    }
}

impl Clone for Block {
    #[inline]
    fn clone(&self) -> Self {
        // As of an `Arc`: who clones has a reference already, so nothing needs to be seen first.
        let before = self.header().owners.fetch_add(1, Ordering::Relaxed);
        if before > MOST_OWNERS {
            std::process::abort();
        }
        Block(self.0)
    }
}

impl Drop for Block {
    #[inline]
    fn drop(&mut self) {
        if self.header().owners.fetch_sub(1, Ordering::Release) == 1 {
            // What the others did with it comes before it goes. A load and no fence, which
            // ThreadSanitizer does not know.
            self.header().owners.load(Ordering::Acquire);
            self.free();
        }
    }
}

impl Deref for Block {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        let header = self.header();
        // SAFETY: so many bytes were written when the block was made, so far away in the same
        // mapping, and nobody writes them again but an only owner, which borrows the block
        // mutably for it (`get_mut`, `shorten`).
        unsafe {
            let bytes = self.0.add(usize::from(header.away)).cast::<u8>();
            std::slice::from_raw_parts(bytes.as_ptr(), header.len as usize)
        }
    }
}

impl fmt::Debug for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Block").field("len", &self.len()).finish()
    }
}
