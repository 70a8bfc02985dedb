//! A moving hot spot: pages per lookup, window by window, around a jump of a normal distribution
//! from one part of the key range to another.
use super::{Lookups, Target};
use crate::cell::{self, Measurement};
use crate::plot::{self, Panel};
use crate::report::{Report, median};
use crate::store::Store;
use crate::workload::Distribution;
use crate::{Result, proc_io, row};

/// Windows that make a smoothed one: 10,000 lookups at the default window.
const SMOOTH: usize = 10;

/// What to measure.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub struct Settings {
    /// Budget in percent of RocksDB's filters and indexes.
    pub budget: f64,
    /// Share of lookups for existing keys.
    pub positive: f64,
    /// Standard deviation of the hot spot, as a share of the key range.
    pub deviation: f64,
    /// How far it jumps, as a share of the key range.
    pub jump: f64,
    /// Lookups before the jump, and again after it.
    pub lookups: u64,
    /// Lookups in a window.
    pub window: u64,
}

/// One engine.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub struct Cell {
    target: Target,
    settings: Settings,
}

impl Measurement for Cell {
    const NAME: &str = "hot-spot";
    type Found = Vec<f64>;

    /// Pages per lookup of each window.
    fn measure(&self) -> Result<Vec<f64>> {
        let engine = self.target.open(true)?;
        let settings = &self.settings;
        let spread = Distribution::Normal(settings.deviation);
        let mut lookups = Lookups::new(self.target.data(), settings.positive, spread, 1)?;
        let mut windows = Vec::new();
        for shift in [0.0, settings.jump] {
            lookups.shift = (self.target.entries as f64 * shift) as u64;
            for _ in 0..settings.lookups / settings.window.max(1) {
                let before = proc_io::ProcessIo::now();
                for _ in 0..settings.window {
                    lookups.step(engine.as_ref())?;
                }
                let io = proc_io::ProcessIo::now().since(&before);
                windows.push(io.pages() / settings.window as f64);
            }
        }
        Ok(windows)
    }
}

/// Each mean of [`SMOOTH`] windows in a row.
fn smoothed(windows: &[f64]) -> Vec<f64> {
    let means = windows.windows(SMOOTH.min(windows.len()).max(1));
    means
        .map(|w| w.iter().sum::<f64>() / w.len() as f64)
        .collect()
}

/// What is settled: the median of the last fifth.
fn settled(windows: &[f64]) -> f64 {
    let last = windows.len() - windows.len() / 5;
    median(windows.get(last..).unwrap_or_default()).unwrap_or(0.0)
}

/// Measures every engine. Returns the table and the courses to plot.
pub fn run(
    store: &Store,
    settings: &Settings,
    note: &mut dyn FnMut(String),
) -> Result<(Report, Report, Vec<Panel>)> {
    let mut courses = Vec::new();
    for engine in &store.engines {
        let windows: Vec<f64> = cell::measure(&Cell {
            target: Target::loaded(store, engine, settings.budget, 0, note)?,
            settings: settings.clone(),
        })?;
        note(engine.clone());
        courses.push((engine.clone(), windows));
    }
    let windows = course(settings, &courses);
    let title = format!("hot spot, jump after {} lookups", settings.lookups);
    let mut panels = plot::of_report(&windows, &title, "engine", "lookups", "pages");
    panels.iter_mut().for_each(|panel| panel.log_y = true);
    Ok((table(settings, &courses), windows, panels))
}

fn table(settings: &Settings, courses: &[(String, Vec<f64>)]) -> Report {
    let mut report = Report::titled(format!(
        "A hot spot (deviation {}) jumps by {} of the key range; budget {} %, positive share {}; \
         pages per lookup",
        settings.deviation, settings.jump, settings.budget, settings.positive
    ));
    let reference = courses
        .last()
        .map(|(_, windows)| smoothed(windows))
        .unwrap_or_default();
    for (engine, windows) in courses {
        let (before, after) = windows.split_at(windows.len() / 2);
        let goal = settled(after) * 1.15;
        let smooth = smoothed(after);
        // From when on it never leaves: what only dips below has not settled.
        let back = smooth
            .iter()
            .rposition(|pages| *pages > goal)
            .map_or(0, |at| at + 1);
        let whole = smoothed(windows);
        let worst = whole
            .iter()
            .zip(&reference)
            .map(|(ours, theirs)| ours / theirs.max(1e-9));
        report.add(row! {
            "engine": engine.clone(),
            "settled before": settled(before),
            "settled after": settled(after),
            "worst window after": smooth.iter().copied().fold(0.0, f64::max),
            "lookups to within 15 %": back as u64 * settings.window,
            "worst to the last engine": worst.fold(0.0, f64::max),
        });
    }
    report
}

/// Every window of every engine, for CSV.
fn course(settings: &Settings, courses: &[(String, Vec<f64>)]) -> Report {
    let windows = courses.iter().flat_map(|(engine, windows)| {
        let numbered = (1u64..).zip(windows);
        numbered.map(move |(at, pages)| (engine, at * settings.window, *pages))
    });
    Report::of(
        "Pages per lookup by window",
        windows,
        |(engine, lookups, pages)| {
            row! { "engine": engine.clone(), "lookups": lookups, "pages": pages }
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settling_is_to_stay_below() {
        let settings = Settings {
            budget: 10.0,
            positive: 0.5,
            deviation: 0.05,
            jump: 0.5,
            lookups: 100_000,
            window: 1000,
        };
        let mut windows = vec![1.0; 200];
        windows[100..130].fill(5.0);
        let report = table(
            &settings,
            &[("a".into(), windows), ("flat".into(), vec![1.0; 200])],
        );
        let number = |row: usize, at: usize| match report.rows[row][at] {
            crate::report::Cell::Number(number) => number,
            _ => panic!("{report}"),
        };
        assert_eq!((number(0, 1), number(0, 2), number(0, 3)), (1.0, 1.0, 5.0));
        // The last smoothed window with a slow one in it begins at 29.
        assert_eq!(number(0, 4), 30_000.0);
        assert_eq!(number(0, 5), 5.0);
        assert_eq!(number(1, 4), 0.0);
    }
}
