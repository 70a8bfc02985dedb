//! How a tree is merged: the merge policies, and what their pickers go by beside the version. Plain
//! data.

use shamba_model::tree::{self, level_capacity};

use crate::base::clock::Moment;
use crate::base::key::SeqNo;
use crate::version::MAX_LEVELS;

/// How much a merge into a full level takes at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
#[non_exhaustive]
pub enum Granularity {
    /// One file of the level and the files it meets in the next level. Work comes in small, even
    /// portions, and files that meet nothing are moved instead of rewritten.
    #[default]
    File,
    /// The whole level and the whole next level, and where that is too full with it the one after,
    /// as the theory of LSM trees has it. Work comes in bursts; of use to compare with formulas.
    Level,
}

/// How runs are merged as they go down the tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
#[non_exhaustive]
pub enum MergePolicy {
    /// One run per level from level 1 on. Fewest runs to look in, the smallest space, the most
    /// writing (about half the size ratio per level and entry).
    Leveling {
        /// How much is merged at once.
        granularity: Granularity,
    },
    /// Up to size ratio − 1 runs per level; a level's runs are merged into one run of the next.
    /// Least writing (about one per level and entry), the most runs and space.
    Tiering,
    /// Tiering on all levels but the last, which is one run: point lookups of leveling, since the
    /// last level holds most data, with little more writing than tiering.
    LazyLeveling,
}

impl MergePolicy {
    /// The policy as models know it.
    pub(crate) fn modelled(self) -> tree::MergePolicy {
        match self {
            MergePolicy::Leveling { .. } => tree::MergePolicy::Leveling,
            MergePolicy::Tiering => tree::MergePolicy::Tiering,
            MergePolicy::LazyLeveling => tree::MergePolicy::LazyLeveling,
        }
    }
}

impl Default for MergePolicy {
    fn default() -> Self {
        MergePolicy::Leveling {
            granularity: Granularity::default(),
        }
    }
}

/// What a picker needs to know beside the version.
#[derive(Debug, Clone)]
pub(crate) struct PickerOptions {
    /// How runs are merged.
    pub(crate) policy: MergePolicy,
    /// How many times larger each level is than the one above; at least 2.
    pub(crate) size_ratio: u32,
    /// The size in bytes of the runs that the levels are made for: of the write buffer.
    pub(crate) buffer_bytes: u64,
    /// The size that those have at most which flushes really write: less where memory does not hold
    /// that buffer.
    pub(crate) flush_bytes: u64,
    /// The most inputs that a merge has memory for; at least 2.
    pub(crate) most_inputs: usize,
    /// Whether what is known of tables takes so much memory that they should become fewer soon.
    pub(crate) too_many_files: bool,
    /// The most bytes of keys that its inputs hold together.
    pub(crate) merge_keys: u64,
    /// What a merge pays for a page of its inputs, read and written again, in reads of a page at a
    /// random place.
    pub(crate) page_cost: f64,
    /// Leveling: whether files are merged that scans have read often enough.
    pub(crate) merge_for_scans: bool,
    /// Leveling: level 0 is merged when it has this many runs; at least 1.
    pub(crate) level0_runs: u32,
    /// Levels are numbered below this; the last one then grows without bound.
    pub(crate) max_levels: u32,
    /// Entries up to this sequence number are seen alike by every snapshot: the oldest snapshot's
    /// number, or the newest number in use when there is no snapshot.
    pub(crate) oldest_snapshot: SeqNo,
    /// What expires up to this moment has expired for every reader.
    pub(crate) expired_to: Moment,
    /// Set while the tree moves to this design from another.
    pub(crate) moving: Option<Moving>,
}

impl Default for PickerOptions {
    fn default() -> Self {
        PickerOptions {
            policy: MergePolicy::default(),
            size_ratio: 10,
            buffer_bytes: 64 << 20,
            flush_bytes: u64::MAX,
            most_inputs: usize::MAX,
            too_many_files: false,
            merge_keys: u64::MAX,
            page_cost: 2.0,
            merge_for_scans: true,
            level0_runs: 4,
            max_levels: 12,
            oldest_snapshot: 0,
            expired_to: 0,
            moving: None,
        }
    }
}

impl PickerOptions {
    /// The size ratio, made sane.
    pub(super) fn ratio(&self) -> usize {
        self.size_ratio.max(2) as usize
    }

    /// Where data of `level` goes; `None` from the last level allowed.
    pub(super) fn below(&self, level: usize) -> Option<usize> {
        let next = level + 1;
        (next < self.max_levels.clamp(2, MAX_LEVELS) as usize).then_some(next)
    }

    /// How many bytes a level of one run may hold.
    pub(super) fn capacity(&self, level: usize) -> u64 {
        let ratio = self.size_ratio.max(2);
        level_capacity(self.buffer_bytes.max(1), ratio, level as u32).unwrap_or(u64::MAX)
    }
}

/// A move to another design that is under way.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Moving {
    /// Files with a smaller install counter are of the design before.
    pub(crate) since: u64,
    /// The filter bits per key wanted by level, the last one for all deeper levels; none: filters
    /// stay as they are.
    pub(crate) bits: Vec<f64>,
}
