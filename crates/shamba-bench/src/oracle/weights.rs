//! How often each entry and each gap between entries is asked for. Pure.
use crate::workload::{Chooser, Distribution, HOT, Mix, Operation, Permutation, random};
use crate::{Error, Result};

/// Lookups by entry: of the key itself, and of the absent key after it.
#[derive(Clone, Debug, PartialEq)]
pub struct Weights {
    /// Lookups of the key of each entry.
    pub present: Vec<f32>,
    /// Lookups of the absent key just after each entry.
    pub absent: Vec<f32>,
}

impl Weights {
    /// What so many lookups of a mix make expect.
    pub fn expected(entries: u64, mix: &Mix, seed: u64, lookups: u64) -> Result<Self> {
        let n = entries as f64;
        let zipf = |rank: u64, theta: f64| ((rank + 1) as f64).powf(-theta);
        let order = Permutation::new(entries, seed);
        let mut mass = vec![0.0; entries as usize];
        for at in 0..entries {
            let (entry, likely) = match mix.distribution {
                Distribution::Uniform => (at, 1.0),
                Distribution::Normal(share) => {
                    // Entries are many within a deviation: the density at an entry's middle is
                    // its integral over the entry.
                    let z = (at as f64 + 0.5 - n / 2.0) / (n * share);
                    (at, (-0.5 * z * z).exp())
                }
                Distribution::Zipf(theta) => (order.apply(at), zipf(at, theta)),
                Distribution::HotSet(share) => {
                    let hot = (n * share).clamp(1.0, n).floor();
                    let any = (1.0 - HOT) / n;
                    let more = if (at as f64) < hot { HOT / hot } else { 0.0 };
                    (order.apply(at), any + more)
                }
                Distribution::Latest => (entries - 1 - at, zipf(at, 0.99)),
                Distribution::NormalKeys(_) | Distribution::Graph => {
                    let name = mix.distribution.name();
                    let what = format!("the optimum of {name} lookups is not known");
                    return Err(Error::InvalidSetting(what));
                }
            };
            mass[entry as usize] = likely;
        }
        let total = mass.iter().sum::<f64>() / lookups as f64;
        let scaled = |operation| {
            let share = mix.share(operation);
            mass.iter().map(|m| (m / total * share) as f32).collect()
        };
        Ok(Self {
            present: scaled(Operation::Read),
            absent: scaled(Operation::ReadMissing),
        })
    }

    /// The lookups that [`runner::run`](crate::runner::run) makes on one thread in this phase.
    pub fn of_trace(entries: u64, mix: &Mix, seed: u64, phase: u64, lookups: u64) -> Result<Self> {
        let mut chooser = Chooser::new(mix.distribution, entries, seed)?;
        let mut random = random(seed, (phase << 8) + 1);
        let mut weights = Self {
            present: vec![0.0; entries as usize],
            absent: vec![0.0; entries as usize],
        };
        for _ in 0..lookups {
            let into = match mix.draw(&mut random) {
                Operation::ReadMissing => &mut weights.absent,
                _ => &mut weights.present,
            };
            into[chooser.draw(&mut random) as usize] += 1.0;
        }
        Ok(weights)
    }

    /// Lookups altogether.
    pub fn total(&self) -> f64 {
        let both = self.present.iter().chain(&self.absent);
        both.map(|weight| f64::from(*weight)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A long trace approaches what is expected, entry by entry and half by half.
    #[test]
    fn expected_counts_are_those_of_a_long_trace() {
        for distribution in [
            Distribution::Uniform,
            Distribution::Normal(0.05),
            Distribution::Zipf(0.99),
            Distribution::HotSet(0.1),
            Distribution::Latest,
        ] {
            let mix = Mix::lookups(0.3, distribution);
            let expected = Weights::expected(500, &mix, 7, 1000).unwrap();
            let lookups = 400_000;
            let trace = Weights::of_trace(500, &mix, 7, 2, lookups).unwrap();
            assert!((expected.total() - 1000.0).abs() < 0.1);
            assert_eq!(trace.total(), lookups as f64);
            let present = (&expected.present, &trace.present);
            for (want, got) in [present, (&expected.absent, &trace.absent)] {
                for (at, (want, got)) in want.iter().zip(got).enumerate() {
                    let want = f64::from(*want) / 1000.0 * lookups as f64;
                    let off = (f64::from(*got) - want).abs();
                    let most = 6.0 * want.sqrt() + 3.0;
                    assert!(off < most, "{distribution:?} {at} {want} {got}");
                }
            }
        }
    }
}
