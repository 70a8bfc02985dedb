//! The operands of one key on the way to what they are merged into. Single-threaded.

use smallvec::SmallVec;

use super::Operator;
use crate::base::key::{MAX_VALUE_LEN, Tag};
use crate::budget::most_of_value;
use crate::error::Result;

/// Operands of a key, with the tags that they were written with: of several that were combined, the
/// newest one's.
#[derive(Debug)]
pub(crate) struct OperandChain<'o> {
    operator: &'o Operator,
    /// The newest first.
    operands: Vec<GatheredOperand>,
    /// How many were added.
    added: u64,
    /// What they take, in bytes.
    bytes: usize,
    /// The longest that one of several may be: others stay by themselves.
    most: usize,
}

/// The longest operand that is made of others, or value of operands that is written, under a
/// budget: as long as any value.
pub(crate) fn most_of_operand(limit: u64) -> usize {
    let most = usize::try_from(most_of_value(limit));
    most.unwrap_or(MAX_VALUE_LEN).min(MAX_VALUE_LEN)
}

/// One operand, or several that were combined.
#[derive(Debug)]
struct GatheredOperand {
    tag: Tag,
    /// Most are numbers.
    bytes: SmallVec<[u8; 16]>,
    /// Of how many it is.
    count: u64,
}

/// What an operand takes beside its bytes.
const PLACE: usize = size_of::<GatheredOperand>() + 16;

/// So many operands, if they take no more than so many bytes, are merged all at once: to combine
/// two is a call of the operator, and an allocation. Half of them, and twice, were not measured.
const FEW: usize = 32;
const SMALL: usize = 4 << 10;

impl<'o> OperandChain<'o> {
    /// No operand, under a budget of `limit` bytes.
    pub(crate) fn new(operator: &'o Operator, limit: u64) -> Self {
        OperandChain {
            operator,
            operands: Vec::new(),
            added: 0,
            bytes: 0,
            most: most_of_operand(limit),
        }
    }

    /// Adds one that is older than all. Past a few, only what is of equally many is combined, so
    /// that each of n operands is copied log n times.
    pub(crate) fn add_older(&mut self, key: &[u8], tag: Tag, operand: &[u8]) {
        self.added += 1;
        self.bytes += PLACE + operand.len();
        self.operands.push(GatheredOperand {
            tag,
            bytes: SmallVec::from_slice(operand),
            count: 1,
        });
        if self.operands.len() <= FEW && self.bytes <= SMALL {
            return;
        }
        while let [.., newer, older] = self.operands.as_slice()
            && newer.count == older.count
            && self.combine_at(key, self.operands.len() - 1)
        {}
    }

    /// Combines what can be, as far as it was not yet.
    pub(crate) fn combine(&mut self, key: &[u8]) {
        for older in (1..self.operands.len()).rev() {
            self.combine_at(key, older);
        }
    }

    /// Combines one with the one that is newer; false, and nothing changes, where it cannot be.
    fn combine_at(&mut self, key: &[u8], at: usize) -> bool {
        let newer = at.checked_sub(1);
        let Some([newer, older]) = newer.and_then(|newer| self.operands.get_mut(newer..=at)) else {
            return false;
        };
        let len = older.bytes.len() + newer.bytes.len();
        let both = self.operator.combine(key, &older.bytes, &newer.bytes);
        let Some(mut both) = both.filter(|both| both.len() <= self.most) else {
            return false;
        };
        both.shrink_to_fit();
        self.bytes = (self.bytes + both.len()).saturating_sub(len + PLACE);
        newer.bytes = both.into();
        newer.count += older.count;
        self.operands.remove(at);
        true
    }

    /// How many were added.
    pub(crate) fn added(&self) -> u64 {
        self.added
    }

    /// What they take, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The newest tag.
    pub(crate) fn tag(&self) -> Option<Tag> {
        self.operands.first().map(|newest| newest.tag)
    }

    /// What is left of them, the newest first.
    pub(crate) fn operands(&self) -> impl Iterator<Item = (Tag, &[u8])> {
        let each = self.operands.iter();
        each.map(|operand| (operand.tag, operand.bytes.as_slice()))
    }

    /// The value of the key where that is what lies below them, of which there is one at least.
    pub(crate) fn merge(&self, key: &[u8], base: Option<&[u8]>) -> Result<Vec<u8>> {
        let operands = self.operands.iter().rev();
        let operands: Vec<&[u8]> = operands.map(|operand| operand.bytes.as_slice()).collect();
        self.operator.merge(key, base, &operands)
    }
}
