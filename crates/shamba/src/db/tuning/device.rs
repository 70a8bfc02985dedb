//! How quick the storage is: measured once, when it is first asked for, with a file of its own.
//!
//! The file is written, read and removed in the database's folder; one that a crash leaves behind
//! is removed by the next open. No operation of callers is timed.

use std::io;
use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;

use crate::budget::{Role, measuring_buffer};
use crate::db::context::DbContext;
use crate::error::{Error, Result};
use crate::fs::{Access, AlignedBuf, BlockKind, PAGE, Purpose, ReadTag};
use crate::options::DeviceCosts;

/// The file's name.
const FILE: &str = "DEVICE.tmp";

/// Pages of the file.
const PAGES: usize = 1024;

/// Reads of one page that are timed.
const READS: usize = 64;

/// Knows what the storage's operations cost, once somebody has asked. Thread-safe.
pub(super) struct DeviceMeter {
    shared: Arc<DbContext>,
    known: Mutex<Option<DeviceCosts>>,
}

impl DeviceMeter {
    pub(super) fn new(shared: &Arc<DbContext>) -> Self {
        DeviceMeter {
            shared: shared.clone(),
            known: Mutex::new(None),
        }
    }

    /// The costs that the options state, or else what was measured.
    pub(super) fn costs(&self) -> Result<DeviceCosts> {
        if let Some(stated) = self.shared.options().device {
            return Ok(stated);
        }
        let mut known = self.known.lock();
        if let Some(known) = *known {
            return Ok(known);
        }
        if self.shared.options().read_only {
            return Err(Error::ReadOnly);
        }
        let path = self.shared.dir().join(FILE);
        let measured = self.measure();
        let removed = self.shared.fs().remove(&path);
        let measured = measured.map_err(|e| Error::io("measure", &path, e))?;
        removed.map_err(|e| Error::io("remove", &path, e))?;
        *known = Some(measured);
        Ok(measured)
    }

    fn measure(&self) -> io::Result<DeviceCosts> {
        let (fs, path) = (self.shared.fs(), self.shared.dir().join(FILE));
        let budget = self.shared.budget();
        let pages = usize::try_from(measuring_buffer(budget.limit())).unwrap_or(PAGE) / PAGE;
        let bytes = pages.clamp(1, 64) * PAGE;
        let _held = budget.reserve(Role::Compaction, 2 * bytes as u64);
        let mut buffer = AlignedBuf::zeroed(bytes);
        let parts = PAGES * PAGE / bytes;
        let seconds = |since: Instant, pages: usize| since.elapsed().as_secs_f64() / pages as f64;
        // Writing, as tables are written.
        let started = Instant::now();
        let mut file = fs.create(&path, Access::Direct)?;
        for _ in 0..parts {
            file.append(&buffer)?;
        }
        file.sync()?;
        let write = seconds(started, parts * bytes / PAGE);
        drop(file);
        let file = fs.open(&path, Access::Direct)?;
        let tag = ReadTag {
            kind: BlockKind::Data,
            last: None,
            purpose: Purpose::Background,
        };
        // Reading in order, as merges read.
        let started = Instant::now();
        for part in 0..parts {
            file.read_exact_at(&mut buffer, (part * bytes) as u64, tag)?;
        }
        let read = seconds(started, parts * bytes / PAGE);
        // Reading a page here and there, as lookups do.
        let mut page = AlignedBuf::zeroed(PAGE);
        let mut times = Vec::with_capacity(READS);
        for number in 0..READS {
            // An odd step goes round through all of a power of two.
            let at = (number * 397 % (parts * bytes / PAGE)) * PAGE;
            let started = Instant::now();
            file.read_exact_at(&mut page, at as u64, tag)?;
            times.push(seconds(started, 1));
        }
        times.sort_by(f64::total_cmp);
        let median = times.get(READS / 2).copied().unwrap_or_default();
        // What is too quick to be timed is memory.
        let random = median.max(1e-9);
        Ok(DeviceCosts {
            read_seconds: random,
            write_cost: (write / random).clamp(0.01, 100.0),
            merge_read_cost: (read / random).clamp(0.01, 1.0),
        })
    }
}
