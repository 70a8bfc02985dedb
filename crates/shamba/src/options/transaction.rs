//! How transactions run.

/// What a transaction must not miss of others' writes.
///
/// What the literature calls anomalies, by the isolation that prevents or allows them (printed by
/// `cargo test -p shamba --test isolation anomalies -- --nocapture`, which tries each):
///
/// | anomaly | serializable | snapshot |
/// |---|---|---|
/// | G0, dirty write | prevented | prevented |
/// | G1a, aborted read | prevented | prevented |
/// | G1b, intermediate read | prevented | prevented |
/// | G1c, circular information flow | prevented | prevented |
/// | OTV, observed transaction vanishes | prevented | prevented |
/// | PMP, predicate read twice | prevented | prevented |
/// | PMP, predicate written | prevented | prevented |
/// | P4, lost update | prevented | prevented |
/// | P4, lost insert | prevented | prevented |
/// | G-single, read skew | prevented | prevented |
/// | G-single, read skew and a write | prevented | prevented |
/// | G2-item, write skew | prevented | allowed |
/// | G2, write skew over predicates | prevented | allowed |
/// | G2, read-only anomaly | prevented | allowed |
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
