//! What a caller may say of a single write.

use std::time::Duration;

/// How durable a write is before it is acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
#[non_exhaustive]
pub enum Durability {
    /// Not logged: lost in a crash of the process or the machine unless it was flushed to a table
    /// first. Of a batch written so, a part may survive.
    None,
    /// Handed to the operating system: survives a crash of the process, not of the machine.
    #[default]
    Buffered,
    /// On storage: survives a crash of the machine. Writers waiting at the same time share one
    /// sync (group commit).
    Synced,
}

/// Options of one write.
///
/// ```
/// use shamba::{Durability, WriteOptions};
/// let quick = WriteOptions::new().durability(Durability::None);
/// # assert_ne!(quick, WriteOptions::synced());
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(default))]
#[non_exhaustive]
pub struct WriteOptions {
    /// The write's durability; `None` takes the database's.
    pub durability: Option<Durability>,
    /// How long the entries live that are written: afterwards they are gone for every read, and
    /// space is reclaimed by compactions. With zero they are gone at once; with more time than
    /// there is, they stay. `None` takes the keyspace's
    /// ([`KeyspaceOptions::ttl`](super::KeyspaceOptions::ttl)).
    pub ttl: Option<Duration>,
}

impl WriteOptions {
    /// The defaults: as durable as the database's options say.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A write that is on storage before it is acknowledged.
    #[must_use]
    pub fn synced() -> Self {
        WriteOptions {
            durability: Some(Durability::Synced),
            ttl: None,
        }
    }
}
