//! What a storage device's operations cost.

use crate::error::{Error, Result};

/// What operations of the storage cost.
///
/// ```
/// use shamba::{DeviceCosts, Options};
/// // 80 µs a read; merges write at a tenth of that for each page, and read at a fifth.
/// let device = DeviceCosts::new(80e-6).write_cost(0.1).merge_read_cost(0.2);
/// Options::new().device(device).validate().unwrap();
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct DeviceCosts {
    /// Seconds that the read of a page of 4 KiB at a random place takes, one at a time.
    pub read_seconds: f64,
    /// What writing a page costs in a long sequence, as flushes and merges do it, in such reads.
    pub write_cost: f64,
    /// What reading a page costs in a long sequence, as merges do it, in such reads: 1 where pages
    /// have their price however they are asked for, less where a device reads ahead or counts
    /// requests.
    pub merge_read_cost: f64,
}

impl DeviceCosts {
    /// A device whose reads of a page take so many seconds each, and on which pages cost the same
    /// whether they are read or written, and in whatever order.
    #[must_use]
    pub const fn new(read_seconds: f64) -> Self {
        DeviceCosts {
            read_seconds,
            write_cost: 1.0,
            merge_read_cost: 1.0,
        }
    }

    pub(crate) fn validate(&self) -> Result<()> {
        let ok = self.read_seconds.is_finite()
            && self.read_seconds > 0.0
            && [self.write_cost, self.merge_read_cost]
                .iter()
                .all(|cost| cost.is_finite() && *cost >= 0.0);
        if ok {
            Ok(())
        } else {
            Err(Error::option(
                "device",
                format!("{self:?}: read_seconds must be above 0, the costs at least 0"),
            ))
        }
    }
}
