//! Presets: the systems of the papers as settings of this engine, so that each can be compared with
//! any other in one run.

use std::fmt;
use std::str::FromStr;

use super::{FilterFamily, FilterOptions, KeyspaceOptions, Options};
use crate::cache::Eviction;
use crate::error::{Error, Result};
use crate::filter::ModuleSizes;
use crate::policy::{FilterPolicy, Skipping, Thresholds};

/// A system as settings: filter, filter policy, eviction and hash sharing. What is set afterwards
/// takes precedence, so presets combine with both layouts, any bits per key and any merge policy.
///
/// ```
/// use shamba::{Options, Preset};
/// let preset: Preset = "shamba-eq-p".parse()?;
/// let options = Options::new().preset(preset);
/// # drop(options);
/// # Ok::<(), shamba::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
#[non_exhaustive]
pub enum Preset {
    /// `state-of-the-art`: one Bloom filter and one index block a table, the key hashed for each
    /// table; the baseline of the papers.
    StateOfTheArt,
    /// `partitioned`: the same with filter and index cut into pages under a two-level index.
    Partitioned,
    /// `shamba-eq`: two modules of equal size, both always read.
    ShambaEq,
    /// `shamba-eq-p`: the second module is read by utility.
    ShambaEqP,
    /// `shamba-eq-f`: both modules are read by utility.
    ShambaEqF,
    /// `shamba-prop`: two modules, the first as large as memory holds for all files when a file is
    /// written.
    ShambaProp,
    /// `shamba-prop-p`: the second module is read by utility.
    ShambaPropP,
    /// `shamba-prop-f`: both modules are read by utility.
    ShambaPropF,
    /// `elastic`: ElasticBF, four filter units of 5 bits per key, of which two a table are enabled
    /// on average: the memory of 10 bits per key.
    Elastic,
    /// `default`: this engine's own settings.
    #[default]
    Default,
}

impl Preset {
    /// All presets, in the order of their help.
    pub const ALL: [Preset; 10] = [
        Preset::StateOfTheArt,
        Preset::Partitioned,
        Preset::ShambaEq,
        Preset::ShambaEqP,
        Preset::ShambaEqF,
        Preset::ShambaProp,
        Preset::ShambaPropP,
        Preset::ShambaPropF,
        Preset::Elastic,
        Preset::Default,
    ];

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Preset::StateOfTheArt => "state-of-the-art",
            Preset::Partitioned => "partitioned",
            Preset::ShambaEq => "shamba-eq",
            Preset::ShambaEqP => "shamba-eq-p",
            Preset::ShambaEqF => "shamba-eq-f",
            Preset::ShambaProp => "shamba-prop",
            Preset::ShambaPropP => "shamba-prop-p",
            Preset::ShambaPropF => "shamba-prop-f",
            Preset::Elastic => "elastic",
            Preset::Default => "default",
        }
    }

    /// The filter of new tables.
    #[must_use]
    pub fn filter(self) -> FilterOptions {
        let whole = |modules, bits_per_key| FilterOptions {
            bits_per_key,
            modules,
            partitioned: false,
            family: FilterFamily::Bloom,
            ..FilterOptions::default()
        };
        match self {
            Preset::StateOfTheArt => whole(1, 10.0),
            Preset::Partitioned => FilterOptions {
                partitioned: true,
                ..whole(1, 10.0)
            },
            Preset::ShambaEq | Preset::ShambaEqP | Preset::ShambaEqF => whole(2, 10.0),
            Preset::ShambaProp | Preset::ShambaPropP | Preset::ShambaPropF => FilterOptions {
                module_sizes: ModuleSizes::FirstInMemory,
                ..whole(2, 10.0)
            },
            Preset::Elastic => FilterOptions {
                partitioned: false,
                ..FilterOptions::units(4, 5.0)
            },
            Preset::Default => FilterOptions::default(),
        }
    }

    /// Which modules lookups read.
    #[must_use]
    pub fn filter_policy(self) -> FilterPolicy {
        let utility = |skipping| FilterPolicy::Utility {
            skipping,
            thresholds: Thresholds::RELATIVE,
        };
        match self {
            Preset::StateOfTheArt | Preset::Partitioned => FilterPolicy::All,
            Preset::ShambaEq | Preset::ShambaProp => FilterPolicy::All,
            Preset::ShambaEqP | Preset::ShambaPropP => utility(Skipping::Partial),
            Preset::ShambaEqF | Preset::ShambaPropF => utility(Skipping::Full),
            Preset::Elastic => FilterPolicy::Elastic {
                initial_units: 2,
                lifetime: 2,
            },
            Preset::Default => FilterPolicy::default(),
        }
    }

    /// Which cached block leaves when room is needed.
    #[must_use]
    pub const fn eviction(self) -> Eviction {
        match self {
            Preset::Default => Eviction::ExpectedReads,
            _ => Eviction::TwoPriorityLru,
        }
    }

    /// Whether a lookup hashes its key once for all tables.
    #[must_use]
    pub const fn hash_sharing(self) -> bool {
        !matches!(self, Preset::StateOfTheArt | Preset::Partitioned)
    }
}

impl FilterOptions {
    /// Standard Bloom filter units of so many bits per key each (ElasticBF): modules that
    /// [`FilterPolicy::Elastic`] enables and disables. The bits of a filter are those of all units;
    /// in memory are those enabled.
    ///
    /// ```
    /// let filter = shamba::FilterOptions::units(6, 4.0);
    /// assert_eq!((filter.modules, filter.bits_per_key), (6, 24.0));
    /// ```
    #[must_use]
    pub fn units(units: u8, bits_per_unit: f64) -> Self {
        FilterOptions {
            family: FilterFamily::Bloom,
            bits_per_key: f64::from(units) * bits_per_unit,
            modules: units,
            ..FilterOptions::default()
        }
    }
}

impl fmt::Display for Preset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Preset {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        let found = Preset::ALL.into_iter().find(|preset| preset.name() == name);
        found.ok_or_else(|| {
            let names: Vec<_> = Preset::ALL.iter().map(|preset| preset.name()).collect();
            Error::option(
                "preset",
                format!("`{name}` is none of {}", names.join(", ")),
            )
        })
    }
}

impl KeyspaceOptions {
    /// These options with a preset's filter and filter policy.
    #[must_use]
    pub fn preset(self, preset: Preset) -> Self {
        KeyspaceOptions {
            filter: preset.filter(),
            filter_policy: preset.filter_policy(),
            ..self
        }
    }
}

impl Options {
    /// Makes the default keyspace's options ([`Options::keyspace`]), hash sharing and eviction
    /// those of a preset. Set what is to differ afterwards; other keyspaces take
    /// [`KeyspaceOptions::preset`].
    #[must_use]
    pub fn preset(mut self, preset: Preset) -> Self {
        let named = self.default_keyspace.take().unwrap_or_default();
        self.default_keyspace = Some(named.preset(preset));
        self.hash_sharing(preset.hash_sharing())
            .eviction(preset.eviction())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn presets_have_names() {
        for preset in Preset::ALL {
            assert_eq!(preset.to_string().parse::<Preset>().unwrap(), preset);
        }
        let error = "rocksdb".parse::<Preset>().unwrap_err().to_string();
        assert!(error.contains("shamba-prop-f"), "{error}");
    }

    #[test]
    fn a_preset_leaves_other_options_alone_and_can_be_overridden() {
        let base = KeyspaceOptions {
            size_ratio: 4,
            ..KeyspaceOptions::default()
        };
        for preset in Preset::ALL {
            let mut options = base.clone().preset(preset);
            assert_eq!(options.size_ratio, 4);
            options.filter.partitioned = !options.filter.partitioned;
            options.validate().unwrap();
            options.filter = base.filter.clone();
            options.filter_policy = base.filter_policy;
            assert_eq!(options, base);
        }
        assert!(!Options::new().preset(Preset::StateOfTheArt).hash_sharing);
    }

    #[test]
    fn presets_of_a_system_differ_in_their_filters_where_the_papers_say_so() {
        let (eq, prop) = (Preset::ShambaEq.filter(), Preset::ShambaProp.filter());
        assert_eq!(eq.module_sizes, ModuleSizes::Equal);
        assert_eq!(prop.module_sizes, ModuleSizes::FirstInMemory);
        let units = Preset::Elastic.filter();
        assert_eq!((units.modules, units.bits_per_key), (4, 20.0));
    }
}
