//! The engine that chooses its own design beside its default one, at the same memory: over mixes of
//! lookups and updates, and when a workload turns from writing to reading.
//!
//! Cost is counted in pages read and written, by lookups, scans, flushes and compactions alike;
//! there are no logs. Compactions run in the writes that make them due, so that the counts of a
//! seed are the same at every run.
use crate::engine::Shamba;
use crate::reproduce::monkey::trees;
use crate::reproduce::prelude::*;
use crate::runner::{self, Amount, Data};
use crate::store;
use crate::workload::Sizes;
use shamba::fs::{Charge, MeteredFs, PAGE, Purpose};
use shamba::{
    Advice, AutoDesign, Db, Design, DeviceCosts, Durability, FilterFamily, FilterOptions,
    KeyspaceOptions, MemoryBudget, MergePolicy, Options,
};
use shamba_model::bound::least_cost;
use std::path::PathBuf;
use std::sync::Arc;

/// What lookups of a mix are; the rest are updates.
const LOOKUPS: [(&str, Operation); 3] = [
    ("empty", Operation::ReadMissing),
    ("existing", Operation::Read),
    ("ranges", Operation::Scan),
];

/// Entries that a range lookup returns.
const RANGE: usize = 16;

/// A page costs the same, read or written, however it is asked for.
const FLAT: DeviceCosts = DeviceCosts::new(1e-4).write_cost(1.0).merge_read_cost(1.0);

/// How many times as long as a move needs to pay either phase of the turn is.
const TIMES: f64 = 3.0;

/// Operations of a phase, at most.
const MOST: f64 = 1e7;

/// Points of the course of a phase.
const WINDOWS: u64 = 60;

/// Operations after which automatic mode asks again.
const EVERY: u64 = 2000;

/// Operations that automatic mode takes to see a turn, at most: three answers in a row, and a
/// half-life of what was done before.
const DELAY: f64 = 3.0 * EVERY as f64 + 8192.0;

pub(super) fn run(lab: &mut Lab<'_>) -> Result<Findings> {
    let setup = Setup::new(lab)?;
    let all = [10, 30, 50, 70, 90];
    let percents: &[u32] = lab.scale.pick(&[50], &[10, 50, 90], &all, &all);
    let (mixes, mut claims) = mixes(lab, &setup, percents)?;
    let horizon = Horizon::ask(&setup)?;
    // The tiny form does not wait until the turn has paid.
    let lengths = match lab.scale {
        Scale::Tiny => [3_000, 9_000],
        _ => horizon.lengths(),
    };
    let (turn, course, claim) = turn(&setup, &horizon, lengths)?;
    claims.push(claim);
    let mut panels = plot::of_report(&mixes, "lookups are", "engine", "lookups %", "pages/op");
    panels.push(course);
    let setting = format!(
        "{} entries of 64 B, write buffer and files of the default design {} KiB, size ratio 10, leveling, \
         Bloom filters of 10 bits per key, memory {} KiB, uniform; {} operations of each mix after as many \
         to get to know it; RAM disk, pages counted by the engine. `at most`: what the best of all \
         designs could reach by the model.",
        setup.base.entries,
        setup.base.write_buffer >> 10,
        setup.memory >> 10,
        setup.operations,
    );
    let tables = [mixes, horizon.report(), turn];
    Ok(Findings::of(setting, tables, panels, claims))
}

/// A loaded database of the default design, to be copied.
struct Setup {
    base: Base,
    dir: PathBuf,
    /// Bytes of the budget.
    memory: u64,
    /// Operations to get to know a workload by, and to measure.
    operations: u64,
}

fn base(entries: u64, write_buffer: u64, seed: u64) -> Base {
    Base {
        write_buffer,
        file_size: write_buffer,
        size_ratio: 10,
        ..Base::standard("shamba:bloom", entries, seed)
    }
}

impl Setup {
    fn new(lab: &mut Lab<'_>) -> Result<Self> {
        let full = (500_000, 256 << 10, 6 << 20, 100_000);
        let tiny = (20_000, 32 << 10, 2 << 20, 3_000);
        let (entries, write_buffer, memory, operations) = lab.scale.tiny_or(tiny, full);
        let base = base(entries, write_buffer, lab.seed);
        let dir = lab.loaded(&base)?.dir;
        Ok(Self {
            base,
            dir,
            memory,
            operations,
        })
    }

    /// A copy of the database, open, with the default design: leveling with 10 bits per key
    /// everywhere.
    fn copy(&self, auto_design: Option<AutoDesign>) -> Result<Subject> {
        let keyspace = KeyspaceOptions::new()
            .write_buffer(self.base.write_buffer)
            .target_file(self.base.file_size)
            .size_ratio(self.base.size_ratio)
            .filter(FilterOptions::new().family(FilterFamily::Bloom))
            .auto_design(auto_design);
        let dir = store::copy(&self.dir)?;
        let fs = Device::Ram.fs(Charge::Virtual);
        // The model of costs knows no entries in the cache, which take from what designs differ in.
        let db = Options::new()
            .cache_entries(false)
            .fs(Arc::new(fs.clone()))
            .memory(MemoryBudget::bytes(self.memory))
            .background_threads(0)
            .durability(Durability::None)
            .keyspace(keyspace)
            .device(FLAT)
            .open(dir.path())?;
        Ok(Subject {
            engine: Shamba::from(db.clone()),
            db,
            fs,
            data: self.base.data(),
            runs: 0,
            _dir: dir,
        })
    }

    /// The least pages that an operation costs under any design ([`least_cost`]). All the memory
    /// there is counts as cache, and an entry as its key and value alone: what is kept of a page in
    /// memory may be no more.
    fn least(&self, advice: &Advice) -> Result<f64> {
        let workload = advice.workload.model().ok_or_else(too_little)?;
        let raw = self.base.data().keys.key_len() as f64 + self.base.value.mean();
        let entry_bytes = advice.workload.entry_bytes.min(raw);
        let environment = trees::environment(self.base.entries as f64, entry_bytes);
        Ok(least_cost(&environment, &workload, self.memory as f64)?)
    }
}

/// An open copy of the database.
struct Subject {
    engine: Shamba,
    db: Db,
    fs: MeteredFs,
    data: Data,
    runs: u64,
    /// Removed with it.
    _dir: tempfile::TempDir,
}

/// Pages of an operation or of many: read by lookups and scans, read by merges, and written.
type Pages = [f64; 3];

fn sum(pages: Pages) -> f64 {
    pages.iter().sum()
}

impl Subject {
    /// Checked operations of a mix; the pages they cost.
    fn run(&mut self, mix: &Mix, operations: u64) -> Result<Pages> {
        self.runs += 1;
        let amount = Amount::new(operations, 1, self.runs);
        let before = self.fs.counts();
        runner::measure(&self.engine, &self.data, mix, amount)?;
        let counts = self.fs.counts() - before;
        let read = |purpose| counts.reads_for(purpose).pages as f64;
        Ok([
            read(Purpose::Lookup) + read(Purpose::Scan),
            read(Purpose::Background),
            counts.bytes_written as f64 / PAGE as f64,
        ])
    }

    fn advice(&self) -> Result<Advice> {
        self.db.advise()?.ok_or_else(too_little)
    }

    fn move_to(&self, design: Design) -> Result<()> {
        self.db.redesign(design)?;
        Ok(self.db.wait_for_compaction()?)
    }

    fn design(&self) -> Design {
        self.db.default_keyspace().design()
    }
}

fn too_little() -> Error {
    Error::InvalidSetting("too few entries or operations to advise on".into())
}

/// Uniform operations with these shares.
fn mix(shares: Vec<(Operation, f64)>) -> Mix {
    Mix {
        shares,
        distribution: Distribution::Uniform,
        scan: Sizes::Fixed(RANGE),
    }
}

/// A design in words.
fn name(design: &Design) -> String {
    let policy = match design.merge_policy {
        MergePolicy::Leveling { .. } => "leveling",
        MergePolicy::Tiering => "tiering",
        MergePolicy::LazyLeveling => "lazy leveling",
        _ => "other",
    };
    let (kib, bits) = (design.write_buffer >> 10, design.bits_per_key);
    format!("{policy} T={} {kib} KiB {bits:.1} b/key", design.size_ratio)
}

/// The self-designed engine beside the default design, over mixes.
fn mixes(lab: &mut Lab<'_>, setup: &Setup, percents: &[u32]) -> Result<(Report, Vec<Claim>)> {
    let mut table =
        Report::titled("Pages of an operation with the default design and the chosen one");
    let (mut fewer, mut of) = (f64::INFINITY, String::new());
    let (mut beyond, mut chosen) = (Vec::new(), 0);
    for (kind, lookup) in LOOKUPS {
        for &percent in percents {
            let share = f64::from(percent) / 100.0;
            let mix = mix(vec![(lookup, share), (Operation::Update, 1.0 - share)]);
            let mut default = None;
            for engine in ["default", "self-designed"] {
                // Both get to know the mix; then one moves.
                let mut subject = setup.copy(None)?;
                subject.run(&mix, setup.operations)?;
                let advice = subject.advice()?;
                let predicted = if engine == "default" {
                    advice.present
                } else {
                    subject.move_to(advice.best.design)?;
                    advice.best
                };
                // What it cost, beside the default design and the bound.
                let pages = subject
                    .run(&mix, setup.operations)?
                    .map(|pages| pages / setup.operations as f64);
                let default = *default.get_or_insert(sum(pages));
                let times = default / sum(pages);
                let most = default / setup.least(&advice)?;
                if engine != "default" {
                    chosen += 1;
                    if times < fewer {
                        (fewer, of) = (times, format!("{kind}, {percent} % lookups"));
                    }
                    if times > most {
                        beyond.push(format!("{kind}, {percent} %"));
                    }
                }
                table.add(row! {
                    "lookups are": kind,
                    "lookups %": percent,
                    "engine": engine,
                    "design": name(&subject.design()),
                    "pages/op": sum(pages),
                    "read by lookups/op": pages[0],
                    "read by merges/op": pages[1],
                    "written/op": pages[2],
                    "predicted/op": predicted.costs.average,
                    "times fewer pages": times,
                    "at most": most,
                });
            }
            lab.note(format!("{kind} {percent} %"));
        }
    }
    let what = "times fewer pages than the default design, at least";
    let mut least = Claim::goal_from(what, 1.0, fewer);
    least.measured += &format!(" ({of})");
    let what = "no more times fewer pages than the best of all designs could have";
    let most = Claim::everywhere(what, chosen, &beyond).as_goal();
    Ok((table, vec![least, most]))
}

/// The two phases of the turn: nearly all updates, then mostly ranges.
fn phases() -> [Mix; 2] {
    use Operation::{Read, ReadMissing, Scan, Update};
    [
        vec![(ReadMissing, 0.02), (Read, 0.02), (Update, 0.96)],
        vec![(ReadMissing, 0.1), (Read, 0.1), (Scan, 0.7), (Update, 0.1)],
    ]
    .map(mix)
}

/// The engine's advice: for writing, with the default design; for reading, with the best one for
/// writing; and for writing, with the best one for reading.
struct Horizon {
    first: Advice,
    turned: Advice,
    back: Advice,
}

impl Horizon {
    fn ask(setup: &Setup) -> Result<Self> {
        let mut subject = setup.copy(None)?;
        let mut ask = |mix: &Mix| -> Result<Advice> {
            subject.run(mix, setup.operations)?;
            let advice = subject.advice()?;
            subject.move_to(advice.best.design)?;
            Ok(advice)
        };
        let [writing, reading] = &phases();
        Ok(Self {
            first: ask(writing)?,
            turned: ask(reading)?,
            back: ask(writing)?,
        })
    }

    /// Operations of either phase after which the gain by the design for it has paid for what the
    /// turn costs automatic mode more than knowing: the move, and operations until it begins.
    fn pays_after(&self) -> [f64; 2] {
        let turning = self.turned.move_cost() + DELAY * self.turned.gain();
        [&self.back, &self.turned].map(|advice| turning / advice.gain().max(f64::MIN_POSITIVE))
    }

    /// Operations of either phase, in whole thousands.
    fn lengths(&self) -> [u64; 2] {
        let lengths = self.pays_after().map(|paid| (paid * TIMES).min(MOST));
        lengths.map(|length| (length / 1000.0).ceil() as u64 * 1000)
    }

    fn report(&self) -> Report {
        let title = format!(
            "Horizon by the model, in pages: the turn costs {:.0} for the move and {DELAY} operations until \
             it is seen; a phase is {TIMES} times as long as its gain takes to pay for that",
            self.turned.move_cost()
        );
        let paid = self.pays_after();
        let phases = [
            ("writing", &self.back, paid[0]),
            ("reading", &self.turned, paid[1]),
        ];
        Report::of(title, phases, |(phase, advice, paid)| {
            row! {
                "phase": phase,
                "best design": name(&advice.best.design),
                "pages/op": advice.best.costs.average,
                "with the other": advice.present.costs.average,
                "pays after": paid,
            }
        })
    }
}

/// Both phases with a design.
#[derive(Default)]
struct Course {
    /// Pages of each phase.
    phases: [f64; 2],
    /// Pages so far, by operations.
    points: Vec<(f64, f64)>,
    /// The design at the turn and at the end.
    designs: [String; 2],
    /// Operations after the turn at which the first move was seen to begin, and to have ended.
    moved: [Option<f64>; 2],
}

impl Course {
    fn measure(mut subject: Subject, lengths: [u64; 2]) -> Result<Self> {
        let mut course = Self::default();
        let mut before = 0;
        for (phase, (mix, length)) in phases().iter().zip(lengths).enumerate() {
            let begun = subject.design();
            for window in 1..=WINDOWS {
                let done = length * window / WINDOWS;
                let operations = done - length * (window - 1) / WINDOWS;
                course.phases[phase] += sum(subject.run(mix, operations)?);
                course.points.push(((before + done) as f64, course.all()));
                if phase == 1 && subject.design() != begun {
                    course.moved[0].get_or_insert(done as f64);
                    if !subject.db.default_keyspace().is_moving() {
                        course.moved[1].get_or_insert(done as f64);
                    }
                }
            }
            before += length;
            course.designs[phase] = name(&subject.design());
        }
        Ok(course)
    }

    fn all(&self) -> f64 {
        self.phases.iter().sum()
    }
}

/// A phase of writing, then one of reading, with the designs that are best for either, which begin
/// in shape; and, last, with the automatic mode, which begins with that for writing.
fn turn(setup: &Setup, horizon: &Horizon, lengths: [u64; 2]) -> Result<(Report, Panel, Claim)> {
    let [writing, reading] = [&horizon.first, &horizon.turned].map(|advice| advice.best.design);
    let auto = AutoDesign::new()
        .every(EVERY)
        .horizon(lengths[1].max(EVERY));
    let mut courses = Vec::new();
    for (engine, design, auto_design) in [
        ("best for writing", writing, None),
        ("best for reading", reading, None),
        ("automatic", writing, Some(auto)),
    ] {
        let subject = setup.copy(auto_design)?;
        subject.move_to(design)?;
        courses.push((engine, Course::measure(subject, lengths)?));
    }
    let automatic = courses.last().map_or(f64::NAN, |(_, course)| course.all());
    let fixed = courses.iter().take(2).map(|(_, course)| course.all());
    let claim = Claim::goal_from(
        "pages of the better fixed design, times those of the automatic mode",
        1.0,
        fixed.fold(f64::INFINITY, f64::min) / automatic,
    );
    let title = format!(
        "{} operations of which 96 % updates, then {} of which 70 % ranges and 20 % lookups",
        lengths[0], lengths[1]
    );
    let table = Report::of(title, &courses, |(engine, course)| {
        row! {
            "engine": *engine,
            "design at the turn": course.designs[0].clone(),
            "design at the end": course.designs[1].clone(),
            "move began after": course.moved[0],
            "ended after": course.moved[1],
            "pages while writing": course.phases[0],
            "pages while reading": course.phases[1],
            "pages in all": course.all(),
            "times automatic's": course.all() / automatic,
        }
    });
    let line = |(engine, course): (&str, Course)| Series::of(engine, course.points);
    let lines: Vec<Series> = courses.into_iter().map(line).collect();
    let title = "pages read and written so far, the move included";
    let panel = Panel::new(title, "operations", "pages", lines);
    Ok((table, panel, claim))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cell::Measurement as _;
    use crate::reproduce::Verdict;

    /// A small database, loaded in this process.
    fn setup(home: &std::path::Path) -> Setup {
        let base = base(30_000, 32 << 10, 1);
        let dir = home.join("database");
        store::Load::into(&dir, &base).measure().unwrap();
        Setup {
            base,
            dir,
            memory: 2 << 20,
            // So many that buffers are flushed often though one operation in ten is an update.
            operations: 24_000,
        }
    }

    /// The tiny form of the first experiment: pages are the same at every run.
    #[test]
    fn the_engine_finds_a_design_of_fewer_pages() {
        let home = tempfile::tempdir().unwrap();
        let setup = setup(home.path());
        let mut note = |_: String| {};
        let kept = home.path().join("trials.jsonl");
        let mut lab = Lab::new(Scale::Tiny, 1, home.path(), kept, false, &mut note).unwrap();
        let (table, claims) = mixes(&mut lab, &setup, &[10, 50, 90]).unwrap();
        assert_eq!(table.rows.len(), 18);
        let chosen = table.rows_of("engine", "self-designed");
        let [fewer, most] = ["times fewer pages", "at most"].map(|name| chosen.numbers(name));
        for (row, (fewer, most)) in fewer.iter().zip(&most).enumerate() {
            assert!(*fewer >= 1.0 && fewer <= most, "row {row}: {table}");
        }
        let far_fewer = fewer.iter().filter(|times| **times > 1.2);
        assert!(far_fewer.count() >= 2, "{table}");
        assert!(table.numbers("pages/op")[0] > 0.0);
        let mut verdicts = claims.iter().map(|claim| claim.verdict);
        assert!(
            verdicts.all(|verdict| verdict == Verdict::Met),
            "{claims:?}"
        );
    }

    /// The tiny form of the second, with phases shorter than the model's.
    #[test]
    fn the_automatic_mode_follows_a_turn() {
        let home = tempfile::tempdir().unwrap();
        let setup = setup(home.path());
        let horizon = Horizon::ask(&setup).unwrap();
        let gains = [&horizon.turned, &horizon.back].map(Advice::gain);
        assert!(gains.iter().all(|gain| *gain > 0.0), "{gains:?}");
        // A phase is so long that its gain pays for the turn as often as is asked for.
        let turning = horizon.turned.move_cost() + DELAY * gains[0];
        for (length, gain) in horizon.lengths().into_iter().zip([gains[1], gains[0]]) {
            let over = length as f64 - TIMES * turning / gain;
            assert!((0.0..1000.0).contains(&over), "{over} operations too many");
        }
        let (table, course, _) = turn(&setup, &horizon, [12_000, 36_000]).unwrap();
        assert_eq!((table.rows.len(), course.series.len()), (3, 3));
        let automatic = table.rows_of("engine", "automatic");
        let text = |name: &str| automatic.rows[0][automatic.column(name).unwrap()].to_string();
        let designs = ["design at the turn", "design at the end"].map(text);
        assert_ne!(designs[0], designs[1], "{table}");
        let at = |name: &str| automatic.numbers(name)[0];
        assert!(at("move began after") <= at("ended after"), "{table}");
        assert!(table.numbers("times automatic's")[0] > 1.0, "{table}");
        let points = 2 * WINDOWS as usize;
        assert!(course.series.iter().all(|line| line.points.len() == points));
    }
}
