//! The design of a keyspace: those of its options that shape the tree and that may change while the
//! database runs. Plain data; the manifest keeps it once it was changed.

use super::KeyspaceOptions;
use crate::compaction::{Granularity, MergePolicy};
use crate::error::Result;
use crate::version::StoredDesign;

/// What shapes a keyspace's tree: the knobs of Monkey (Dayan, Athanassoulis, Idreos, 2018,
/// section 4).
///
/// At first a keyspace has the design of its [`KeyspaceOptions`]. Once
/// [`Keyspace::redesign`](crate::Keyspace::redesign) was called the database itself remembers the
/// design, and opening takes it and not the options it replaces; calling it again is the way back.
///
/// ```
/// use shamba::{KeyspaceOptions, MergePolicy};
/// let now = KeyspaceOptions::default().design();
/// let next = now.merge_policy(MergePolicy::Tiering).size_ratio(4);
/// assert_eq!(KeyspaceOptions::default().with_design(&next).design(), next);
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Design {
    /// How runs are merged: [`KeyspaceOptions::merge_policy`].
    pub merge_policy: MergePolicy,
    /// Size ratio between adjacent levels: [`KeyspaceOptions::size_ratio`].
    pub size_ratio: u32,
    /// Write buffer in bytes: [`KeyspaceOptions::write_buffer`].
    pub write_buffer: u64,
    /// Filter bits per key: [`FilterOptions::bits_per_key`](crate::FilterOptions), which
    /// [`FilterFamily::Auto`](crate::FilterFamily) takes no notice of, but for 0.
    pub bits_per_key: f64,
}

impl Default for Design {
    /// The design of the default options.
    fn default() -> Self {
        KeyspaceOptions::default().design()
    }
}

/// A merge policy's number in the manifest.
pub(super) fn merge_policy_number(policy: MergePolicy) -> u64 {
    match policy {
        MergePolicy::Leveling {
            granularity: Granularity::File,
        } => 1,
        MergePolicy::Leveling {
            granularity: Granularity::Level,
        } => 2,
        MergePolicy::Tiering => 3,
        MergePolicy::LazyLeveling => 4,
    }
}

/// The merge policy of a number; `None` for one of newer builds.
pub(super) fn merge_policy_of(number: u64) -> Option<MergePolicy> {
    let leveling = |granularity| MergePolicy::Leveling { granularity };
    match number {
        1 => Some(leveling(Granularity::File)),
        2 => Some(leveling(Granularity::Level)),
        3 => Some(MergePolicy::Tiering),
        4 => Some(MergePolicy::LazyLeveling),
        _ => None,
    }
}

impl Design {
    /// Checks every value.
    ///
    /// # Errors
    /// [`Error::InvalidOption`](crate::Error::InvalidOption) with the option's name and the allowed
    /// values.
    pub fn validate(&self) -> Result<()> {
        KeyspaceOptions::default().with_design(self).validate()
    }

    /// As the manifest keeps it.
    pub(crate) fn stored(&self, since: u64) -> StoredDesign {
        StoredDesign {
            policy: merge_policy_number(self.merge_policy),
            size_ratio: u64::from(self.size_ratio),
            write_buffer: self.write_buffer,
            millibits: (self.bits_per_key * 1000.0).round() as u64,
            since,
            reached: false,
            rewrite_filters: false,
        }
    }

    /// Whether the manifest does not tell it from another.
    pub(crate) fn is_kept_as(&self, other: &Design) -> bool {
        self.stored(0) == other.stored(0)
    }

    /// The design that the manifest keeps; `None` where this build does not know what it means.
    pub(crate) fn of_stored(stored: &StoredDesign) -> Option<Self> {
        let design = Design {
            merge_policy: merge_policy_of(stored.policy)?,
            size_ratio: u32::try_from(stored.size_ratio).ok()?,
            write_buffer: stored.write_buffer,
            bits_per_key: stored.millibits as f64 / 1000.0,
        };
        design.validate().ok().map(|()| design)
    }
}

impl KeyspaceOptions {
    /// The design that these options are.
    #[must_use]
    pub fn design(&self) -> Design {
        Design {
            merge_policy: self.merge_policy,
            size_ratio: self.size_ratio,
            write_buffer: self.write_buffer,
            bits_per_key: self.filter.bits_per_key,
        }
    }

    /// These options with another design.
    #[must_use]
    pub fn with_design(mut self, design: &Design) -> Self {
        self.merge_policy = design.merge_policy;
        self.size_ratio = design.size_ratio;
        self.write_buffer = design.write_buffer;
        self.filter.bits_per_key = design.bits_per_key;
        self
    }

    /// The runs of level 0 from which writes are slowed down, and from which they wait: more by
    /// what the merge policy leaves there before it merges.
    pub(crate) fn level0_limits(&self) -> (u32, u32) {
        let wanted = match self.merge_policy {
            MergePolicy::Leveling { .. } => self.level0_runs,
            MergePolicy::Tiering | MergePolicy::LazyLeveling => self.size_ratio,
        };
        let more = wanted.saturating_sub(self.level0_runs);
        (
            self.level0_slowdown.saturating_add(more),
            self.level0_stall.saturating_add(more),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn designs_are_kept_as_numbers() {
        for merge_policy in [
            MergePolicy::default(),
            MergePolicy::Leveling {
                granularity: Granularity::Level,
            },
            MergePolicy::Tiering,
            MergePolicy::LazyLeveling,
        ] {
            let design = Design {
                merge_policy,
                size_ratio: 7,
                write_buffer: 5000,
                bits_per_key: 7.5,
            };
            let stored = design.stored(3);
            assert_eq!(Design::of_stored(&stored), Some(design));
            for odd in [
                StoredDesign {
                    policy: 9,
                    ..stored
                },
                StoredDesign {
                    size_ratio: 1,
                    ..stored
                },
                StoredDesign {
                    write_buffer: u64::MAX,
                    ..stored
                },
            ] {
                assert_eq!(Design::of_stored(&odd), None);
            }
        }
    }

    #[test]
    fn tiered_runs_are_no_reason_to_wait() {
        let options = KeyspaceOptions {
            merge_policy: MergePolicy::Tiering,
            size_ratio: 50,
            ..KeyspaceOptions::default()
        };
        assert_eq!(options.level0_limits(), (20 + 46, 36 + 46));
        let leveled = KeyspaceOptions {
            size_ratio: 50,
            ..KeyspaceOptions::default()
        };
        assert_eq!(leveled.level0_limits(), (20, 36));
    }
}
