//! What Monkey's filters need of memory as data grow: reads in vain at equal filter memory, lookup
//! cost over the number of entries, and the bits per key with which they do the work of uniform
//! ones.
//!
//! The tree has the size ratio 2, with which leveling and tiering have the same runs (the paper's
//! setting); it is written by tiering, which counts runs, so that entries can be small. Each search
//! is the read of a data page, if the page is not in memory: in small trees some are, so that
//! searches are shown, and reads beside them.
//!
//! The paper has 6 bits per key do the work of 10 for absent keys and 4 for existing ones. In reads
//! that depends on the number of levels ([`shamba_model::matching`]): the last two tables have it
//! over levels, measured and by the model.
mod equal;

use super::full_tree::{Design, Filters, Measured};
use crate::plot::{Panel, Series};
use crate::progress::Progress;
use crate::report::Report;
use crate::{Error, Result};
use shamba_model::curve::{self, Curve};
use shamba_model::tree::MergePolicy;

/// Bytes of a value.
const VALUE: usize = 12;

/// The most levels that a tree has in the engine.
const LEVELS: u32 = 12;

/// What to measure.
#[derive(Clone, Debug, clap::Args)]
pub struct Settings {
    /// Entries of the smallest tree, as a power of two.
    #[arg(long, default_value_t = 12)]
    pub smallest: u32,
    /// Entries of the largest tree, as a power of two; 24 takes 1 GiB of memory and `--buffer 12`.
    #[arg(long, default_value_t = 20)]
    pub largest: u32,
    /// Entries of a write buffer, as a power of two.
    #[arg(long, default_value_t = 8)]
    pub buffer: u32,
    /// Filter bits per key as the trees grow.
    #[arg(long, default_value_t = 5.0)]
    pub bits: f64,
    /// Bits per key of the uniform filters whose work is to be done with fewer.
    #[arg(long, default_value_t = 10.0)]
    pub uniform_bits: f64,
    /// Bits per key that Monkey's filters are measured with in the largest tree.
    #[arg(long, value_delimiter = ',', default_value = "2,3,4,5,6,7,8,9,10")]
    pub monkey_bits: Vec<f64>,
    /// Lookups of absent keys; half as many of existing ones.
    #[arg(long, default_value_t = 500_000)]
    pub lookups: u64,
    /// Seed of every random choice.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

impl Settings {
    fn design(&self, power: u32, bits_per_key: f64, filters: Filters) -> Design {
        Design {
            policy: MergePolicy::Tiering,
            size_ratio: 2,
            levels: power - self.buffer,
            bits_per_key,
            filters,
            buffer_entries: 1 << self.buffer,
            value: VALUE,
            seed: self.seed,
        }
    }

    fn measure(&self, design: &Design) -> Result<Measured> {
        design.measure(self.lookups, self.lookups.div_ceil(2))
    }

    fn check(&self) -> Result<()> {
        if self.buffer < 4 || self.smallest <= self.buffer || self.largest < self.smallest {
            return Err(Error::InvalidSetting(
                "a buffer from 2^4 entries, trees larger than the buffer, in ascending order"
                    .into(),
            ));
        }
        if self.largest > 28 || self.largest - self.buffer > LEVELS || self.monkey_bits.is_empty() {
            return Err(Error::InvalidSetting(format!(
                "at most 2^28 entries and 2^{LEVELS} buffers (--buffer), and some bits per key"
            )));
        }
        Ok(())
    }
}

/// The tables and plots of the experiment.
#[derive(Debug)]
pub struct Outcome {
    /// Reads by the number of entries at equal memory.
    pub growth: Report,
    /// Reads by bits per key in the largest tree.
    pub bits: Report,
    /// The bits with which Monkey's filters do the work of the uniform ones, by levels.
    pub equals: Report,
    /// The levels at which few bits do the work, by the model.
    pub reach: Report,
    /// The first three, drawn.
    pub panels: Vec<Panel>,
}

/// Measures all.
pub fn run(settings: &Settings, note: &mut dyn FnMut(String)) -> Result<Outcome> {
    settings.check()?;
    let curve = curve::Family::Bloom.curve()?;
    let powers: Vec<u32> = (settings.smallest..=settings.largest)
        .filter(|power| (settings.largest - power).is_multiple_of(2))
        .collect();
    let mut progress = Progress::default();
    for power in &powers {
        (0..2).for_each(|_| progress.expect(&power.to_string()));
    }
    let largest = settings.largest.to_string();
    (0..=settings.monkey_bits.len()).for_each(|_| progress.expect(&largest));
    let mut growth = Vec::new();
    for &power in &powers {
        // First Monkey, whose memory depends a little on the tree, then uniform filters of that
        // memory.
        let mut measure = |bits, filters| -> Result<(Design, Measured)> {
            progress.start();
            let design = settings.design(power, bits, filters);
            let measured = settings.measure(&design)?;
            note(format!(
                "{} 2^{power} entries",
                progress.done(&power.to_string())
            ));
            Ok((design, measured))
        };
        let monkey = measure(settings.bits, Filters::Monkey)?;
        let uniform = measure(monkey.1.bits_per_key, Filters::Uniform)?;
        growth.push((power, uniform, monkey));
    }
    let mut measure = |bits, filters| -> Result<Measured> {
        progress.start();
        let measured = settings.measure(&settings.design(settings.largest, bits, filters))?;
        note(format!("{} {bits} bits per key", progress.done(&largest)));
        Ok(measured)
    };
    let uniform = measure(settings.uniform_bits, Filters::Uniform)?;
    let monkey = (settings.monkey_bits.iter())
        .map(|&bits| measure(bits, Filters::Monkey))
        .collect::<Result<Vec<_>>>()?;
    let (equals, panel) = equal::measured(settings, &powers, &curve, note)?;
    let mut panels = panels(&growth, &uniform, &monkey);
    panels.push(panel);
    Ok(Outcome {
        growth: growth_table(settings, &growth, &curve)?,
        bits: bits_table(settings, &uniform, &monkey),
        equals,
        reach: equal::reach(settings.uniform_bits)?,
        panels,
    })
}

type Pair = (u32, (Design, Measured), (Design, Measured));

fn growth_table(settings: &Settings, rows: &[Pair], curve: &Curve) -> Result<Report> {
    let mut report = Report::new(
        format!(
            "Searches in vain per lookup of an absent key, and searches per lookup of an existing one, \
             as data grow; filters of equal memory, {} bits per key asked for",
            settings.bits
        ),
        &[
            "entries",
            "bits",
            "uniform",
            "model",
            "monkey",
            "model monkey",
            "less by, %",
            "reads uniform",
            "reads monkey",
            "existing uniform",
            "existing monkey",
        ],
    );
    for (power, uniform, monkey) in rows {
        let model = |(design, measured): &(Design, Measured)| -> Result<f64> {
            Ok(design.predict(measured.bits_per_key, curve)?.empty)
        };
        let ratio = monkey.1.false_positives / uniform.1.false_positives;
        report.push(vec![
            2f64.powi(*power as i32).into(),
            monkey.1.bits_per_key.into(),
            uniform.1.false_positives.into(),
            model(uniform)?.into(),
            monkey.1.false_positives.into(),
            model(monkey)?.into(),
            ((1.0 - ratio) * 100.0).into(),
            uniform.1.empty.into(),
            monkey.1.empty.into(),
            uniform.1.searches.into(),
            monkey.1.searches.into(),
        ]);
    }
    Ok(report)
}

fn bits_table(settings: &Settings, uniform: &Measured, monkey: &[Measured]) -> Report {
    let mut report = Report::new(
        format!(
            "Reads per lookup by bits per key, 2^{} entries",
            settings.largest
        ),
        &[
            "filters",
            "bits",
            "empty",
            "to uniform",
            "existing",
            "to uniform's",
        ],
    );
    let all = std::iter::once(("uniform", uniform)).chain(monkey.iter().map(|m| ("monkey", m)));
    for (name, measured) in all {
        report.push(vec![
            name.into(),
            measured.bits_per_key.into(),
            measured.false_positives.into(),
            (measured.false_positives / uniform.false_positives).into(),
            measured.searches.into(),
            (measured.searches / uniform.searches).into(),
        ]);
    }
    report
}

fn panels(rows: &[Pair], uniform: &Measured, monkey: &[Measured]) -> Vec<Panel> {
    let course = |name: &str, of: &dyn Fn(&Pair) -> f64| Series {
        name: name.into(),
        points: rows.iter().map(|row| (f64::from(row.0), of(row))).collect(),
    };
    let bits = |name: &str, all: &[Measured]| Series {
        name: name.into(),
        points: all
            .iter()
            .map(|m| (m.bits_per_key, m.false_positives))
            .collect(),
    };
    vec![
        Panel {
            title: "as data grow, equal filter memory".into(),
            x: "entries, power of two".into(),
            y: "searches in vain per empty lookup".into(),
            log_y: false,
            series: vec![
                course("uniform", &|row| row.1.1.false_positives),
                course("monkey", &|row| row.2.1.false_positives),
            ],
        },
        Panel {
            title: "as data grow, existing keys".into(),
            x: "entries, power of two".into(),
            y: "searches per existing lookup".into(),
            log_y: false,
            series: vec![
                course("uniform", &|row| row.1.1.searches),
                course("monkey", &|row| row.2.1.searches),
            ],
        },
        Panel {
            title: "the largest tree".into(),
            x: "bits per key".into(),
            y: "searches in vain per empty lookup".into(),
            log_y: true,
            series: vec![
                bits("uniform", std::slice::from_ref(uniform)),
                bits("monkey", monkey),
            ],
        },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Cell;

    /// The whole experiment on little data: Monkey errs less, and the more the larger the tree is.
    #[test]
    fn small_trees_show_the_gain() {
        let settings = Settings {
            smallest: 11,
            largest: 15,
            buffer: 8,
            bits: 5.0,
            uniform_bits: 10.0,
            monkey_bits: vec![4.0, 9.0, 12.0],
            lookups: 20_000,
            seed: 1,
        };
        let outcome = run(&settings, &mut |_| ()).unwrap();
        assert_eq!((outcome.growth.rows.len(), outcome.bits.rows.len()), (3, 4));
        let number = |report: &Report, row: usize, at: usize| match report.rows[row][at] {
            Cell::Number(number) => number,
            _ => panic!("{report}"),
        };
        let gains: Vec<f64> = (0..3).map(|row| number(&outcome.growth, row, 6)).collect();
        assert!(gains[0] > 5.0 && gains[2] > gains[0] + 10.0, "{gains:?}");
        // As many bits as the model says, fewer with every level, and fewer for existing keys.
        assert_eq!((outcome.equals.rows.len(), outcome.panels.len()), (3, 4));
        let equals = |row, at| number(&outcome.equals, row, at);
        for row in 0..3 {
            for (measured, model) in [(3, 4), (6, 7)] {
                let off = equals(row, measured) - equals(row, model);
                assert!(off.abs() < 0.8, "{}", outcome.equals);
            }
            assert!(equals(row, 6) < equals(row, 3), "{}", outcome.equals);
        }
        assert!(equals(2, 3) < equals(0, 3), "{}", outcome.equals);
        for (smallest, largest) in [(3, 15), (11, 10), (11, 21)] {
            let wrong = Settings {
                smallest,
                largest,
                ..settings.clone()
            };
            assert!(run(&wrong, &mut |_| ()).is_err());
        }
    }
}
