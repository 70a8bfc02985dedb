//! Which blocks leave a cache that is full.

/// Which blocks leave a cache that is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Eviction {
    /// Those that save the fewest expected storage reads per byte; a block that would save fewer
    /// than what it would push out does not come in. The default.
    #[default]
    ExpectedReads,
    /// The least recently used: data blocks and later filter modules before indexes and first
    /// filter modules. What other engines do, and the baseline of the papers.
    TwoPriorityLru,
}

impl Eviction {
    /// The one in use.
    pub(super) fn of(policy: &crate::value::PolicyState) -> Eviction {
        match policy.is_active() {
            true => Eviction::ExpectedReads,
            false => Eviction::TwoPriorityLru,
        }
    }
}
