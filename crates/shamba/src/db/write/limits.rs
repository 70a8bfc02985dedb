//! How large keys, values and batches may be under the present budget.

use super::WritePath;
use crate::base::key::{MAX_KEY_LEN, MAX_VALUE_LEN};
use crate::budget::{
    least_limit_for_batch, least_limit_for_key, least_limit_for_range_end, least_limit_for_value,
    most_of_batch, most_of_key, most_of_range_end, most_of_value,
};
use crate::error::{Error, Result};

/// The largest batch, in bytes: that of a log record.
const MAX_BATCH: usize = 256 << 20;

/// The least budget under which so many bytes are accepted, where at most `most` ever are.
fn needed(len: usize, most: usize, least_limit: fn(u64) -> u64) -> Option<u64> {
    (len <= most).then(|| least_limit(len as u64))
}

impl WritePath {
    /// The longest key accepted under the present budget.
    fn max_key(&self) -> usize {
        usize::try_from(most_of_key(self.shared.limit()))
            .unwrap_or(usize::MAX)
            .min(MAX_KEY_LEN)
    }

    /// The longest value accepted under the present budget.
    pub(in crate::db) fn max_value(&self) -> usize {
        usize::try_from(most_of_value(self.shared.limit()))
            .unwrap_or(usize::MAX)
            .min(MAX_VALUE_LEN)
    }

    /// The most memory that a batch may take under the present budget.
    pub(in crate::db) fn max_batch(&self) -> usize {
        usize::try_from(most_of_batch(self.shared.limit()))
            .unwrap_or(usize::MAX)
            .min(MAX_BATCH)
    }

    /// An error for a key or a value of so many bytes, if it is too large.
    #[inline]
    pub(in crate::db) fn check_sizes(&self, key: usize, value: usize) -> Result<()> {
        let (max_key, max_value) = (self.max_key(), self.max_value());
        if key <= max_key && value <= max_value {
            return Ok(());
        }
        self.refuse_sizes((key, max_key), (value, max_value))
    }

    /// An error for a range with an end of so many bytes, if it is too large. What lies right
    /// behind a key is as long as the key.
    pub(in crate::db) fn check_range(&self, longer_end: usize) -> Result<()> {
        let max = usize::try_from(most_of_range_end(self.shared.limit())).unwrap_or(usize::MAX);
        let max = max.min(MAX_KEY_LEN);
        if longer_end <= max {
            return Ok(());
        }
        self.shared.check_writable()?;
        Err(Error::RangeEndTooLarge {
            len: longer_end,
            max,
            needed: needed(longer_end, MAX_KEY_LEN, least_limit_for_range_end),
        })
    }

    /// An error for a batch that takes so many bytes of memory, if it is too large.
    pub(in crate::db) fn check_batch(&self, len: usize) -> Result<()> {
        let max = self.max_batch();
        if len <= max {
            return Ok(());
        }
        self.shared.check_writable()?;
        Err(Error::BatchTooLarge {
            len,
            max,
            needed: needed(len, MAX_BATCH, least_limit_for_batch),
        })
    }

    /// The same as [`Self::check_sizes`], where one is longer than its most.
    #[cold]
    fn refuse_sizes(
        &self,
        (key, max_key): (usize, usize),
        (value, max_value): (usize, usize),
    ) -> Result<()> {
        // Smaller ones would not be written either.
        self.shared.check_writable()?;
        Err(if key > max_key {
            Error::KeyTooLarge {
                len: key,
                max: max_key,
                needed: needed(key, MAX_KEY_LEN, least_limit_for_key),
            }
        } else {
            Error::ValueTooLarge {
                len: value,
                max: max_value,
                needed: needed(value, MAX_VALUE_LEN, least_limit_for_value),
            }
        })
    }
}
