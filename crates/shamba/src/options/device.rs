//! What a storage device's operations cost.

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// What operations of the storage cost.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
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
