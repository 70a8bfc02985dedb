//! The budget's counters: a total that is raised only by compare-and-swap against the limit, and
//! the same bytes by role.
//!
//! Thread-safe without locks. Generic over the atomic type so that a schedule checker can run it.
//! The total is raised before a role's counter and lowered after it, so that the roles' sum never
//! exceeds the total as long as the total is read last.

use std::sync::atomic::{AtomicU64, Ordering};

use super::Role;
use super::shares::{come_down_to, most_of_iterators, most_of_pins, working_limit};

/// A shared 64-bit counter.
pub(super) trait AtomicCounter: Send + Sync {
    /// A counter at `value`.
    fn at(value: u64) -> Self;
    /// The present value.
    fn load(&self) -> u64;
    /// Adds, giving the value before.
    fn add(&self, value: u64) -> u64;
    /// Replaces the value.
    fn set(&self, value: u64);
    /// Subtracts, giving the value before.
    fn sub(&self, value: u64) -> u64;
    /// Raises the counter to `value` if it is lower.
    fn raise(&self, value: u64);
    /// Replaces `from` by `to`, or gives the value found.
    fn swap_if(&self, from: u64, to: u64) -> Result<(), u64>;
}

/// In one order for all threads: a pin and a limit that comes down see each other. No memory is
/// handed over through them.
impl AtomicCounter for AtomicU64 {
    fn at(value: u64) -> Self {
        AtomicU64::new(value)
    }
    fn load(&self) -> u64 {
        self.load(Ordering::SeqCst)
    }
    fn add(&self, value: u64) -> u64 {
        self.fetch_add(value, Ordering::SeqCst)
    }
    fn set(&self, value: u64) {
        self.store(value, Ordering::SeqCst);
    }
    fn sub(&self, value: u64) -> u64 {
        self.fetch_sub(value, Ordering::SeqCst)
    }
    fn raise(&self, value: u64) {
        self.fetch_max(value, Ordering::SeqCst);
    }
    fn swap_if(&self, from: u64, to: u64) -> Result<(), u64> {
        self.compare_exchange_weak(from, to, Ordering::SeqCst, Ordering::SeqCst)
            .map(drop)
    }
}

/// An error: so many bytes are lacking.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shortage(pub(crate) u64);

/// An error: what there is too little of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ShareShortage {
    /// Of the limit.
    OfLimit(Shortage),
    /// Of what the role may have.
    OfShare,
}

/// The counters of a budget.
#[derive(Debug)]
pub(super) struct Ledger<C> {
    limit: C,
    /// A larger limit that held before and under which what is used was taken; what is above it is
    /// overdraft. The limit itself once it was come down to.
    ceiling: C,
    /// How much work goes on that began under such a limit.
    earlier: C,
    used: C,
    peak: C,
    overdraft: C,
    roles: [C; Role::ALL.len()],
    /// Bytes of cached blocks, and of what they keep resident, that cannot give way.
    pinned: C,
}

impl<C: AtomicCounter> Ledger<C> {
    /// Empty counters under a limit in bytes.
    pub(super) fn new(limit: u64) -> Self {
        Ledger {
            limit: C::at(limit),
            ceiling: C::at(limit),
            earlier: C::at(0),
            used: C::at(0),
            peak: C::at(0),
            overdraft: C::at(0),
            roles: std::array::from_fn(|_| C::at(0)),
            pinned: C::at(0),
        }
    }

    /// Takes bytes if they fit under the limit, or says how many are short.
    pub(super) fn try_take(&self, role: Role, bytes: u64) -> Result<(), Shortage> {
        self.try_take_total(bytes)?;
        self.role(role).add(bytes);
        Ok(())
    }

    /// [`Self::try_take`], if the role has at most `most` bytes then.
    pub(super) fn try_take_within(
        &self,
        role: Role,
        bytes: u64,
        most: u64,
    ) -> Result<(), ShareShortage> {
        let role = self.role(role);
        let mut now = role.load();
        if now.saturating_add(bytes) > most {
            return Err(ShareShortage::OfShare);
        }
        self.try_take_total(bytes).map_err(ShareShortage::OfLimit)?;
        while now.saturating_add(bytes) <= most {
            match role.swap_if(now, now + bytes) {
                Ok(()) => return Ok(()),
                Err(found) => now = found,
            }
        }
        self.used.sub(bytes);
        Err(ShareShortage::OfShare)
    }

    fn try_take_total(&self, bytes: u64) -> Result<(), Shortage> {
        let mut used = self.used.load();
        loop {
            let wanted = used.saturating_add(bytes);
            let limit = self.limit.load();
            if wanted > limit {
                return Err(Shortage(wanted - limit));
            }
            match self.used.swap_if(used, wanted) {
                Ok(()) => {
                    self.peak.raise(wanted);
                    return Ok(());
                }
                Err(found) => used = found,
            }
        }
    }

    /// Takes bytes whether they fit or not, recording what goes over the limit.
    pub(super) fn take(&self, role: Role, bytes: u64) {
        let wanted = self.used.add(bytes).saturating_add(bytes);
        self.peak.raise(wanted);
        self.overdraft.raise(wanted.saturating_sub(self.bound()));
        self.role(role).add(bytes);
    }

    /// Takes bytes, over the limit too, if that is no overdraft; whether it did.
    pub(super) fn take_within_bound(&self, role: Role, bytes: u64) -> bool {
        let mut used = self.used.load();
        loop {
            let wanted = used.saturating_add(bytes);
            if wanted > self.bound() {
                return false;
            }
            match self.used.swap_if(used, wanted) {
                // The limit may have been come down to meanwhile.
                Ok(()) if wanted > self.bound() => {
                    self.used.sub(bytes);
                    self.shrink_to_budget();
                    return false;
                }
                Ok(()) => {
                    self.peak.raise(wanted);
                    self.role(role).add(bytes);
                    return true;
                }
                Err(found) => used = found,
            }
        }
    }

    /// What is overdraft above it.
    fn bound(&self) -> u64 {
        self.limit.load().max(self.ceiling.load())
    }

    /// Gives back bytes taken before.
    pub(super) fn release(&self, role: Role, bytes: u64) {
        self.role(role).sub(bytes);
        self.used.sub(bytes);
        self.shrink_to_budget();
    }

    /// Pins bytes that are taken, where all that are pinned stay within their share of the limit.
    pub(super) fn try_pin(&self, bytes: u64) -> bool {
        let most = || most_of_pins(self.working_limit());
        let mut pinned = self.pinned.load();
        loop {
            let wanted = pinned.saturating_add(bytes);
            if wanted > most() {
                return false;
            }
            match self.pinned.swap_if(pinned, wanted) {
                // The limit may have become smaller meanwhile, and have been come down to.
                Ok(()) if wanted > most() => {
                    self.unpin(bytes);
                    return false;
                }
                Ok(()) => return true,
                Err(found) => pinned = found,
            }
        }
    }

    /// Gives up pins of so many bytes.
    pub(super) fn unpin(&self, bytes: u64) {
        self.pinned.sub(bytes);
        self.shrink_to_budget();
    }

    fn shrink_to_budget(&self) {
        loop {
            let ceiling = self.ceiling.load();
            let limit = self.limit.load();
            if ceiling <= limit || !self.came_down(limit) {
                return;
            }
            // Not when the limit was raised and lowered again meanwhile.
            if self.ceiling.swap_if(ceiling, limit).is_err() {
                continue;
            }
            if self.came_down(limit) {
                return;
            }
            // Something was taken meanwhile that the ceiling let in, and may be given back by now.
            let _ = self.ceiling.swap_if(limit, ceiling);
        }
    }

    /// Makes bytes that were taken for one role another's. For a moment they are neither's, so that
    /// the roles' sum never exceeds the total.
    pub(super) fn convert(&self, from: Role, to: Role, bytes: u64) {
        if from as usize != to as usize && bytes > 0 {
            self.role(from).sub(bytes);
            self.role(to).add(bytes);
        }
    }

    /// Changes the limit; so much work goes on that began before. Until it is come down to, the
    /// limit before bounds what is taken without asking ([`Self::take`]). One thread at a time.
    pub(super) fn set_limit(&self, limit: u64, going_on: u64) {
        self.ceiling.set(self.bound());
        self.earlier.add(going_on);
        self.limit.set(limit);
        self.shrink_to_budget();
    }

    /// One that began under a larger limit is over.
    pub(super) fn end_earlier(&self) {
        self.earlier.sub(1);
        self.shrink_to_budget();
    }

    /// Whether what is used came down to a limit that was made smaller: no work goes on that began
    /// before, pins came to their share, and all else that does not give way as cached blocks do to
    /// half of it. What was begun under a larger one (a memtable, a log's buffer, an iterator) is
    /// not done the moment that it fits.
    fn came_down(&self, limit: u64) -> bool {
        if self.earlier.load() > 0 {
            return false;
        }
        let used = self.used.load();
        let pins = self.pinned.load() <= most_of_pins(self.working_limit());
        pins && used <= limit && self.kept(used) <= come_down_to(limit)
    }

    /// What of the bytes used is not of cached blocks or entries.
    pub(super) fn kept(&self, used: u64) -> u64 {
        let cached = Role::ALL.iter().filter(|role| role.gives_way());
        let cached: u64 = cached.map(|role| self.used_by(*role)).sum();
        used.saturating_sub(cached)
    }

    /// What does not give way: what is not of cached blocks, and what is pinned.
    pub(super) fn held(&self) -> u64 {
        let pinned = self.pinned.load();
        self.kept(self.used.load()).saturating_add(pinned)
    }

    /// What is known of files, in bytes.
    pub(super) fn files(&self) -> u64 {
        self.used_by(Role::Files) + self.used_by(Role::Seen)
    }

    /// What the shares of what is held are of: the limit, or less where what is known of files
    /// takes much.
    pub(super) fn working_limit(&self) -> u64 {
        working_limit(self.limit.load(), self.files())
    }

    /// The most bytes that all iterators may hold.
    pub(super) fn most_of_iterators(&self) -> u64 {
        most_of_iterators(self.working_limit())
    }

    /// The limit in bytes.
    pub(super) fn limit(&self) -> u64 {
        self.limit.load()
    }

    /// Bytes taken now.
    pub(super) fn used(&self) -> u64 {
        self.used.load()
    }

    /// Bytes taken now for one role.
    pub(super) fn used_by(&self, role: Role) -> u64 {
        self.role(role).load()
    }

    /// The most bytes ever taken at once.
    pub(super) fn peak(&self) -> u64 {
        self.peak.load()
    }

    /// The most bytes ever taken over the limit.
    pub(super) fn overdraft(&self) -> u64 {
        self.overdraft.load()
    }

    #[expect(
        clippy::indexing_slicing,
        reason = "the array has one counter for each role"
    )]
    fn role(&self, role: Role) -> &C {
        &self.roles[role as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use shuttle::sync::Arc;
    use shuttle::sync::atomic::AtomicU64 as CheckedU64;
    use shuttle::thread;

    impl AtomicCounter for CheckedU64 {
        fn at(value: u64) -> Self {
            CheckedU64::new(value)
        }
        fn load(&self) -> u64 {
            self.load(Ordering::SeqCst)
        }
        fn add(&self, value: u64) -> u64 {
            self.fetch_add(value, Ordering::SeqCst)
        }
        fn set(&self, value: u64) {
            self.store(value, Ordering::SeqCst);
        }
        fn sub(&self, value: u64) -> u64 {
            self.fetch_sub(value, Ordering::SeqCst)
        }
        fn raise(&self, value: u64) {
            self.fetch_max(value, Ordering::SeqCst);
        }
        fn swap_if(&self, from: u64, to: u64) -> Result<(), u64> {
            self.compare_exchange(from, to, Ordering::SeqCst, Ordering::SeqCst)
                .map(drop)
        }
    }

    fn contend() {
        const LIMIT: u64 = 100;
        let ledger = Arc::new(Ledger::<CheckedU64>::new(LIMIT));
        let threads: Vec<_> = [(Role::Data, 60), (Role::Memtable, 50), (Role::Data, 30)]
            .into_iter()
            .map(|(role, bytes)| {
                let ledger = Arc::clone(&ledger);
                thread::spawn(move || {
                    for _ in 0..3 {
                        if ledger.try_take(role, bytes).is_ok() {
                            let of_role = ledger.used_by(role);
                            let used = ledger.used();
                            assert!(used <= LIMIT, "{used} used of {LIMIT}");
                            assert!(of_role >= bytes, "a role counts what it took");
                            ledger.release(role, bytes);
                        }
                    }
                })
            })
            .collect();
        for thread in threads {
            thread.join().unwrap();
        }
        assert_eq!(ledger.used(), 0);
        assert!(ledger.peak() >= 50 && ledger.peak() <= LIMIT);
        assert_eq!(ledger.overdraft(), 0);
        for role in Role::ALL {
            assert_eq!(ledger.used_by(role), 0);
        }
    }

    fn contend_for_a_share() {
        const SHARE: u64 = 60;
        let ledger = Arc::new(Ledger::<CheckedU64>::new(100));
        let threads: Vec<_> = [30, 30, 40]
            .into_iter()
            .map(|bytes| {
                let ledger = Arc::clone(&ledger);
                thread::spawn(move || {
                    for _ in 0..3 {
                        match ledger.try_take_within(Role::Memtable, bytes, SHARE) {
                            Ok(()) => {
                                let taken = ledger.used_by(Role::Memtable);
                                assert!(taken <= SHARE && taken >= bytes, "{taken}");
                                ledger.release(Role::Memtable, bytes);
                            }
                            Err(short) => assert_ne!(short, ShareShortage::OfLimit(Shortage(0))),
                        }
                    }
                })
            })
            .collect();
        for thread in threads {
            thread.join().unwrap();
        }
        assert_eq!((ledger.used(), ledger.used_by(Role::Memtable)), (0, 0));
    }

    /// Threads that pin and go on holding, beside one that makes the limit smaller: the smaller one
    /// is in force as soon as pins are within its share, and not before.
    fn contend_for_pins() {
        let ledger = Arc::new(Ledger::<CheckedU64>::new(120));
        let pinning = |ledger: Arc<Ledger<CheckedU64>>, bytes| {
            move || {
                let given_up = ledger.try_pin(bytes);
                if given_up {
                    ledger.unpin(bytes);
                }
                u64::from(ledger.try_pin(bytes)) * bytes
            }
        };
        let threads: Vec<_> = [4, 7, 11]
            .into_iter()
            .map(|bytes| thread::spawn(pinning(Arc::clone(&ledger), bytes)))
            .collect();
        ledger.set_limit(48, 0);
        let held: u64 = threads.into_iter().map(|one| one.join().unwrap()).sum();
        let read = |counter| AtomicCounter::load(counter);
        assert_eq!(read(&ledger.pinned), held);
        assert!(held <= 20, "{held}");
        let in_force = read(&ledger.ceiling) == 48;
        assert_eq!(in_force, held <= 8, "{held} are pinned");
        ledger.unpin(held);
        assert_eq!((read(&ledger.pinned), read(&ledger.ceiling)), (0, 48));
    }

    /// Threads that take what may pass the limit, as long as an earlier one bounds it, beside one
    /// that makes it smaller: the smaller one is not in force before what is held fits.
    fn contend_for_what_is_essential() {
        let ledger = Arc::new(Ledger::<CheckedU64>::new(120));
        let taking = |ledger: Arc<Ledger<CheckedU64>>, bytes| {
            move || {
                let given_back = ledger.take_within_bound(Role::Data, bytes);
                if given_back {
                    ledger.release(Role::Data, bytes);
                }
                u64::from(ledger.take_within_bound(Role::Data, bytes)) * bytes
            }
        };
        let threads: Vec<_> = [20, 35, 50]
            .into_iter()
            .map(|bytes| thread::spawn(taking(Arc::clone(&ledger), bytes)))
            .collect();
        ledger.set_limit(60, 0);
        let held: u64 = threads.into_iter().map(|one| one.join().unwrap()).sum();
        assert_eq!((ledger.used(), ledger.overdraft()), (held, 0));
        let in_force = || AtomicCounter::load(&ledger.ceiling) == 60;
        assert!(held <= 60 || !in_force(), "{held} are held");
        ledger.release(Role::Data, held);
        assert!(in_force());
    }

    #[test]
    fn what_is_essential_stays_within_its_bound_in_random_schedules() {
        shuttle::check_random(contend_for_what_is_essential, 2000);
        shuttle::check_pct(contend_for_what_is_essential, 1000, 3);
    }

    #[test]
    fn pins_hold_in_random_schedules() {
        shuttle::check_random(contend_for_pins, 2000);
        shuttle::check_pct(contend_for_pins, 1000, 3);
    }

    #[test]
    fn a_roles_share_holds_in_random_schedules() {
        shuttle::check_random(contend_for_a_share, 2000);
        shuttle::check_pct(contend_for_a_share, 1000, 3);
    }

    #[test]
    fn the_limit_holds_in_random_schedules() {
        shuttle::check_random(contend, 2000);
        shuttle::check_pct(contend, 1000, 3);
    }
}
