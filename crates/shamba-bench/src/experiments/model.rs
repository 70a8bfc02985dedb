//! Monkey's cost model beside the engine: reads per lookup of absent and of existing keys, and how
//! often an entry is written, for leveling and tiering, several size ratios and bits per key, with
//! uniform filters and with Monkey's.
//!
//! Reads are storage reads that the engine counted; the model's are those of the model's tree with
//! the filter memory that the engine's tree really has, which is shown beside what was asked for.
//!
//! One thing the model does not have: the few pages of the smallest levels stay in what little room
//! there is for data, so that uniform filters, which err there as often as elsewhere, read some
//! percent less. Writes are those of the engine's tree, which writes each buffer to level 0 before
//! it is merged and each tiered run before it is merged on ([`shamba_model::merging`]); those of
//! the paper's tree (Eq. 10) are beside them.
use super::full_tree::{Design, Filters, Measured, Predicted, WIDE};
use crate::plot::{Panel, Series};
use crate::progress::Progress;
use crate::report::Report;
use crate::{Error, Result};
use shamba_model::curve;
use shamba_model::tree::MergePolicy;

/// How far measured reads may be from the model's.
pub const READS_GOAL: f64 = 0.10;

/// How far measured writes may be from the model's.
pub const WRITES_GOAL: f64 = 0.15;

/// What to measure.
#[derive(Clone, Debug, clap::Args)]
pub struct Settings {
    /// Size ratios.
    #[arg(long, value_delimiter = ',', default_value = "2,4,10")]
    pub ratios: Vec<u32>,
    /// Filter bits per key.
    #[arg(long, value_delimiter = ',', default_value = "1,2,4,5,6,8,10,12,16")]
    pub bits: Vec<f64>,
    /// Entries, about: as many as fill the levels.
    #[arg(long, default_value_t = 65_536)]
    pub entries: u64,
    /// Entries of a write buffer.
    #[arg(long, default_value_t = 512)]
    pub buffer: u64,
    /// Lookups of absent keys; a fifth as many of existing ones.
    #[arg(long, default_value_t = 1_000_000)]
    pub lookups: u64,
    /// Seed of every random choice.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

impl Settings {
    /// The designs to measure.
    fn designs(&self) -> Result<Vec<Design>> {
        let mut designs = Vec::new();
        for policy in [MergePolicy::Leveling, MergePolicy::Tiering] {
            for &size_ratio in &self.ratios {
                if size_ratio < 2 || self.buffer < 16 || self.entries < 4 * self.buffer {
                    return Err(Error::InvalidSetting(
                        "ratios from 2, buffers from 16 entries, entries from 4 buffers".into(),
                    ));
                }
                let flushes = self.entries as f64 / self.buffer as f64;
                let levels = flushes.ln() / f64::from(size_ratio).ln();
                for filters in [Filters::Uniform, Filters::Monkey] {
                    let design = |&bits_per_key: &f64| Design {
                        policy,
                        size_ratio,
                        levels: (levels.round() as u32).max(1),
                        bits_per_key,
                        filters,
                        buffer_entries: self.buffer,
                        value: WIDE,
                        seed: self.seed,
                    };
                    designs.extend(self.bits.iter().map(design));
                }
            }
        }
        Ok(designs)
    }
}

fn name(policy: MergePolicy) -> &'static str {
    match policy {
        MergePolicy::Leveling => "leveling",
        MergePolicy::Tiering => "tiering",
        MergePolicy::LazyLeveling => "lazy leveling",
    }
}

/// Measures every design. Returns the table, what of it keeps the goals, and the plots.
pub fn run(
    settings: &Settings,
    note: &mut dyn FnMut(String),
) -> Result<(Report, Report, Vec<Panel>)> {
    let designs = settings.designs()?;
    let curve = curve::Family::Bloom.curve()?;
    let mut progress = Progress::default();
    let kind = |design: &Design| format!("{} {}", name(design.policy), design.size_ratio);
    designs
        .iter()
        .for_each(|design| progress.expect(&kind(design)));
    let mut rows = Vec::new();
    for design in designs {
        progress.start();
        let measured = design.measure(settings.lookups, settings.lookups.div_ceil(5))?;
        let predicted = design.predict(measured.bits_per_key, &curve)?;
        note(format!(
            "{} {}, T = {}, {} bits: {:.4} reads, model {:.4}",
            progress.done(&kind(&design)),
            name(design.policy),
            design.size_ratio,
            design.bits_per_key,
            measured.empty,
            predicted.empty
        ));
        rows.push((design, measured, predicted));
    }
    Ok((table(settings, &rows), verdict(&rows), panels(&rows)))
}

type Row = (Design, Measured, Predicted);

/// The measured numbers over the model's.
fn ratios((_, measured, predicted): &Row) -> [f64; 4] {
    [
        measured.empty / predicted.empty,
        measured.existing / predicted.existing,
        measured.writes / predicted.writes,
        measured.writes / predicted.paper_writes,
    ]
}

fn table(settings: &Settings, rows: &[Row]) -> Report {
    let mut report = Report::new(
        format!(
            "Reads per lookup and writes per entry beside Monkey's model; full merges, buffers of {} \
             entries, {} lookups",
            settings.buffer, settings.lookups
        ),
        &[
            "policy",
            "T",
            "L",
            "allocation",
            "bits asked",
            "bits",
            "empty",
            "model",
            "ratio",
            "existing",
            "model V",
            "ratio V",
            "other reads",
            "writes",
            "model W",
            "ratio W",
            "Eq. 10",
            "ratio Eq. 10",
        ],
    );
    for row in rows {
        let (design, measured, predicted) = row;
        let [empty, existing, writes, paper] = ratios(row);
        report.push(vec![
            name(design.policy).into(),
            f64::from(design.size_ratio).into(),
            f64::from(design.levels).into(),
            allocation(design).into(),
            design.bits_per_key.into(),
            measured.bits_per_key.into(),
            measured.empty.into(),
            predicted.empty.into(),
            empty.into(),
            measured.existing.into(),
            predicted.existing.into(),
            existing.into(),
            measured.others.into(),
            measured.writes.into(),
            predicted.writes.into(),
            writes.into(),
            predicted.paper_writes.into(),
            paper.into(),
        ]);
    }
    report
}

fn allocation(design: &Design) -> &'static str {
    match design.filters {
        Filters::Uniform => "uniform",
        Filters::Monkey => "monkey",
        Filters::MonkeyExisting => "monkey for existing keys",
    }
}

/// For each kind of number how many keep the goal, and the worst.
fn verdict(rows: &[Row]) -> Report {
    let mut report = Report::new(
        "Measured over the model's",
        &[
            "number",
            "goal",
            "within",
            "of",
            "least ratio",
            "largest ratio",
        ],
    );
    let kinds = [
        ("reads per empty lookup", READS_GOAL),
        ("reads per existing lookup", READS_GOAL),
        ("writes per entry", WRITES_GOAL),
        ("writes per entry, by Eq. 10", WRITES_GOAL),
    ];
    for (at, (kind, goal)) in kinds.into_iter().enumerate() {
        let all: Vec<f64> = rows.iter().map(|row| ratios(row)[at]).collect();
        let within = all.iter().filter(|ratio| (*ratio - 1.0).abs() <= goal);
        report.push(vec![
            kind.into(),
            goal.into(),
            (within.count() as f64).into(),
            (all.len() as f64).into(),
            all.iter().copied().fold(f64::INFINITY, f64::min).into(),
            all.iter().copied().fold(0.0, f64::max).into(),
        ]);
    }
    report
}

/// Reads per empty lookup over bits per key, a panel for each policy and size ratio.
fn panels(rows: &[Row]) -> Vec<Panel> {
    let mut panels: Vec<Panel> = Vec::new();
    for (design, measured, predicted) in rows {
        let title = format!("{}, T = {}", name(design.policy), design.size_ratio);
        if panels.last().is_none_or(|panel| panel.title != title) {
            panels.push(Panel {
                title,
                x: "bits per key".into(),
                y: "reads per empty lookup".into(),
                log_y: true,
                series: Vec::new(),
            });
        }
        let Some(panel) = panels.last_mut() else {
            continue;
        };
        for (what, reads) in [("measured", measured.empty), ("model", predicted.empty)] {
            let name = format!("{}, {what}", allocation(design));
            let point = (measured.bits_per_key, reads);
            match panel.series.iter_mut().find(|series| series.name == name) {
                Some(series) => series.points.push(point),
                None => panel.series.push(Series {
                    name,
                    points: vec![point],
                }),
            }
        }
    }
    panels
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Cell;

    /// The whole experiment on little data: the tree has the model's shape, answers are right, and
    /// the numbers are near the model's.
    #[test]
    fn a_small_tree_is_near_the_model() {
        let settings = Settings {
            ratios: vec![4],
            bits: vec![5.0],
            entries: 4096,
            buffer: 256,
            lookups: 40_000,
            seed: 1,
        };
        let (table, verdict, panels) = run(&settings, &mut |_| ()).unwrap();
        assert_eq!((table.rows.len(), panels.len()), (4, 2));
        assert!(panels.iter().all(|panel| panel.series.len() == 4));
        for row in &verdict.rows {
            let (Cell::Number(least), Cell::Number(most)) = (&row[4], &row[5]) else {
                panic!("{verdict}");
            };
            assert!(*least > 0.75 && *most < 1.35, "{verdict}\n{table}");
        }
        // Writes are counted, not drawn: they are the model's but for what tables have beside
        // entries.
        let Cell::Number(writes) = verdict.rows[2][5] else {
            panic!("{verdict}");
        };
        assert!((writes - 1.0).abs() < 0.05, "{verdict}\n{table}");
        let wrong = Settings {
            ratios: vec![1],
            ..settings
        };
        assert!(run(&wrong, &mut |_| ()).is_err());
    }
}
