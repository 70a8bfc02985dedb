//! The merge operators of keyspaces.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use super::Options;
use crate::error::{Error, Result};
use crate::operator::{MergeOperator, Operator, ready_made};

/// Operators by the name of the keyspace that has them.
#[derive(Clone, Default)]
pub(crate) struct MergeOperators(BTreeMap<String, Arc<dyn MergeOperator>>);

impl MergeOperators {
    /// The operator of a keyspace that has had one of the name `kept`, if any: the one that was
    /// given for it, else the ready-made one of that name.
    pub(crate) fn of(&self, keyspace: &str, kept: Option<&str>) -> Result<Option<Operator>> {
        let given = self.0.get(keyspace).cloned();
        let other = |given: Option<&str>| Error::MergeOperator {
            keyspace: keyspace.to_owned(),
            wanted: kept.map(str::to_owned),
            given: given.map(str::to_owned),
        };
        let operator = match (given, kept) {
            (Some(given), Some(kept)) if given.name() != kept => {
                return Err(other(Some(given.name())));
            }
            (Some(given), _) => given,
            (None, Some(kept)) => ready_made(kept).ok_or_else(|| other(None))?,
            (None, None) => return Ok(None),
        };
        let len = operator.name().len();
        if !(1..=255).contains(&len) {
            return Err(Error::option(
                "merge_operator",
                "an operator's name has 1 to 255 bytes",
            ));
        }
        Ok(Some(Operator::new(keyspace, operator)))
    }
}

impl fmt::Debug for MergeOperators {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.0.iter();
        let names = names.map(|(keyspace, operator)| (keyspace, operator.name()));
        f.debug_map().entries(names).finish()
    }
}

impl Options {
    /// The operator by which operands are merged into values of a keyspace
    /// ([`Db::merge`](crate::Db::merge)), also of one that is created later; `"default"` is the
    /// default keyspace.
    ///
    /// Its name is kept with the keyspace. From then on each open must give one of that name
    /// ([`Error::MergeOperator`]), unless it is one of the ready-made: [`Increment`], [`Minimum`],
    /// [`Maximum`], [`Append`] and, with the feature `json`, that of JSON merge patches.
    ///
    /// [`Increment`]: crate::Increment
    /// [`Minimum`]: crate::Minimum
    /// [`Maximum`]: crate::Maximum
    /// [`Append`]: crate::Append
    #[must_use]
    pub fn merge_operator(
        mut self,
        keyspace: impl Into<String>,
        operator: impl MergeOperator + 'static,
    ) -> Self {
        let operators = &mut self.merge_operators.0;
        operators.insert(keyspace.into(), Arc::new(operator));
        self
    }
}
