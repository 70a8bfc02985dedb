//! Scratch buffers, aligned for direct I/O, that pages are read into before their payload is
//! copied to an allocation of its exact size.
//!
//! [`IoPool::acquire`] lends an [`IoBuf`]; dropping it returns the buffer. Thread-safe. Protocol: a
//! thread waits for at most one buffer and for nothing of another borrower while it holds one, so
//! that a wait for a returned buffer always ends. What it can have besides without waiting it asks
//! for with [`IoPool::try_acquire`]. All buffers are charged to [`Role::IoBuffers`]. One buffer is
//! reserved when the pool is made, so a request of its size never needs more memory; a larger one
//! that finds no room waits its turn until no buffer is out, and only then goes over the budget.

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use super::store::{FrameRun, Store};
use crate::budget::{Budget, Reclaim, Role, Shortage, extra_buffers, idle_buffers};
use crate::fs::PAGE;

/// Larger buffers are not kept when they come back, in bytes.
const KEEP_BYTES: usize = 16 * PAGE;

/// How often a waiting request looks whether memory was freed by others than borrowers.
const RECHECK: Duration = Duration::from_millis(5);

struct Buffer {
    /// At least one page.
    bytes: FrameRun,
    /// The buffer reserved at creation, which is never freed.
    permanent: bool,
    /// Bytes that count as lent without waiting.
    extra: u64,
}

impl Buffer {
    fn new(bytes: FrameRun) -> Self {
        Buffer {
            bytes,
            permanent: false,
            extra: 0,
        }
    }

    /// What it is charged, in bytes.
    fn charge(&self) -> u64 {
        self.bytes.len() as u64
    }
}

#[derive(Default)]
struct PoolState {
    idle: Vec<Buffer>,
    /// Bytes of idle buffers that are not permanent.
    idle_bytes: u64,
    /// Buffers lent.
    out: usize,
    /// Bytes lent without waiting.
    extra: u64,
    /// Buffers given back so far.
    returns: u64,
    /// Waiting requests are served in the order of tickets: `served..tickets` are waiting.
    tickets: u64,
    served: u64,
}

impl PoolState {
    fn take_idle(&mut self, len: usize) -> Option<Buffer> {
        let (at, _) = self
            .idle
            .iter()
            .enumerate()
            .filter(|(_, buffer)| buffer.bytes.len() >= len)
            .min_by_key(|(_, buffer)| buffer.bytes.len())?;
        let buffer = self.idle.swap_remove(at);
        if !buffer.permanent {
            self.idle_bytes -= buffer.charge();
        }
        self.out += 1;
        Some(buffer)
    }

    /// Takes out an idle buffer to free.
    fn take_surplus(&mut self) -> Option<Buffer> {
        let at = self.idle.iter().position(|buffer| !buffer.permanent)?;
        let buffer = self.idle.swap_remove(at);
        self.idle_bytes -= buffer.charge();
        Some(buffer)
    }
}

/// A buffer of `len` bytes, if the budget has them or else as `essential` memory.
fn buffer(store: &Arc<Store>, len: usize, essential: bool) -> Option<Buffer> {
    let mut made = store.run(Role::IoBuffers, len / PAGE, 0, None);
    loop {
        let wanted = match made {
            Ok(bytes) => return Some(Buffer::new(bytes)),
            Err(Shortage(wanted)) => wanted,
        };
        // The store's lock is not held meanwhile, so that others may give way; once that is done
        // the place that was found may be another's, and the next one take more.
        let budget = store.budget();
        let purse = match budget.try_reserve(Role::Spare, wanted) {
            None if essential => budget.reserve(Role::Spare, wanted),
            purse => purse?,
        };
        made = store.run(Role::IoBuffers, len / PAGE, 0, Some(purse));
    }
}

/// Lends aligned buffers within a memory budget.
pub(crate) struct IoPool {
    budget: Arc<Budget>,
    store: Arc<Store>,
    state: Mutex<PoolState>,
    returned: Condvar,
}

impl IoPool {
    /// A pool that always has one buffer of at least `guaranteed` bytes, registered as a reclaimer
    /// of its idle buffers.
    pub(crate) fn new(store: Arc<Store>, guaranteed: usize) -> Arc<Self> {
        let budget = Arc::clone(store.budget());
        let mut buffer = buffer(&store, whole_pages(guaranteed), true);
        if let Some(buffer) = &mut buffer {
            buffer.permanent = true;
        }
        Arc::new_cyclic(|this: &Weak<Self>| {
            budget.add_reclaimer(Weak::clone(this) as Weak<dyn Reclaim>);
            IoPool {
                budget,
                store,
                state: Mutex::new(PoolState {
                    idle: buffer.into_iter().collect(),
                    ..PoolState::default()
                }),
                returned: Condvar::new(),
            }
        })
    }

    /// Lends a buffer of `len` bytes rounded up to pages (at least one), with any contents.
    pub(crate) fn acquire(self: &Arc<Self>, len: usize) -> IoBuf {
        let len = whole_pages(len);
        let buffer = self.acquire_exact(len);
        IoBuf {
            pool: Arc::clone(self),
            buffer: Some(buffer),
            len,
        }
    }

    /// Lends one more buffer to a thread that has one, unless memory is short or others wait.
    pub(crate) fn try_acquire(self: &Arc<Self>, len: usize) -> Option<IoBuf> {
        let len = whole_pages(len);
        let bytes = len as u64;
        let mut state = self.state.lock();
        let room = extra_buffers(self.budget.limit());
        if state.tickets != state.served || state.extra + bytes > room {
            return None;
        }
        let mut buffer = match state.take_idle(len) {
            Some(buffer) => buffer,
            None => {
                // The pool is itself a reclaimer, so the budget is asked without its lock.
                drop(state);
                let buffer = buffer(&self.store, len, false)?;
                state = self.state.lock();
                state.out += 1;
                buffer
            }
        };
        state.extra += bytes;
        buffer.extra = bytes;
        Some(IoBuf {
            pool: Arc::clone(self),
            buffer: Some(buffer),
            len,
        })
    }

    fn acquire_exact(&self, len: usize) -> Buffer {
        let mut state = self.state.lock();
        if state.tickets == state.served
            && let Some(buffer) = state.take_idle(len)
        {
            return buffer;
        }
        let ticket = state.tickets;
        state.tickets += 1;
        while state.served != ticket {
            self.returned.wait(&mut state);
        }
        loop {
            if let Some(buffer) = state.take_idle(len) {
                state.served += 1;
                self.returned.notify_all();
                return buffer;
            }
            // Checked under the same lock as the idle buffers: with none out, none will come back.
            let last_resort = state.out == 0;
            let returns = state.returns;
            // The pool is itself a reclaimer, so the budget is asked without its lock. Nobody else
            // passes this point meanwhile: it is this ticket's turn.
            drop(state);
            let made = buffer(&self.store, len, last_resort);
            state = self.state.lock();
            if let Some(buffer) = made {
                state.out += 1;
                state.served += 1;
                self.returned.notify_all();
                return buffer;
            }
            if state.returns == returns {
                self.returned.wait_for(&mut state, RECHECK);
            }
        }
    }

    fn give_back(&self, mut buffer: Buffer) {
        let mut state = self.state.lock();
        state.extra -= std::mem::take(&mut buffer.extra);
        let bytes = buffer.charge();
        let room = idle_buffers(self.budget.limit());
        let keep = buffer.bytes.len() <= KEEP_BYTES && state.idle_bytes + bytes <= room;
        if buffer.permanent {
            state.idle.push(buffer);
        } else if keep {
            state.idle_bytes += bytes;
            state.idle.push(buffer);
        } else {
            // Before the count of lent buffers falls: a request of the last resort may come at
            // once.
            drop(buffer);
        }
        state.out -= 1;
        state.returns += 1;
        let waiting = state.tickets != state.served;
        drop(state);
        if waiting {
            self.returned.notify_all();
        }
    }
}

impl Reclaim for IoPool {
    fn reclaim(&self, bytes: u64) -> u64 {
        let mut freed = 0;
        while freed < bytes {
            let Some(surplus) = self.state.lock().take_surplus() else {
                break;
            };
            freed += surplus.charge();
        }
        freed
    }
}

impl std::fmt::Debug for IoPool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("IoPool").finish_non_exhaustive()
    }
}

/// A lent buffer, aligned to a page.
#[derive(Debug)]
pub(crate) struct IoBuf {
    pool: Arc<IoPool>,
    /// Present until drop.
    buffer: Option<Buffer>,
    len: usize,
}

impl std::fmt::Debug for Buffer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Buffer")
            .field("len", &self.bytes.len())
            .finish_non_exhaustive()
    }
}

impl Deref for IoBuf {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        let buffer = self.buffer.as_ref();
        buffer
            .and_then(|buffer| buffer.bytes.get(..self.len))
            .unwrap_or_default()
    }
}

impl DerefMut for IoBuf {
    fn deref_mut(&mut self) -> &mut [u8] {
        let buffer = self.buffer.as_mut();
        buffer
            .and_then(|buffer| buffer.bytes.get_mut(..self.len))
            .unwrap_or_default()
    }
}

impl Drop for IoBuf {
    fn drop(&mut self) {
        if let Some(buffer) = self.buffer.take() {
            self.pool.give_back(buffer);
        }
    }
}

/// `len` rounded up to pages, at least one.
fn whole_pages(len: usize) -> usize {
    len.max(1).next_multiple_of(PAGE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::store::room_for;
    use std::sync::atomic::{AtomicUsize, Ordering};

    const KIB: u64 = 1024;

    #[test]
    fn buffers_are_aligned_and_of_the_length_asked_in_pages() {
        let pool = IoPool::new(Store::new(Budget::new(1 << 20)), 8192);
        for len in [0, 1, 4096, 4097, 8192, 100_000] {
            let mut buf = pool.acquire(len);
            assert_eq!(buf.len(), len.div_ceil(PAGE).max(1) * PAGE);
            assert_eq!(buf.as_ptr() as usize % PAGE, 0);
            buf.fill(0xab);
        }
    }

    #[test]
    fn idle_buffers_are_reused_and_freed_under_pressure() {
        let budget = Budget::new(4 << 20);
        let pool = IoPool::new(Store::new(Arc::clone(&budget)), 8192);
        let both = (pool.acquire(8192), pool.acquire(8192));
        let lent = || budget.used_by(Role::IoBuffers);
        assert_eq!(lent(), 16 * KIB);
        drop(both);
        assert_eq!(lent(), 16 * KIB, "a common size is kept");
        drop(pool.acquire(1 << 20));
        assert_eq!(lent(), 16 * KIB, "a large one is not");
        let rest = budget.limit() - room_for(2);
        let all = budget.try_reserve(Role::Memtable, rest).unwrap();
        assert_eq!(budget.used_by(Role::IoBuffers), 8 * KIB);
        drop(pool.acquire(8192));
        assert_eq!(budget.overdraft(), 0);
        drop((all, pool));
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn more_buffers_are_lent_while_there_is_room_and_nobody_is_waiting() {
        let budget = Budget::new(1 << 20);
        let pool = IoPool::new(Store::new(Arc::clone(&budget)), 8192);
        let first = pool.acquire(4096);
        let more: Vec<_> = std::iter::from_fn(|| pool.try_acquire(4096)).collect();
        assert_eq!(more.len(), 64, "a quarter of the budget");
        let lent = || budget.used_by(Role::IoBuffers);
        assert_eq!(lent(), 8 * KIB + 64 * 4 * KIB);
        drop(more);
        assert_eq!(lent(), 12 * KIB, "the surplus is freed");
        let rest = budget.try_reserve(Role::Memtable, budget.limit() - room_for(2));
        assert!(rest.is_some());
        assert!(pool.try_acquire(4096).is_none(), "no memory");
        assert_eq!(budget.overdraft(), 0);
        drop((rest, first));
        assert!(pool.try_acquire(4096).is_some());
        assert_eq!(pool.state.lock().extra, 0);
    }

    #[test]
    fn threads_without_memory_take_turns() {
        let budget = Budget::new(56 * KIB + room_for(2));
        let pool = IoPool::new(Store::new(Arc::clone(&budget)), 8192);
        let _others = budget.reserve(Role::Memtable, 56 * KIB);
        let out = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..200 {
                        let mut buf = pool.acquire(8192);
                        assert_eq!(out.fetch_add(1, Ordering::SeqCst), 0);
                        buf.fill(1);
                        out.fetch_sub(1, Ordering::SeqCst);
                    }
                });
            }
        });
        assert_eq!(budget.overdraft(), 0);
    }

    #[test]
    fn a_large_request_is_served_though_small_ones_keep_coming() {
        let budget = Budget::new(56 * KIB + room_for(2));
        let pool = IoPool::new(Store::new(Arc::clone(&budget)), 8192);
        let _others = budget.reserve(Role::Memtable, 56 * KIB);
        let served = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    while served.load(Ordering::SeqCst) < 20 {
                        drop(pool.acquire(4096));
                    }
                });
            }
            for _ in 0..2 {
                scope.spawn(|| {
                    for _ in 0..10 {
                        drop(pool.acquire(40 << 10));
                        served.fetch_add(1, Ordering::SeqCst);
                    }
                });
            }
        });
        assert_eq!(budget.overdraft(), 40 * KIB, "one at a time");
        assert_eq!(budget.used(), 56 * KIB + room_for(2));
    }
}
