//! Pages per lookup when memory is short, in the standard setting of the SHaMBa paper: the command
//! `pressure`.
//!
//! Entries of 64 B are loaded in random order once per engine and layout; then, for every
//! distribution, share of existing keys and budget, a [`Trial`] is measured of each engine on the
//! disk, the engines alternating. Pages and read operations come from the kernel, which counts
//! every engine alike, and beside them the engine's own counters.
use crate::device::Device;
use crate::oracle::{Optimum, Request};
use crate::plot::{self, Panel};
use crate::report::{Report, median};
use crate::reproduce::trial::{Found, KERNEL_PAGES, KERNEL_READS, Trial};
use crate::reproduce::{Lab, Scale};
use crate::store::Store;
use crate::workload::Distribution;
use crate::{Error, Result, cell, row};
use std::path::{Path, PathBuf};

/// The grid.
#[derive(Clone, Debug, clap::Args)]
pub struct Settings {
    /// Engines and their databases.
    #[command(flatten)]
    pub store: Store,
    /// Budgets in percent of RocksDB's filters and indexes.
    #[arg(long, value_delimiter = ',', default_value = "10,25,40,70,100,150")]
    pub budgets: Vec<f64>,
    /// Shares of lookups for existing keys.
    #[arg(long, value_delimiter = ',', default_value = "0,0.5,1")]
    pub positives: Vec<f64>,
    /// Of `uniform`, `zipf[THETA]`, `normal[SHARE]`, `normal-keys[KEYS]`, `hot-set[SHARE]` and
    /// `latest`.
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "uniform,normal0.05,zipf0.99"
    )]
    pub distributions: Vec<Distribution>,
    /// Lookups before measuring.
    #[arg(long, default_value_t = 60_000)]
    pub warm_up: u64,
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
    /// The file for them, one in `passing` where none was named. One that exists is only gone on
    /// with where that was asked for.
    pub(crate) fn file(&self, passing: &Path) -> Result<PathBuf> {
        match &self.out {
            Some(out) if out.exists() && !self.resume => {
                let what = format!("{} exists: add --resume to go on with it", out.display());
                Err(Error::InvalidSetting(what))
            }
            Some(out) => Ok(out.clone()),
            None => Ok(passing.join("trials.jsonl")),
        }
    }
}

/// What an engine found in a place of the grid.
#[derive(Clone, Debug)]
pub struct Cell {
    engine: String,
    distribution: Distribution,
    /// Share of lookups for existing keys.
    positive: f64,
    /// Budget in percent of RocksDB's filters and indexes.
    percent: f64,
    /// One for each repetition.
    found: Vec<Found>,
    /// Of its tree, lookups and budget; that of the first repetition.
    pub optimum: Option<Optimum>,
}

impl Cell {
    fn median(&self, value: impl Fn(&Found) -> f64) -> Option<f64> {
        median(&self.found.iter().map(value).collect::<Vec<_>>())
    }

    /// Pages that the kernel read per lookup.
    pub fn pages(&self) -> f64 {
        let pages = self.median(|found| found.per_lookup(KERNEL_PAGES));
        pages.unwrap_or(f64::NAN)
    }
}

impl Settings {
    fn trial(&self, engine: &str, cell: (Distribution, f64), percent: f64) -> Trial {
        let (distribution, positive) = cell;
        let base = self.store.base(engine);
        Trial::lookups(base, self.store.budget(percent), positive, distribution)
            .lasting((self.warm_up, self.measured))
            .on(Device::Disk)
    }

    /// The cells of one workload.
    fn measure(&self, lab: &mut Lab<'_>, workload: (Distribution, f64)) -> Result<Vec<Cell>> {
        let engines = &self.store.engines;
        let mut cells = Vec::new();
        for &percent in &self.budgets {
            let mut found = vec![Vec::new(); engines.len()];
            for repetition in 0..self.repeat.max(1) {
                for (engine, found) in engines.iter().zip(&mut found) {
                    let trial = self.trial(engine, workload, percent);
                    let seed = trial.seed + repetition;
                    found.push(lab.measure(&Trial { seed, ..trial })?);
                }
            }
            cells.extend(engines.iter().zip(found).map(|(engine, found)| Cell {
                engine: engine.clone(),
                distribution: workload.0,
                positive: workload.1,
                percent,
                found,
                optimum: None,
            }));
        }
        let told = engines.iter().filter(|_| self.oracle);
        for engine in told.filter(|engine| engine.starts_with("shamba")) {
            let trial = self.trial(engine, workload, 100.0);
            let budgets = self.budgets.iter();
            let optima = cell::measure(&Request {
                dir: lab.loaded(&trial.base)?.dir,
                trial,
                budgets: budgets.map(|&percent| self.store.budget(percent)).collect(),
            })?;
            let own = cells.iter_mut().filter(|cell| cell.engine == *engine);
            for (cell, optimum) in own.zip(optima.into_iter().flatten()) {
                cell.optimum = Some(optimum);
            }
        }
        Ok(cells)
    }
}

/// Measures every cell.
pub(crate) fn measure(lab: &mut Lab<'_>, settings: &Settings) -> Result<Vec<Cell>> {
    let mut cells = Vec::new();
    for &distribution in &settings.distributions {
        for &positive in &settings.positives {
            cells.extend(settings.measure(lab, (distribution, positive))?);
            lab.note(format!("{}, {positive} existing", distribution.name()));
        }
    }
    Ok(cells)
}

/// Measures every cell, for the command: as a table. `note` gets a line about each
/// step.
pub fn run(settings: &Settings, note: &mut dyn FnMut(String)) -> Result<Report> {
    let passing = tempfile::tempdir()?;
    let file = settings.kept.file(passing.path())?;
    let (store, resume) = (&settings.store, settings.kept.resume);
    let mut lab = Lab::new(Scale::Paper, store.seed, &store.dir, file, resume, note)?;
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
        row! {
            "distribution": cell.distribution.name(),
            "positive": cell.positive,
            "budget %": cell.percent,
            "engine": cell.engine.clone(),
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
        }
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
            "": format!("{}, positive share {}", cell.distribution.name(), cell.positive),
            "engine": format!("{line}{}", cell.engine),
            X: cell.percent,
            Y: pages,
        }
    });
    let panels = plot::of_report(&points, "", "engine", X, Y);
    panels.into_iter().map(Panel::logarithmic).collect()
}
