//! What is taken from a budget, and gives it back when it is dropped. Each has one owner.

use std::sync::Arc;

use super::{AdmittedWork, Begun, Budget, Role, Shortage};
use crate::error::{Error, Result};

/// What an iterator may take beyond the limit where others have all of it, in bytes: about an entry
/// of the usual size.
const LITTLE: u64 = 2 << 10;

/// Bytes taken from a budget, given back on drop. Every cached block has one, so it is kept small.
pub(crate) struct Reservation {
    pub(super) budget: Arc<Budget>,
    pub(super) account: Account,
}

/// A role, in the lowest byte, and bytes, in the others.
#[derive(Clone, Copy)]
pub(crate) struct Account(u64);

impl Account {
    /// The most bytes of a reservation: more than any machine has.
    const MOST: u64 = u64::MAX >> u8::BITS;

    pub(crate) fn new(role: Role, bytes: u64) -> Account {
        Account(bytes.min(Self::MOST) << u8::BITS | role as u64)
    }

    pub(crate) fn bytes(self) -> u64 {
        self.0 >> u8::BITS
    }

    pub(crate) fn role(self) -> Role {
        let role = Role::ALL.get(usize::from(self.0 as u8));
        role.copied().unwrap_or(Role::Data)
    }
}

impl Reservation {
    pub(super) fn new(budget: &Arc<Budget>, role: Role, bytes: u64) -> Reservation {
        Reservation {
            budget: Arc::clone(budget),
            account: Account::new(role, bytes),
        }
    }

    /// What is reserved, for one who knows the budget and has no room for another reference to it.
    /// It stays taken until [`Budget::resume`]'s reservation of it is dropped.
    pub(crate) fn into_account(mut self) -> Account {
        let account = self.account;
        self.account = Account::new(account.role(), 0);
        account
    }

    /// The budget that it is of.
    pub(crate) fn budget(&self) -> &Arc<Budget> {
        &self.budget
    }

    /// The limit of the budget it is of.
    pub(crate) fn limit(&self) -> u64 {
        self.budget.limit()
    }

    /// The bytes reserved.
    pub(crate) fn bytes(&self) -> u64 {
        self.account.bytes()
    }

    fn set(&mut self, bytes: u64) {
        self.account = Account::new(self.account.role(), bytes);
    }

    /// Takes more bytes as [`Budget::try_reserve`] does; false, and nothing changes, when they do
    /// not fit.
    pub(crate) fn try_grow(&mut self, bytes: u64) -> bool {
        let taken = self.budget.try_take(self.account.role(), bytes);
        if taken {
            self.set(self.bytes() + bytes);
        }
        taken
    }

    /// [`Self::try_grow`] where the role has at most `most` bytes then, all its reservations
    /// together.
    pub(crate) fn try_grow_within(&mut self, bytes: u64, most: u64) -> bool {
        let role = self.account.role();
        let taken = self.budget.try_take_within(role, bytes, most);
        if taken {
            self.set(self.bytes() + bytes);
        }
        taken
    }

    /// Takes what one of so many sources of a caller's iterator needs, in the share of iterators:
    /// refused, and nothing changes, past it, or where others have the memory. Little is taken then
    /// all the same, so that what is held by others for long refuses no entry of the usual size.
    pub(crate) fn grow_iterator(&mut self, bytes: u64, sources: usize) -> Result<()> {
        // Who changes the limit meanwhile is not to make the error tell one that would have done.
        let before = self.budget.limit();
        let most = self.budget.most_of_iterators();
        let limit = before.min(self.budget.limit());
        if self.try_grow_within(bytes, most) {
            return Ok(());
        }
        if bytes <= LITTLE && self.budget.used_by(self.account.role()) + bytes <= most {
            self.grow(bytes);
            return Ok(());
        }
        // Each source may come to an entry as large, and to a copy of the block that it is in.
        let each = bytes.saturating_mul(2).saturating_add(2 * LITTLE);
        let more = each.saturating_mul(sources.max(1) as u64);
        let needed = self.budget.least_limit_for_iterators(more);
        Err(Error::IteratorsExhausted { limit, needed })
    }

    /// To so many bytes at least of a transaction, in the share of iterators: refused, and nothing
    /// changes, past it, or where others have the memory. Little is taken then all the same.
    pub(crate) fn hold_transaction(&mut self, len: u64) -> Result<()> {
        let more = len.saturating_sub(self.bytes());
        if more == 0 {
            return Ok(());
        }
        let max = self.budget.most_of_iterators();
        // Ahead, so as not to be asked for each key.
        let ahead = (self.bytes() / 8).min(LITTLE);
        if self.try_grow_within(more + ahead, max) || self.try_grow_within(more, max) {
            return Ok(());
        }
        if more <= LITTLE && self.budget.used_by(self.account.role()) + more <= max {
            self.grow(more);
            return Ok(());
        }
        let needed = self.budget.least_limit_for_iterators(more);
        Err(Error::TransactionTooLarge { len, max, needed })
    }

    /// Takes more bytes, if need be once others gave some back: false, and nothing changes, where
    /// that was waited for in vain.
    pub(crate) fn grow_waiting(&mut self, bytes: u64) -> bool {
        let taken = self.budget.take_waiting(self.account.role(), bytes);
        if taken {
            self.set(self.bytes() + bytes);
        }
        taken
    }

    /// Takes more bytes as [`Budget::reserve`] does.
    pub(crate) fn grow(&mut self, bytes: u64) {
        self.budget.take(self.account.role(), bytes);
        self.set(self.bytes() + bytes);
    }

    /// To so many bytes, if what is more can be had as [`Budget::try_reserve`] does.
    pub(crate) fn try_resize(&mut self, bytes: u64) -> bool {
        let more = bytes.saturating_sub(self.bytes());
        if more > 0 && !self.try_grow(more) {
            return false;
        }
        self.shrink(self.bytes() - bytes);
        true
    }

    /// Another reservation of the same role and budget, taken as [`Budget::try_reserve`] does.
    pub(crate) fn try_beside(&self, bytes: u64) -> Option<Reservation> {
        self.budget.try_reserve(self.account.role(), bytes)
    }

    /// Gives bytes back, at most all of them.
    pub(crate) fn shrink(&mut self, bytes: u64) {
        let bytes = bytes.min(self.bytes());
        self.set(self.bytes() - bytes);
        self.budget.ledger.release(self.account.role(), bytes);
    }

    /// Takes more bytes as [`Budget::try_reserve_now`] does, or says how many are short.
    pub(crate) fn try_grow_now(&mut self, bytes: u64) -> Result<(), Shortage> {
        self.budget.ledger.try_take(self.account.role(), bytes)?;
        self.set(self.bytes() + bytes);
        Ok(())
    }

    /// Moves up to `bytes` bytes to another reservation of the same budget, of whatever role.
    pub(crate) fn move_to(&mut self, other: &mut Reservation, bytes: u64) {
        let bytes = bytes.min(self.bytes());
        let (from, to) = (self.account.role(), other.account.role());
        self.set(self.bytes() - bytes);
        other.set(other.bytes() + bytes);
        self.budget.ledger.convert(from, to, bytes);
    }

    /// Grows (as essential memory) or shrinks to `bytes`.
    pub(crate) fn resize(&mut self, bytes: u64) {
        let now = self.bytes();
        if bytes > now {
            self.grow(bytes - now);
        } else {
            self.shrink(now - bytes);
        }
    }
}

impl std::fmt::Debug for Reservation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reservation")
            .field("role", &self.account.role())
            .field("bytes", &self.bytes())
            .finish_non_exhaustive()
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.budget
            .ledger
            .release(self.account.role(), self.bytes());
    }
}

/// Work that was let in; it is over when it is dropped.
#[derive(Debug)]
pub(crate) struct Permit {
    pub(super) begun: Begun,
    pub(super) work: AdmittedWork,
    pub(super) bytes: u64,
}

impl Permit {
    /// What it was let in with.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.begun.budget().admission(self.work).leave(self.bytes);
    }
}

/// Bytes that stay pinned until it is dropped.
#[derive(Debug)]
pub(crate) struct Pin {
    pub(super) budget: Arc<Budget>,
    pub(super) bytes: u64,
}

impl Drop for Pin {
    fn drop(&mut self) {
        self.budget.ledger.unpin(self.bytes);
    }
}

/// A database among those that write under a budget.
pub(crate) struct Sharer(pub(super) Arc<Budget>);

impl Drop for Sharer {
    fn drop(&mut self) {
        self.0.remove_database();
    }
}
