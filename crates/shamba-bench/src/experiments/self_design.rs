//! The engine that chooses its own design beside fixed designs of the same engine, at the same
//! memory: over mixes of lookups and updates, and for a workload that turns. Cost is counted in
//! pages read and written, by lookups, scans, flushes and compactions alike, and every answer is
//! checked.
//!
//! Runs in this process, on a folder that it makes and removes. Compactions run in the writes that
//! make them due, so that the counts of a seed are the same at every run; only times differ.
mod subject;

use crate::plot::{Panel, Series};
use crate::report::Report;
use crate::{Error, Result};
use shamba::{AutoDesign, Design, FilterFamily, FilterOptions, KeyspaceOptions, MergePolicy};
use std::path::{Path, PathBuf};
use std::time::Duration;
use subject::{Pages, Shares, Subject, failed};

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
