//! Who is asked for: distributions over the numbers of the entries.
use super::{Permutation, Random, mix};
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
    /// Normal around the middle of the key range; the standard deviation is so many keys.
    NormalKeys(f64),
    /// A share of the entries, scattered over the key range, is asked for by nine lookups in ten;
    /// the tenth asks for any entry.
    HotSet(f64),
    /// Zipf (0.99) counted back from the newest entry.
    Latest,
    /// Facebook's social graph: key ranges of different heat, and in each a power law.
    Graph,
}

/// Key ranges of [`Distribution::Graph`], and the parameters `a, b, c, d` of their heat, which is
/// `a e^(b x) + c e^(d x)` of the range in rank `x` (as RocksDB's `mixgraph` is documented).
const GRAPH_RANGES: usize = 30;
const GRAPH_HEAT: [f64; 4] = [14.18, -2.917, 0.0164, -0.08082];

/// In a range, the share of draws up to the key in rank `x` is `a x^b`.
const GRAPH_KEYS: [f64; 2] = [0.002312, 0.3467];

/// The share of draws that [`Distribution::HotSet`] makes of its hot entries.
pub(crate) const HOT: f64 = 0.9;

impl Distribution {
    /// The distribution as a short name: `uniform`, `zipf0.99`, `normal0.05`, `latest`.
    pub fn name(&self) -> String {
        match self {
            Self::Uniform => "uniform".into(),
            Self::Zipf(theta) => format!("zipf{theta}"),
            Self::Normal(share) => format!("normal{share}"),
            Self::NormalKeys(keys) => format!("normal-keys{keys}"),
            Self::HotSet(share) => format!("hot-set{share}"),
            Self::Latest => "latest".into(),
            Self::Graph => "graph".into(),
        }
    }
}

impl std::str::FromStr for Distribution {
    type Err = Error;

    /// Reads what [`Distribution::name`] writes; `zipf` and `normal` alone take the usual number.
    fn from_str(text: &str) -> Result<Self> {
        let wrong = || {
            Error::InvalidSetting(format!(
                "distribution `{text}` (uniform, zipf[EXPONENT], normal[SHARE], normal-keys[KEYS], \
                 hot-set[SHARE], latest or graph)"
            ))
        };
        let digits = text.find(|c: char| c.is_ascii_digit());
        let (name, number) = text.split_at(digits.unwrap_or(text.len()));
        let or = |usual: f64| match number {
            "" => Ok(usual),
            _ => number.parse().map_err(|_| wrong()),
        };
        match (name, number) {
            ("uniform", "") => Ok(Self::Uniform),
            ("latest", "") => Ok(Self::Latest),
            ("graph", "") => Ok(Self::Graph),
            ("zipf", _) => or(0.99).map(Self::Zipf),
            ("normal", _) => or(0.05).map(Self::Normal),
            ("normal-keys", _) => or(5.0).map(Self::NormalKeys),
            ("hot-set", _) => or(0.01).map(Self::HotSet),
            _ => Err(wrong()),
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
    /// How many entries are hot, and which.
    HotSet(u64, Permutation),
    Latest(rand_distr::Zipf<f64>),
    /// The summed heat of the ranges, in the order of the keys.
    Graph(Vec<f64>),
}

impl Chooser {
    /// A chooser among `entries` numbers (at least 1). `seed` decides which entries are popular, so
    /// choosers of one measurement share it.
    pub fn new(distribution: Distribution, entries: u64, seed: u64) -> Result<Self> {
        let entries = entries.max(1);
        let zipf = |theta: f64| {
            rand_distr::Zipf::new(entries as f64, theta)
                .map_err(|e| Error::InvalidSetting(format!("Zipf exponent {theta}: {e}")))
        };
        let keys = |share: f64| entries as f64 * share;
        let normal = |centre: f64, deviation: f64| {
            rand_distr::Normal::new(centre, deviation)
                .map_err(|e| Error::InvalidSetting(format!("normal, {deviation} keys: {e}")))
        };
        let shape = match distribution {
            Distribution::Uniform => Shape::Uniform,
            Distribution::Zipf(theta) => Shape::Zipf(zipf(theta)?, Permutation::new(entries, seed)),
            Distribution::Normal(share) => Shape::Normal(normal(keys(0.5), keys(share))?),
            Distribution::NormalKeys(deviation) => Shape::Normal(normal(keys(0.5), deviation)?),
            Distribution::HotSet(share) => {
                let hot = (entries as f64 * share) as u64;
                Shape::HotSet(hot.clamp(1, entries), Permutation::new(entries, seed))
            }
            Distribution::Latest => Shape::Latest(zipf(0.99)?),
            Distribution::Graph => Shape::Graph(graph_ranges(seed)),
        };
        Ok(Self { entries, shape })
    }

    /// The number of the next entry to ask for.
    pub fn draw(&mut self, random: &mut Random) -> u64 {
        let entries = self.entries;
        match &self.shape {
            Shape::Uniform => random.random_range(0..entries),
            Shape::Zipf(zipf, order) => order.apply(rank(zipf, entries, random)),
            Shape::Normal(normal) => loop {
                let at = normal.sample(random);
                if at >= 0.0 && at < entries as f64 {
                    return at as u64;
                }
            },
            Shape::HotSet(hot, order) => {
                let is_hot = random.random_bool(HOT);
                let among = if is_hot { *hot } else { entries };
                order.apply(random.random_range(0..among))
            }
            Shape::Latest(zipf) => entries - 1 - rank(zipf, entries, random),
            Shape::Graph(ranges) => {
                let total = ranges.last().copied().unwrap_or(1.0);
                let at = random.random_range(0.0..total);
                let range = ranges.partition_point(|sum| *sum <= at) as u64;
                let bound = |range: u64| entries * range / GRAPH_RANGES as u64;
                let (from, to) = (bound(range), bound(range + 1).max(bound(range) + 1));
                let u: f64 = random.random_range(0.0..1.0);
                let key = (u / GRAPH_KEYS[0]).powf(1.0 / GRAPH_KEYS[1]) as u64;
                (from + mix(key) % (to - from)).min(entries - 1)
            }
        }
    }

    /// As [`draw`](Self::draw) when `inserted` entries have been added since: `Latest` counts back
    /// from the newest of them.
    pub fn draw_after(&mut self, inserted: u64, random: &mut Random) -> u64 {
        match &self.shape {
            Shape::Latest(zipf) => self.entries + inserted - 1 - rank(zipf, self.entries, random),
            _ => self.draw(random),
        }
    }
}

fn rank(zipf: &rand_distr::Zipf<f64>, entries: u64, random: &mut Random) -> u64 {
    (zipf.sample(random) as u64 - 1).min(entries - 1)
}

/// Summed heat of the key ranges, whose ranks are shuffled.
fn graph_ranges(seed: u64) -> Vec<f64> {
    let [a, b, c, d] = GRAPH_HEAT;
    let order = Permutation::new(GRAPH_RANGES as u64, seed);
    let heat = |range: usize| {
        let rank = order.apply(range as u64) as f64 + 1.0;
        a * (b * rank).exp() + c * (d * rank).exp()
    };
    let sums = (0..GRAPH_RANGES).scan(0.0, |sum, range| {
        *sum += heat(range);
        Some(*sum)
    });
    sums.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::random;

    fn draws(distribution: Distribution, seed: u64) -> Vec<u64> {
        let mut chooser = Chooser::new(distribution, 1000, 1).unwrap();
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
            Distribution::NormalKeys(5.0),
            Distribution::HotSet(0.01),
            Distribution::Latest,
            Distribution::Graph,
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
        let counts = counts(&draws(Distribution::Zipf(0.99), 1));
        let mut ranked: Vec<_> = counts.into_iter().enumerate().collect();
        ranked.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        // 1 / H(1000, 0.99) = 13 % of the draws go to the first entry.
        assert!((2300..3000).contains(&ranked[0].1), "{}", ranked[0].1);
        assert!(ranked[0].0.abs_diff(ranked[1].0) > 1);
    }

    #[test]
    fn normal_stays_near_the_middle() {
        let drawn = draws(Distribution::Normal(0.05), 1);
        let near = drawn.iter().filter(|d| (450..550).contains(*d)).count();
        let share = near as f64 / drawn.len() as f64;
        assert!((0.66..0.71).contains(&share), "{share}");
        let by_keys = draws(Distribution::NormalKeys(50.0), 1);
        assert_eq!(by_keys, drawn, "50 of 1000 keys are the share 0.05");
    }

    #[test]
    fn a_hot_set_is_few_entries_far_apart() {
        let counts = counts(&draws(Distribution::HotSet(0.01), 1));
        let hot: Vec<usize> = (0..1000).filter(|at| counts[*at] > 1000).collect();
        assert_eq!(hot.len(), 10);
        assert!(hot[9] - hot[0] > 500, "{hot:?}");
        // And a tenth of the others.
        let share = hot.iter().map(|at| counts[*at]).sum::<usize>() as f64 / 20_000.0;
        assert!((0.89..0.91).contains(&share), "{share}");
    }

    #[test]
    fn latest_prefers_the_newest() {
        assert!(counts(&draws(Distribution::Latest, 1))[999] > 2000);
        let mut chooser = Chooser::new(Distribution::Latest, 1000, 1).unwrap();
        let mut random = random(1, 0);
        assert!((0..1000).any(|_| chooser.draw_after(10, &mut random) == 1009));
    }

    #[test]
    fn the_graph_has_hot_ranges_and_hot_keys() {
        let counts = counts(&draws(Distribution::Graph, 1));
        let bound = |range: usize| 1000 * range / 30;
        let of = |range: usize| counts[bound(range)..bound(range + 1)].iter().sum();
        let mut ranges: Vec<usize> = (0..30).map(of).collect();
        ranges.sort_unstable();
        // The hottest range has e^-2.917 times 14.18 and a little of a total near 1.01.
        let hottest = ranges[29] as f64 / 20_000.0;
        assert!((0.70..0.85).contains(&hottest), "{hottest}");
        assert!(ranges[0] > 0);
    }
}
