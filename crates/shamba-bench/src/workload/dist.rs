//! Who is asked for: distributions over the numbers of the entries.
use super::{Permutation, Random};
use crate::{Error, Result};
use rand::RngExt;
use rand_distr::Distribution as _;

/// How lookups spread over the entries.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Distribution {
    /// Every entry is as likely.
    Uniform,
    /// Zipf with this exponent (YCSB: 0.99), popular entries scattered over the key range.
    Zipf(f64),
    /// Normal around the middle of the key range; the standard deviation is this share of it
    /// (the SHaMBa paper's skewed setting: 0.05).
    Normal(f64),
    /// Zipf (0.99) counted back from the newest entry.
    Latest,
}

impl Distribution {
    /// The distribution as a short name: `uniform`, `zipf0.99`, `normal0.05`, `latest`.
    pub fn name(&self) -> String {
        match self {
            Self::Uniform => "uniform".into(),
            Self::Zipf(theta) => format!("zipf{theta}"),
            Self::Normal(share) => format!("normal{share}"),
            Self::Latest => "latest".into(),
        }
    }
}

impl std::str::FromStr for Distribution {
    type Err = Error;

    /// Reads what [`Distribution::name`] writes; `zipf` and `normal` alone take the usual number.
    fn from_str(text: &str) -> Result<Self> {
        let number = |rest: &str, default: f64| match rest {
            "" => Ok(default),
            _ => rest
                .parse()
                .map_err(|_| Error::InvalidSetting(format!("distribution `{text}`"))),
        };
        match text {
            "uniform" => Ok(Self::Uniform),
            "latest" => Ok(Self::Latest),
            _ => {
                if let Some(rest) = text.strip_prefix("zipf") {
                    number(rest, 0.99).map(Self::Zipf)
                } else if let Some(rest) = text.strip_prefix("normal") {
                    number(rest, 0.05).map(Self::Normal)
                } else {
                    Err(Error::InvalidSetting(format!(
                        "distribution `{text}` (uniform, zipf, normal or latest)"
                    )))
                }
            }
        }
    }
}

/// Draws entry numbers below a size. Cheap to make; one for each thread.
#[derive(Clone, Debug)]
pub struct Chooser {
    entries: u64,
    shape: Shape,
}

#[derive(Clone, Debug)]
enum Shape {
    Uniform,
    Zipf(rand_distr::Zipf<f64>, Permutation),
    Normal(rand_distr::Normal<f64>),
    Latest(rand_distr::Zipf<f64>),
}

impl Chooser {
    /// A chooser among `entries` numbers (at least 1). `seed` decides which entries are popular,
    /// so choosers of one measurement share it.
    pub fn new(distribution: Distribution, entries: u64, seed: u64) -> Result<Self> {
        let entries = entries.max(1);
        let zipf = |theta: f64| {
            rand_distr::Zipf::new(entries as f64, theta)
                .map_err(|e| Error::InvalidSetting(format!("Zipf exponent {theta}: {e}")))
        };
        let shape = match distribution {
            Distribution::Uniform => Shape::Uniform,
            Distribution::Zipf(theta) => Shape::Zipf(zipf(theta)?, Permutation::new(entries, seed)),
            Distribution::Normal(share) => Shape::Normal(
                rand_distr::Normal::new(entries as f64 / 2.0, entries as f64 * share)
                    .map_err(|e| Error::InvalidSetting(format!("normal, {share}: {e}")))?,
            ),
            Distribution::Latest => Shape::Latest(zipf(0.99)?),
        };
        Ok(Self { entries, shape })
    }

    /// The number of the next entry to ask for.
    pub fn draw(&self, random: &mut Random) -> u64 {
        match &self.shape {
            Shape::Uniform => random.random_range(0..self.entries),
            Shape::Zipf(zipf, order) => order.apply(self.rank(zipf, random)),
            Shape::Normal(normal) => loop {
                let at = normal.sample(random);
                if at >= 0.0 && at < self.entries as f64 {
                    return at as u64;
                }
            },
            Shape::Latest(zipf) => self.entries - 1 - self.rank(zipf, random),
        }
    }

    /// As [`draw`](Self::draw) when `inserted` entries have been added since: `Latest` counts back
    /// from the newest of them.
    pub fn draw_after(&self, inserted: u64, random: &mut Random) -> u64 {
        match &self.shape {
            Shape::Latest(zipf) => self.entries + inserted - 1 - self.rank(zipf, random),
            _ => self.draw(random),
        }
    }

    fn rank(&self, zipf: &rand_distr::Zipf<f64>, random: &mut Random) -> u64 {
        (zipf.sample(random) as u64 - 1).min(self.entries - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::random;

    fn draws(distribution: Distribution, seed: u64) -> Vec<u64> {
        let chooser = Chooser::new(distribution, 1000, 1).unwrap();
        let mut random = random(seed, 0);
        (0..20_000).map(|_| chooser.draw(&mut random)).collect()
    }

    fn counts(draws: &[u64]) -> Vec<usize> {
        let mut counts = vec![0; 1000];
        for draw in draws {
            counts[*draw as usize] += 1;
        }
        counts
    }

    #[test]
    fn the_seed_decides() {
        for distribution in [
            Distribution::Uniform,
            Distribution::Zipf(0.99),
            Distribution::Normal(0.05),
            Distribution::Latest,
        ] {
            assert_eq!(draws(distribution, 1), draws(distribution, 1));
            assert_ne!(draws(distribution, 1), draws(distribution, 2));
            let name = distribution.name();
            assert_eq!(name.parse::<Distribution>().unwrap(), distribution);
        }
        assert!("zipfx".parse::<Distribution>().is_err());
        assert!("flat".parse::<Distribution>().is_err());
    }

    #[test]
    fn uniform_is_flat() {
        let counts = counts(&draws(Distribution::Uniform, 1));
        assert!(counts.iter().all(|c| *c < 50), "{:?}", counts.iter().max());
    }

    #[test]
    fn zipf_has_a_few_popular_entries_far_apart() {
        let mut ranked: Vec<_> = counts(&draws(Distribution::Zipf(0.99), 1))
            .into_iter()
            .enumerate()
            .collect();
        ranked.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        // 1 / H(1000, 0.99) = 13 % of the draws go to the first entry.
        assert!((2300..3000).contains(&ranked[0].1), "{}", ranked[0].1);
        assert!(ranked[0].0.abs_diff(ranked[1].0) > 1);
    }

    #[test]
    fn normal_stays_near_the_middle() {
        let draws = draws(Distribution::Normal(0.05), 1);
        let near = draws.iter().filter(|d| (450..550).contains(*d)).count();
        let share = near as f64 / draws.len() as f64;
        assert!((0.66..0.71).contains(&share), "{share}");
    }

    #[test]
    fn latest_prefers_the_newest() {
        assert!(counts(&draws(Distribution::Latest, 1))[999] > 2000);
        let chooser = Chooser::new(Distribution::Latest, 1000, 1).unwrap();
        let mut random = random(1, 0);
        assert!((0..1000).any(|_| chooser.draw_after(10, &mut random) == 1009));
    }
}
