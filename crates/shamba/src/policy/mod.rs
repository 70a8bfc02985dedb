//! Which of a file's filter modules lookups read: pure deciders.
//!
//! A [`ModuleController`] is told what is known of a keyspace's files ([`FileView`]) and says how
//! many modules lookups may read of each: its *limit*. Modules past the limit are probed only where
//! they are in memory already, so a limit costs false positives and never an answer. Nothing here
//! does I/O or takes a lock; the database asks at the end of each epoch and at each change of the
//! tree, one thread at a time, and stores the limits where readers find them. Formulas are in
//! `shamba-model`.

mod elastic;
mod expected_reads;
mod utility;

use std::collections::HashMap;
use std::sync::Arc;

use shamba_model::fpr;
use shamba_model::utility::{FIRST_THRESHOLD, LATER_THRESHOLD};

use crate::error::{Error, Result};
use crate::filter::{Family, FilterPlan, ModulePlan};

/// The limit that lets lookups read every module, also those nobody has counted yet.
pub(crate) const EVERY_MODULE: u8 = u8::MAX;

/// Which filter modules lookups read.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
#[non_exhaustive]
pub enum FilterPolicy {
    /// All modules of every file, whatever they are worth.
    All,
    /// SHaMBa: the leading modules whose utility reaches a threshold. Utility is the data reads per
    /// lookup that a module saves. It follows from how often the file is probed, and how often
    /// without finding the key.
    Utility {
        /// What may be skipped.
        skipping: Skipping,
        /// Below what utility.
        thresholds: Thresholds,
    },
    /// ElasticBF: a fixed number of modules (filter units) is enabled over all files. They move
    /// from files that were not probed lately to files that are, where that lowers the reads
    /// expected from false positives.
    Elastic {
        /// Units enabled of each file on average, and of a file nothing is known of. At
        /// least 1.
        initial_units: u8,
        /// Epochs without a lookup after which a file may lose a unit. At least 1; 2 is usual.
        lifetime: u32,
    },
    /// Any module may be read, and each lookup weighs by itself whether reading one saves reads.
    #[default]
    ExpectedReads,
}

/// Which modules the utility policy may skip.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
#[non_exhaustive]
pub enum Skipping {
    /// Modules behind the first, which is always read (the paper's P).
    Partial,
    /// Any module, and so the whole filter (the paper's F).
    Full,
}

/// Utilities below which a module is skipped.
#[derive(Debug, Clone, Copy, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
#[non_exhaustive]
pub enum Thresholds {
    /// In data reads saved per lookup of the keyspace. A file's share of the lookups falls as
    /// files become more, and so does its utility.
    Absolute {
        /// For the first module, and with it the filter.
        first: f64,
        /// For later modules.
        later: f64,
    },
    /// In data reads saved per lookup, times the number of files: 1 is what a perfect module saves
    /// in a file that is probed as often as a file is if each lookup probes one, all alike.
    Relative {
        /// For the first module, and with it the filter.
        first: f64,
        /// For later modules.
        later: f64,
    },
}

impl Thresholds {
    /// The thresholds printed in the SHaMBa paper: 0.2 and 0.1, absolute. The second of two modules
    /// of 5 bits per key never comes up to its own.
    pub const PAPER: Thresholds = Thresholds::Absolute {
        first: FIRST_THRESHOLD,
        later: LATER_THRESHOLD,
    };

    /// The paper's numbers, relative to the number of files.
    pub const RELATIVE: Thresholds = Thresholds::Relative {
        first: FIRST_THRESHOLD,
        later: LATER_THRESHOLD,
    };
}

impl FilterPolicy {
    /// Checks the settings.
    ///
    /// # Errors
    /// [`Error::InvalidOption`] with the allowed values.
    pub(crate) fn validate(&self) -> Result<()> {
        match *self {
            FilterPolicy::Utility {
                thresholds:
                    Thresholds::Absolute { first, later } | Thresholds::Relative { first, later },
                ..
            } if ![first, later].iter().all(|t| t.is_finite() && *t >= 0.0) => Err(Error::option(
                "filter_policy",
                format!("thresholds of {first} and {later} are not both finite and at least 0"),
            )),
            FilterPolicy::Elastic {
                initial_units,
                lifetime,
            } if initial_units == 0 || lifetime == 0 => Err(Error::option(
                "filter_policy",
                "initial_units and lifetime are at least 1",
            )),
            _ => Ok(()),
        }
    }

    /// The decider of this policy, for one keyspace.
    pub(crate) fn controller(&self) -> Box<dyn ModuleController> {
        match *self {
            FilterPolicy::All => Box::new(All),
            FilterPolicy::ExpectedReads => Box::new(expected_reads::ExpectedReads),
            FilterPolicy::Utility {
                skipping,
                thresholds,
            } => Box::new(utility::Utility {
                skipping,
                thresholds,
            }),
            FilterPolicy::Elastic {
                initial_units,
                lifetime,
            } => Box::new(elastic::Elastic::new(initial_units, u64::from(lifetime))),
        }
    }
}

/// What is known of a file.
#[derive(Debug, Clone)]
pub(crate) struct FileView {
    /// Its number.
    pub(crate) number: u64,
    /// The share of lookups that ask it, and the share of those that find their key in it; `None`
    /// when nothing was inherited or measured.
    pub(crate) hotness: Option<(f64, f64)>,
    /// The last epoch in which it was probed; 0 for never.
    pub(crate) last_access: u64,
    /// Each module's false-positive rate, in the order of probing.
    pub(crate) rates: Arc<[f64]>,
}

/// Decides how many modules of each file lookups may read.
pub(crate) trait ModuleController: Send + std::fmt::Debug {
    /// Whether lookups weigh by themselves which modules to read, whatever the limits. Asked once,
    /// when the controller takes office.
    fn reads_as_valued(&self) -> bool {
        false
    }

    /// Whether it is to be asked at all; else lookups may read every module of every file.
    fn looks_at_files(&self) -> bool {
        true
    }

    /// One limit for each file of the keyspace, in their order. `epoch` is the number of the last
    /// epoch that ended and never falls.
    fn limits(&mut self, files: &[FileView], epoch: u64) -> Vec<u8>;

    /// About how many bytes it remembers of each file.
    fn bytes_per_file(&self) -> u64 {
        0
    }
}

/// Skips nothing.
#[derive(Debug)]
struct All;

impl ModuleController for All {
    fn looks_at_files(&self) -> bool {
        false
    }

    fn limits(&mut self, files: &[FileView], _epoch: u64) -> Vec<u8> {
        vec![EVERY_MODULE; files.len()]
    }
}

/// False-positive rates of modules, each worked out once: of a blocked one that sums hundreds of
/// terms, a filter may have sixteen modules, and every change of the tree asks for all files. There
/// are as many as modules differ: by their hashes, and by their size in steps of 1 /
/// [`BLOCKED_STEPS`].
#[derive(Debug, Default)]
pub(crate) struct Rates {
    blocked: HashMap<(u32, u32), f64>,
    /// How many rates of blocked modules were worked out.
    #[cfg(test)]
    worked_out: usize,
}

/// In steps of so many to a bit per key a blocked module's rate is known within a hundredth.
const BLOCKED_STEPS: u32 = 64;

impl Rates {
    /// The false-positive rates of a plan's modules. A module nothing is known of filters nothing.
    pub(crate) fn of(&mut self, plan: &FilterPlan) -> Arc<[f64]> {
        let rate = |module: &ModulePlan| {
            let hashes = u32::from(module.hashes);
            let rate = match module.family {
                Family::Bloom => fpr::bloom(f64::from(module.millibits) / 1000.0, hashes),
                Family::Blocked => Ok(self.blocked(module.millibits, hashes)),
                Family::Ribbon => fpr::ribbon(u32::from(module.columns)),
                // It filters no keys.
                Family::Range => Ok(1.0),
            };
            rate.unwrap_or(1.0)
        };
        plan.modules.iter().map(rate).collect()
    }

    fn blocked(&mut self, millibits: u32, hashes: u32) -> f64 {
        let steps = (u64::from(millibits) * u64::from(BLOCKED_STEPS) + 500) / 1000;
        let steps = u32::try_from(steps).unwrap_or(u32::MAX).max(1);
        *self.blocked.entry((steps, hashes)).or_insert_with(|| {
            #[cfg(test)]
            {
                self.worked_out += 1;
            }
            let bits = f64::from(steps) / f64::from(BLOCKED_STEPS);
            fpr::blocked(bits, hashes, fpr::LINE_BITS).unwrap_or(1.0)
        })
    }

    /// How many rates of blocked modules were worked out, and how many different ones are known.
    #[cfg(test)]
    pub(crate) fn worked_out(&self) -> (usize, usize) {
        (self.worked_out, self.blocked.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::{Families, FileContext, Layout, ModuleSizes, PlanOptions, plan};

    pub(super) fn file(number: u64, access: f64, positive: f64, modules: usize) -> FileView {
        FileView {
            number,
            hotness: Some((access, positive)),
            last_access: 0,
            rates: vec![0.092; modules].into(),
        }
    }

    #[test]
    fn nothing_is_skipped_unless_asked_for() {
        let files = [file(1, 0.0, 1.0, 2), file(2, 1.0, 0.0, 7)];
        for policy in [FilterPolicy::All, FilterPolicy::default()] {
            let limits = policy.controller().limits(&files, 1);
            assert_eq!(limits, [EVERY_MODULE; 2]);
        }
    }

    #[test]
    fn rates_are_those_of_the_modules() {
        let context = FileContext {
            level: 0,
            keys: 1000,
            partition_keys: 8000,
            page: 4000,
            bits_per_key: None,
        };
        let two = PlanOptions {
            families: Families::Same(Family::Bloom),
            bits_per_key: 10.0,
            modules: 2,
            sizes: ModuleSizes::Equal,
            layout: Layout::Whole,
        };
        let rates = |plan: &FilterPlan| Rates::default().of(plan);
        let found = rates(&plan(&two, &context));
        assert!(found.len() == 2 && found.iter().all(|rate| (rate - 0.092).abs() < 0.001));
        let blocked = PlanOptions {
            families: Families::Same(Family::Blocked),
            ..two
        };
        let blocked = rates(&plan(&blocked, &context));
        assert!(blocked[0] > found[0], "{blocked:?} {found:?}");
        assert_eq!(rates(&FilterPlan::none(Layout::Whole)).len(), 0);
    }

    #[test]
    fn settings_without_sense_are_refused() {
        let bad = [
            FilterPolicy::Elastic {
                initial_units: 0,
                lifetime: 1,
            },
            FilterPolicy::Elastic {
                initial_units: 1,
                lifetime: 0,
            },
            FilterPolicy::Utility {
                skipping: Skipping::Full,
                thresholds: Thresholds::Absolute {
                    first: f64::NAN,
                    later: 0.0,
                },
            },
            FilterPolicy::Utility {
                skipping: Skipping::Partial,
                thresholds: Thresholds::Relative {
                    first: 0.0,
                    later: -1.0,
                },
            },
        ];
        for policy in bad {
            assert!(policy.validate().is_err(), "{policy:?}");
        }
        FilterPolicy::default().validate().unwrap();
    }
}
