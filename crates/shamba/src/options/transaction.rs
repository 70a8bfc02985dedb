//! How transactions run.

/// What a transaction must not miss of others' writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum Isolation {
    /// Transactions are as if they had run one after the other: a commit is refused when anything
    /// that it read was written since, keys and ranges that held nothing included. That an entry
    /// expires is nobody's write: a transaction sees what there was as it began.
    #[default]
    Serializable,
    /// A commit is refused only when a key that it writes, or read with
    /// [`get_for_update`](crate::Transaction::get_for_update), was written since it began. Two
    /// transactions may each write what the other read (write skew).
    Snapshot,
}

/// How a transaction runs.
///
/// ```
/// use shamba::{Isolation, TransactionOptions};
/// let options = TransactionOptions::new().isolation(Isolation::Snapshot);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct TransactionOptions {
    /// What it must not miss. Default [`Isolation::Serializable`].
    pub isolation: Isolation,
}

impl TransactionOptions {
    /// The defaults.
    #[must_use]
    pub fn new() -> Self {
        TransactionOptions::default()
    }

    /// Sets [`TransactionOptions::isolation`].
    #[must_use]
    pub fn isolation(mut self, isolation: Isolation) -> Self {
        self.isolation = isolation;
        self
    }
}
