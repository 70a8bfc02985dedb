//! Contexts to decompress Zstandard with: about 96 KiB each, so a process has no more of them than
//! it has processors, however many threads read.
//!
//! To make one the processor is asked what it can do, which under a hypervisor takes longer than a
//! block; so they are kept. Thread-safe: who finds none waits for one, which is lent for the time
//! of one block.

use std::sync::LazyLock;

use parking_lot::{Condvar, Mutex};
use zstd::bulk::Decompressor;

/// More would not be at work at the same time, or seldom: blocks are read for much longer than they
/// are decompressed.
const MOST: usize = 16;

#[derive(Default)]
struct ContextState {
    idle: Vec<Decompressor<'static>>,
    /// Idle and lent.
    made: usize,
}

struct Contexts {
    state: Mutex<ContextState>,
    returned: Condvar,
    most: usize,
}

static CONTEXTS: LazyLock<Contexts> = LazyLock::new(|| {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    Contexts::new(processors.min(MOST))
});

/// Lends a context for the time of `work`; `None` if none can be made.
pub(super) fn with<T>(work: impl FnOnce(&mut Decompressor<'static>) -> Option<T>) -> Option<T> {
    CONTEXTS.with(work)
}

impl Contexts {
    fn new(most: usize) -> Self {
        Contexts {
            state: Mutex::default(),
            returned: Condvar::new(),
            most,
        }
    }

    fn with<T>(&self, work: impl FnOnce(&mut Decompressor<'static>) -> Option<T>) -> Option<T> {
        let mut context = self.take()?;
        let done = work(&mut context);
        self.state.lock().idle.push(context);
        self.returned.notify_one();
        done
    }

    fn take(&self) -> Option<Decompressor<'static>> {
        let mut state = self.state.lock();
        loop {
            if let Some(context) = state.idle.pop() {
                return Some(context);
            }
            if state.made < self.most {
                let context = Decompressor::new().ok()?;
                state.made += 1;
                return Some(context);
            }
            self.returned.wait(&mut state);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_threads_share_few_contexts() {
        let contexts = Contexts::new(2);
        let raw = [7; 5_000];
        let stored = zstd::bulk::compress(&raw, 3).unwrap();
        std::thread::scope(|scope| {
            for _ in 0..16 {
                scope.spawn(|| {
                    for _ in 0..50 {
                        let mut out = [0; 5_000];
                        let len = contexts.with(|context| {
                            context.decompress_to_buffer(&stored, &mut out[..]).ok()
                        });
                        assert_eq!((len, out), (Some(5_000), raw));
                    }
                });
            }
        });
        let state = contexts.state.lock();
        assert!(state.made <= 2);
        assert_eq!(state.idle.len(), state.made);
    }
}
