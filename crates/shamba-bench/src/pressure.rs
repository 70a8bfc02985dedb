//! Pages per lookup when memory is short, in the standard setting of the SHaMBa paper: the command
//! `pressure`.
//!
//! Entries of 64 B are loaded in random order once per engine and layout; then, for every
//! distribution, share of existing keys and budget, a [`Trial`] is measured of each engine on the
//! disk, the engines alternating. Pages and read operations come from the kernel, which counts
//! every engine alike, and beside them the engine's own counters.
use crate::experiments::grid::{Grid, Place};
use crate::oracle::{Optimum, Request};
use crate::plot::{self, Panel};
use crate::report::Report;
use crate::reproduce::trial::{Found, KERNEL_PAGES, KERNEL_READS, Trial, median_of};
use crate::reproduce::{Lab, Scale};
use crate::store::Store;
use crate::{Error, Result, cell, row};
use std::path::{Path, PathBuf};

/// What to measure.
#[derive(Clone, Debug, clap::Args)]
#[command(mut_arg("budgets", |budgets| budgets.default_value("10,25,40,70,100,150")))]
#[command(mut_arg("distributions", |of| of.default_value("uniform,normal0.05,zipf0.99")))]
#[command(mut_arg("warm_up", |warm_up| warm_up.default_value("60000")))]
pub struct Settings {
    /// The grid.
    #[command(flatten)]
    pub grid: Grid,
    /// Lookups measured.
    #[arg(long, default_value_t = 30_000)]
    pub measured: u64,
    /// Repetitions; medians are reported.
    #[arg(long, default_value_t = 1)]
    pub repeat: u64,
    /// Where measurements are kept.
    #[command(flatten)]
    pub kept: KeptTrials,
    /// Also compute the offline optimum, for engines that tell their tree.
    #[arg(long)]
    pub oracle: bool,
}

/// Where the measurements of a grid are kept, so that it can be gone on with.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct KeptTrials {
    /// Keep each measurement in this file, a line of JSON each.
    #[arg(long)]
    pub out: Option<PathBuf>,
    /// Make no measurement again that this program made for the file.
    #[arg(long, requires = "out")]
    pub resume: bool,
}

impl KeptTrials {
    /// Where trials of the databases of a store are measured, and kept in the file, or in `passing`
    /// where none was named. One that exists is only gone on with where that was asked for.
    pub(crate) fn lab<'a>(
        &self,
        store: &Store,
        passing: &Path,
        note: &'a mut dyn FnMut(String),
    ) -> Result<Lab<'a>> {
        let file = match &self.out {
            Some(out) if out.exists() && !self.resume => {
                let what = format!("{} exists: add --resume to go on with it", out.display());
                return Err(Error::InvalidSetting(what));
            }
            Some(out) => out.clone(),
            None => passing.join("trials.jsonl"),
        };
        Lab::new(
            Scale::Paper,
            store.seed,
            &store.dir,
            file,
            self.resume,
            note,
        )
    }
}

/// What an engine found in a place of the grid.
#[derive(Clone, Debug)]
pub struct Cell {
    engine: String,
    pub(crate) place: Place,
    /// One for each repetition.
    found: Vec<Found>,
    /// Of its tree, lookups and budget; that of the first repetition.
    pub optimum: Option<Optimum>,
}

impl Cell {
    fn median(&self, value: impl Fn(&Found) -> f64) -> Option<f64> {
        median_of(&self.found, value)
    }

    /// Pages that the kernel read per lookup.
    pub fn pages(&self) -> f64 {
        let pages = self.median(|found| found.per_lookup(KERNEL_PAGES));
        pages.unwrap_or(f64::NAN)
    }
}

impl Settings {
    /// The cells of a place.
    fn measure(&self, lab: &mut Lab<'_>, place: Place) -> Result<Vec<Cell>> {
        let cell = |engine: &String| Cell {
            engine: engine.clone(),
            place,
            found: Vec::new(),
            optimum: None,
        };
        let mut cells: Vec<Cell> = self.grid.store.engines.iter().map(cell).collect();
        for repetition in 0..self.repeat.max(1) {
            for cell in &mut cells {
                let trial = self.grid.trial(&cell.engine, place, self.measured);
                let seed = trial.seed + repetition;
                cell.found.push(lab.measure(&Trial { seed, ..trial })?);
            }
        }
        Ok(cells)
    }
}

/// Measures every cell.
pub(crate) fn measure(lab: &mut Lab<'_>, settings: &Settings) -> Result<Vec<Cell>> {
    let (grid, mut cells) = (&settings.grid, Vec::new());
    let engines = grid.store.engines.iter();
    let told = engines.filter(|engine| settings.oracle && engine.starts_with("shamba"));
    let told: Vec<&String> = told.collect();
    for places in grid.places().chunks(grid.budgets.len().max(1)) {
        let before = cells.len();
        for &place in places {
            cells.extend(settings.measure(lab, place)?);
        }
        for &engine in &told {
            let trial = grid.trial(engine, places[0], settings.measured);
            let budgets = places.iter().map(|place| grid.store.budget(place.percent));
            let budgets: Vec<u64> = budgets.collect();
            let asked = (&trial, &budgets);
            let optima: Option<Vec<Optimum>> = lab.measured("optimum", &asked, |lab| {
                cell::measure(&Request {
                    dir: lab.loaded(&trial.base)?.dir,
                    trial: trial.clone(),
                    budgets: budgets.clone(),
                })
            })?;
            let own = cells[before..]
                .iter_mut()
                .filter(|cell| cell.engine == *engine);
            for (cell, optimum) in own.zip(optima.into_iter().flatten()) {
                cell.optimum = Some(optimum);
            }
        }
        lab.note(places[0].workload());
    }
    Ok(cells)
}

/// Measures every cell, for the command: as a table. `note` gets a line about each
/// step.
pub fn run(settings: &Settings, note: &mut dyn FnMut(String)) -> Result<Report> {
    let passing = tempfile::tempdir()?;
    let mut lab = settings
        .kept
        .lab(&settings.grid.store, passing.path(), note)?;
    Ok(table(&measure(&mut lab, settings)?))
}

/// A row for each cell; of repetitions the medians.
pub(crate) fn table(cells: &[Cell]) -> Report {
    let title =
        "Under small budgets: pages and reads per lookup by the kernel, blocks by the engine";
    Report::of(title, cells, |cell| {
        let blocks = |kind: &str| {
            let count = |found: &Found, what| found.per_lookup(&format!("{kind}_{what}"));
            cell.median(|found| count(found, "reads") + count(found, "misses"))
        };
        let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        let first = cell.found.first();
        let runs = first.and_then(|found| found.runs);
        let memory = first.and_then(|found| found.memory);
        let optimum = |of: fn(&Optimum) -> f64| cell.optimum.as_ref().map(of);
        let distance = |of| {
            let least = optimum(of).filter(|least| *least > 0.0);
            least.map(|least| cell.pages() / least)
        };
        let found = row! {
            "pages": cell.pages(),
            "reads": cell.median(|found| found.per_lookup(KERNEL_READS)),
            "data": blocks("data"),
            "index": blocks("index"),
            "filter": blocks("filter"),
            "runs": runs.map(|runs| runs as f64),
            "mean us": cell.median(|found| found.times.mean_us),
            "p50 us": cell.median(|found| found.times.p50_us),
            "p99 us": cell.median(|found| found.times.p99_us),
            "engine MiB": memory.map(mib),
            "peak MiB": cell.median(|found| mib(found.peak_memory)),
            "optimum": optimum(|o| o.warm),
            "from empty": optimum(|o| o.from_empty),
            "hindsight": optimum(|o| o.hindsight),
            "first reads of a page": optimum(|o| o.first_of_page),
            "first reads of an entry": optimum(|o| o.first_of_entry),
            "to optimum": distance(|o| o.warm),
            "to from empty": distance(|o| o.from_empty),
        };
        cell.place.row(&cell.engine, found)
    })
}

/// A panel for each workload, pages over the budget, a line for each engine and its optimum.
pub(crate) fn panels(cells: &[Cell]) -> Vec<Panel> {
    const X: &str = "budget, % of RocksDB's filters and indexes";
    const Y: &str = "pages of 4 KiB per lookup";
    let points = cells.iter().flat_map(|cell| {
        let optima = cell.optimum.iter().flat_map(|optimum| {
            [
                ("oracle ", optimum.warm),
                ("oracle-from-empty ", optimum.from_empty),
                ("oracle-hindsight ", optimum.hindsight),
            ]
        });
        let lines = std::iter::once(("", cell.pages())).chain(optima);
        lines.map(move |(line, pages)| (cell, line, pages))
    });
    let points = Report::of("", points, |(cell, line, pages)| {
        row! {
            "": format!("{}, positive share {}", cell.place.distribution.name(), cell.place.positive),
            "engine": format!("{line}{}", cell.engine),
            X: cell.place.percent,
            Y: pages,
        }
    });
    let panels = plot::of_report(&points, "", "engine", X, Y);
    panels.into_iter().map(Panel::logarithmic).collect()
}
