//! The immutable picture of one keyspace's tables.
//!
//! Order of age: level 0 before level 1 and so on; within a level by descending run id. Of two
//! entries of one key, the one that comes first in this order is the newer one. Whoever forms runs
//! keeps that true: an edit's author gives a new run an id larger than every id so far (ids come
//! from a counter, taken when the edit is installed), and replaces files of a run
//! in place by naming the run's own id.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use super::edit::VALUE_LEVEL;
use super::level::Level;
use super::{FileMeta, Inconsistent, KeyspaceEdit, Run, Sums, ValueFiles};

/// What an edit does to a run.
#[derive(Debug, Default)]
struct VersionChange {
    /// The positions of files that leave it.
    gone: Vec<usize>,
    /// Files that join it.
    new: Vec<FileMeta>,
}

/// The levels of one keyspace. Cheap to clone; shared as `Arc<Version>`.
#[derive(Debug, Clone, Default)]
pub(crate) struct Version {
    levels: Vec<Level>,
    values: ValueFiles,
}

impl Version {
    /// The levels from 0. There is no empty level at the end.
    pub(crate) fn levels(&self) -> &[Level] {
        &self.levels
    }

    /// One level's runs, newest first; none past the last level.
    pub(crate) fn runs_of(&self, level: usize) -> &[Arc<Run>] {
        self.levels.get(level).map_or(&[], |level| level.runs())
    }

    /// All runs with their level, newest first.
    pub(crate) fn runs(&self) -> impl Iterator<Item = (usize, &Arc<Run>)> {
        self.levels
            .iter()
            .enumerate()
            .flat_map(|(i, level)| level.runs().iter().map(move |run| (i, run)))
    }

    /// The bytes that whoever holds this version keeps, once it was replaced, of what the version
    /// after it does not share: a merge changes two runs.
    pub(crate) fn bytes_of_change(&self) -> u64 {
        let (mut most, mut next) = (0, 0);
        for bytes in self.runs().map(|(_, run)| run.bytes_of_change()) {
            next = next.max(bytes.min(most));
            most = most.max(bytes);
        }
        most + next
    }

    /// The files of values that its tables point to.
    pub(crate) fn value_files(&self) -> &ValueFiles {
        &self.values
    }

    /// All files, those of values too.
    pub(crate) fn all_files(&self) -> impl Iterator<Item = &FileMeta> {
        let values = self.values.iter().map(|held| &held.file);
        self.files().chain(values)
    }

    /// The files of runs, those of newer runs first.
    pub(crate) fn files(&self) -> impl Iterator<Item = &FileMeta> {
        self.runs().flat_map(|(_, run)| run.files())
    }

    /// The file of this number at this place, if it is there.
    pub(super) fn file_in(&self, level: usize, file: &FileMeta) -> Option<&FileMeta> {
        if level == VALUE_LEVEL as usize {
            return self.values.get(file.number()).map(|held| &held.file);
        }
        let (run, at) = self.position_of(level, file)?;
        run.file_at(at)
    }

    /// The run of a level that has a file, and where.
    fn position_of(&self, level: usize, file: &FileMeta) -> Option<(&Arc<Run>, usize)> {
        let mut runs = self.runs_of(level).iter();
        runs.find_map(|run| Some((run, run.position_of(file)?)))
    }

    /// The largest key of all files; none without files.
    pub(crate) fn largest(&self) -> Option<&[u8]> {
        self.runs().filter_map(|(_, run)| run.largest()).max()
    }

    /// Whether there is no run.
    pub(crate) fn is_empty(&self) -> bool {
        self.levels.is_empty()
    }

    /// The sums over all files.
    pub(crate) fn sums(&self) -> Sums {
        self.levels.iter().map(Level::sums).sum()
    }

    /// The version after an edit, which shares with this one what the edit does not touch: what is
    /// copied is a few KiB, whatever the number of files. An error leaves everything as it was.
    /// Removals and moves take effect before additions, so one edit may put new files where it
    /// removes old ones.
    pub(crate) fn apply(&self, edit: &KeyspaceEdit) -> Result<Version, Inconsistent> {
        // By run: which files it loses, and which it gets.
        let mut changes: BTreeMap<(usize, u64), VersionChange> = BTreeMap::new();
        let moved = edit.moves.iter().map(|moved| (moved.from, &moved.file));
        let removed = edit.removes.iter().map(|gone| (gone.level, &gone.file));
        let removed = removed.filter(|(level, _)| *level != VALUE_LEVEL);
        for (level, file) in removed.chain(moved) {
            let level = level as usize;
            let (run, at) = self.position_of(level, file).ok_or_else(|| {
                Inconsistent::new(format!("file {} is not in level {level}", file.number()))
            })?;
            let change = changes.entry((level, run.id())).or_default();
            change.gone.push(at);
        }
        for change in changes.values_mut() {
            change.gone.sort_unstable();
            if change
                .gone
                .windows(2)
                .any(|pair| matches!(pair, [a, b] if a == b))
            {
                return Err(Inconsistent::new("a file is taken out twice"));
            }
        }
        // A move takes a file out of one run, and puts it into another.
        let moved = edit.moves.iter().map(|to| (to.to, to.run, &to.file));
        let added = edit.adds.iter().map(|to| (to.level, to.run, &to.file));
        let added = added.filter(|(level, ..)| *level != VALUE_LEVEL);
        for (level, run, file) in moved.chain(added) {
            let change = changes.entry((level as usize, run)).or_default();
            change.new.push(file.clone());
        }

        // Runs that are not named are shared with the version before.
        let mut runs: BTreeMap<(usize, u64), Arc<Run>> = self
            .runs()
            .map(|(level, run)| ((level, run.id()), Arc::clone(run)))
            .collect();
        for (place, change) in changes {
            let run = match runs.get(&place) {
                Some(run) => run.edited(&change.gone, change.new)?,
                None => Run::new(place.1, change.new)?,
            };
            runs.insert(place, Arc::new(run));
        }

        // Runs that lost all their files are gone; so are empty levels at the end.
        let mut levels: Vec<Vec<Arc<Run>>> = Vec::new();
        for ((level, _), run) in runs {
            if run.files().is_empty() {
                continue;
            }
            if levels.len() <= level {
                levels.resize_with(level + 1, Vec::new);
            }
            if let Some(level) = levels.get_mut(level) {
                level.push(run);
            }
        }
        let levels = levels
            .into_iter()
            .map(Level::new)
            .collect::<Result<_, _>>()?;
        let values = self.values.apply(edit)?;
        let version = Version { levels, values };
        version.check_runs()?;
        Ok(version)
    }

    fn check_runs(&self) -> Result<(), Inconsistent> {
        let mut ids = HashSet::new();
        for (_, run) in self.runs() {
            if !ids.insert(run.id()) {
                return Err(Inconsistent::new(format!(
                    "two runs have the id {}",
                    run.id()
                )));
            }
        }
        Ok(())
    }

    /// Checks every invariant that can be seen without reading the files: ids and numbers unique,
    /// runs ordered, files of a run disjoint, counts and ranges possible, no empty run, and
    /// overlapping files of level 0 ordered by sequence number.
    pub(crate) fn check(&self) -> Result<(), Inconsistent> {
        let mut numbers: Vec<u64> = self.all_files().map(|file| file.number()).collect();
        numbers.sort_unstable();
        if let Some([number, _]) = numbers
            .windows(2)
            .find(|pair| matches!(pair, [a, b] if a == b))
        {
            return Err(Inconsistent::new(format!("file {number} appears twice")));
        }
        drop(numbers);
        self.check_places()
    }

    /// [`Self::check`] but for the numbers.
    pub(super) fn check_places(&self) -> Result<(), Inconsistent> {
        self.check_runs()?;
        self.values.check()?;
        if self.levels.last().is_some_and(Level::is_empty) {
            return Err(Inconsistent::new("the last level is empty"));
        }
        // Each run and its files by themselves.
        for (level, run) in self.runs() {
            if run.files().is_empty() {
                return Err(Inconsistent::new(format!("run {} is empty", run.id())));
            }
            run.check()?;
            for file in run.files() {
                if file.tombstones() > file.entries()
                    || file.garbage() > file.entries()
                    || file.min_seq() > file.max_seq()
                {
                    return Err(Inconsistent::new(format!(
                        "file {} in level {level} has impossible counts",
                        file.number()
                    )));
                }
            }
        }
        // Runs stand newest first.
        for level in &self.levels {
            for pair in level.runs().windows(2) {
                if let [newer, older] = pair
                    && newer.id() <= older.id()
                {
                    return Err(Inconsistent::new(format!(
                        "run {} stands before run {}",
                        newer.id(),
                        older.id()
                    )));
                }
            }
        }
        // In level 0 runs may meet: where two files do, all of the newer one is newer.
        let flushed = self.runs_of(0);
        for (i, newer) in flushed.iter().enumerate() {
            for older in flushed.iter().skip(i + 1) {
                for file in newer.files() {
                    if let Some(other) = older
                        .overlapping(file.smallest(), file.largest())
                        .iter()
                        .find(|other| other.max_seq() >= file.min_seq())
                    {
                        return Err(Inconsistent::new(format!(
                            "file {} of the older run {} is not older than file {}",
                            other.number(),
                            older.id(),
                            file.number()
                        )));
                    }
                }
            }
        }
        Ok(())
    }
}
