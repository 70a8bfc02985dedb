//! Which blocks two-priority LRU, the papers' baseline, keeps longer, and which nobody has asked
//! for. Plain values.

use crate::fs::BlockKind;

/// How long a block stays under [`Eviction::TwoPriorityLru`](super::Eviction::TwoPriorityLru), or
/// that it has yet to be asked for, which is never so there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Priority {
    /// Data that came in when it was written and that nobody has asked for yet: until then it is
    /// none of the blocks by whose number windows are as long as they are.
    Unasked,
    /// Data, and filter modules that are rarely needed.
    Low,
    /// Blocks that nearly every lookup in their range needs (indexes, first filter modules).
    High,
}

impl Priority {
    /// That of a kind of block.
    pub(crate) const fn of(kind: BlockKind) -> Priority {
        match kind {
            BlockKind::Index | BlockKind::Filter(0) => Priority::High,
            _ => Priority::Low,
        }
    }
}
