//! Merge operators: what becomes of a key's value when something is merged into it that was written
//! without reading it.
//!
//! [`MergeOperator`] is what a program gives. An [`Operator`] calls it for a keyspace; an
//! [`OperandChain`] gathers the operands of a key until what lies below them is found. Pure.

mod chain;
#[cfg(feature = "json")]
mod json;
mod ready;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use crate::error::{Error, Result};
pub(crate) use chain::{OperandChain, most_of_operand};
#[cfg(feature = "json")]
pub use json::JsonMergePatch;
pub(crate) use ready::ready_made;
pub use ready::{Append, Increment, Maximum, Minimum};

/// Why an operator cannot merge: its own words.
pub type MergeError = Box<dyn std::error::Error + Send + Sync>;

/// What a value becomes when operands are merged into it.
///
/// [`Db::merge`](crate::Db::merge) writes an operand without reading the key. Reads, flushes and
/// compactions then ask the operator what the value is. So it must come to the same whenever it is
/// asked, and however the operands are grouped: with `m` for [`merge`](Self::merge) and `c` for
/// [`combine`](Self::combine), `m(m(base, a), b)` = `m(base, [a, b])` = `m(base, c(a, b))`.
///
/// Its [`name`](Self::name) is kept with the keyspace from the first opening with it on, which then
/// cannot be opened without it, or with another. Where it fails or panics, reads of the key give
/// [`Error::MergeFailed`], and flushes and compactions keep what there is.
pub trait MergeOperator: Send + Sync {
    /// Its name, of 1 to 255 bytes. One that comes to other values needs another.
    fn name(&self) -> &str;

    /// The value of a key once operands, the oldest first and at least one, are merged into what
    /// there is: `None` where the key has no value.
    ///
    /// # Errors
    /// Anything: what there is, or an operand, is not what the operator knows.
    fn merge(
        &self,
        key: &[u8],
        base: Option<&[u8]>,
        operands: &[&[u8]],
    ) -> Result<Vec<u8>, MergeError>;

    /// One operand that does what two, one after the other, do; `None` where there is none. Without
    /// it operands are gathered until what they are merged into is found.
    fn combine(&self, key: &[u8], older: &[u8], newer: &[u8]) -> Option<Vec<u8>> {
        let _ = (key, older, newer);
        None
    }

    /// Whether [`combine`](Self::combine) is quick enough for each write, as additions and
    /// comparisons are: no, unless said. Then an operand is combined with those of its key written
    /// before it, while they are in memory, so that a lookup need not gather all of them. Only
    /// short ones (16 bytes), of which two come to one as long, take part.
    fn combines_at_writes(&self) -> bool {
        false
    }
}

/// The operator of a keyspace, shared.
#[derive(Clone)]
pub(crate) struct Operator(Arc<KeyspaceOperator>);

struct KeyspaceOperator {
    keyspace: Box<str>,
    operator: Arc<dyn MergeOperator>,
    /// Whether operands are combined as they are written.
    at_writes: bool,
}

impl std::fmt::Debug for Operator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Operator").field(&self.name()).finish()
    }
}

impl Operator {
    /// An operator for a keyspace of a name.
    pub(crate) fn new(keyspace: &str, operator: Arc<dyn MergeOperator>) -> Self {
        let asked = || operator.combines_at_writes();
        let at_writes = catch_unwind(AssertUnwindSafe(asked)).unwrap_or_default();
        Operator(Arc::new(KeyspaceOperator {
            keyspace: keyspace.into(),
            operator,
            at_writes,
        }))
    }

    pub(crate) fn name(&self) -> &str {
        self.0.operator.name()
    }

    /// The value once operands, the oldest first, are merged into what there is.
    pub(crate) fn merge(
        &self,
        key: &[u8],
        base: Option<&[u8]>,
        operands: &[&[u8]],
    ) -> Result<Vec<u8>> {
        let merge = || self.0.operator.merge(key, base, operands);
        let failed = |cause: String| Error::MergeFailed {
            keyspace: self.0.keyspace.to_string(),
            key: key.to_vec(),
            cause,
        };
        match catch_unwind(AssertUnwindSafe(merge)) {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(error)) => Err(failed(error.to_string())),
            Err(_) => Err(failed("it panicked".to_owned())),
        }
    }

    /// Whether operands are combined as they are written.
    pub(crate) fn combines_at_writes(&self) -> bool {
        self.0.at_writes
    }

    /// One operand for two; `None` where there is none.
    pub(crate) fn combine(&self, key: &[u8], older: &[u8], newer: &[u8]) -> Option<Vec<u8>> {
        let combine = || self.0.operator.combine(key, older, newer);
        catch_unwind(AssertUnwindSafe(combine)).ok().flatten()
    }
}
