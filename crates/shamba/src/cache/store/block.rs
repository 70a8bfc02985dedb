//! What lies in a store's memory: blocks, which are shared and never change, and runs, which have one
//! owner. Both are charged to the budget until the last owner lets go.
//!
//! Thread-safe: a [`Block`] is a reference count and bytes, as an `Arc<[u8]>` is.
#![expect(
    unsafe_code,
    reason = "owners of a piece hold its address; the store's safe part knows which pieces are taken"
)]

use std::fmt;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering, fence};

use super::{Place, Size, Store};
use crate::budget::{Reservation, Role};

/// What stands before a block's bytes, or in its chunk's first frame.
#[repr(C, align(64))]
struct Header {
    owners: AtomicU32,
    len: u32,
    bytes: NonNull<u8>,
    hash: u64,
    store: Arc<Store>,
    held: Reservation,
    place: Place,
}

/// Bytes from one header to the next: a cache line, so that two counts of owners never share one.
pub(in crate::cache) const HEADER: usize = size_of::<Header>();

const _: () = assert!(HEADER == 64);

/// More owners than this are clones that were forgotten.
const MOST_OWNERS: u32 = u32::MAX / 2;

/// The bytes of a block, charged to the budget as long as anyone holds them. A clone is the same block.
pub(crate) struct Block(NonNull<Header>);

// SAFETY: all that is shared is the count, which is atomic, and bytes that nobody writes; the last owner
// takes the rest.
unsafe impl Send for Block {}
// SAFETY: as above.
unsafe impl Sync for Block {}

impl Store {
    /// A block of these bytes, charged with `extra` bytes besides the memory they lie in; first out of
    /// `purse`. Says how many bytes of the budget it takes where they are not there.
    pub(in crate::cache) fn block(
        self: &Arc<Self>,
        role: Role,
        hash: u64,
        bytes: &[u8],
        extra: u64,
        purse: Option<Reservation>,
    ) -> Result<Block, u64> {
        let len = u32::try_from(bytes.len()).map_err(|_| u64::MAX)?;
        let (piece, held) = self.take(role, Size::of(bytes.len()), extra, purse)?;
        let header = Header {
            owners: AtomicU32::new(1),
            len,
            bytes: piece.bytes,
            hash,
            store: Arc::clone(self),
            held,
            place: piece.place,
        };
        let at = piece.header.cast::<Header>();
        // SAFETY: the piece was taken, so nobody else has its address: room for as many bytes as its size
        // says, and for a header, which is aligned as the pieces are.
        unsafe {
            piece
                .bytes
                .copy_from_nonoverlapping(NonNull::from(bytes).cast(), bytes.len());
            at.write(header);
        }
        Ok(Block(at))
    }
}

impl Block {
    #[inline]
    fn header(&self) -> &Header {
        // SAFETY: the header stays until the last owner lets go.
        unsafe { self.0.as_ref() }
    }

    /// What the block is charged, in bytes.
    pub(in crate::cache) fn charge(&self) -> u64 {
        self.header().held.bytes()
    }

    /// Whether nobody else holds the block.
    pub(in crate::cache) fn is_unshared(&self) -> bool {
        self.header().owners.load(Ordering::Acquire) == 1
    }

    /// Reads a few bytes for nothing but that they come near: where who searches the block will look
    /// first. Each may be far away; one after the other, as a search needs them, they would take as long as
    /// all of them.
    #[inline]
    pub(in crate::cache) fn touch(&self) {
        let bytes: &[u8] = self;
        for at in [bytes.len().saturating_sub(1), bytes.len() / 2] {
            std::hint::black_box(bytes.get(at).copied());
        }
    }

    /// Puts fewer bytes in the place of these, where nobody else holds them and that frees memory; the
    /// new block is charged with `extra` bytes as this one is.
    pub(in crate::cache) fn replace(&mut self, bytes: &[u8], extra: u64) {
        let header = self.header();
        if !self.is_unshared() || Size::of(bytes.len()).bytes() >= header.place.size.bytes() {
            return;
        }
        let (store, hash, role) = (Arc::clone(&header.store), header.hash, header.held.role());
        if let Ok(block) = store.block(role, hash, bytes, extra, None) {
            *self = block;
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
        // SAFETY: nobody else has the address any more. What is taken out of the header is not dropped
        // again, since nobody looks at it there.
        let header = ManuallyDrop::new(unsafe { self.0.read() });
        // SAFETY: each is taken out once.
        let (store, mut held) =
            unsafe { (std::ptr::read(&header.store), std::ptr::read(&header.held)) };
        store.give_back(header.place, &mut held);
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
            // What the others did with it comes before it goes.
            fence(Ordering::Acquire);
            self.free();
        }
    }
}

impl Deref for Block {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        let header = self.header();
        // SAFETY: so many bytes were written when the block was made, and nobody writes them again before
        // the last owner lets go.
        unsafe { std::slice::from_raw_parts(header.bytes.as_ptr(), header.len as usize) }
    }
}

impl fmt::Debug for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Block").field("len", &self.len()).finish()
    }
}

/// Whole pages with one owner, with any contents at first.
pub(crate) struct Run {
    bytes: NonNull<u8>,
    len: usize,
    store: Arc<Store>,
    held: Reservation,
    place: Place,
}

// SAFETY: it owns its bytes as a boxed slice does.
unsafe impl Send for Run {}
// SAFETY: as above; it is shared by handing out `&[u8]` only.
unsafe impl Sync for Run {}

impl Store {
    /// So many pages; says how many bytes of the budget they take where they are not there. `purse` has
    /// some of them, or none.
    pub(in crate::cache) fn run(
        self: &Arc<Self>,
        role: Role,
        pages: usize,
        purse: Option<Reservation>,
    ) -> Result<Run, u64> {
        let count = u32::try_from(pages.max(1)).map_err(|_| u64::MAX)?;
        let size = Size::Run(count);
        let (piece, held) = self.take(role, size, 0, purse)?;
        Ok(Run {
            bytes: piece.bytes,
            len: size.bytes() as usize,
            store: Arc::clone(self),
            held,
            place: piece.place,
        })
    }
}

impl Deref for Run {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the piece is this run's alone, of so many bytes, which the system gave as zeros or
        // others wrote.
        unsafe { std::slice::from_raw_parts(self.bytes.as_ptr(), self.len) }
    }
}

impl DerefMut for Run {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as for `deref`, and the borrow of `self` is the only one.
        unsafe { std::slice::from_raw_parts_mut(self.bytes.as_ptr(), self.len) }
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        self.store.give_back(self.place, &mut self.held);
    }
}

impl fmt::Debug for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Run").field("len", &self.len).finish()
    }
}
