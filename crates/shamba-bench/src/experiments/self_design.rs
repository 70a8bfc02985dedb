//! The engine that chooses its own design beside fixed designs of the same engine, at the same
//! memory: over mixes of lookups and updates, and for a workload that turns. Cost is counted in
//! pages read and written, by lookups, scans, flushes and compactions alike, and every answer is
//! checked.
//!
//! Runs in this process, on a folder that it makes and removes. Compactions run in the writes that
//! make them due, so that the counts of a seed are the same at every run, and so is the time that they
//! take on a stated device; only the time measured differs.
mod subject;

use crate::device::Device;

use crate::plot::{Panel, Series};
use crate::report::Report;
use crate::{Error, Result};
use shamba::{
    Advice, AutoDesign, Design, FilterFamily, FilterOptions, KeyspaceOptions, MergePolicy,
};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use subject::{Latency, Pages, Shares, Subject};

/// Points of a course over time.
const WINDOWS: u64 = 60;

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
}

/// The turn to measure.
#[derive(Clone, Debug, clap::Args)]
pub struct Turn {
    #[command(flatten)]
    settings: Settings,
    /// How many times as long as a move needs to pay either phase is.
    #[arg(long, default_value_t = 3.0)]
    times: f64,
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
    original.checkpoint(to)?;
    drop(original);
    Subject::open(to, settings, keyspace)
}

/// A row of the first experiment.
struct Mix {
    design: String,
    pages: Pages,
    took: Duration,
    predicted: Option<f64>,
}

impl Mix {
    /// One engine under one mix: `default`, `self-designed`, or another.
    fn measure(
        settings: &Settings,
        base: &Path,
        at: &Path,
        engine: &str,
        shares: Shares,
    ) -> Result<Self> {
        let own = matches!(engine, "default" | "self-designed");
        let mut subject = match own {
            true => copy(settings, base, at, standard(settings))?,
            false => Subject::open_other(engine, at, settings)?,
        };
        if !own {
            subject.load()?;
        }
        subject.run(shares, settings.operations)?;
        let advice = if own { subject.advice()? } else { None };
        if let (Some(advice), "self-designed") = (&advice, engine) {
            subject.move_to(advice.best.design)?;
        }
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
            design: match own {
                true => name(&subject.design()?.0),
                false => "its own leveling T=10".to_owned(),
            },
            pages,
            took,
            predicted: advice.map(|advice| match engine {
                "default" => advice.present.costs.average,
                _ => advice.best.costs.average,
            }),
        })
    }
}

/// The self-designed engine beside the default design, over mixes.
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
        "times fewer pages",
        "predicted/op",
        "stated us/op",
        "times the throughput",
        "measured ops/s",
    ];
    let mut report = Report::new(title, &columns);
    let latency = Latency::of(settings.device);
    let dir = tempfile::tempdir_in(&settings.dir)?;
    let base = loaded(settings, dir.path(), note)?;
    let own = ["default", "self-designed"];
    let engines = || {
        own.into_iter()
            .chain(mixes.others.iter().map(String::as_str))
    };
    for kind in &mixes.kinds {
        for &percent in &mixes.lookups {
            let shares = Shares::of(kind, f64::from(percent) / 100.0)?;
            let operations = settings.operations as f64;
            let mut first: Option<(f64, f64)> = None;
            for engine in engines() {
                let at = tempfile::tempdir_in(dir.path())?;
                let mix = Mix::measure(settings, &base, &at.path().join("db"), engine, shares)?;
                let (seconds, pages) = (latency.seconds(&mix.pages), mix.pages.all());
                let (base_seconds, base_pages) = *first.get_or_insert((seconds, pages));
                note(format!(
                    "{kind} {percent} %, {engine}: {:.3} pages/op, {:.3} times the throughput",
                    pages / operations,
                    base_seconds / seconds.max(1e-9)
                ));
                report.push(vec![
                    kind.clone().into(),
                    f64::from(percent).into(),
                    engine.into(),
                    mix.design.into(),
                    (pages / operations).into(),
                    (mix.pages.read / operations).into(),
                    (mix.pages.written / operations).into(),
                    (base_pages / pages.max(1.0)).into(),
                    mix.predicted.into(),
                    (seconds / operations * 1e6).into(),
                    (base_seconds / seconds.max(1e-9)).into(),
                    (operations / mix.took.as_secs_f64().max(1e-9)).into(),
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

/// Operations after which automatic mode asks again.
const EVERY: u64 = 2000;

/// Operations that automatic mode takes to see a turn, at most: three answers in a row, and a half-life
/// of what was done before.
const DELAY: f64 = 3.0 * EVERY as f64 + 8192.0;

/// What the model says of the two designs, and how long phases must be for a move to pay. Costs are in
/// pages read and written.
struct Horizon {
    /// The designs that are best for writing and for reading.
    designs: [Design; 2],
    /// Cost of an operation of each phase with the design for it, and with the other.
    own: [f64; 2],
    other: [f64; 2],
    /// Cost of the move.
    moving: f64,
}

impl Horizon {
    /// Asks the engine: for the best design for writing; there, for the best for reading; there, what
    /// writing costs.
    fn ask(settings: &Settings, dir: &Path, base: &Path) -> Result<Self> {
        let at = tempfile::tempdir_in(dir)?;
        let mut subject = copy(settings, base, &at.path().join("db"), standard(settings))?;
        let mut ask = |shares| -> Result<Advice> {
            subject.run(shares, settings.operations)?;
            let advice = subject.advice()?.ok_or_else(too_little)?;
            subject.move_to(advice.best.design)?;
            Ok(advice)
        };
        let writing = ask(WRITING)?;
        let reading = ask(READING)?;
        let back = ask(WRITING)?;
        Ok(Horizon {
            designs: [writing.best.design, reading.best.design],
            own: [back.best.costs.average, reading.best.costs.average],
            other: [back.present.costs.average, reading.present.costs.average],
            moving: reading.move_cost(),
        })
    }

    /// What an operation of a phase costs less with the design for it.
    fn gains(&self) -> [f64; 2] {
        [0, 1].map(|phase| (self.other[phase] - self.own[phase]).max(f64::MIN_POSITIVE))
    }

    /// What the turn costs automatic mode more than knowing: the move, and lookups until it begins.
    fn turning(&self) -> f64 {
        self.moving + DELAY * self.gains()[1]
    }

    /// Operations of either phase after which its gain has paid for that.
    fn pays_after(&self) -> [f64; 2] {
        self.gains().map(|gain| self.turning() / gain)
    }

    /// The phases, in whole thousands of operations.
    fn phases(&self, times: f64) -> Result<[u64; 2]> {
        let phases = self.pays_after().map(|paid| paid * times);
        if phases.iter().all(|phase| *phase < 1e8) {
            return Ok(phases.map(|phase| (phase / 1000.0).ceil() as u64 * 1000));
        }
        Err(Error::InvalidSetting(
            "both mixes ask for much the same design".into(),
        ))
    }

    fn report(&self, phases: [u64; 2], times: f64) -> Report {
        let mut report = Report::new(
            format!(
                "Horizon by the model, in pages read and written (a page written costs as much as one \
                 read): the turn costs {:.0} for the move and {:.0} for {DELAY} operations until it is \
                 seen; either phase is {times} times as long as its gain takes to pay for that",
                self.moving,
                self.turning() - self.moving,
            ),
            &[
                "phase",
                "best design",
                "pages/op",
                "with the other",
                "gain",
                "pays after",
                "operations",
            ],
        );
        for (phase, what) in ["writing", "reading"].into_iter().enumerate() {
            report.push(vec![
                what.into(),
                name(&self.designs[phase]).into(),
                self.own[phase].into(),
                self.other[phase].into(),
                self.gains()[phase].into(),
                self.pays_after()[phase].into(),
                (phases[phase] as f64).into(),
            ]);
        }
        report
    }
}

fn too_little() -> Error {
    Error::InvalidSetting("too few entries or operations to advise on".into())
}

/// A phase of writing, then one of reading: the automatic mode beside the designs that are best for
/// either, which begin in shape, as does the automatic one, with that for writing. Gives the horizon,
/// the outcome, and the course of the pages.
pub fn turn(turn: &Turn, note: &mut dyn FnMut(String)) -> Result<(Report, Report, Panel)> {
    let settings = &turn.settings;
    let dir = tempfile::tempdir_in(&settings.dir)?;
    let base = loaded(settings, dir.path(), note)?;
    let horizon = Horizon::ask(settings, dir.path(), &base)?;
    let phases = horizon.phases(turn.times)?;
    note(format!(
        "{} operations of writing, then {} of reading",
        phases[0], phases[1]
    ));
    let title = format!(
        "{} operations of which 96 % updates, then {} of which 70 % ranges and 20 % lookups",
        phases[0], phases[1]
    );
    let columns = [
        "engine",
        "design at the turn",
        "design at the end",
        "move began after",
        "ended after",
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
    let auto = AutoDesign {
        every: EVERY,
        horizon: phases[1].max(EVERY),
        ..AutoDesign::default()
    };
    let [writing, reading] = horizon.designs;
    let mut runs = Vec::new();
    for (engine, design, auto) in [
        ("best for writing", writing, None),
        ("best for reading", reading, None),
        ("automatic", writing, Some(auto)),
    ] {
        let folder = tempfile::tempdir_in(dir.path())?;
        let path = folder.path().join("db");
        let mut subject = copy(
            settings,
            &base,
            &path,
            standard(settings).with_design(&design),
        )?;
        subject.move_to(design)?;
        drop(subject);
        let mut keyspace = standard(settings).with_design(&design);
        keyspace.auto_design = auto;
        subject = Subject::open(&path, settings, keyspace)?;
        let run = Run::measure(&mut subject, phases)?;
        note(format!(
            "{engine}: {:.0} pages, {:.1?}",
            run.all(),
            run.took
        ));
        panel.series.push(Series {
            name: engine.to_owned(),
            points: run.course.clone(),
        });
        runs.push((engine, run));
    }
    let automatic = runs.last().map_or(1.0, |(_, run)| run.all());
    for (engine, run) in runs {
        let [writing, reading] = run.phases.map(Pages::all);
        report.push(vec![
            engine.into(),
            run.middle.clone().into(),
            run.end.clone().into(),
            run.moved[0].into(),
            run.moved[1].into(),
            writing.into(),
            reading.into(),
            run.all().into(),
            (run.all() / automatic.max(1.0)).into(),
            run.took.as_secs_f64().into(),
        ]);
    }
    Ok((horizon.report(phases, turn.times), report, panel))
}

/// Both phases of one engine.
struct Run {
    phases: [Pages; 2],
    course: Vec<(f64, f64)>,
    /// The design at the turn and at the end.
    middle: String,
    end: String,
    /// Operations after the turn at which the first move was seen to begin, and to have ended.
    moved: [Option<f64>; 2],
    took: Duration,
}

impl Run {
    fn all(&self) -> f64 {
        self.phases.iter().map(|pages| pages.all()).sum()
    }

    fn measure(subject: &mut Subject, phases: [u64; 2]) -> Result<Self> {
        let start = subject.pages();
        let mut run = Run {
            phases: [Pages::default(); 2],
            course: vec![(0.0, 0.0)],
            middle: String::new(),
            end: String::new(),
            moved: [None; 2],
            took: Duration::ZERO,
        };
        let (mut at_turn, _) = subject.design()?;
        for (phase, shares) in [WRITING, READING].into_iter().enumerate() {
            let before = subject.pages();
            if phase == 1 {
                (at_turn, _) = subject.design()?;
                run.middle = name(&at_turn);
            }
            for window in 1..=WINDOWS {
                let part = |window| phases[phase] * window / WINDOWS;
                run.took += subject.run(shares, part(window) - part(window - 1))?;
                let done = part(window) as f64;
                let (design, moving) = subject.design()?;
                if phase == 1 && design != at_turn {
                    run.moved[0].get_or_insert(done);
                    if !moving {
                        run.moved[1].get_or_insert(done);
                    }
                }
                let before = if phase == 0 { 0.0 } else { phases[0] as f64 };
                let pages = subject.pages().since(start).all();
                run.course.push((before + done, pages));
            }
            run.phases[phase] = subject.pages().since(before);
        }
        run.end = name(&subject.design()?.0);
        Ok(run)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Cell;

    fn tiny() -> Settings {
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
            others: Vec::new(),
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
            times: 2.0,
        };
        let (horizon, report, panel) = super::turn(&turn, &mut |_| {}).unwrap();
        assert_eq!((report.rows.len(), panel.series.len()), (3, 3));
        assert_ne!(report.rows[2][1], report.rows[2][2], "it moved: {report}");
        for fixed in 0..2 {
            let times = number(&report, fixed, "times automatic's");
            assert!(times > 1.0, "{horizon}\n{report}");
        }
        assert!(panel.series.iter().all(|s| s.points.len() == 121));
    }

    #[test]
    fn unknown_lookups_are_refused() {
        assert!(Shares::of("sideways", 0.1).is_err());
    }
}
