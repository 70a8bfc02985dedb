//! Several reads at once: through an io_uring where the system has one and allows it (and the
//! feature `io-uring` is on), else by a few threads that live as long as the batch.
//!
//! [`Readers`] is shared by a file system and thread-safe: a batch takes an idle ring, or makes
//! one, and puts it back. A read that a ring could not finish (a short one, a refused one) is left
//! to the caller, who reads it in the ordinary way and so meets the ordinary errors.

use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use super::raw_read::RawRead;
#[cfg(all(target_os = "linux", feature = "io-uring"))]
use super::uring::Ring;

/// The most threads that read one batch, the caller's own among them. A thread costs about as much
/// to start as a read of a fast device takes.
const THREADS: usize = 16;

/// More rings than this are not kept idle.
#[cfg(all(target_os = "linux", feature = "io-uring"))]
const IDLE: usize = 8;

/// What batches are read with.
#[derive(Debug, Default)]
pub(super) struct Readers {
    /// No ring can be had, or none is wanted.
    without_rings: AtomicBool,
    #[cfg(all(target_os = "linux", feature = "io-uring"))]
    idle: Mutex<Vec<Ring>>,
}

impl Readers {
    pub(super) fn without_rings() -> Self {
        let readers = Readers::default();
        readers.without_rings.store(true, Ordering::Relaxed);
        readers
    }

    /// Whether batches are read by threads.
    pub(super) fn by_threads(&self) -> bool {
        cfg!(not(all(target_os = "linux", feature = "io-uring")))
            || self.without_rings.load(Ordering::Relaxed)
    }

    /// Tries the reads through a ring; false if there is none.
    #[cfg(all(target_os = "linux", feature = "io-uring"))]
    pub(super) fn read_by_ring(&self, reads: &mut [RawRead<'_>]) -> bool {
        if self.by_threads() {
            return false;
        }
        let idle = self.idle.lock().pop();
        let ring = match idle.map_or_else(Ring::new, Ok) {
            Ok(ring) => ring,
            Err(error) => {
                // Too many open files, or too little memory, may pass; the rest will not.
                let passing = matches!(error.raw_os_error(), Some(code) if
                    [rustix::io::Errno::MFILE, rustix::io::Errno::NFILE, rustix::io::Errno::NOMEM]
                        .iter().any(|errno| errno.raw_os_error() == code));
                if !passing && !self.without_rings.swap(true, Ordering::Relaxed) {
                    log::info!("no io_uring ({error}); reads are batched by threads");
                }
                return false;
            }
        };
        if let Some(ring) = ring.read(reads) {
            let mut idle = self.idle.lock();
            if idle.len() < IDLE {
                idle.push(ring);
            }
        }
        true
    }

    /// There is no ring.
    #[cfg(not(all(target_os = "linux", feature = "io-uring")))]
    pub(super) fn read_by_ring(&self, _reads: &mut [RawRead<'_>]) -> bool {
        false
    }
}

/// Does `work` on every item, several at a time. Where no thread can be started the caller does it
/// alone.
pub(super) fn by_threads<T: Send>(items: &mut [T], work: impl Fn(&mut T) + Sync) {
    let helpers = items.len().min(THREADS).saturating_sub(1);
    let items = Mutex::new(items.iter_mut());
    let run = || {
        loop {
            // Bound first, so that the lock is not held during the work.
            let item = items.lock().next();
            let Some(item) = item else { break };
            work(item);
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..helpers {
            let builder = std::thread::Builder::new().name("shamba-read".into());
            if builder
                .stack_size(128 << 10)
                .spawn_scoped(scope, run)
                .is_err()
            {
                break;
            }
        }
        run();
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_do_everything_once() {
        for len in [0, 1, 2, 500] {
            let mut items = vec![0; len];
            by_threads(&mut items, |item| *item += 1);
            assert_eq!(items, vec![1; len]);
        }
    }
}
