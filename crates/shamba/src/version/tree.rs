//! The immutable picture of one keyspace's tables.
//!
//! Order of age: level 0 before level 1 and so on; within a level by descending run id. Of two
//! entries of one key, the one that comes first in this order is the newer one. Whoever forms runs
//! keeps that true: an edit's author gives a new run an id larger than every id so far (ids come
//! from a counter, taken when the edit is installed), and replaces files of a run
//! in place by naming the run's own id.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use super::level::Level;
use super::{FileMeta, Inconsistent, KeyspaceEdit, MovedFile, Run};

/// The levels of one keyspace. Cheap to clone; shared as `Arc<Version>`.
#[derive(Debug, Clone, Default)]
pub(crate) struct Version {
    levels: Vec<Level>,
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

    /// All files, those of newer runs first.
    pub(crate) fn files(&self) -> impl Iterator<Item = &Arc<FileMeta>> {
        self.runs().flat_map(|(_, run)| run.files())
    }

    /// Whether there is no file.
    pub(crate) fn is_empty(&self) -> bool {
        self.levels.is_empty()
    }

    /// The version after an edit. An error leaves everything as it was. Removals and moves take
    /// effect before additions, so one edit may put new files where it removes old ones.
    pub(crate) fn apply(&self, edit: &KeyspaceEdit) -> Result<Version, Inconsistent> {
        let mut gone: BTreeMap<usize, HashSet<u64>> = BTreeMap::new();
        for (level, number) in edit
            .removes
            .iter()
            .map(|file| (file.level, file.number))
            .chain(edit.moves.iter().map(|file| (file.from, file.number)))
        {
            if !gone.entry(level as usize).or_default().insert(number) {
                return Err(Inconsistent::new(format!(
                    "file {number} is taken from level {level} twice"
                )));
            }
        }
        let mut moved: BTreeMap<(usize, u64), &MovedFile> = edit
            .moves
            .iter()
            .map(|file| ((file.from as usize, file.number), file))
            .collect();

        let mut runs: BTreeMap<(usize, u64), Arc<Run>> = self
            .runs()
            .map(|(level, run)| ((level, run.id()), Arc::clone(run)))
            .collect();
        let mut arrivals: BTreeMap<(usize, u64), Vec<Arc<FileMeta>>> = BTreeMap::new();
        for ((level, id), run) in &mut runs {
            let Some(gone) = gone.get_mut(level) else {
                continue;
            };
            if !run.files().iter().any(|file| gone.contains(&file.number)) {
                continue;
            }
            let mut kept = Vec::with_capacity(run.files().len());
            for file in run.files() {
                if !gone.remove(&file.number) {
                    kept.push(Arc::clone(file));
                } else if let Some(to) = moved.remove(&(*level, file.number)) {
                    arrivals
                        .entry((to.to as usize, to.run))
                        .or_default()
                        .push(Arc::clone(file));
                }
            }
            *run = Arc::new(Run::new(*id, kept)?);
        }
        if let Some((level, number)) = gone
            .iter()
            .find_map(|(level, left)| left.iter().next().map(|number| (level, number)))
        {
            return Err(Inconsistent::new(format!(
                "file {number} is not in level {level}"
            )));
        }
        for added in &edit.adds {
            arrivals
                .entry((added.level as usize, added.run))
                .or_default()
                .push(Arc::clone(&added.file));
        }
        for (place, mut files) in arrivals {
            if let Some(run) = runs.get(&place) {
                files.extend(run.files().iter().cloned());
            }
            runs.insert(place, Arc::new(Run::new(place.1, files)?));
        }

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
        let version = Version { levels };
        version.check_unique()?;
        Ok(version)
    }

    fn check_unique(&self) -> Result<(), Inconsistent> {
        let mut ids = HashSet::new();
        for (_, run) in self.runs() {
            if !ids.insert(run.id()) {
                return Err(Inconsistent::new(format!(
                    "two runs have the id {}",
                    run.id()
                )));
            }
        }
        let mut numbers = HashSet::new();
        for file in self.files() {
            if !numbers.insert(file.number) {
                return Err(Inconsistent::new(format!(
                    "file {} appears twice",
                    file.number
                )));
            }
        }
        Ok(())
    }

    /// Checks every invariant that can be seen without reading the files: ids and numbers unique,
    /// runs ordered, files of a run disjoint, counts and ranges possible, no empty run, and
    /// overlapping files of level 0 ordered by sequence number.
    pub(crate) fn check(&self) -> Result<(), Inconsistent> {
        self.check_unique()?;
        if self.levels.last().is_some_and(Level::is_empty) {
            return Err(Inconsistent::new("the last level is empty"));
        }
        for (level, run) in self.runs() {
            if run.files().is_empty() {
                return Err(Inconsistent::new(format!("run {} is empty", run.id())));
            }
            Run::new(run.id(), run.files().to_vec())?;
            for file in run.files() {
                if file.tombstones > file.entries
                    || file.garbage > file.entries
                    || file.min_seq > file.max_seq
                {
                    return Err(Inconsistent::new(format!(
                        "file {} in level {level} has impossible counts",
                        file.number
                    )));
                }
            }
        }
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
        let flushed = self.runs_of(0);
        for (i, newer) in flushed.iter().enumerate() {
            for older in flushed.iter().skip(i + 1) {
                for file in newer.files() {
                    if let Some(other) = older
                        .overlapping(&file.smallest, &file.largest)
                        .iter()
                        .find(|other| other.max_seq >= file.min_seq)
                    {
                        return Err(Inconsistent::new(format!(
                            "file {} of the older run {} is not older than file {}",
                            other.number,
                            older.id(),
                            file.number
                        )));
                    }
                }
            }
        }
        Ok(())
    }
}
