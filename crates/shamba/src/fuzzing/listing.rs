//! A merge operator whose values say everything that was merged, in order.

use crate::{MergeError, MergeOperator};

/// Puts operands behind what there is, or behind "none".
pub(super) struct Listing {
    pub(super) combines: bool,
}

impl Listing {
    /// What that comes to.
    pub(super) fn list<'a>(
        base: Option<&[u8]>,
        operands: impl IntoIterator<Item = &'a [u8]>,
    ) -> Vec<u8> {
        let mut list = base.unwrap_or(b"none").to_vec();
        list.extend(operands.into_iter().flat_map(<[u8]>::iter));
        list
    }
}

impl MergeOperator for Listing {
    fn name(&self) -> &str {
        "listing"
    }

    fn merge(
        &self,
        _key: &[u8],
        base: Option<&[u8]>,
        operands: &[&[u8]],
    ) -> Result<Vec<u8>, MergeError> {
        Ok(Listing::list(base, operands.iter().copied()))
    }

    fn combine(&self, _key: &[u8], older: &[u8], newer: &[u8]) -> Option<Vec<u8>> {
        self.combines.then(|| [older, newer].concat())
    }
}
