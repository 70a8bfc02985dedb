//! [`MemoryBudget`]: the one number a caller gives, with the block cache and the I/O buffers that
//! are kept under it. Thread-safe; clones are the same budget.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use super::{BlockCache, CacheStats, Eviction, IoPool, Store};
use crate::base::size::parse_size;
use crate::budget::{Budget, MIN_MEMORY, MemoryStats, come_down_to, container_memory};
use crate::error::{Error, Result};
use crate::fs::read_small;

/// The scratch buffer every budget keeps, so that a read never has to wait for memory: two pages.
const GUARANTEED_IO: usize = 8 << 10;

/// Checks that a budget is at least [`MIN_MEMORY`].
pub(crate) fn check_limit(limit: u64) -> Result<()> {
    if limit >= MIN_MEMORY {
        return Ok(());
    }
    Err(Error::option(
        "memory",
        format!(
            "a budget of {limit} bytes is too small; the least is {} MiB",
            MIN_MEMORY >> 20
        ),
    ))
}

/// A bound on memory: memtables, cached blocks, table handles, iterators and buffers of every
/// database it is given to. Clones are the same budget, so that several databases can share one.
///
/// When the budget is used up the engine gets slower; it does not fail.
///
/// ```
/// use shamba::MemoryBudget;
/// let memory = MemoryBudget::bytes(64 << 20);
/// assert_eq!(memory.limit(), 64 << 20);
/// ```
#[derive(Clone)]
pub struct MemoryBudget {
    budget: Arc<Budget>,
    cache: Arc<BlockCache>,
    io: Arc<IoPool>,
}

/// Memory by role, and what the cache does.
#[derive(Debug, Clone)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct MemoryUsage {
    /// The budget and its accounts.
    #[cfg_attr(feature = "serde", serde(flatten))]
    pub budget: MemoryStats,
    /// The block cache by kind of block.
    pub cache: CacheStats,
}

impl MemoryBudget {
    /// A budget of so many bytes. Opening a database checks that it is at least
    /// [`MIN_MEMORY`](crate::MIN_MEMORY).
    #[must_use]
    pub fn bytes(limit: u64) -> Self {
        let budget = Budget::new(limit);
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let store = Store::new(budget.clone());
        let cache = BlockCache::new(store.clone(), BlockCache::shards_for(limit, threads));
        let io = IoPool::new(store, GUARANTEED_IO);
        MemoryBudget { budget, cache, io }
    }

    /// A share (0 to 1) of the memory of the container this process runs in (the limits of control
    /// groups v1 and v2 along its path), or of the machine where there is no limit.
    #[must_use]
    pub fn share_of_container(share: f64) -> Self {
        let memory = container_memory(read_small);
        MemoryBudget::bytes((memory as f64 * share.clamp(0.0, 1.0)) as u64)
    }

    /// Decides which blocks leave the cache when it is full, from now on and for every database
    /// that shares this budget. The default is [`Eviction::ExpectedReads`].
    pub fn set_eviction(&self, eviction: Eviction) {
        self.cache.set_eviction(eviction);
    }

    /// Changes the budget, for every database that shares it, while they run.
    ///
    /// A larger one is there to be used at once. Of a smaller one nothing that reads or writes ever
    /// fails: cached blocks and idle buffers give way before this returns, then tables that nobody
    /// uses are closed; memtables are flushed at the next write (by background threads within about
    /// a second without one), or by [`Db::flush`](crate::Db::flush). What callers hold (values,
    /// iterators), memtables until they are flushed and running compactions were let in under the
    /// budget before, and stay until they are done. Until large writes, batches of lookups, flushes
    /// and compactions that began before are over, and no more than half of the new budget is used
    /// for other things than cached blocks, that earlier budget is the bound of what cannot do
    /// without memory; only what passes the larger of the two counts as
    /// [`overdraft`](MemoryStats::overdraft). From then on the new one alone is the bound.
    ///
    /// New operands may be a sixteenth of the new budget long; longer ones stored before stay
    /// readable.
    /// Into how many parts the cache is cut for its threads stays as the first budget decided.
    ///
    /// ```
    /// # fn main() -> shamba::Result<()> {
    /// let memory = shamba::MemoryBudget::bytes(64 << 20);
    /// memory.set_limit(16 << 20)?;
    /// assert_eq!(memory.limit(), 16 << 20);
    /// assert!(memory.set_limit(1000).is_err());
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`Error::InvalidOption`] for less than [`MIN_MEMORY`](crate::MIN_MEMORY); nothing changes.
    pub fn set_limit(&self, limit: u64) -> Result<()> {
        check_limit(limit)?;
        self.budget.set_limit(limit);
        if self.budget.used() > come_down_to(limit) {
            self.cache.shrink();
        }
        Ok(())
    }

    /// The budget in bytes.
    #[must_use]
    pub fn limit(&self) -> u64 {
        self.budget.limit()
    }

    /// Memory used now, by role, and what the cache holds.
    #[must_use]
    pub fn usage(&self) -> MemoryUsage {
        MemoryUsage {
            budget: self.budget.stats(),
            cache: self.cache.stats(),
        }
    }

    /// Takes so many bytes for nothing until what it gives is dropped, so that data which are few
    /// meet a budget that is short; `None` where they are not to be had. Counted as
    /// [`Role::IoBuffers`](crate::Role::IoBuffers). With the feature `testing` only.
    #[cfg(feature = "testing")]
    #[must_use]
    pub fn hold(&self, bytes: u64) -> Option<Box<dyn Send + Sync>> {
        let held = self
            .budget
            .try_reserve(crate::budget::Role::IoBuffers, bytes)?;
        Some(Box::new(held))
    }

    /// Keeps entries by themselves in the cache from now on however much memory there is, so that
    /// tests of small data meet them. With the feature `testing` only.
    #[cfg(feature = "testing")]
    pub fn always_keep_entries(&self) {
        self.cache.always_keep_entries();
    }

    pub(crate) fn budget(&self) -> &Arc<Budget> {
        &self.budget
    }

    pub(crate) fn cache(&self) -> &Arc<BlockCache> {
        &self.cache
    }

    pub(crate) fn io_pool(&self) -> &Arc<IoPool> {
        &self.io
    }
}

/// A size ([`parse_size`](crate::parse_size)), or a share of what the container or machine has.
///
/// ```
/// # fn main() -> shamba::Result<()> {
/// use shamba::MemoryBudget;
/// let memory: MemoryBudget = "64M".parse()?;
/// assert_eq!(memory.limit(), 64 << 20);
/// let most: MemoryBudget = "50%".parse()?;
/// # Ok(()) }
/// ```
impl FromStr for MemoryBudget {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let Some(percent) = text.trim_end().strip_suffix('%') else {
            return parse_size(text).map(MemoryBudget::bytes);
        };
        match percent.trim().parse::<f64>() {
            Ok(percent) if percent > 0.0 && percent <= 100.0 => {
                Ok(MemoryBudget::share_of_container(percent / 100.0))
            }
            _ => {
                let what = format!("`{text}` is no share; one is above 0% and at most 100%");
                Err(Error::option("memory", what))
            }
        }
    }
}

impl fmt::Debug for MemoryBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryBudget")
            .field("limit", &self.limit())
            .field("used", &self.budget.used())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_is_a_size_or_a_share() {
        let limit = |text: &str| text.parse::<MemoryBudget>().map(|memory| memory.limit());
        assert_eq!(limit("32MiB").unwrap(), 32 << 20);
        assert_eq!(limit("1 GB").unwrap(), 1_000_000_000);
        let (half, all) = (limit("50%").unwrap(), limit(" 100 % ").unwrap());
        assert!(half.abs_diff(all / 2) <= 1 && all > 0, "{half} of {all}");
        for text in ["", "%", "0%", "-5%", "101%", "NaN%", "-1", "much"] {
            assert!(limit(text).is_err(), "{text}");
        }
    }
}
