//! What engines offer beyond entries: merges, transactions over two keys, and range deletions.
//!
//! Values of counters and accounts are integers of 64 bits with a sign, little-endian ([`number`]).
//! An engine says of each call whether it can; [`open`] opens a database for one [`Purpose`], since
//! transactions are a database of another kind in some engines.
#[cfg(feature = "fjall")]
use super::fjall;
#[cfg(feature = "rocksdb")]
use super::rocksdb;
use super::{Engine, EngineConfig, Shamba, split};
use crate::{Error, Result};
use std::time::Duration;

/// What a database is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Counters, with a merge operator where the engine has any.
    Counters,
    /// Accounts, with serializable transactions.
    Accounts,
    /// Entries of which ranges are deleted.
    Entries,
    /// Entries that each live for [`TIME_TO_LIVE`].
    Expiring,
}

/// How long entries live that are written to expire.
pub const TIME_TO_LIVE: Duration = Duration::from_secs(2);

/// An engine's merges, transactions and range deletions. Every call may come from any thread.
pub trait DataModel: Engine {
    /// Adds to a counter, by a merge where the engine has them and else in a transaction that reads
    /// and writes it; whether the engine can.
    fn increment(&self, key: &[u8], by: i64) -> Result<bool> {
        let _unwritten = (key, by);
        Ok(false)
    }

    /// Moves an amount from one account to another in a serializable transaction, run again after
    /// each conflict; how many conflicts there were, if the engine can.
    fn transfer(&self, from: &[u8], to: &[u8], amount: i64) -> Result<Option<u64>> {
        let _unwritten = (from, to, amount);
        Ok(None)
    }

    /// Counts the entries whose keys begin with these eight bytes by a scan that knows where it
    /// ends, if the engine can.
    fn count_of(&self, prefix: [u8; 8]) -> Result<Option<usize>> {
        let _unread = prefix;
        Ok(None)
    }

    /// Deletes the keys from `from` on and below `to` in one write; whether the engine can.
    fn delete_range(&self, from: &[u8], to: &[u8]) -> Result<bool> {
        let _unwritten = (from, to);
        Ok(false)
    }
}

/// Opens the engine that `specification` names for a purpose; `None` if it has nothing for it.
///
/// # Errors
/// As [`super::open`].
pub fn open(
    specification: &str,
    config: &EngineConfig,
    purpose: Purpose,
) -> Result<Option<Box<dyn DataModel>>> {
    let (name, settings) = split(specification);
    Ok(match (name, purpose) {
        ("shamba", _) => Some(Box::new(Shamba::open_for(settings, config, purpose)?)),
        #[cfg(feature = "rocksdb")]
        ("rocksdb", Purpose::Accounts) => {
            Some(Box::new(rocksdb::Transactional::open(settings, config)?))
        }
        #[cfg(feature = "rocksdb")]
        ("rocksdb", _) => Some(Box::new(rocksdb::Rocks::open_for(
            settings, config, purpose,
        )?)),
        #[cfg(feature = "fjall")]
        ("fjall", Purpose::Counters | Purpose::Accounts) => {
            Some(Box::new(fjall::Transactional::open(settings, config)?))
        }
        _ if super::available().contains(&name) => None,
        _ => return Err(Error::UnknownEngine(specification.to_owned())),
    })
}

/// The number that a value is.
///
/// # Errors
/// [`Error::WrongAnswer`] if it has not eight bytes.
pub fn number(value: &[u8]) -> Result<i64> {
    let bytes = <[u8; 8]>::try_from(value);
    let wrong = |_| Error::WrongAnswer(format!("a number of {} bytes", value.len()));
    Ok(i64::from_le_bytes(bytes.map_err(wrong)?))
}

/// The number of an account that a transaction read.
///
/// # Errors
/// [`Error::WrongAnswer`] if there is none.
pub(super) fn balance(found: Option<impl AsRef<[u8]>>) -> Result<i64> {
    let missing = || Error::WrongAnswer("an account is missing".into());
    number(found.ok_or_else(missing)?.as_ref())
}
