//! The engine that chooses its own design beside fixed designs of the same engine, at the same
//! memory: over mixes of lookups and updates, and for a workload that turns. Cost is counted in
//! pages read and written, by lookups, scans, flushes and compactions alike, and every answer is
//! checked.
//!
//! Runs in this process, on a folder that it makes and removes. Compactions run in the writes that
//! make them due, so that the counts of a seed are the same at every run; only times differ.
use crate::plot::{Panel, Series};
use crate::report::Report;
use crate::store;
use crate::workload::{MAX_KEY, Random, random};
use crate::{Error, Result};
use rand_xoshiro::rand_core::Rng;
use shamba::fs::{IoCounts, MeteredFs, OsFs, Purpose};
use shamba::{
    Advice, AutoDesign, Db, Design, DeviceCosts, FilterFamily, FilterOptions, IterOptions,
    KeyspaceOptions, MemoryBudget, MergePolicy, Options,
};
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

const PAGE: f64 = 4096.0;

/// Entries that a range lookup returns.
const RANGE: usize = 16;

/// Points of a course over time.
const WINDOWS: u64 = 60;

/// What both experiments need.
#[derive(Clone, Debug, clap::Args)]
pub struct Settings {
    /// Folder for the databases, which are removed afterwards.
    #[arg(long, default_value_os_t = std::env::temp_dir())]
    pub dir: PathBuf,
    /// Entries of 64 B.
    #[arg(long, default_value_t = 2_000_000)]
    pub entries: u64,
    /// Operations of each phase.
    #[arg(long, default_value_t = 400_000)]
    pub operations: u64,
    /// Write buffer of the default design in bytes; RocksDB's 64 MiB are a 16th of 1 GiB of data.
    #[arg(long, default_value_t = 1 << 20)]
    pub write_buffer: u64,
    /// Memory in bytes.
    #[arg(long, default_value_t = 24 << 20)]
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
}

/// The turn to measure.
#[derive(Clone, Debug, clap::Args)]
pub struct Turn {
    #[command(flatten)]
    settings: Settings,
    /// Operations after the turn, in phases.
    #[arg(long, default_value_t = 3)]
    horizon: u64,
}

/// Shares of operations; the rest are updates.
#[derive(Clone, Copy, Debug, Default)]
struct Shares {
    empty: f64,
    existing: f64,
    ranges: f64,
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

fn failed(source: shamba::Error) -> Error {
    Error::engine("shamba", source)
}

/// A default RocksDB-like design of this engine: leveling, size ratio 10, 10 bits per key everywhere.
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

/// A database under test and what is in it.
struct Subject {
    db: Db,
    fs: MeteredFs,
    data: crate::runner::Data,
    versions: Vec<u32>,
    random: Random,
    value: Vec<u8>,
    scratch: Vec<u8>,
}

/// Pages so far.
#[derive(Clone, Copy, Debug, Default)]
struct Pages {
    read: f64,
    written: f64,
}

impl Pages {
    fn since(self, before: Pages) -> Pages {
        Pages {
            read: self.read - before.read,
            written: self.written - before.written,
        }
    }

    fn all(self) -> f64 {
        self.read + self.written
    }
}

impl Subject {
    fn open(dir: &Path, settings: &Settings, keyspace: KeyspaceOptions) -> Result<Self> {
        let fs = MeteredFs::new(Arc::new(OsFs::new()));
        let db = Options::new()
            .fs(Arc::new(fs.clone()))
            .memory(MemoryBudget::bytes(settings.memory))
            .background_threads(0)
            .keyspace(keyspace)
            // Pages are counted, so a page written is to weigh as much as one read.
            .device(DeviceCosts {
                read_seconds: 1e-4,
                write_cost: 1.0,
            })
            .open(dir)
            .map_err(failed)?;
        Ok(Subject {
            db,
            fs,
            data: store::data(settings.entries, settings.seed),
            versions: vec![0; settings.entries as usize],
            random: random(settings.seed, 1),
            value: Vec::new(),
            scratch: Vec::new(),
        })
    }

    /// Loads every entry once, in random order, and waits.
    fn load(&mut self) -> Result<()> {
        let entries = self.data.keys.entries();
        let order = crate::workload::Permutation::new(entries, self.data.seed);
        for index in 0..entries {
            self.put(order.apply(index), 0)?;
        }
        self.db.flush().map_err(failed)?;
        self.db.wait_for_compaction().map_err(failed)
    }

    fn put(&mut self, number: u64, version: u64) -> Result<()> {
        let mut buf = [0; MAX_KEY];
        self.data.values.write(number, version, &mut self.value);
        let key = self.data.keys.key(number, &mut buf);
        self.db.put(key, &self.value).map_err(failed)
    }

    fn version(&self, number: u64) -> u64 {
        self.versions.get(number as usize).map_or(0, |&v| v.into())
    }

    fn update(&mut self) -> Result<()> {
        let number = self.number();
        let version = self.version(number) + 1;
        if let Some(slot) = self.versions.get_mut(number as usize) {
            *slot = version as u32;
        }
        self.put(number, version)
    }

    fn number(&mut self) -> u64 {
        self.random.next_u64() % self.data.keys.entries()
    }

    fn check(&mut self, number: u64, found: Option<&[u8]>) -> Result<()> {
        let version = self.version(number);
        match found {
            Some(found) => {
                let values = &self.data.values;
                values.check(number, version, found, &mut self.scratch)
            }
            None => Err(Error::WrongAnswer(format!("entry {number} is missing"))),
        }
    }

    fn get(&mut self, exists: bool) -> Result<()> {
        let number = self.number();
        let mut buf = [0; MAX_KEY];
        let key = match exists {
            true => self.data.keys.key(number, &mut buf),
            false => self.data.keys.absent(number, &mut buf),
        };
        let found = self.db.get(key).map_err(failed)?;
        match exists {
            true => self.check(number, found.as_deref()),
            false if found.is_none() => Ok(()),
            false => Err(Error::WrongAnswer(format!("absent {number} was found"))),
        }
    }

    fn range(&mut self) -> Result<()> {
        let number = self.number();
        let mut buf = [0; MAX_KEY];
        let start = self.data.keys.key(number, &mut buf).to_vec();
        let options = IterOptions {
            lower: Bound::Included(start),
            ..IterOptions::default()
        };
        let mut iter = self.db.iter(options).map_err(failed)?;
        iter.seek_to_first().map_err(failed)?;
        for expected in (number..self.data.keys.entries()).take(RANGE) {
            if self.data.keys.number(iter.key()) != Some(expected) {
                return Err(Error::WrongAnswer(format!("a scan lacks entry {expected}")));
            }
            let value = iter.value().to_vec();
            self.check(expected, Some(&value))?;
            iter.next().map_err(failed)?;
        }
        Ok(())
    }

    /// Some operations of a mix; the time they took.
    fn run(&mut self, shares: Shares, operations: u64) -> Result<Duration> {
        let start = Instant::now();
        for _ in 0..operations {
            let draw = self.random.next_u64() as f64 / u64::MAX as f64;
            if draw < shares.empty {
                self.get(false)?;
            } else if draw < shares.empty + shares.existing {
                self.get(true)?;
            } else if draw < shares.empty + shares.existing + shares.ranges {
                self.range()?;
            } else {
                self.update()?;
            }
        }
        Ok(start.elapsed())
    }

    /// Pages of tables so far: what lookups, scans and compactions read, what flushes and
    /// compactions wrote.
    fn pages(&self) -> Pages {
        let counts: IoCounts = self.fs.counts();
        let purposes = [Purpose::Lookup, Purpose::Scan, Purpose::Background];
        let read = purposes.map(|purpose| counts.reads_for(purpose).pages as f64);
        let counters = self.db.stats().counters;
        let written = counters.flush_bytes + counters.compaction_bytes_written;
        Pages {
            read: read.iter().sum(),
            written: written as f64 / PAGE,
        }
    }

    fn design(&self) -> Design {
        self.db.default_keyspace().design()
    }

    fn advice(&self) -> Result<Option<Advice>> {
        self.db.advise().map_err(failed)
    }

    fn move_to(&self, design: Design) -> Result<()> {
        self.db.redesign(design).map_err(failed)?;
        self.db.wait_for_compaction().map_err(failed)
    }
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
    original.db.checkpoint(to).map_err(failed)?;
    drop(original);
    Subject::open(to, settings, keyspace)
}

/// The self-designed engine beside the default design, over mixes.
pub fn mixes(mixes: &Mixes, note: &mut dyn FnMut(String)) -> Result<Report> {
    let settings = &mixes.settings;
    let title = format!(
        "{} entries, {} operations with updates, after as many to get to know them",
        settings.entries, settings.operations
    );
    let columns = [
        "lookups are",
        "lookups %",
        "engine",
        "design",
        "ops/s",
        "pages/op",
        "read/op",
        "written/op",
        "predicted/op",
        "times the throughput",
        "times fewer pages",
    ];
    let mut report = Report::new(title, &columns);
    let dir = tempfile::tempdir_in(&settings.dir)?;
    let base = loaded(settings, dir.path(), note)?;
    for kind in &mixes.kinds {
        for &percent in &mixes.lookups {
            let shares = Shares::of(kind, f64::from(percent) / 100.0)?;
            let mut first: Option<(f64, f64)> = None;
            for engine in ["default", "self-designed"] {
                let at = tempfile::tempdir_in(dir.path())?;
                let path = at.path().join("db");
                let mut subject = copy(settings, &base, &path, standard(settings))?;
                subject.run(shares, settings.operations)?;
                let advice = subject.advice()?;
                if let (Some(advice), "self-designed") = (&advice, engine) {
                    subject.move_to(advice.best.design)?;
                }
                let before = subject.pages();
                let took = subject.run(shares, settings.operations)?;
                let pages = subject.pages().since(before);
                let operations = settings.operations as f64;
                let rate = operations / took.as_secs_f64().max(1e-9);
                let (base_rate, base_pages) = *first.get_or_insert((rate, pages.all()));
                note(format!(
                    "{kind} {percent} %, {engine}: {:.3} pages/op, {rate:.0}/s",
                    pages.all() / operations
                ));
                let predicted = advice.map(|advice| match engine {
                    "default" => advice.present.costs.average,
                    _ => advice.best.costs.average,
                });
                report.push(vec![
                    kind.clone().into(),
                    f64::from(percent).into(),
                    engine.into(),
                    name(&subject.design()).into(),
                    rate.into(),
                    (pages.all() / operations).into(),
                    (pages.read / operations).into(),
                    (pages.written / operations).into(),
                    predicted.into(),
                    (rate / base_rate).into(),
                    (base_pages / pages.all().max(1.0)).into(),
                ]);
            }
        }
    }
    Ok(report)
}

const WRITING: Shares = Shares {
    empty: 0.02,
    existing: 0.02,
    ranges: 0.0,
};

const READING: Shares = Shares {
    empty: 0.1,
    existing: 0.1,
    ranges: 0.7,
};

/// A phase of writing, then some of reading: the automatic mode beside the designs that are best for
/// either, which begin in shape. The course of the pages is for a plot.
pub fn turn(turn: &Turn, note: &mut dyn FnMut(String)) -> Result<(Report, Panel)> {
    let settings = &turn.settings;
    let reading = settings.operations * turn.horizon;
    let dir = tempfile::tempdir_in(&settings.dir)?;
    let base = loaded(settings, dir.path(), note)?;
    let mut best = Vec::new();
    for shares in [WRITING, READING] {
        let at = tempfile::tempdir_in(dir.path())?;
        let mut subject = copy(settings, &base, &at.path().join("db"), standard(settings))?;
        subject.run(shares, settings.operations)?;
        let advice = subject.advice()?;
        best.push(advice.map_or(subject.design(), |advice| advice.best.design));
    }
    let title = format!(
        "{} operations of which 96 % updates, then {reading} of which 70 % ranges and 20 % lookups",
        settings.operations
    );
    let columns = [
        "engine",
        "design at the turn",
        "design at the end",
        "pages while writing",
        "pages while reading",
        "pages in all",
        "times automatic's",
        "seconds",
    ];
    let mut report = Report::new(title, &columns);
    let mut panel = Panel {
        title: "pages read and written so far, the move included".to_owned(),
        x: "operations".to_owned(),
        y: "pages".to_owned(),
        ..Panel::default()
    };
    let every = (settings.operations / 40).max(1000);
    let auto = AutoDesign {
        every,
        horizon: reading.max(every),
        ..AutoDesign::default()
    };
    let mut rows = Vec::new();
    for (at, engine) in ["best for writing", "best for reading", "automatic"]
        .iter()
        .enumerate()
    {
        let folder = tempfile::tempdir_in(dir.path())?;
        // The automatic one begins with the design that it had found while it was written to.
        let fixed = *best
            .get(at)
            .or(best.first())
            .unwrap_or(&standard(settings).design());
        let mut keyspace = standard(settings).with_design(&fixed);
        keyspace.auto_design = (at == 2).then_some(auto);
        let mut subject = copy(settings, &base, &folder.path().join("db"), keyspace)?;
        if !subject.db.default_keyspace().is_moving() {
            subject.move_to(fixed)?;
        }
        let start = subject.pages();
        let mut series = Series::new(*engine);
        series.points.push((0.0, 0.0));
        let mut took = Duration::ZERO;
        let mut phases = [Pages::default(); 2];
        let mut middle = String::new();
        let mut done = 0;
        for (phase, (shares, operations)) in [(WRITING, settings.operations), (READING, reading)]
            .into_iter()
            .enumerate()
        {
            let before = subject.pages();
            for window in 1..=WINDOWS {
                let part = operations * window / WINDOWS - operations * (window - 1) / WINDOWS;
                took += subject.run(shares, part)?;
                done += part;
                let pages = subject.pages().since(start).all();
                series.points.push((done as f64, pages));
            }
            if let Some(pages) = phases.get_mut(phase) {
                *pages = subject.pages().since(before);
            }
            if phase == 0 {
                middle = name(&subject.design());
            }
        }
        note(format!(
            "{engine}: {:.0} pages, {took:.1?}",
            subject.pages().since(start).all()
        ));
        rows.push((*engine, middle, name(&subject.design()), phases, took));
        panel.series.push(series);
    }
    let automatic = rows.last().map_or(1.0, |(.., phases, _)| sum(phases));
    for (engine, middle, end, phases, took) in rows {
        let [writing, reading] = phases.map(Pages::all);
        report.push(vec![
            engine.into(),
            middle.into(),
            end.into(),
            writing.into(),
            reading.into(),
            (writing + reading).into(),
            ((writing + reading) / automatic.max(1.0)).into(),
            took.as_secs_f64().into(),
        ]);
    }
    Ok((report, panel))
}

fn sum(phases: &[Pages; 2]) -> f64 {
    phases.iter().map(|pages| pages.all()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Cell;

    fn tiny() -> Settings {
        Settings {
            dir: std::env::temp_dir(),
            entries: 30_000,
            operations: 12_000,
            write_buffer: 32 << 10,
            memory: 2 << 20,
            seed: 1,
        }
    }

    fn number(report: &Report, row: usize, column: &str) -> f64 {
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
        };
        let report = super::mixes(&mixes, &mut |_| {}).unwrap();
        assert_eq!(report.rows.len(), 12);
        let fewer = |row| number(&report, row, "times fewer pages");
        for row in (1..12).step_by(2) {
            assert!(fewer(row) > 0.9, "row {row}: {report}");
        }
        let some = (1..12).step_by(2).filter(|&row| fewer(row) > 1.2).count();
        assert!(some >= 2, "{report}");
        assert!(number(&report, 0, "pages/op") > 0.0);
    }

    /// The tiny form of the second one.
    #[test]
    fn the_automatic_mode_follows_a_turn() {
        let turn = Turn {
            settings: tiny(),
            horizon: 4,
        };
        let (report, panel) = super::turn(&turn, &mut |_| {}).unwrap();
        assert_eq!((report.rows.len(), panel.series.len()), (3, 3));
        assert_ne!(report.rows[2][1], report.rows[2][2], "it moved: {report}");
        let writing = number(&report, 0, "times automatic's");
        assert!(writing > 1.0, "{report}");
        assert!(panel.series.iter().all(|s| s.points.len() == 121));
    }

    #[test]
    fn unknown_lookups_are_refused() {
        assert!(Shares::of("sideways", 0.1).is_err());
    }
}
