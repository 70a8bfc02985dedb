//! How quick the storage is: measured once, when it is first asked for, with a file of its own.
//!
//! The file is written, read and removed in the database's folder; one that a crash leaves behind is
//! removed by the next open. No operation of callers is timed.

use std::io;
use std::time::Instant;

use serde::{Deserialize, Serialize};

use super::DbInner;
use crate::budget::Role;
use crate::error::{Error, Result};
use crate::fs::{Access, AlignedBuf, BlockKind, PAGE, Purpose, ReadTag};

/// The file's name.
const FILE: &str = "DEVICE.tmp";

/// Pages of the file.
const PAGES: usize = 1024;

/// Reads of one page that are timed.
const READS: usize = 64;

/// What operations of the storage cost.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct DeviceCosts {
    /// Seconds that the read of a page of 4 KiB at a random place takes, one at a time.
    pub read_seconds: f64,
    /// What writing a page costs in a long sequence, as flushes and merges do it, in such reads.
    pub write_cost: f64,
    /// What reading a page costs in a long sequence, as merges do it, in such reads: 1 where pages have
    /// their price however they are asked for, less where a device reads ahead or counts requests.
    pub merge_read_cost: f64,
}

impl DeviceCosts {
    pub(crate) fn validate(&self) -> Result<()> {
        let ok = self.read_seconds.is_finite()
            && self.read_seconds > 0.0
            && [self.write_cost, self.merge_read_cost]
                .iter()
                .all(|cost| cost.is_finite() && *cost >= 0.0);
        match ok {
            true => Ok(()),
            false => Err(Error::option(
                "device",
                format!("{self:?}: read_seconds must be above 0, the costs at least 0"),
            )),
        }
    }
}

impl DbInner {
    /// The costs that the options state, or else what was measured.
    pub(super) fn device(&self) -> Result<DeviceCosts> {
        if let Some(stated) = self.options.device {
            return Ok(stated);
        }
        let mut known = self.device.lock();
        if let Some(known) = *known {
            return Ok(known);
        }
        if self.options.read_only {
            return Err(Error::ReadOnly);
        }
        let path = self.dir.join(FILE);
        let measured = self.measure();
        let removed = self.options.fs.remove(&path);
        let measured = measured.map_err(|e| Error::io("measure", &path, e))?;
        removed.map_err(|e| Error::io("remove", &path, e))?;
        *known = Some(measured);
        Ok(measured)
    }

    fn measure(&self) -> io::Result<DeviceCosts> {
        let (fs, path) = (&self.options.fs, self.dir.join(FILE));
        let budget = self.options.memory.budget();
        let pages = usize::try_from(budget.limit() / 64).unwrap_or(PAGE) / PAGE;
        let bytes = pages.clamp(1, 64) * PAGE;
        let _held = budget.reserve(Role::Compaction, 2 * bytes as u64);
        let mut buffer = AlignedBuf::zeroed(bytes);
        let parts = PAGES * PAGE / bytes;
        let seconds = |since: Instant, pages: usize| since.elapsed().as_secs_f64() / pages as f64;
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
        let started = Instant::now();
        for part in 0..parts {
            file.read_exact_at(&mut buffer, (part * bytes) as u64, tag)?;
        }
        let read = seconds(started, parts * bytes / PAGE);
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
