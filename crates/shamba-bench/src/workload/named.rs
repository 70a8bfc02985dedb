//! The workloads that have a name: those of LevelDB's and RocksDB's `db_bench`, and YCSB's.
use super::{Distribution, Mix, Operation, Sizes};
use crate::{Error, Result};
use std::fmt;
use std::str::FromStr;

/// A named workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workload {
    /// Writes every entry in key order.
    FillSeq,
    /// Writes every entry in random order.
    FillRandom,
    /// Writes random existing entries again.
    Overwrite,
    /// Looks existing entries up.
    ReadRandom,
    /// Looks absent keys up.
    ReadMissing,
    /// Seeks to an existing entry and reads ten more.
    SeekRandom,
    /// Reads ranges of 1000 entries.
    Scan,
    /// `ReadRandom` beside one writer.
    ReadWhileWriting,
    /// A YCSB core workload, `a` to `f`.
    Ycsb(char),
    /// Facebook's social graph: [`Mix::graph`].
    MixGraph,
}

impl Workload {
    /// Every named workload.
    pub const ALL: [Self; 15] = [
        Self::FillSeq,
        Self::FillRandom,
        Self::Overwrite,
        Self::ReadRandom,
        Self::ReadMissing,
        Self::SeekRandom,
        Self::Scan,
        Self::ReadWhileWriting,
        // Before those that add entries: what scans may then expect is unknown.
        Self::MixGraph,
        Self::Ycsb('a'),
        Self::Ycsb('b'),
        Self::Ycsb('c'),
        Self::Ycsb('d'),
        Self::Ycsb('e'),
        Self::Ycsb('f'),
    ];

    /// Whether it loads the entries that the others expect.
    pub fn fills(self) -> bool {
        matches!(self, Self::FillSeq | Self::FillRandom)
    }

    /// Its operations; `None` for those that fill. Without a distribution YCSB takes its own and
    /// the others uniform.
    pub fn mix(self, distribution: Option<Distribution>) -> Option<Mix> {
        let only = |operation| Mix::only(operation, Distribution::Uniform);
        let mut mix = match self {
            Self::FillSeq | Self::FillRandom => return None,
            Self::Overwrite => only(Operation::Update),
            Self::ReadRandom | Self::ReadWhileWriting => only(Operation::Read),
            Self::ReadMissing => only(Operation::ReadMissing),
            Self::SeekRandom => Mix {
                scan: Sizes::Fixed(11),
                ..only(Operation::Scan)
            },
            Self::Scan => Mix {
                scan: Sizes::Fixed(1000),
                ..only(Operation::Scan)
            },
            Self::Ycsb(letter) => Mix::ycsb(letter).ok()?,
            Self::MixGraph => Mix::graph(),
        };
        if let Some(distribution) = distribution {
            mix.distribution = distribution;
        }
        Some(mix)
    }
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self {
            Self::FillSeq => "fillseq",
            Self::FillRandom => "fillrandom",
            Self::Overwrite => "overwrite",
            Self::ReadRandom => "readrandom",
            Self::ReadMissing => "readmissing",
            Self::SeekRandom => "seekrandom",
            Self::Scan => "scan",
            Self::ReadWhileWriting => "readwhilewriting",
            Self::MixGraph => "mixgraph",
            Self::Ycsb(letter) => return write!(f, "ycsb-{letter}"),
        };
        f.pad(name)
    }
}

impl FromStr for Workload {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let known = Self::ALL.iter().find(|workload| {
            let name = workload.to_string();
            name.eq_ignore_ascii_case(text) || name.replace('-', "").eq_ignore_ascii_case(text)
        });
        known.copied().ok_or_else(|| {
            let names: Vec<String> = Self::ALL.iter().map(ToString::to_string).collect();
            Error::InvalidSetting(format!("workload `{text}` (one of {})", names.join(", ")))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_go_both_ways() {
        for workload in Workload::ALL {
            assert_eq!(workload.to_string().parse::<Workload>().unwrap(), workload);
            assert_eq!(workload.mix(None).is_none(), workload.fills());
        }
        assert_eq!("YCSBa".parse::<Workload>().unwrap(), Workload::Ycsb('a'));
        assert!("ycsb-g".parse::<Workload>().is_err());
    }

    #[test]
    fn a_distribution_replaces_the_own_one() {
        let mix = |distribution| Workload::Ycsb('c').mix(distribution).unwrap();
        assert_eq!(mix(None).distribution, Distribution::Zipf(0.99));
        let uniform = mix(Some(Distribution::Uniform));
        assert_eq!(uniform.distribution, Distribution::Uniform);
    }
}
