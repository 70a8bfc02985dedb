//! A merge operator that hides nothing: its values say what was there, and every operand in order.

use shamba::{MergeError, MergeOperator};

/// What a key without a value begins with.
pub const NOTHING: &[u8] = b"-";

/// Puts operands behind what there is, or behind [`NOTHING`].
#[derive(Debug, Clone, Copy)]
pub struct Story {
    pub combines: bool,
}

impl MergeOperator for Story {
    fn name(&self) -> &str {
        "story"
    }

    fn merge(
        &self,
        _key: &[u8],
        base: Option<&[u8]>,
        operands: &[&[u8]],
    ) -> Result<Vec<u8>, MergeError> {
        assert!(!operands.is_empty());
        Ok(told(base, operands.iter().copied()))
    }

    fn combine(&self, _key: &[u8], older: &[u8], newer: &[u8]) -> Option<Vec<u8>> {
        self.combines.then(|| [older, newer].concat())
    }
}

/// The value that a [`Story`] comes to.
pub fn told<'a>(base: Option<&[u8]>, operands: impl IntoIterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut story = base.unwrap_or(NOTHING).to_vec();
    for operand in operands {
        story.extend_from_slice(operand);
    }
    story
}
