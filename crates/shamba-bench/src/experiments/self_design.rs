//! The engine that chooses its own design beside fixed designs of the same engine, at the same
//! memory: over mixes of lookups and updates, and for a workload that turns. Cost is counted in
//! pages read and written, by lookups, scans, flushes and compactions alike, and every answer is
//! checked.
//!
//! Runs in this process, on a folder that it makes and removes. Compactions run in the writes that
//! make them due, so that the counts of a seed are the same at every run, and so is the time that
//! they take on a stated device; only the time measured differs.
mod subject;
mod turn;

use crate::device::Device;

use crate::report::{Cell, Report};
use crate::workload::{KeyKind, KeySpace};
use crate::{Error, Result};
use shamba::{Advice, Design, FilterFamily, FilterOptions, KeyspaceOptions, MergePolicy};
use shamba_model::bound::least_cost;
use shamba_model::cost::{Environment, Workload};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use subject::{Latency, Pages, Shares, Subject};
pub use turn::{Turn, turn};

/// What both experiments need.
#[derive(Clone, Debug, clap::Args)]
pub struct Settings {
    /// Folder for the databases, which are removed afterwards.
    #[arg(long, default_value_os_t = std::env::temp_dir())]
    pub dir: PathBuf,
    /// Entries, of keys of 32 B.
    #[arg(long, default_value_t = 500_000)]
    pub entries: u64,
    /// Bytes of a value.
    #[arg(long, default_value_t = 32)]
    pub value: usize,
    /// Where databases lie, which is what costs are of. Where it is not modelled each page read or
    /// written counts as 100 us.
    #[arg(long, value_enum, default_value_t = Device::Ram)]
    pub device: Device,
    /// Operations of each phase; of `turn` those to get to know a workload by.
    #[arg(long, default_value_t = 100_000)]
    pub operations: u64,
    /// Write buffer of the default design in bytes.
    #[arg(long, default_value_t = 256 << 10)]
    pub write_buffer: u64,
    /// Memory in bytes.
    #[arg(long, default_value_t = 6 << 20)]
    pub memory: u64,
    /// Seed of every random choice.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

/// The mixes to measure.
#[derive(Clone, Debug, clap::Args)]
pub struct Mixes {
    #[command(flatten)]
    settings: Settings,
    /// Percent of lookups; the rest are updates.
    #[arg(long, value_delimiter = ',', default_value = "10,30,50,70,90")]
    lookups: Vec<u32>,
    /// What lookups are: empty, existing or ranges.
    #[arg(long, value_delimiter = ',', default_value = "empty,existing,ranges")]
    kinds: Vec<String>,
    /// Other engines to run beside, such as `rocksdb:ribbon-partitioned`, of the default design.
    #[arg(long, value_delimiter = ',')]
    others: Vec<String>,
    /// Measure other designs of the same memory too, and tell the best of them.
    #[arg(long)]
    grid: bool,
}

impl Shares {
    fn of(kind: &str, share: f64) -> Result<Self> {
        let mut shares = Shares::default();
        match kind {
            "empty" => shares.empty = share,
            "existing" => shares.existing = share,
            "ranges" => shares.ranges = share,
            _ => {
                let what = format!("lookups `{kind}` (empty, existing or ranges)");
                return Err(Error::InvalidSetting(what));
            }
        }
        Ok(shares)
    }
}

/// A default RocksDB-like design of this engine: leveling, size ratio 10, 10 bits per key
/// everywhere.
fn standard(settings: &Settings) -> KeyspaceOptions {
    KeyspaceOptions {
        write_buffer: settings.write_buffer,
        target_file: settings.write_buffer,
        filter: FilterOptions {
            family: FilterFamily::Bloom,
            ..FilterOptions::default()
        },
        ..KeyspaceOptions::default()
    }
}

/// Designs to hold the chosen one against: policies, size ratios and buffers over all their range,
/// with the rest of the memory of the default design for filters.
fn grid(settings: &Settings) -> Vec<Design> {
    let default = standard(settings).design();
    let entries = settings.entries as f64;
    let memory = default.write_buffer as f64 + default.bits_per_key * entries / 8.0;
    let leveling = MergePolicy::default();
    let policies: [(MergePolicy, &[u32]); 3] = [
        (leveling, &[3, 5, 10, 20, 40, 80]),
        (MergePolicy::LazyLeveling, &[3, 5, 10]),
        (MergePolicy::Tiering, &[3, 5]),
    ];
    let mut designs = Vec::new();
    for (merge_policy, size_ratios) in policies {
        for &size_ratio in size_ratios {
            // The largest is what the engine lets a buffer have of its budget.
            for write_buffer in [settings.write_buffer, settings.memory / 8] {
                designs.push(Design {
                    merge_policy,
                    size_ratio,
                    write_buffer,
                    bits_per_key: ((memory - write_buffer as f64) * 8.0 / entries).max(0.0),
                });
            }
        }
    }
    designs
}

fn name(design: &Design) -> String {
    let policy = match design.merge_policy {
        MergePolicy::Leveling { .. } => "leveling",
        MergePolicy::Tiering => "tiering",
        MergePolicy::LazyLeveling => "lazy leveling",
        _ => "other",
    };
    let kib = design.write_buffer >> 10;
    let bits = design.bits_per_key;
    format!("{policy} T={} {kib} KiB {bits:.1} b/key", design.size_ratio)
}

/// A loaded database of the default design, to be copied.
fn loaded(settings: &Settings, dir: &Path, note: &mut dyn FnMut(String)) -> Result<PathBuf> {
    note(format!("loading {} entries", settings.entries));
    let base = dir.join("base");
    let mut subject = Subject::open(&base, settings, standard(settings))?;
    subject.load()?;
    Ok(base)
}

/// A copy of the loaded database.
fn copy(settings: &Settings, base: &Path, to: &Path, keyspace: KeyspaceOptions) -> Result<Subject> {
    let original = Subject::open(base, settings, standard(settings))?;
    original.checkpoint(to)?;
    drop(original);
    Subject::open(to, settings, keyspace)
}

/// Who is measured.
enum Runner<'a> {
    /// Our engine, as it is.
    Default,
    /// With the design that it thinks best.
    SelfDesigned,
    /// With this design.
    Designed(Design),
    /// Another engine.
    Other(&'a str),
}

impl Runner<'_> {
    fn name(&self) -> &str {
        match self {
            Runner::Default => "default",
            Runner::SelfDesigned => "self-designed",
            Runner::Designed(_) => "best measured",
            Runner::Other(name) => name,
        }
    }
}

/// A row of the first experiment.
struct Mix {
    design: String,
    pages: Pages,
    took: Duration,
    predicted: Option<f64>,
    /// The least that an operation can cost under any design, in seconds.
    least: Option<f64>,
}

impl Mix {
    /// One engine under one mix.
    fn measure(
        settings: &Settings,
        base: &Path,
        at: &Path,
        engine: &Runner<'_>,
        shares: Shares,
    ) -> Result<Self> {
        let (own, mut subject) = match engine {
            Runner::Other(name) => (false, Subject::open_other(name, at, settings)?),
            _ => (true, copy(settings, base, at, standard(settings))?),
        };
        if !own {
            subject.load()?;
        }
        subject.run(shares, settings.operations)?;
        let advice = if own { subject.advice()? } else { None };
        match (engine, &advice) {
            (Runner::SelfDesigned, Some(advice)) => subject.move_to(advice.best.design)?,
            (Runner::Designed(design), _) => subject.move_to(*design)?,
            _ => {}
        }
        let least = advice.as_ref().map(|advice| least(settings, advice));
        let before = subject.pages();
        let mut took = subject.run(shares, settings.operations)?;
        if !own {
            // Merges that are under way belong to these operations; ours have run in them.
            let started = Instant::now();
            subject.settle()?;
            took += started.elapsed();
        }
        let pages = subject.pages().since(before);
        Ok(Mix {
            design: if own {
                name(&subject.design()?.0)
            } else {
                "its own leveling T=10".to_owned()
            },
            pages,
            took,
            predicted: advice.and_then(|advice| match engine {
                Runner::Default => Some(advice.present.costs.average),
                Runner::SelfDesigned => Some(advice.best.costs.average),
                _ => None,
            }),
            least: least.transpose()?,
        })
    }
}

/// See [`Mix::least`]. All the memory there is counts as cache, and an entry as its key and value
/// alone: what is kept of a page in memory may be no more.
fn least(settings: &Settings, advice: &Advice) -> Result<f64> {
    let refused = |error| Error::InvalidSetting(format!("the cost model refuses it: {error}"));
    let known = &advice.workload;
    let Some(workload) = known.model() else {
        return Ok(0.0);
    };
    let entries = settings.entries as f64;
    let raw = KeySpace::new(KeyKind::Spread, settings.entries).key_len() + settings.value;
    let environment = Environment {
        entries,
        entry_bytes: known.entry_bytes.min(raw as f64),
        device: shamba_model::cost::Device {
            page_bytes: 4096.0,
            read_seconds: advice.device.read_seconds,
            write_cost: advice.device.write_cost,
            merge_read_cost: advice.device.merge_read_cost,
        },
    };
    let workload = Workload {
        selectivity: (known.entries_per_range / entries).min(1.0),
        ..workload
    };
    let reads = least_cost(&environment, &workload, settings.memory as f64).map_err(refused)?;
    Ok(reads * advice.device.read_seconds)
}

/// What the default design did, which others are compared with.
struct Base {
    seconds: f64,
    pages: f64,
    /// The least seconds for an operation.
    least: Option<f64>,
}

impl Base {
    fn of(latency: &Latency, mix: &Mix) -> Self {
        Base {
            seconds: latency.seconds(&mix.pages),
            pages: mix.pages.all(),
            least: mix.least,
        }
    }

    fn row(
        &self,
        settings: &Settings,
        kind: &str,
        percent: u32,
        latency: &Latency,
        (runner, mix): (&Runner<'_>, &Mix),
    ) -> Vec<Cell> {
        let operations = settings.operations as f64;
        let lookups = (operations * f64::from(percent) / 100.0).max(1.0);
        let (seconds, pages) = (latency.seconds(&mix.pages), mix.pages.all());
        let at_most = (self.least.filter(|least| *least > 0.0))
            .map(|least| self.seconds / operations / least);
        vec![
            kind.into(),
            f64::from(percent).into(),
            runner.name().into(),
            mix.design.clone().into(),
            (pages / operations).into(),
            (mix.pages.read / operations).into(),
            (mix.pages.written / operations).into(),
            (mix.pages.merging / operations).into(),
            ((mix.pages.read - mix.pages.merging) / lookups).into(),
            mix.pages.index.map(|index| index / lookups).into(),
            (self.pages / pages.max(1.0)).into(),
            mix.predicted.into(),
            (seconds / operations * 1e6).into(),
            (self.seconds / seconds.max(1e-9)).into(),
            at_most.into(),
            (operations / mix.took.as_secs_f64().max(1e-9)).into(),
        ]
    }
}

/// The self-designed engine beside the default design, over mixes. Beside the throughput reached is
/// what no design can pass ([`least_cost`]).
pub fn mixes(mixes: &Mixes, note: &mut dyn FnMut(String)) -> Result<Report> {
    let settings = &mixes.settings;
    let title = format!(
        "{} entries with values of {} B, {} operations with updates, after as many to get to know them; \
         stated device: {}",
        settings.entries, settings.value, settings.operations, settings.device
    );
    let columns = [
        "lookups are",
        "lookups %",
        "engine",
        "design",
        "pages/op",
        "read/op",
        "written/op",
        "merges read/op",
        "read/lookup",
        "of that index",
        "times fewer pages",
        "predicted/op",
        "stated us/op",
        "times the throughput",
        "at most",
        "measured ops/s",
    ];
    let mut report = Report::new(title, &columns);
    let latency = Latency::of(settings.device);
    let dir = tempfile::tempdir_in(&settings.dir)?;
    let base = loaded(settings, dir.path(), note)?;
    for kind in &mixes.kinds {
        for &percent in &mixes.lookups {
            let shares = Shares::of(kind, f64::from(percent) / 100.0)?;
            let mut first = None;
            let mut push = |runner: &Runner<'_>, mix: &Mix| {
                let base = first.get_or_insert_with(|| Base::of(&latency, mix));
                report.push(base.row(settings, kind, percent, &latency, (runner, mix)));
            };
            let mut measure = |runner: &Runner<'_>| {
                let at = tempfile::tempdir_in(dir.path())?;
                let mix = Mix::measure(settings, &base, &at.path().join("db"), runner, shares)?;
                note(format!(
                    "{kind} {percent} %, {}, {}: {:.3} pages/op, {:.1} us/op stated",
                    runner.name(),
                    mix.design,
                    mix.pages.all() / settings.operations as f64,
                    latency.seconds(&mix.pages) / settings.operations as f64 * 1e6,
                ));
                Ok::<Mix, Error>(mix)
            };
            for runner in [Runner::Default, Runner::SelfDesigned] {
                push(&runner, &measure(&runner)?);
            }
            let mut best: Option<(f64, Runner<'_>, Mix)> = None;
            for design in grid(settings).into_iter().filter(|_| mixes.grid) {
                let runner = Runner::Designed(design);
                let mix = measure(&runner)?;
                let seconds = latency.seconds(&mix.pages);
                if best.as_ref().is_none_or(|(least, ..)| seconds < *least) {
                    best = Some((seconds, runner, mix));
                }
            }
            if let Some((_, runner, mix)) = &best {
                push(runner, mix);
            }
            for other in &mixes.others {
                let runner = Runner::Other(other);
                push(&runner, &measure(&runner)?);
            }
        }
    }
    Ok(report)
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn tiny() -> Settings {
        Settings {
            dir: std::env::temp_dir(),
            entries: 30_000,
            value: 32,
            device: Device::Ram,
            operations: 12_000,
            write_buffer: 32 << 10,
            memory: 2 << 20,
            seed: 1,
        }
    }

    pub(super) fn number(report: &Report, row: usize, column: &str) -> f64 {
        let at = report.columns.iter().position(|name| name == column);
        match report.rows[row][at.unwrap()] {
            Cell::Number(number) => number,
            _ => panic!("{column} of row {row}: {report}"),
        }
    }

    /// The tiny form of the first experiment: pages are the same at every run.
    #[test]
    fn the_engine_finds_a_design_of_fewer_pages() {
        let mixes = Mixes {
            settings: tiny(),
            lookups: vec![10, 50, 90],
            kinds: vec!["empty".to_owned(), "ranges".to_owned()],
            others: Vec::new(),
            grid: false,
        };
        let report = super::mixes(&mixes, &mut |_| {}).unwrap();
        assert_eq!(report.rows.len(), 12);
        let fewer = |row| number(&report, row, "times fewer pages");
        for row in (1..12).step_by(2) {
            assert!(fewer(row) >= 1.0, "row {row}: {report}");
            let reached = number(&report, row, "times the throughput");
            assert!(reached <= number(&report, row, "at most"), "{report}");
        }
        let some = (1..12).step_by(2).filter(|&row| fewer(row) > 1.2).count();
        assert!(some >= 2, "{report}");
        assert!(number(&report, 0, "pages/op") > 0.0);
    }

    #[test]
    fn unknown_lookups_are_refused() {
        assert!(Shares::of("sideways", 0.1).is_err());
    }
}
