//! How large the experiments are. Plain data: every size an experiment needs follows from its
//! scale.
use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use std::fmt;

/// How large the experiments are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scale {
    /// Seconds for each: for tests that nothing is broken. Its figures mean nothing.
    Tiny,
    /// All of them in 20 minutes on two cores.
    Quick,
    /// Half of the largest: hours, and as many again for each further seed.
    Standard,
    /// The largest: the papers' sizes, or what comes as near as a day allows.
    Paper,
}

impl Scale {
    /// One value for each scale.
    pub fn pick<T>(self, tiny: T, quick: T, standard: T, paper: T) -> T {
        match self {
            Self::Tiny => tiny,
            Self::Quick => quick,
            Self::Standard => standard,
            Self::Paper => paper,
        }
    }

    /// One value for the tests' scale and one for the others.
    pub fn tiny_or<T>(self, tiny: T, full: T) -> T {
        match self {
            Self::Tiny => tiny,
            _ => full,
        }
    }

    /// Entries of 64 B in the setting of the SHaMBa paper. From 7,000,000 on a tenth of their
    /// filters and indexes is more than the least memory.
    pub fn entries(self) -> u64 {
        self.pick(20_000, 1_000_000, 8_000_000, 16_000_000)
    }

    /// Bytes of the write buffer and of a file: smaller with fewer entries, so that there are about
    /// as many files in a level, and at least so large that a filter takes several pages.
    pub fn file(self) -> u64 {
        self.pick(64 << 10, 1 << 20, 2 << 20, 4 << 20)
    }

    /// Lookups before measuring, and measured.
    pub fn lookups(self) -> (u64, u64) {
        self.pick(
            (200, 200),
            (6_000, 3_000),
            (30_000, 15_000),
            (60_000, 30_000),
        )
    }

    /// The same where times are what counts, so that nothing else is measured meanwhile.
    pub fn lookups_by_the_clock(self) -> (u64, u64) {
        match self {
            Self::Standard => (10_000, 5_000),
            _ => self.lookups(),
        }
    }

    /// Budgets in percent of filters and indexes.
    pub fn budgets(self) -> &'static [f64] {
        self.pick(
            &[10.0, 100.0],
            &[10.0, 40.0, 100.0],
            &[10.0, 25.0, 50.0, 75.0, 100.0, 150.0],
            &[10.0, 25.0, 50.0, 75.0, 100.0, 125.0, 150.0],
        )
    }
}

impl fmt::Display for Scale {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.pick("tiny", "quick", "standard", "paper"))
    }
}
