//! Whole pages of a store's memory with one owner, as buffers have them. Charged to the budget
//! until it lets go.
//!
//! Thread-safe as a boxed slice is.
#![expect(
    unsafe_code,
    reason = "the owner of pages holds their address; the store knows which are taken"
)]

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::Arc;

use super::Store;
use super::frames::Location;
use super::size::Size;
use crate::budget::{Reservation, Role, Shortage};

/// Whole pages with one owner, with any contents at first.
pub(crate) struct FrameRun {
    bytes: NonNull<u8>,
    size: Size,
    store: Arc<Store>,
    held: Reservation,
    place: Location,
}

// SAFETY: it owns its bytes as a boxed slice does.
unsafe impl Send for FrameRun {}
// SAFETY: as above; it is shared by handing out `&[u8]` only.
unsafe impl Sync for FrameRun {}

impl Store {
    /// So many pages, charged with `extra` bytes more; says how many bytes of the budget they take
    /// where they are not there. `purse` has some of them, or none.
    pub(in crate::cache) fn run(
        self: &Arc<Self>,
        role: Role,
        pages: usize,
        extra: u64,
        purse: Option<Reservation>,
    ) -> Result<FrameRun, Shortage> {
        let count = u32::try_from(pages.max(1)).map_err(|_| Shortage(u64::MAX))?;
        let size = Size::FrameRun(count);
        let (piece, held) = self.take(role, size, false, extra, purse)?;
        Ok(FrameRun {
            bytes: piece.bytes,
            size,
            store: Arc::clone(self),
            held,
            place: piece.place,
        })
    }
}

impl Deref for FrameRun {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the piece is this run's alone, of so many bytes, which the system gave as zeros
        // or others wrote.
        unsafe { std::slice::from_raw_parts(self.bytes.as_ptr(), self.size.bytes() as usize) }
    }
}

impl DerefMut for FrameRun {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as for `deref`, and the borrow of `self` is the only one.
        unsafe { std::slice::from_raw_parts_mut(self.bytes.as_ptr(), self.size.bytes() as usize) }
    }
}

impl Drop for FrameRun {
    fn drop(&mut self) {
        self.store
            .give_back(self.place, self.size, false, &mut self.held);
    }
}

impl fmt::Debug for FrameRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FrameRun")
            .field("len", &self.len())
            .finish()
    }
}
