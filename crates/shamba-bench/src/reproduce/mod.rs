//! Every table and figure of the papers, and of ours, by one command: `shamba-bench reproduce`.
//!
//! An [`Experiment`] has a name (`shamba-figure-6`), says what its paper claims, and names its
//! engines: `experiments.toml` describes them all. It gives [`Findings`]: the setting, tables,
//! plots, and [`Claim`]s, each a number of the paper beside the one measured, with a verdict that
//! follows from both. It measures by [`trial`]s in a [`Lab`], or
//! by the functions of [`crate::experiments`]. Each experiment's files are written as soon as it
//! ends; one that fails, or panics, costs the others nothing; `--resume` goes on where a run was
//! stopped. `page` makes Markdown pages of all that lies in the folder.
//!
//! A folder for each paper; a file for each table or figure, or for several that are alike.
mod catalogue;
pub mod claim;
mod elastic;
mod files;
mod front_page;
pub(crate) mod hash_sharing;
mod journal;
pub mod lab;
mod machine;
mod monkey;
pub(crate) mod ours;
mod page;
mod prelude;
mod published;
mod scale;
mod seeds;
mod shamba;
pub mod trial;

pub use catalogue::Experiment;
pub use claim::{Claim, Verdict};
pub use lab::Lab;
pub use scale::Scale;

use catalogue::{CATALOGUE, Run};

use crate::plot::{self, Dots, Panel};
use crate::provenance::Build;
use crate::report::Report;
use crate::{Error, Result, row};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// What an experiment found.
#[derive(Clone, Debug, Default, serde::Serialize, serde::Deserialize)]
pub struct Findings {
    /// Entries, sizes, device, operations: whatever a reader needs to judge the numbers.
    pub setting: String,
    /// What was measured; each is a CSV file.
    pub tables: Vec<Report>,
    /// The same as diagrams, in one SVG file.
    pub panels: Vec<Panel>,
    /// Where there are none, the same as a dot plot.
    #[serde(default)]
    pub dots: Option<Dots>,
    /// What is claimed, and the verdicts.
    pub claims: Vec<Claim>,
    /// What else should be known.
    pub notes: Vec<String>,
}

impl Findings {
    /// What most experiments find: a setting, tables, diagrams and claims.
    fn of(
        setting: impl Into<String>,
        tables: impl IntoIterator<Item = Report>,
        panels: impl IntoIterator<Item = Panel>,
        claims: impl IntoIterator<Item = Claim>,
    ) -> Self {
        Self {
            setting: setting.into(),
            tables: tables.into_iter().collect(),
            panels: panels.into_iter().collect(),
            claims: claims.into_iter().collect(),
            ..Self::default()
        }
    }

    /// The same, and notes.
    fn noting(self, notes: Vec<String>) -> Self {
        Self { notes, ..self }
    }
}

/// An experiment that ended, as kept in its JSON file.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub struct Ended {
    /// The experiment's name.
    pub name: String,
    /// How large it was.
    pub scale: Scale,
    /// The seeds of its runs.
    pub seeds: std::ops::Range<u64>,
    /// The build and the machine.
    pub place: machine::Place,
    /// What it took.
    pub seconds: f64,
    /// What it found, or the error.
    pub outcome: std::result::Result<Findings, String>,
}

/// All experiments, in the order of the papers.
pub fn all() -> &'static [Experiment] {
    &CATALOGUE.experiments
}

/// What to run, and where.
#[derive(Clone, Debug, clap::Args)]
pub struct Settings {
    /// Names of experiments, or beginnings of names (`monkey`, `shamba-figure`), or `all`.
    #[arg(default_value = "all")]
    pub names: Vec<String>,
    /// How large the experiments are.
    #[arg(long, value_enum, default_value_t = Scale::Quick)]
    pub scale: Scale,
    /// Folder for the results: CSV, SVG and JSON files of each experiment, and pages of all:
    /// summary.md, to be read in a minute, and results.md.
    #[arg(long, default_value = "results")]
    pub out: PathBuf,
    /// Folder for databases, kept for the next run; by default one in the temporary folder that is
    /// removed at the end.
    #[arg(long)]
    pub dir: Option<PathBuf>,
    /// Trials at once, of experiments that only count: more than there are cores, where a disk is
    /// waited for.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub jobs: u16,
    /// Another folder for databases of which experiments that only count count reads past the
    /// page cache: on a file system on a loop device over a file in memory these wait for nothing.
    /// At the scale `standard` they take 14 GB, and as many again for each further seed.
    #[arg(long)]
    pub counted: Option<PathBuf>,
    /// Go on with a run that was stopped: keep experiments that ended well, and single
    /// measurements, if they are of this very program.
    #[arg(long)]
    pub resume: bool,
    /// Only list the experiments.
    #[arg(long)]
    pub list: bool,
    /// Only make tables, plots and pages anew from the results (JSON files) in the folder.
    #[arg(long)]
    pub report: bool,
    /// Take the results from this file, which --docs wrote, into the folder first.
    #[arg(long, requires = "report")]
    pub from: Option<PathBuf>,
    /// Measure nothing: judge anew what was measured before, in this file (measurements.jsonl of a
    /// folder of results, or the compressed one that --docs wrote).
    #[arg(long, conflicts_with_all = ["resume", "report", "dir"])]
    pub judge: Option<PathBuf>,
    /// Also make the pages here, and keep the results there, compressed.
    #[arg(long)]
    pub docs: Option<PathBuf>,
    /// Show these results of a larger scale beside the headlines: a folder of results, or the
    /// compressed file of them that --docs keeps; by default what is kept there already.
    #[arg(long, requires = "docs")]
    pub paper: Option<PathBuf>,
    /// Seed of every random choice.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Runs of each experiment, with one seed after the other: medians are reported, and ranges. By
    /// default three at the scales `standard` and `paper`, else one.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=99))]
    pub seeds: Option<u64>,
}

impl Settings {
    /// The experiments that are asked for.
    ///
    /// # Errors
    /// A name that is the beginning of none.
    pub fn chosen(&self) -> Result<Vec<&'static Experiment>> {
        let all = all();
        let fits = |experiment: &Experiment, name: &str| {
            name == "all" || experiment.name == name || {
                let rest = experiment.name.strip_prefix(name);
                rest.is_some_and(|rest| name.ends_with('-') || rest.starts_with('-'))
            }
        };
        let known = |name: &&String| all.iter().any(|experiment| fits(experiment, name));
        if let Some(name) = self.names.iter().find(|name| !known(name)) {
            let unknown = format!("there is no experiment `{name}` (--list shows them)");
            return Err(Error::InvalidSetting(unknown));
        }
        let chosen = |experiment: &&Experiment| self.names.iter().any(|n| fits(experiment, n));
        Ok(all.iter().filter(chosen).collect())
    }

    /// The seeds of the runs of an experiment.
    fn seeds(&self) -> std::ops::Range<u64> {
        let count = self.seeds.unwrap_or(self.scale.pick(1, 1, 3, 3));
        self.seed..self.seed.saturating_add(count)
    }

    /// Makes the pages of what lies in the folder; at the end also what is published.
    fn publish(&self, ended: bool) -> Result<()> {
        let results = page::read(&self.out, all());
        published::pages(&self.out, &results, &[])?;
        match &self.docs {
            Some(docs) if ended => {
                let kept = Some(docs.join(published::PAPER)).filter(|kept| kept.exists());
                let paper = match self.paper.as_ref().or(kept.as_ref()) {
                    Some(from) => published::read(from)?,
                    None => Vec::new(),
                };
                published::write(docs, &results, &paper)?;
                let measured = self.judge.clone();
                let measured = measured.unwrap_or_else(|| self.out.join(journal::FILE));
                // Compressed it is what is kept there already.
                let is_plain = measured.extension().is_some_and(|of| of == "jsonl");
                if is_plain && measured.exists() {
                    published::keep(docs, &measured)?;
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Whether an experiment ended well in a run that this one goes on with.
    fn kept(&self, experiment: &Experiment) -> bool {
        let ended = Ended::read(&self.out, &experiment.name).filter(|_| self.resume);
        ended.is_some_and(|ended| {
            ended.scale == self.scale
                && ended.seeds == self.seeds()
                && ended.place.build == *Build::running()
                && ended.outcome.is_ok()
        })
    }
}

impl Ended {
    fn read(out: &Path, name: &str) -> Option<Self> {
        let text = std::fs::read(out.join(format!("{name}.json"))).ok()?;
        serde_json::from_slice(&text).ok()
    }

    /// The files of an experiment: all of it as JSON, from which the others can be made again, its
    /// tables, its plot, and one of the paper's numbers beside those measured.
    fn write(&self, out: &Path) -> Result<()> {
        let text = serde_json::to_vec_pretty(self)?;
        std::fs::write(out.join(format!("{}.json", self.name)), text)?;
        if let Ok(findings) = &self.outcome {
            for (number, table) in findings.tables.iter().enumerate() {
                let file = match number {
                    0 => format!("{}.csv", self.name),
                    _ => format!("{}-{}.csv", self.name, number + 1),
                };
                table.save(&out.join(file))?;
            }
            let drawing = out.join(format!("{}.svg", self.name));
            if !findings.panels.is_empty() {
                let columns = findings.panels.len().min(3);
                plot::save(&drawing, &findings.panels, columns)?;
            } else if let Some(dots) = &findings.dots {
                dots.save(&drawing)?;
            }
            if let Some(dots) = claim::beside_the_claimed(&findings.claims) {
                dots.save(&out.join(claims_file(&self.name)))?;
            }
        }
        Ok(())
    }
}

/// The file of the plot of an experiment's claims.
fn claims_file(name: &str) -> String {
    format!("{name}-claims.svg")
}

/// Runs what is asked for. `note` gets a line for each step.
///
/// # Errors
/// After all others, if an experiment failed: how many, and the first.
pub fn run(settings: &Settings, note: &mut dyn FnMut(String)) -> Result<()> {
    let chosen = settings.chosen()?;
    std::fs::create_dir_all(&settings.out)?;
    if settings.report {
        if let Some(data) = &settings.from {
            published::unpack(data, &settings.out)?;
        }
        for experiment in all() {
            if let Some(ended) = Ended::read(&settings.out, &experiment.name) {
                ended.write(&settings.out)?;
            }
        }
        return settings.publish(true);
    }
    let passing = tempfile::Builder::new().prefix("shamba-").tempdir()?;
    let home = settings.dir.as_deref().unwrap_or(passing.path());
    let (scale, seed) = (settings.scale, settings.seed);
    let mut lab = match &settings.judge {
        Some(file) => Lab::judging(scale, seed, file, note)?,
        None => {
            let file = settings.out.join(journal::FILE);
            let lab = Lab::new(scale, seed, home, file, settings.resume, note)?;
            let lab = lab.with_jobs(settings.jobs);
            match &settings.counted {
                Some(dir) => lab.counting_in(dir.clone())?,
                None => lab,
            }
        }
    };
    // Seconds of those that ended, at the quick scale and here.
    let mut ended_so_far = (0.0, 0.0);
    let mut failures = Vec::new();
    for (number, experiment) in chosen.iter().enumerate() {
        let left = left(&chosen[number..], ended_so_far);
        let position = format!("[{} of {}{left}]", number + 1, chosen.len());
        if settings.kept(experiment) {
            lab.heading(format!("{position} {}: kept", experiment.name));
            continue;
        }
        lab.heading(format!("{position} {}", experiment.name));
        let start = Instant::now();
        // By the last build that has measured all of it.
        let builds = lab.journal.builds().max(1);
        let mut outcomes = (0..builds).map(|build| {
            lab.journal.begin(build);
            match measured_with(experiment, &mut lab, settings.seeds()) {
                Err(Error::NotMeasured(_)) => {
                    lab.journal.give_back();
                    None
                }
                outcome => Some(outcome),
            }
        });
        let outcome = outcomes.find_map(|outcome| outcome);
        drop(outcomes);
        let outcome = outcome.unwrap_or_else(|| Err(Error::NotMeasured(experiment.name.clone())));
        let (place, kept) = lab.journal.taken();
        if settings.judge.is_some() && matches!(outcome, Err(Error::NotMeasured(_))) {
            lab.note("not measured");
            continue;
        }
        let took = start.elapsed().as_secs_f64();
        let seconds = match settings.judge {
            Some(_) => kept,
            None => kept + took,
        };
        ended_so_far.0 += experiment.seconds;
        ended_so_far.1 += took;
        let outcome = outcome.map_err(|error| error.to_string());
        match &outcome {
            Err(error) => {
                lab.note(format!("failed: {error}"));
                failures.push(format!("{}: {error}", experiment.name));
            }
            Ok(findings) => {
                let verdicts = claim::in_words(&findings.claims);
                lab.note(format!("{verdicts}; {seconds:.0} s"));
            }
        }
        let ended = Ended {
            name: experiment.name.clone(),
            scale: settings.scale,
            seeds: settings.seeds(),
            place: place.unwrap_or_else(machine::Place::here),
            seconds,
            outcome,
        };
        // A full disk, or a plot that cannot be drawn, costs the others nothing either.
        if let Err(error) = ended.write(&settings.out) {
            lab.note(format!("not written: {error}"));
            if ended.outcome.is_ok() {
                failures.push(format!("{}: {error}", experiment.name));
            }
        }
        if let Err(error) = settings.publish(false) {
            lab.note(format!("the pages were not written: {error}"));
        }
    }
    settings.publish(true)?;
    match failures.first() {
        None => Ok(()),
        Some(first) => Err(Error::Child(format!(
            "{} experiments failed, the first so: {first}",
            failures.len()
        ))),
    }
}

/// About how long the `rest` takes, from what the experiments that ended should have taken by what
/// is known of them, and what they took.
fn left(rest: &[&Experiment], (known, took): (f64, f64)) -> String {
    if known == 0.0 {
        return String::new();
    }
    let rest: f64 = rest.iter().map(|experiment| experiment.seconds).sum();
    format!(", about {:.0} min left", rest * took / known / 60.0)
}

/// Runs one experiment with each of the seeds.
fn measured_with(
    experiment: &'static Experiment,
    lab: &mut Lab<'_>,
    seeds: std::ops::Range<u64>,
) -> Result<Findings> {
    let unknown = || Error::InvalidSetting("nothing measures it".to_owned());
    let run = experiment.run().ok_or_else(unknown)?;
    lab.experiment = &experiment.name;
    lab.engines = experiment.engines(|family| lab.has(family));
    lab.of_rocksdb = experiment.of_rocksdb;
    lab.pace = experiment.pace;
    let mut all = Vec::new();
    for seed in seeds.clone() {
        if seeds.end - seeds.start > 1 {
            lab.note(format!("seed {seed}"));
        }
        lab.seed = seed;
        let found = judged(experiment, run, lab)?;
        all.push(experiment.complete(lab.scale, found));
    }
    Ok(seeds::merge(all, seeds.start))
}

/// Runs one experiment with one seed. Of one that measures apart from the journal, the journal has
/// what it found: as it was judged then.
fn judged(experiment: &Experiment, run: Run, lab: &mut Lab<'_>) -> Result<Findings> {
    const KIND: &str = "findings";
    let asked = (&experiment.name, lab.scale, lab.seed);
    let start = Instant::now();
    lab.measured_apart = false;
    let (_, seconds) = lab.journal.taken();
    let found = measured(run, lab);
    match &found {
        Err(Error::NotMeasured(_)) => {
            // What it took is in what is kept of all of it.
            lab.journal.set_seconds(seconds);
            match lab.journal.find(KIND, &asked) {
                Ok(Some(kept)) => Ok(kept),
                _ => found,
            }
        }
        Ok(_) if lab.measured_apart => {
            lab.journal.keep(KIND, &asked, start, &found)?;
            found
        }
        _ => found,
    }
}

/// Runs one experiment; a panic is an error like others.
fn measured(run: Run, lab: &mut Lab<'_>) -> Result<Findings> {
    match catch_unwind(AssertUnwindSafe(|| run(lab))) {
        Ok(found) => {
            let mut findings = found?;
            // JSON knows finite numbers only.
            findings.panels.iter_mut().for_each(Panel::retain_finite);
            Ok(findings)
        }
        Err(panic) => {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(|&t| t.to_owned()));
            Err(Error::Panicked(text.unwrap_or_default()))
        }
    }
}

/// The experiments as a table.
pub fn list() -> Report {
    Report::of("Experiments", all(), |experiment| {
        row! {
            "name": &experiment.name,
            "what": &experiment.title,
            "the paper's claim": &experiment.claim,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(names: &[&str]) -> Settings {
        Settings {
            names: names.iter().map(|&name| name.to_owned()).collect(),
            scale: Scale::Tiny,
            out: PathBuf::from("unused"),
            dir: None,
            jobs: 1,
            counted: None,
            resume: false,
            list: false,
            report: false,
            from: None,
            judge: None,
            docs: None,
            paper: None,
            seed: 1,
            seeds: None,
        }
    }

    #[test]
    fn names_are_unique_and_chosen_by_their_beginnings() {
        let all = all();
        let mut names: Vec<&str> = all.iter().map(|experiment| &experiment.name[..]).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all.len());
        let chosen = |names: &[&str]| {
            let chosen = settings(names).chosen().unwrap();
            chosen.iter().map(|e| &e.name[..]).collect::<Vec<_>>()
        };
        assert_eq!(chosen(&["all"]).len(), all.len());
        assert_eq!(chosen(&["shamba-table-1"]), ["shamba-table-1"]);
        assert!(chosen(&["shamba"]).iter().all(|n| n.starts_with("shamba-")));
        assert!(settings(&["shamba-table-0"]).chosen().is_err());
    }

    /// The outcome of an experiment that does nothing but this.
    fn outcome(run: Run) -> Result<Findings> {
        let dir = tempfile::tempdir().unwrap();
        let mut quiet = |_| {};
        let file = dir.path().join("trials");
        let lab = Lab::new(Scale::Tiny, 1, dir.path(), file, false, &mut quiet);
        measured(run, &mut lab.unwrap())
    }

    #[test]
    fn what_an_experiment_found_is_read_again_and_drawn_whatever_its_numbers() {
        let outcome = outcome(|_| {
            let points = vec![
                (1.0, 2.0),
                (2.0, f64::INFINITY),
                (f64::NAN, 1.0),
                (3.0, 0.0),
            ];
            let series = vec![plot::Series {
                points,
                ..plot::Series::new("line")
            }];
            let mut table = Report::new("", &["ratio"]);
            table.push(vec![f64::INFINITY.into()]);
            Ok(Findings {
                tables: vec![table],
                panels: vec![Panel {
                    log_y: true,
                    series,
                    ..Panel::default()
                }],
                ..Findings::default()
            })
        });
        let dir = tempfile::tempdir().unwrap();
        let ended = Ended {
            name: "infinite".to_owned(),
            scale: Scale::Tiny,
            seeds: 1..2,
            place: machine::Place::here(),
            seconds: 1.0,
            outcome: outcome.map_err(|error| error.to_string()),
        };
        ended.write(dir.path()).unwrap();
        let again = Ended::read(dir.path(), "infinite").unwrap();
        let points = &again.outcome.unwrap().panels[0].series[0].points;
        assert_eq!(*points, [(1.0, 2.0), (3.0, 0.0)]);
        assert!(dir.path().join("infinite.svg").exists());
    }

    #[test]
    fn an_experiment_that_panics_is_an_error() {
        let outcome = outcome(|_| panic!("no {}", "way"));
        assert_eq!(outcome.unwrap_err().to_string(), "panicked: no way");
    }
}
