//! What an experiment works with: the scale, loaded databases, and trials that are measured once
//! and kept. One thread owns it.
use super::catalogue::Pace;
use super::journal::Journal;
use super::scale::Scale;
use super::trial::{Cell, Found, Trial};
use crate::container::{self, Container};
use crate::device::Device;
use crate::store::{self, Base, Facts, Loaded};
use crate::workload::Distribution;
use crate::{Error, Result, cell, engine};
use serde::Serialize;
use serde::de::DeserializeOwned;
use shamba::MIN_MEMORY;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError, mpsc};
use std::time::Instant;
use tempfile::TempDir;

/// The layout whose filters and indexes are 100 % of a budget: one Bloom filter a table.
pub const STATE_OF_THE_ART: &str = "shamba:state-of-the-art";

/// The kind of measurement that a [`Trial`] is, and one made beside others, whose times say
/// nothing.
pub(super) const TRIAL: &str = "trial";
pub(super) const COUNTED_TRIAL: &str = "counted trial";

/// What a thread that measures tells: a line for who waits, or what a trial found since it began.
enum Told {
    Line(String),
    Found(Box<(Trial, Instant, Result<Found>)>),
}

/// Trials by the database that they look up in: its folder's parent, and its name.
type Waiting<'t> = BTreeMap<(PathBuf, String), Vec<&'t Trial>>;

/// Measures what waits, database by database, until nothing does.
fn measure_waiting(waiting: &Mutex<Waiting<'_>>, sender: mpsc::Sender<Told>) -> Result<()> {
    let next = || {
        let mut waiting = waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.pop_first()
    };
    // Who is told is gone after an error alone.
    let tell = |told| drop(sender.send(told));
    while let Some(((home, _), trials)) = next() {
        let base = &trials[0].base;
        let loaded = base.loaded(&home, Device::Ram, &mut |line| tell(Told::Line(line)))?;
        for trial in trials {
            let start = Instant::now();
            let found = cell::measure(&Cell {
                trial: trial.clone(),
                dir: loaded.dir.clone(),
                group: None,
            });
            tell(Told::Found(Box::new((trial.clone(), start, found))));
        }
    }
    Ok(())
}

/// What an experiment works with.
pub struct Lab<'a> {
    /// How large everything is.
    pub scale: Scale,
    /// Decides every random choice of an experiment but those of [`base`](Self::base).
    pub seed: u64,
    /// Decides the order in which databases are loaded: the first of several seeds, so that they
    /// are loaded once.
    load_seed: u64,
    /// The experiment that is measured, and its engines.
    pub(super) experiment: &'static str,
    pub(super) engines: Vec<&'static str>,
    /// Whether 100 % of a budget is in this experiment what RocksDB would need.
    pub(super) of_rocksdb: bool,
    /// How its trials are made, and how many at once if it is side by side.
    pub(super) pace: Pace,
    jobs: usize,
    home: PathBuf,
    /// A folder for databases of which only reads past the page cache are counted.
    counted: Option<PathBuf>,
    pub(super) journal: Journal,
    /// How many measurements that the journal will have are being made, one for another.
    depth: usize,
    /// Whether the experiment has measured what the journal does not have.
    pub(super) measured_apart: bool,
    note: &'a mut dyn FnMut(String),
}

impl<'a> Lab<'a> {
    /// A laboratory with databases below `home`, and what is measured in `file`; with `resume` that
    /// of an earlier run of this program is kept.
    pub fn new(
        scale: Scale,
        seed: u64,
        home: &Path,
        file: PathBuf,
        resume: bool,
        note: &'a mut dyn FnMut(String),
    ) -> Result<Self> {
        std::fs::create_dir_all(home)?;
        let (journal, others) = Journal::measuring(file, resume)?;
        if others > 0 {
            note(format!(
                "{others} measurements of other builds are made again"
            ));
        }
        Ok(Self::with(journal, scale, seed, home.to_owned(), note))
    }

    /// One in which nothing is measured: there is what a file of measurements has.
    pub(super) fn judging(
        scale: Scale,
        seed: u64,
        file: &Path,
        note: &'a mut dyn FnMut(String),
    ) -> Result<Self> {
        let journal = Journal::judging(file)?;
        Ok(Self::with(journal, scale, seed, PathBuf::new(), note))
    }

    fn with(
        journal: Journal,
        scale: Scale,
        seed: u64,
        home: PathBuf,
        note: &'a mut dyn FnMut(String),
    ) -> Self {
        Self {
            scale,
            seed,
            load_seed: seed,
            experiment: "",
            engines: Vec::new(),
            of_rocksdb: false,
            pace: Pace::default(),
            jobs: 1,
            home,
            counted: None,
            journal,
            depth: 0,
            measured_apart: false,
            note,
        }
    }

    /// The same with so many trials at once, where an experiment has them side by side.
    #[must_use]
    pub(super) fn with_jobs(self, jobs: u16) -> Self {
        Self {
            jobs: jobs.into(),
            ..self
        }
    }

    /// The same with another folder for databases of which only reads past the page cache are
    /// counted.
    pub(super) fn counting_in(self, dir: PathBuf) -> Result<Self> {
        std::fs::create_dir_all(&dir)?;
        Ok(Self {
            counted: Some(dir),
            ..self
        })
    }

    /// Where the database of a trial lies: apart if it only counts what it reads past the page
    /// cache.
    fn home_of(&self, trial: &Trial) -> &Path {
        let counts = self.pace == Pace::SideBySide
            && trial.device == Device::Disk
            && trial.contained.is_none();
        let counted = self.counted.as_ref().filter(|_| counts);
        counted.unwrap_or(&self.home)
    }

    /// Tells the person who waits what an experiment does.
    pub fn note(&mut self, line: impl Into<String>) {
        (self.note)(format!("    {}", line.into()));
    }

    /// Tells the person who waits how far all is.
    pub(super) fn heading(&mut self, line: String) {
        (self.note)(line);
    }

    /// The SHaMBa paper's standard setting at this scale.
    pub fn base(&self, engine: &str) -> Base {
        let file = self.scale.file();
        Base {
            write_buffer: file,
            file_size: file,
            ..Base::standard(engine, self.scale.entries(), self.load_seed)
        }
    }

    /// The setting of an experiment in a sentence.
    pub fn setting(&self, base: &Base) -> String {
        let (warm_up, measured) = self.operations();
        let key = base.data().keys.key_len();
        format!(
            "{} entries of {} B (keys {key} B), 4 KiB blocks, write buffer and files of {} KiB, size \
             ratio {}, {} bits per key, {warm_up} + {measured} operations, one thread",
            base.entries,
            key as f64 + base.value.mean(),
            base.file_size >> 10,
            base.size_ratio,
            base.bits_per_key,
        )
    }

    /// The database, loaded if it was not.
    pub fn loaded(&mut self, base: &Base) -> Result<Loaded> {
        self.loaded_in(&self.home.clone(), base)
    }

    fn loaded_in(&mut self, home: &Path, base: &Base) -> Result<Loaded> {
        self.can_measure("a database")?;
        let note = &mut *self.note;
        base.loaded(home, Device::Ram, &mut |line| {
            note(format!("    {line}"));
        })
    }

    /// What loading a database took, and what came out.
    pub(super) fn facts(&mut self, base: &Base) -> Result<Facts> {
        self.measured("load", base, |lab| Ok(lab.loaded(base)?.facts))
    }

    /// 100 % of a budget, in bytes: RocksDB's filters and indexes in an experiment that is beside
    /// it, else those of one Bloom filter a table.
    fn full_budget(&mut self, base: &Base) -> Result<u64> {
        if !self.of_rocksdb {
            return self.metadata(base);
        }
        let told = store::rocksdb_metadata(base);
        told.ok_or_else(|| {
            Error::InvalidSetting(
                "RocksDB's filters and indexes are known for entries of 64 B".into(),
            )
        })
    }

    /// The bytes of filters and indexes when the entries of `base` lie in tables with one Bloom
    /// filter each.
    pub fn metadata(&mut self, base: &Base) -> Result<u64> {
        let plain = Base {
            engine: STATE_OF_THE_ART.to_owned(),
            ..base.clone()
        };
        let facts = self.facts(&plain)?;
        let untold = || Error::InvalidSetting(format!("{} does not tell its tree", base.engine));
        facts.metadata.ok_or_else(untold)
    }

    /// The budgets in percent that an engine has which is to have these: where they are less than
    /// its least, that one, once.
    pub fn budgets(&mut self, base: &Base, wanted: &[f64]) -> Result<Vec<f64>> {
        let least = MIN_MEMORY as f64 * 100.0 / self.full_budget(base)? as f64;
        // Upwards, so that a budget of it is not less than the least.
        let least = (least * 10.0).ceil() / 10.0;
        let mut budgets: Vec<f64> = wanted.iter().map(|percent| percent.max(least)).collect();
        budgets.dedup();
        Ok(budgets)
    }

    /// Lookups in the standard setting, under a budget in percent of filters and indexes (at least
    /// the engine's least), as many as the scale has.
    pub fn lookups(
        &mut self,
        engine: &str,
        percent: f64,
        positive: f64,
        distribution: Distribution,
    ) -> Result<Trial> {
        self.lookups_in(self.base(engine), percent, positive, distribution)
    }

    /// The same in any database.
    pub fn lookups_in(
        &mut self,
        base: Base,
        percent: f64,
        positive: f64,
        distribution: Distribution,
    ) -> Result<Trial> {
        let memory = (self.full_budget(&base)? as f64 * percent / 100.0) as u64;
        let trial = Trial::lookups(base, memory.max(MIN_MEMORY), positive, distribution);
        let timed = self.pace == Pace::ByTheClock;
        Ok(Trial {
            seed: self.lookup_seed(),
            timed_for: timed.then(|| self.experiment.to_owned()),
            ..trial.lasting(self.operations())
        })
    }

    /// Lookups before measuring, and measured.
    fn operations(&self) -> (u64, u64) {
        match self.pace {
            Pace::ByTheClock => self.scale.lookups_by_the_clock(),
            _ => self.scale.lookups(),
        }
    }

    /// The first of several seeds.
    pub(super) fn first_seed(&self) -> u64 {
        self.load_seed
    }

    /// The seed of lookups in a database whose load had another.
    pub fn lookup_seed(&self) -> u64 {
        self.seed + 1
    }

    /// Measures the trial, unless it was measured before.
    pub fn measure(&mut self, trial: &Trial) -> Result<Found> {
        let found = self.measured(self.kind(), trial, |lab| lab.measure_anew(trial));
        match found {
            Err(Error::NotMeasured(_)) if trial.timed_for.is_some() => self.measured_before(trial),
            found => found,
        }
    }

    /// What there is to judge of a trial by the clock of before these were an experiment's own: the
    /// first that asked for it measured it.
    fn measured_before(&mut self, trial: &Trial) -> Result<Found> {
        let shared = Trial {
            timed_for: None,
            ..trial.clone()
        };
        let kind = self.kind();
        let timed_elsewhere = self.journal.is_of_another(kind, &shared)?;
        let found = self.journal.find::<Found>(kind, &shared)?;
        let found = found.ok_or_else(|| Error::NotMeasured(kind.to_owned()))?;
        Ok(Found {
            timed_elsewhere,
            ..found
        })
    }

    /// The same of several: at once where the experiment has them side by side, but one after the
    /// other in the same database.
    pub fn measure_all(&mut self, trials: &[Trial]) -> Result<Vec<Found>> {
        let jobs = match self.pace {
            Pace::SideBySide => self.jobs,
            _ => 1,
        };
        if jobs > 1 {
            self.measure_at_once(trials, jobs)?;
        }
        trials.iter().map(|trial| self.measure(trial)).collect()
    }

    /// Measures what the journal does not have of these, of what works in its database as it lies
    /// there. What failed is left to be measured again, and to fail there.
    fn measure_at_once(&mut self, trials: &[Trial], jobs: usize) -> Result<()> {
        let kind = self.kind();
        let mut waiting = Waiting::new();
        for trial in trials {
            let apart = trial.mix.writes() || trial.contained.is_some();
            if !apart && self.journal.find::<Found>(kind, trial)?.is_none() {
                let place = (self.home_of(trial).to_owned(), trial.base.name()?);
                waiting.entry(place).or_default().push(trial);
            }
        }
        let waiting = Mutex::new(waiting);
        let (journal, note) = (&mut self.journal, &mut *self.note);
        std::thread::scope(|scope| {
            let (sender, told) = mpsc::channel();
            let workers: Vec<_> = (0..jobs)
                .map(|_| sender.clone())
                .map(|sender| scope.spawn(|| measure_waiting(&waiting, sender)))
                .collect();
            drop(sender);
            for told in told {
                match told {
                    Told::Line(line) => note(format!("    {line}")),
                    Told::Found(told) => {
                        let (trial, start, found) = *told;
                        journal.keep(kind, &trial, start, &found)?;
                    }
                }
            }
            let stopped = |_| Error::Child("a thread that measures stopped".into());
            let mut ends = workers.into_iter().map(|worker| worker.join());
            ends.try_for_each(|end| end.map_err(stopped)?)
        })
    }

    /// The kind of measurement that a trial of this experiment is.
    fn kind(&self) -> &'static str {
        match self.pace {
            Pace::SideBySide => COUNTED_TRIAL,
            _ => TRIAL,
        }
    }

    fn measure_anew(&mut self, trial: &Trial) -> Result<Found> {
        let home = self.home_of(trial).to_owned();
        let loaded = self.loaded_in(&home, &trial.base)?;
        let copy = if trial.mix.writes() {
            Some(store::copy(&loaded.dir)?)
        } else {
            None
        };
        let dir = copy
            .as_ref()
            .map_or(loaded.dir, |copy| copy.path().to_owned());
        let group = if let Some(limit) = trial.contained {
            container::forget_files(&dir)?;
            let group = Container::new(limit);
            let none = || Error::InvalidSetting("no memory control group can be made here".into());
            Some(group.ok_or_else(none)?)
        } else {
            None
        };
        cell::measure(&Cell {
            trial: trial.clone(),
            dir,
            group: group.as_ref().map(|group| group.dir().to_owned()),
        })
    }

    /// What `make` measures, made once for all that ask for the same `kind` of it with the same
    /// `asked`, which must decide what comes out.
    pub(crate) fn measured<T: Serialize + DeserializeOwned>(
        &mut self,
        kind: &str,
        asked: &impl Serialize,
        make: impl FnOnce(&mut Self) -> Result<T>,
    ) -> Result<T> {
        if let Some(found) = self.journal.find(kind, asked)? {
            return Ok(found);
        }
        let start = Instant::now();
        self.depth += 1;
        let found = make(self);
        self.depth -= 1;
        self.journal.keep(kind, asked, start, &found)?;
        found
    }

    /// An error where nothing is measured. Called for what is needed to measure.
    fn can_measure(&mut self, what: &str) -> Result<()> {
        if self.journal.is_judging() {
            return Err(Error::NotMeasured(what.to_owned()));
        }
        self.measured_apart |= self.depth == 0;
        Ok(())
    }

    /// Whether engines of a family are in this build or, where nothing is measured, in the one that
    /// measured.
    pub(super) fn has(&self, family: &str) -> bool {
        match self.journal.families() {
            Some(measured) => measured.contains(family),
            None => engine::available().contains(&family),
        }
    }

    /// The folder of the databases.
    pub fn home(&mut self) -> Result<&Path> {
        self.can_measure("what lies in the folder of databases")?;
        Ok(&self.home)
    }

    /// An empty folder for an experiment that keeps its own databases; removed when dropped.
    pub fn scratch(&mut self) -> Result<TempDir> {
        Ok(TempDir::with_prefix_in("scratch-", self.home()?)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trial() -> Trial {
        let base = Base::standard(STATE_OF_THE_ART, 1000, 1);
        Trial::lookups(base, MIN_MEMORY, 0.0, Distribution::Uniform)
    }

    fn timed_for(name: &str) -> Trial {
        Trial {
            timed_for: Some(name.to_owned()),
            ..trial()
        }
    }

    #[test]
    fn what_tells_times_is_the_experiment_s_own_and_what_counts_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("measured");
        let mut quiet = |_| {};
        let mut lab = Lab::new(Scale::Tiny, 1, dir.path(), file, false, &mut quiet).unwrap();
        (lab.experiment, lab.of_rocksdb) = ("figure-14", true);
        let mut asked = |pace| {
            lab.pace = pace;
            let trial = lab.lookups(STATE_OF_THE_ART, 10.0, 0.0, Distribution::Uniform);
            trial.unwrap()
        };
        let own = asked(Pace::ByTheClock);
        assert_eq!(own.timed_for.as_deref(), Some("figure-14"));
        for pace in [Pace::InTurn, Pace::SideBySide] {
            let counted = serde_json::to_string(&asked(pace)).unwrap();
            assert!(!counted.contains("timed_for"), "{counted}");
        }
        // What another experiment measured is none of its own.
        let (kept, start) = (Ok(Found::default()), Instant::now());
        let of_another = Trial {
            timed_for: Some("figure-13".to_owned()),
            ..own.clone()
        };
        lab.journal.keep(TRIAL, &of_another, start, &kept).unwrap();
        assert!(lab.journal.find::<Found>(TRIAL, &own).unwrap().is_none());
    }

    #[test]
    fn times_of_before_are_those_of_the_experiment_that_came_first() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("measured");
        let (mut journal, _) = Journal::measuring(file.clone(), false).unwrap();
        for trial in [trial(), timed_for("third")] {
            let (kept, start) = (Ok(Found::default()), Instant::now());
            journal.keep(TRIAL, &trial, start, &kept).unwrap();
        }
        let mut quiet = |_| {};
        let mut lab = Lab::judging(Scale::Tiny, 1, &file, &mut quiet).unwrap();
        let elsewhere = ["first", "second", "third"].map(|name| {
            lab.journal.begin(0);
            let twice = [0, 1].map(|_| lab.measure(&timed_for(name)).unwrap().timed_elsewhere);
            assert_eq!(twice[0], twice[1], "{name}");
            twice[0]
        });
        assert_eq!(elsewhere, [false, true, false]);
        let other = Trial {
            memory: 2 * MIN_MEMORY,
            ..timed_for("first")
        };
        assert!(matches!(lab.measure(&other), Err(Error::NotMeasured(_))));
    }
}
