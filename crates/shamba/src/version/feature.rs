//! What a database uses that not every build of its format knows. The manifest names it, so that a
//! build which does not know it says what it lacks (docs/format.md, "The number that is kept").

use std::collections::BTreeSet;

/// A feature that a reader must know once a database uses it. What is stated once stays so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum Feature {
    /// Entries with a time to live.
    Expiring,
    /// Keyspaces with merge operators, and their operands.
    MergeOperators,
    /// Range tombstones.
    RangeTombstones,
    /// Values in value files, and entries that point to them.
    ValueFiles,
    /// Tables with filters of prefixes.
    PrefixFilters,
    /// Tables with filters of ranges.
    RangeFilters,
}

impl Feature {
    /// Those that this build knows, in the order of their values.
    pub(crate) const ALL: [Feature; 6] = [
        Feature::Expiring,
        Feature::MergeOperators,
        Feature::RangeTombstones,
        Feature::ValueFiles,
        Feature::PrefixFilters,
        Feature::RangeFilters,
    ];

    /// Its name in the manifest, for people too.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Feature::Expiring => "expiring entries",
            Feature::MergeOperators => "merge operators",
            Feature::RangeTombstones => "range tombstones",
            Feature::ValueFiles => "value files",
            Feature::PrefixFilters => "prefix filters",
            Feature::RangeFilters => "range filters",
        }
    }

    /// The feature of a name.
    pub(super) fn named(name: &str) -> Option<Feature> {
        Feature::ALL.into_iter().find(|known| known.name() == name)
    }

    /// Its bit in an integer.
    pub(crate) const fn bit(self) -> u64 {
        1 << self as u8
    }
}

/// Features of a database.
pub(crate) type Features = BTreeSet<Feature>;
