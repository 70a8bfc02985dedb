//! Mixes of operations: the core workloads A to F of YCSB, Facebook's mixed graph, and those of
//! LevelDB's and RocksDB's `db_bench`.
use super::{Distribution, Random, Sizes};
use crate::{Error, Result};
use rand::RngExt;

/// One kind of operation in a mix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Operation {
    /// Look an existing entry up.
    Read,
    /// Look up a key that is not there.
    ReadMissing,
    /// Overwrite an existing entry.
    Update,
    /// Add an entry.
    Insert,
    /// Read a range from an existing key on.
    Scan,
    /// Read an entry and write it back.
    ReadModifyWrite,
}

/// Shares of operations, and the distribution of their keys.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Mix {
    /// Operations and their shares; the shares sum to 1.
    pub shares: Vec<(Operation, f64)>,
    /// How operations on existing entries spread.
    pub distribution: Distribution,
    /// Entries of a scan.
    pub scan: Sizes,
}

impl Mix {
    /// The mixes that have a name, which reads as one ([`FromStr`](std::str::FromStr)). Those that
    /// add entries come last: what scans may then expect is unknown.
    pub const NAMES: [&str; 12] = [
        "overwrite",
        "readrandom",
        "readmissing",
        "seekrandom",
        "scan",
        "mixgraph",
        "ycsb-a",
        "ycsb-b",
        "ycsb-c",
        "ycsb-f",
        "ycsb-d",
        "ycsb-e",
    ];

    /// The YCSB core workload of this letter, `a` to `f` in either case.
    pub fn ycsb(letter: char) -> Result<Self> {
        use Operation::{Insert, Read, ReadModifyWrite, Scan, Update};
        let zipf = Distribution::Zipf(0.99);
        Ok(match letter.to_ascii_lowercase() {
            'a' => Self::of([(Read, 0.5), (Update, 0.5)], zipf),
            'b' => Self::of([(Read, 0.95), (Update, 0.05)], zipf),
            'c' => Self::only(Read, zipf),
            'd' => Self::of([(Read, 0.95), (Insert, 0.05)], Distribution::Latest),
            'e' => Self::of([(Scan, 0.95), (Insert, 0.05)], zipf),
            'f' => Self::of([(Read, 0.5), (ReadModifyWrite, 0.5)], zipf),
            _ => {
                let what = format!("there is no YCSB workload `{letter}` (a to f)");
                return Err(Error::InvalidSetting(what));
            }
        })
    }

    /// The social graph store of Facebook: 85 % lookups, 14 % updates, 1 % scans (the "All_random"
    /// mix with its key ranges of section 7 of the FAST 2020 study). Values go with it:
    /// [`Sizes::GRAPH_VALUES`].
    pub fn graph() -> Self {
        use Operation::{Read, Scan, Update};
        Self {
            shares: vec![(Read, 0.85), (Update, 0.14), (Scan, 0.01)],
            distribution: Distribution::Graph,
            scan: Sizes::GRAPH_SCANS,
        }
    }

    /// A mix of one operation only.
    pub fn only(operation: Operation, distribution: Distribution) -> Self {
        Self::of([(operation, 1.0)], distribution)
    }

    fn of(shares: impl Into<Vec<(Operation, f64)>>, distribution: Distribution) -> Self {
        Self {
            shares: shares.into(),
            distribution,
            scan: Sizes::Uniform(1, 100),
        }
    }

    /// Lookups of which the share `positive` (0 to 1) concerns existing entries.
    pub fn lookups(positive: f64, distribution: Distribution) -> Self {
        let shares = [
            (Operation::Read, positive),
            (Operation::ReadMissing, 1.0 - positive),
        ];
        Self::of(shares, distribution)
    }

    /// The share of an operation.
    pub fn share(&self, operation: Operation) -> f64 {
        let own = self.shares.iter().filter(|(known, _)| *known == operation);
        own.map(|(_, share)| share).sum()
    }

    /// Whether it writes.
    pub fn writes(&self) -> bool {
        use Operation::{Insert, ReadModifyWrite, Update};
        [Update, Insert, ReadModifyWrite].map(|operation| self.share(operation)) != [0.0; 3]
    }

    /// Whether it adds entries.
    pub fn inserts(&self) -> bool {
        self.share(Operation::Insert) > 0.0
    }

    /// The next operation.
    pub fn draw(&self, random: &mut Random) -> Operation {
        let mut at: f64 = random.random();
        let mut last = Operation::Read;
        for (operation, share) in &self.shares {
            if *share <= 0.0 {
                continue;
            }
            last = *operation;
            if at < *share {
                break;
            }
            at -= share;
        }
        last
    }
}

impl std::str::FromStr for Mix {
    type Err = Error;

    /// One of [`NAMES`](Self::NAMES): without a distribution of their own they are uniform.
    fn from_str(name: &str) -> Result<Self> {
        let only = |operation| Self::only(operation, Distribution::Uniform);
        let scans = |entries| Self {
            scan: Sizes::Fixed(entries),
            ..only(Operation::Scan)
        };
        Ok(match name {
            "overwrite" => only(Operation::Update),
            "readrandom" => only(Operation::Read),
            "readmissing" => only(Operation::ReadMissing),
            // A seek, and ten more entries.
            "seekrandom" => scans(11),
            "scan" => scans(1000),
            "mixgraph" => Self::graph(),
            _ => {
                let letter = name.strip_prefix("ycsb-");
                let letter = letter.and_then(|letter| letter.parse().ok());
                let names = Self::NAMES.join(", ");
                let unknown = || Error::InvalidSetting(format!("workload `{name}` (of {names})"));
                Self::ycsb(letter.ok_or_else(unknown)?)?
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::random;

    #[test]
    fn the_shares_come_out() {
        for letter in 'a'..='f' {
            let mix = Mix::ycsb(letter).unwrap();
            let total: f64 = mix.shares.iter().map(|(_, share)| share).sum();
            assert!((total - 1.0).abs() < 1e-9);
            let mut random = random(u64::from(letter), 0);
            let drawn: Vec<_> = (0..10_000).map(|_| mix.draw(&mut random)).collect();
            for (operation, share) in &mix.shares {
                let found = drawn.iter().filter(|o| *o == operation).count() as f64 / 10_000.0;
                let off = (found - share).abs();
                assert!(off < 0.02, "{letter} {operation:?} {found}");
            }
        }
        assert!(Mix::ycsb('g').is_err());
    }

    #[test]
    fn a_share_of_nothing_never_comes() {
        let mut random = random(1, 0);
        let all = Mix::lookups(1.0, Distribution::Uniform);
        let none = Mix::lookups(0.0, Distribution::Uniform);
        for _ in 0..10_000 {
            assert_eq!(all.draw(&mut random), Operation::Read);
            assert_eq!(none.draw(&mut random), Operation::ReadMissing);
        }
    }
}
