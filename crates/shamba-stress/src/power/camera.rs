//! Takes what a power failure could leave, while a workload runs, with how far the workload had
//! come.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use shamba::fs::{FaultFs, Faults, Fs, MemFs, Op};

use super::history::Progress;
use super::lying::{Dropped, LyingFs};
use crate::common::Rng;

/// A file system as a power failure left it, and how far the writer had come.
pub struct Crash {
    pub fs: MemFs,
    pub progress: Progress,
    pub at: String,
    /// Checkpoints that were finished: how many batches each holds.
    pub checkpoints: Vec<usize>,
}

/// Takes crashes at random operations, and just before and after syncs and renames.
pub struct Camera {
    fs: MemFs,
    faults: Faults,
    started: AtomicUsize,
    durable: AtomicUsize,
    checkpoints: Mutex<Vec<usize>>,
    crashes: Mutex<Vec<Crash>>,
    rng: Mutex<Rng>,
    /// Whether the operation before was a boundary, so that the moment after it is likely too.
    after_boundary: AtomicBool,
    /// One in so many operations is taken; of boundaries, four times as many.
    sparseness: u64,
    most: usize,
}

impl Camera {
    pub fn new(fs: &MemFs, rng: Rng, sparseness: u64, most: usize) -> Arc<Self> {
        Arc::new(Camera {
            fs: fs.clone(),
            faults: Faults::new(),
            started: AtomicUsize::new(0),
            durable: AtomicUsize::new(0),
            checkpoints: Mutex::default(),
            crashes: Mutex::default(),
            rng: Mutex::new(rng),
            after_boundary: AtomicBool::new(false),
            sparseness,
            most,
        })
    }

    /// The file system to run the workload on.
    pub fn watch(self: &Arc<Self>, dropped: Option<Dropped>) -> Arc<dyn Fs> {
        let camera = self.clone();
        let see = move |op, path: &Path| camera.see(op, path);
        self.faults.set_hook(Some(Arc::new(see)));
        let disk: Arc<dyn Fs> = match dropped {
            Some(dropped) => Arc::new(LyingFs::new(Arc::new(self.fs.clone()), dropped)),
            None => Arc::new(self.fs.clone()),
        };
        Arc::new(FaultFs::new(disk, self.faults.clone()))
    }

    /// Where failures are planned.
    pub fn faults(&self) -> &Faults {
        &self.faults
    }

    /// Lets go of itself: it is held by the hook that sees operations.
    pub fn stop(&self) {
        self.faults.set_hook(None);
    }

    pub fn started(&self, batches: usize) {
        self.started.store(batches, Ordering::SeqCst);
    }

    pub fn durable(&self, batches: usize) {
        self.durable.store(batches, Ordering::SeqCst);
    }

    pub fn checkpoint(&self, batches: usize) {
        self.checkpoints.lock().unwrap().push(batches);
    }

    pub fn crashes(&self) -> Vec<Crash> {
        std::mem::take(&mut self.crashes.lock().unwrap())
    }

    /// How many were taken.
    pub fn taken(&self) -> usize {
        self.crashes.lock().unwrap().len()
    }

    /// Forgets those taken after so many.
    pub fn forget_after(&self, taken: usize) {
        self.crashes.lock().unwrap().truncate(taken);
    }

    fn see(&self, op: Op, path: &Path) {
        if matches!(op, Op::Read | Op::Open | Op::List | Op::Exists) {
            return;
        }
        let boundary = matches!(op, Op::Sync | Op::SyncDir | Op::Rename | Op::Remove);
        let after = self.after_boundary.swap(boundary, Ordering::SeqCst);
        let likely = if boundary || after { 4 } else { 1 };
        let seed = {
            let mut rng = self.rng.lock().unwrap();
            (rng.below(self.sparseness) < likely).then(|| rng.next())
        };
        if let Some(seed) = seed {
            self.take(seed, format!("before {op:?} of {}", path.display()));
        }
    }

    pub fn take(&self, seed: u64, at: String) {
        if self.crashes.lock().unwrap().len() >= self.most {
            return;
        }
        // In this order the two numbers hold whatever other threads do meanwhile.
        let checkpoints = self.checkpoints.lock().unwrap().clone();
        let durable = self.durable.load(Ordering::SeqCst);
        let fs = self.fs.crash_clone(seed);
        let started = self.started.load(Ordering::SeqCst);
        self.crashes.lock().unwrap().push(Crash {
            fs,
            progress: Progress { started, durable },
            at,
            checkpoints,
        });
    }
}
