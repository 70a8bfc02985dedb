//! Which blocks leave a cache that is full, and which may come in: the only place where evictions
//! are told apart.
//!
//! A [`Replacement`] ranks residents ([`Ranking`]) and makes room for a block that comes in.
//! Stateless and thread-safe; no more than one shard is locked at a time.

mod expected_reads;
mod two_priority_lru;

use parking_lot::MutexGuard;

use super::BlockCache;
use super::incoming::Incoming;
use super::shard::{Ranking, Shard};
use crate::value::PolicyState;
use expected_reads::ByExpectedReads;
use two_priority_lru::ByRecency;

/// Which blocks leave a cache that is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
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

/// What becomes of a block that comes in.
pub(super) enum Decision<'a> {
    /// It goes on in its shard, which is still locked.
    GoOn(MutexGuard<'a, Shard>),
    /// Its shard was unlocked meanwhile: it begins anew.
    Again,
    /// There is no room for it.
    Refused,
}

/// A way to choose which blocks go.
pub(super) trait Replacement: Ranking {
    /// Whether a block may come in where memory is free, in spite of what others are worth that had
    /// to go; it may be cut down for it.
    fn admit<'a>(
        &self,
        cache: &'a BlockCache,
        shard: MutexGuard<'a, Shard>,
        incoming: &mut Incoming<'_>,
    ) -> Decision<'a>;

    /// Makes room for a block of `wanted` bytes more, or cuts it down to what is worth its room.
    /// Its own shard is given.
    fn make_room<'a>(
        &self,
        cache: &'a BlockCache,
        shard: MutexGuard<'a, Shard>,
        incoming: &mut Incoming<'_>,
        wanted: u64,
    ) -> Decision<'a>;
}

/// The one in use.
pub(super) fn replacement(policy: &PolicyState) -> &'static dyn Replacement {
    if policy.is_active() {
        &ByExpectedReads
    } else {
        &ByRecency
    }
}

impl Eviction {
    /// Uses this one from now on.
    pub(super) fn choose(self, policy: &PolicyState) {
        policy.set_active(self == Eviction::ExpectedReads);
    }
}
