//! How long values, keys and scans are: one length, or a distribution of lengths. Plain data.
use super::Random;
use crate::{Error, Result};
use rand::RngExt;

/// A distribution of lengths.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sizes {
    /// Always the same.
    Fixed(usize),
    /// From the first to the second, both included, each as likely.
    Uniform(usize, usize),
    /// A generalised Pareto distribution, cut off at `most`: how the FAST 2020 study of RocksDB at
    /// Facebook models value sizes and scan lengths (Cao, Dong, Vemuri, Du, section 6).
    Pareto {
        /// The shape, above 0.
        k: f64,
        /// The scale.
        sigma: f64,
        /// The least length.
        least: usize,
        /// The greatest length.
        most: usize,
    },
}

impl Sizes {
    /// Value sizes of Facebook's social graph store, with mean 35 (the parameters that RocksDB's
    /// `mixgraph` benchmark is documented with); at most 1 KiB.
    pub const GRAPH_VALUES: Self = Self::Pareto {
        k: 0.2615,
        sigma: 25.45,
        least: 1,
        most: 1024,
    };

    /// Scan lengths of the same; at most 10,000 entries, as the benchmark cuts them.
    pub const GRAPH_SCANS: Self = Self::Pareto {
        k: 2.517,
        sigma: 14.236,
        least: 1,
        most: 10_000,
    };

    /// The mean length, as if nothing were cut off; infinite where the distribution has none.
    pub fn mean(&self) -> f64 {
        match *self {
            Self::Fixed(length) => length as f64,
            Self::Uniform(least, most) => (least + most) as f64 / 2.0,
            Self::Pareto { k, .. } if k >= 1.0 => f64::INFINITY,
            Self::Pareto {
                k, sigma, least, ..
            } => least as f64 + sigma / (1.0 - k),
        }
    }

    /// A length.
    pub fn draw(&self, random: &mut Random) -> usize {
        match *self {
            Self::Fixed(length) => length,
            Self::Uniform(least, most) => random.random_range(least..=most.max(least)),
            Self::Pareto {
                k,
                sigma,
                least,
                most,
            } => {
                // The inverse of the distribution function at 1 - u.
                let u: f64 = random.random_range(f64::EPSILON..1.0);
                let above = sigma * (u.powf(-k) - 1.0) / k;
                (least + above as usize).min(most)
            }
        }
    }
}

impl From<usize> for Sizes {
    fn from(length: usize) -> Self {
        Self::Fixed(length)
    }
}

impl std::str::FromStr for Sizes {
    type Err = Error;

    /// Reads `100`, `10-200`, or `graph` for [`GRAPH_VALUES`](Self::GRAPH_VALUES).
    fn from_str(text: &str) -> Result<Self> {
        let (least, most) = text.split_once('-').unwrap_or((text, text));
        match (least.parse(), most.parse()) {
            (Ok(least), Ok(most)) if least == most => Ok(Self::Fixed(least)),
            (Ok(least), Ok(most)) if least < most => Ok(Self::Uniform(least, most)),
            _ if text == "graph" => Ok(Self::GRAPH_VALUES),
            _ => Err(Error::InvalidSetting(format!(
                "sizes `{text}` (a number, LEAST-MOST, or graph)"
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::random;

    #[test]
    fn lengths_keep_their_bounds_and_their_mean() {
        let mut random = random(1, 0);
        for (sizes, least, most, mean) in [
            (Sizes::Fixed(7), 7, 7, 7.0..7.1),
            (Sizes::Uniform(10, 20), 10, 20, 14.5..15.5),
            // The mean is sigma / (1 - k) above the least, less what rounding down takes.
            (Sizes::GRAPH_VALUES, 1, 1024, 33.5..36.0),
            (Sizes::GRAPH_SCANS, 1, 10_000, 300.0..2000.0),
        ] {
            let drawn: Vec<usize> = (0..50_000).map(|_| sizes.draw(&mut random)).collect();
            assert!(drawn.iter().all(|length| (least..=most).contains(length)));
            let sum: usize = drawn.iter().sum();
            let got = sum as f64 / drawn.len() as f64;
            assert!(mean.contains(&got), "{sizes:?}: {got}");
            // Lengths are rounded down.
            let near = (sizes.mean() - got).abs() < 1.0;
            assert!(near || sizes.mean().is_infinite(), "{sizes:?}: {got}");
        }
    }

    #[test]
    fn sizes_are_read() {
        let read = |text: &str| text.parse::<Sizes>().unwrap();
        assert_eq!(read("3"), Sizes::Fixed(3));
        assert_eq!(read("1-9"), Sizes::Uniform(1, 9));
        assert_eq!(read("graph"), Sizes::GRAPH_VALUES);
        for wrong in ["", "x", "9-1", "1-2-3"] {
            assert!(wrong.parse::<Sizes>().is_err(), "{wrong}");
        }
    }
}
