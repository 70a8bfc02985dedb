//! What a caller may say of a single write.

use super::Durability;

/// Options of one write.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WriteOptions {
    /// The write's durability; `None` takes the database's.
    pub durability: Option<Durability>,
}

impl WriteOptions {
    /// A write that is on storage before it is acknowledged.
    #[must_use]
    pub fn synced() -> Self {
        WriteOptions {
            durability: Some(Durability::Synced),
        }
    }
}
