//! What a caller may say of a single write.

use super::Durability;

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
        }
    }
}
