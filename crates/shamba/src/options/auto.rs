//! When a keyspace changes its design by itself.

use crate::error::{Error, Result};

/// A keyspace looks for a better design every so often, and moves to it if that pays.
///
/// It asks what [`Keyspace::advise`](crate::Keyspace::advise) answers. It moves when three answers
/// in a row say that over the next `horizon` operations the better design saves more than `factor`
/// times what the move costs, both in reads of a page, and more than a tenth of its own cost; and
/// after a move not again before a tenth of the horizon has passed. So a workload that changes back
/// and forth faster than that is taken for the mixture that it is, and one that turned is followed.
///
/// ```
/// use shamba::{AutoDesign, KeyspaceOptions};
/// let auto_design = AutoDesign::new().horizon(5_000_000);
/// KeyspaceOptions::new().auto_design(auto_design).validate().unwrap();
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct AutoDesign {
    /// Operations after which it asks again, at least 1000. Default 32,768. What was done before
    /// counts half after 8,192.
    pub every: u64,
    /// Operations over which a move must pay, at least `every`. Default 10,000,000.
    pub horizon: u64,
    /// How many times its cost a move must save, at least 1. Default 2.
    pub factor: f64,
}

impl Default for AutoDesign {
    fn default() -> Self {
        Self::new()
    }
}

impl AutoDesign {
    /// The defaults.
    #[must_use]
    pub const fn new() -> Self {
        AutoDesign {
            every: 32_768,
            horizon: 10_000_000,
            factor: 2.0,
        }
    }

    pub(super) fn validate(&self) -> Result<()> {
        if self.every < 1000 || self.horizon < self.every {
            let what = format!(
                "every {} and horizon {}: every is at least 1000, the horizon at least every",
                self.every, self.horizon
            );
            return Err(Error::option("auto_design", what));
        }
        if self.factor.is_finite() && self.factor >= 1.0 {
            Ok(())
        } else {
            Err(Error::option(
                "auto_design.factor",
                format!("{} is not a number of at least 1", self.factor),
            ))
        }
    }
}
