//! A compaction to do, and how pickers make one. This file is long because the rules that keep
//! tasks apart hold for all of them, and are stated, built and checked in one place.
//!
//! A picker sees a version and says what to do next, or `None` when the tree is in shape. Several
//! tasks may run at once. What keeps them apart:
//!
//! * A file is an input of one task at most: it is busy meanwhile, and pickers use no busy file.
//! * Data never overtakes newer data: a task that takes a file out of a level also takes every
//!   file of that level's older runs that meets it. So a busy file there blocks the task.
//! * Two tasks into one run have disjoint outputs. Call a task's reach the hull of its upper
//!   inputs' range together with the output run's files that meet it; those files are inputs, and
//!   all outputs lie in the reach. The reach is one connected interval. If two reaches met, then a
//!   file of the output run would be wanted by both (busy, so the second is refused), or the upper
//!   inputs' hulls would meet. From one run the upper input is a single file, or is a group that
//!   moves without merging, and files of a run are disjoint; out of a level with several runs only
//!   one task goes at a time.
//! * A move is installed before anything else is picked. Were one under way that keeps its runs'
//!   ids, then what left the level above meanwhile would join a run that is about to be elsewhere.
//! * A run starts in an empty leveled level only while nothing of the level above is under way, so
//!   that two tasks do not start two runs.
//! * A new run's id is drawn when the task is installed, so it is the newest in its level then; it
//!   is newer than what is there because one task at a time takes runs out of the level above.
//!   A merge within a level keeps the id of its newest input, hence its place.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use super::policy::PickerOptions;
use crate::base::clock::Moment;
use crate::version::{FileMeta, MovedFile, RemovedFile, Run, Version};

/// Keys that an input of a merge holds: that of its cursor, two and a separator with its open
/// table, and one as that is read.
pub(crate) const KEYS_OF_INPUT: u64 = 5;

/// How a task is carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TaskKind {
    /// The inputs are merged into new files.
    Merge,
    /// The inputs change their place as they are.
    TrivialMove,
}

/// The run that takes a task's output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TargetRun {
    /// This run of the output level. It may be gone when the task is installed (its last file went
    /// down meanwhile); it is then made again under the same id.
    Join(u64),
    /// A run of its own, whose id is drawn when the task is installed.
    New,
    /// The runs that the files are in, which keep their ids. For moves only.
    Keep,
}

/// The files a task takes from one run.
#[derive(Debug, Clone)]
pub(crate) struct TaskInput {
    /// The run's level.
    pub(crate) level: usize,
    /// The run.
    pub(crate) run: u64,
    /// The files, ascending.
    pub(crate) files: Vec<FileMeta>,
}

/// A compaction to do.
#[derive(Debug, Clone)]
pub(crate) struct Task {
    /// How urgent it is: from 1 on, a level is too full; below, it reclaims space.
    pub(crate) score: f64,
    /// What it takes, newest run first.
    pub(crate) inputs: Vec<TaskInput>,
    /// Where the output goes.
    pub(crate) output_level: usize,
    /// And into which run.
    pub(crate) output: TargetRun,
    /// Whether anything is rewritten.
    pub(crate) kind: TaskKind,
    /// Of a merge: only keys up to this one are merged. What the inputs hold of later keys is
    /// written anew into the runs it was in.
    pub(crate) cut: Option<Box<[u8]>>,
    /// No older data of any key in the inputs lies outside them, so tombstones that every snapshot
    /// sees may go. Stays true while the task runs.
    pub(crate) bottom: bool,
    /// What expires up to this moment had expired when it was picked, if it may be for that: it
    /// drops it whatever the clock says when it runs.
    pub(crate) expired_to: Moment,
    /// Why, for the log.
    pub(crate) reason: &'static str,
}

impl Task {
    /// All input files.
    pub(crate) fn files(&self) -> impl Iterator<Item = &FileMeta> {
        self.inputs.iter().flat_map(|input| &input.files)
    }

    /// Bytes of all input files.
    pub(crate) fn input_bytes(&self) -> u64 {
        self.files().map(|file| file.size()).sum()
    }

    /// Claims all input files, or none.
    pub(crate) fn try_claim(&self) -> bool {
        for (i, file) in self.files().enumerate() {
            if !file.try_claim() {
                self.files().take(i).for_each(|file| file.release());
                return false;
            }
        }
        true
    }

    /// Gives the input files back.
    pub(crate) fn release(&self) {
        self.files().for_each(|file| file.release());
    }

    /// The most inputs that there is memory for: each holds several keys, which may be long.
    fn most_inputs(&self, options: &PickerOptions) -> usize {
        let longest = self.files().map(FileMeta::longer_key).max().unwrap_or(0);
        let by_keys = options.merge_keys / (KEYS_OF_INPUT * longest as u64).max(1);
        let by_keys = usize::try_from(by_keys).unwrap_or(usize::MAX);
        options.most_inputs.min(by_keys).max(2)
    }

    /// This task, if it is a merge of no more inputs than there is memory for, or else one that
    /// does a part of it. Out of a level of many runs only the oldest go down. Within a level as
    /// many neighbours as are too many become one, those with the fewest bytes. What is left is
    /// then picked again.
    ///
    /// Older data goes first, and runs between neighbours hold nothing of the task's keys, so
    /// nothing is overtaken; other tasks keep out of the level as they would have for the whole.
    pub(super) fn within(self, version: &Version, options: &PickerOptions) -> Option<Task> {
        let most = self.most_inputs(options);
        let count_at = |level| {
            self.inputs
                .iter()
                .filter(|input| input.level == level)
                .count()
        };
        // The level that most of the inputs are from is the one to take fewer of.
        let levels = self.inputs.iter().map(|input| input.level);
        let widest = levels.max_by_key(|level| count_at(*level)).unwrap_or(0);
        let count = count_at(widest);
        if self.kind != TaskKind::Merge || self.inputs.len() <= most || count < 2 {
            return Some(self);
        }
        const REASON: &str = "more runs than a merge has memory for";
        // Out of a level: its oldest runs go down, as many as fit.
        if self.output_level > widest {
            let keep = most.saturating_sub(self.inputs.len() - count).max(1);
            let mut newer = count.saturating_sub(keep);
            if newer == 0 {
                return Some(self);
            }
            // The newest come first.
            let goes = |input: &TaskInput| {
                let stays = input.level == widest && newer > 0;
                newer -= usize::from(stays);
                !stays
            };
            let draft = Draft {
                inputs: self.inputs.into_iter().filter(goes).collect(),
                cut: self.cut,
            };
            let (to, output) = (self.output_level, self.output);
            return draft.finish_as(TaskKind::Merge, version, to, output, self.score, REASON);
        }
        // Within a level: neighbours become one run, which keeps the place of the newest.
        let few = (self.inputs.len() - most + 1).clamp(2, most.min(count));
        let of_level = self.inputs.iter().filter(|input| input.level == widest);
        let of_level: Vec<&TaskInput> = of_level.collect();
        let bytes = |inputs: &&[&TaskInput]| -> u64 {
            let files = inputs.iter().flat_map(|input| &input.files);
            files.map(|file| file.size()).sum()
        };
        let inputs = of_level.windows(few).min_by_key(bytes)?;
        let newest = TargetRun::Join(inputs.first()?.run);
        let draft = Draft {
            inputs: inputs.iter().map(|input| (*input).clone()).collect(),
            cut: self.cut,
        };
        let (kind, score) = (TaskKind::Merge, self.score);
        draft.finish_as(kind, version, widest, newest, score, REASON)
    }

    /// A move of files of which some should be written again, as `misfit` says: into a run of their
    /// own all are, into another run the first of them alone, since what moves lies apart from all
    /// that it may meet but not from what lies between. The others are for the tasks after.
    pub(crate) fn rewriting(mut self, misfit: impl Fn(&FileMeta) -> bool) -> Task {
        let found = self
            .files()
            .find(|file| misfit(file))
            .map(|file| file.number());
        let (TaskKind::TrivialMove, Some(number)) = (self.kind, found) else {
            return self;
        };
        self.kind = TaskKind::Merge;
        if let TargetRun::Join(_) = self.output {
            for input in &mut self.inputs {
                input.files.retain(|file| file.number() == number);
            }
            self.inputs.retain(|input| !input.files.is_empty());
        }
        self
    }

    /// The edit's removals, for a merge.
    pub(crate) fn removes(&self) -> Vec<RemovedFile> {
        let of = |input: &TaskInput| {
            let level = input.level as u32;
            let files = input.files.iter().cloned();
            files
                .map(|file| RemovedFile { level, file })
                .collect::<Vec<_>>()
        };
        self.inputs.iter().flat_map(of).collect()
    }

    /// The edit's moves, for a trivial move; `run` is the output's id.
    pub(crate) fn moves(&self, run: u64) -> Vec<MovedFile> {
        let to = self.output_level as u32;
        let of = |input: &TaskInput| {
            let from = input.level as u32;
            let files = input.files.iter().cloned();
            files
                .map(|file| MovedFile {
                    file,
                    from,
                    to,
                    run: match self.output {
                        TargetRun::Keep => input.run,
                        TargetRun::Join(_) | TargetRun::New => run,
                    },
                })
                .collect::<Vec<_>>()
        };
        self.inputs.iter().flat_map(of).collect()
    }
}

impl fmt::Display for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            TaskKind::Merge => "merge",
            TaskKind::TrivialMove => "move",
        };
        write!(f, "{kind}")?;
        for input in &self.inputs {
            write!(f, " L{}/{}[", input.level, input.run)?;
            for (i, file) in input.files.iter().enumerate() {
                let space = if i == 0 { "" } else { " " };
                let (lo, hi) = (
                    file.smallest().escape_ascii(),
                    file.largest().escape_ascii(),
                );
                write!(f, "{space}{lo}-{hi}")?;
            }
            write!(f, "]")?;
        }
        match self.output {
            TargetRun::Join(id) => write!(f, " -> L{}/{id}", self.output_level)?,
            TargetRun::New => write!(f, " -> L{}/new", self.output_level)?,
            TargetRun::Keep => write!(f, " -> L{}", self.output_level)?,
        }
        if let Some(cut) = &self.cut {
            write!(f, " up to {}", cut.escape_ascii())?;
        }
        let bottom = if self.bottom { ", bottom" } else { "" };
        write!(f, "{bottom}, score {:.2}: {}", self.score, self.reason)
    }
}

/// The smallest and the largest key of some files.
type Hull = (Box<[u8]>, Box<[u8]>);

/// A task in the making: inputs without a verdict.
#[derive(Debug, Default)]
pub(super) struct Draft {
    inputs: Vec<TaskInput>,
    cut: Option<Box<[u8]>>,
}

impl Draft {
    /// Adds files of a run; none is fine.
    pub(super) fn add<'a>(
        &mut self,
        level: usize,
        run: &Run,
        files: impl IntoIterator<Item = &'a FileMeta>,
    ) {
        let files: Vec<_> = files.into_iter().cloned().collect();
        if !files.is_empty() {
            self.inputs.push(TaskInput {
                level,
                run: run.id(),
                files,
            });
        }
    }

    /// Adds whole runs.
    pub(super) fn add_runs(&mut self, level: usize, runs: &[Arc<Run>]) {
        for run in runs {
            self.add(level, run, run.files());
        }
    }

    /// Merges keys up to this one only.
    pub(super) fn cut_at(&mut self, key: &[u8]) {
        self.cut = Some(key.into());
    }

    /// Whether nothing was added.
    pub(super) fn is_empty(&self) -> bool {
        self.inputs.is_empty()
    }

    /// Whether a file of this run was added.
    pub(super) fn has_run(&self, run: u64) -> bool {
        self.inputs.iter().any(|input| input.run == run)
    }

    /// All files added.
    pub(super) fn files(&self) -> impl Iterator<Item = &FileMeta> {
        self.inputs.iter().flat_map(|input| &input.files)
    }

    /// The smallest and the largest key.
    pub(super) fn hull(&self) -> Option<Hull> {
        let lo = self.files().map(|file| file.smallest()).min()?;
        let hi = self.files().map(|file| file.largest()).max()?;
        Some((lo.into(), hi.into()))
    }

    /// Adds those files of a run that meet the hull of what was added before.
    pub(super) fn add_overlapping(&mut self, level: usize, run: &Run) {
        if let Some((lo, hi)) = self.hull() {
            self.add(level, run, run.overlapping(&lo, &hi));
        }
    }

    /// Whether no two of the files meet.
    pub(super) fn is_disjoint(&self) -> bool {
        let mut files: Vec<_> = self.files().collect();
        files.sort_by(|a, b| a.smallest().cmp(b.smallest()));
        !files
            .windows(2)
            .any(|pair| matches!(pair, [a, b] if a.largest() >= b.smallest()))
    }

    /// The task of a merge, or of a move when the files of two or more runs do not meet and those
    /// not yet in the output run can go there as they are. `None` when a file is busy.
    pub(super) fn finish(
        mut self,
        version: &Version,
        output_level: usize,
        output: TargetRun,
        score: f64,
        reason: &'static str,
    ) -> Option<Task> {
        let in_place =
            |input: &TaskInput| input.level == output_level && output == TargetRun::Join(input.run);
        let moves = self.is_disjoint() && !self.inputs.iter().all(in_place);
        if moves {
            self.inputs.retain(|input| !in_place(input));
        }
        let kind = if moves {
            TaskKind::TrivialMove
        } else {
            TaskKind::Merge
        };
        self.finish_as(kind, version, output_level, output, score, reason)
    }

    /// The task of this kind; `None` when a file is busy.
    pub(super) fn finish_as(
        mut self,
        kind: TaskKind,
        version: &Version,
        output_level: usize,
        output: TargetRun,
        score: f64,
        reason: &'static str,
    ) -> Option<Task> {
        if self.is_empty() || self.files().any(|file| file.is_busy()) {
            return None;
        }
        self.inputs
            .sort_by_key(|input| (input.level, std::cmp::Reverse(input.run)));
        let bottom = self.is_bottom(version);
        Some(Task {
            score,
            inputs: self.inputs,
            output_level,
            output,
            kind,
            cut: self.cut,
            bottom,
            expired_to: 0,
            reason,
        })
    }

    /// Whether no file outside is older than an input and meets it.
    fn is_bottom(&self, version: &Version) -> bool {
        let inside: HashSet<u64> = self.files().map(|file| file.number()).collect();
        !self.inputs.iter().any(|input| {
            input.files.iter().any(|file| {
                let end = match &self.cut {
                    Some(cut) => file.largest().min(cut),
                    None => file.largest(),
                };
                older_than(version, input.level, input.run).any(|run| {
                    run.overlapping(file.smallest(), end)
                        .iter()
                        .any(|other| !inside.contains(&other.number()))
                })
            })
        })
    }
}

/// The runs that hold data older than this run's.
pub(super) fn older_than(
    version: &Version,
    level: usize,
    run: u64,
) -> impl Iterator<Item = &Arc<Run>> {
    version
        .runs()
        .filter(move |(l, r)| *l > level || (*l == level && r.id() < run))
        .map(|(_, run)| run)
}

/// Whether any file of a level is busy.
pub(super) fn is_level_busy(version: &Version, level: usize) -> bool {
    version
        .runs_of(level)
        .iter()
        .any(|run| run.files().iter().any(|file| file.is_busy()))
}

/// Merges all runs of a level into one, in the newest one's place.
pub(super) fn merge_level_in_place(
    version: &Version,
    level: usize,
    score: f64,
    reason: &'static str,
) -> Option<Task> {
    let runs = version.runs_of(level);
    let newest = runs.first()?.id();
    let mut draft = Draft::default();
    draft.add_runs(level, runs);
    if draft.files().any(|file| file.is_busy()) {
        return None;
    }
    draft.finish(version, level, TargetRun::Join(newest), score, reason)
}

/// One file of a one-run level, down one level.
pub(super) fn push_file(
    version: &Version,
    options: &PickerOptions,
    level: usize,
    file: &FileMeta,
    score: f64,
    reason: &'static str,
) -> Option<Task> {
    let [run] = version.runs_of(level) else {
        return None;
    };
    let below = options.below(level)?;
    let (output, target) = run_below(version, level, below)?;
    let mut draft = Draft::default();
    draft.add(level, run, std::slice::from_ref(file));
    if let Some(target) = target {
        draft.add_overlapping(below, target);
    }
    draft.finish(version, below, output, score, reason)
}

/// The run that takes what leaves `level` for `below`, or `None` when nothing may leave now.
pub(super) fn run_below(
    version: &Version,
    level: usize,
    below: usize,
) -> Option<(TargetRun, Option<&Arc<Run>>)> {
    match version.runs_of(below) {
        [] if is_level_busy(version, level) => None,
        [] => Some((TargetRun::New, None)),
        [run] => Some((TargetRun::Join(run.id()), Some(run))),
        _ => None,
    }
}
