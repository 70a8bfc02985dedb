//! What was measured, kept: every result of a measurement by what was asked for, with the build and
//! the machine, as a line of a file. A run that goes on takes those of its own build; judging takes
//! those of another, and measures nothing.
//!
//! So what is measured and what is said of it are apart: a verdict that turns out wrong is mended,
//! and all that was measured is judged again. One thread owns a journal.
use super::lab::{COUNTED_TRIAL, TRIAL};
use super::machine::Place;
use crate::engine;
use crate::provenance::Build;
use crate::{Error, Result};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::collections::{HashMap, HashSet};
use std::fs::{File, OpenOptions};
use std::io::{BufRead as _, BufReader, Read, Write as _};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// The name of the file in a folder of results.
pub(super) const FILE: &str = "measurements.jsonl";

/// What compressed files of it end with.
const COMPRESSED: &str = "zst";

/// A line.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
struct Line {
    place: Place,
    /// What kind of measurement it is, and all that decides what comes out.
    asked: (String, Value),
    /// `None` where the process was killed for want of memory.
    found: Option<Value>,
    /// What it took.
    seconds: f64,
}

/// Measurements, and whether there can be others.
pub(super) struct Journal {
    /// Of each build that measured, the last one first: where it first did, and all that it did.
    kept: Vec<(Place, HashMap<String, Line>)>,
    /// Which of them is taken from.
    build: usize,
    /// Where others are kept; `None` if there are none.
    file: Option<PathBuf>,
    here: Place,
    /// The families of engines that were measured, of what there is to judge.
    judged: Option<HashSet<String>>,
    /// Since [`begin`](Self::begin): the place of what was taken from it, and what that took.
    place: Option<Place>,
    seconds: f64,
    /// What of which build was counted in the seconds of anything, and in those of this experiment.
    counted: HashSet<(usize, String)>,
    own: Vec<(usize, String)>,
}

impl Journal {
    /// One that keeps what is measured in `file`. With `resume` what this build has measured there
    /// is taken; how many lines there are of others comes with it.
    pub(super) fn measuring(file: PathBuf, resume: bool) -> Result<(Self, usize)> {
        let lines = match File::open(&file) {
            Ok(text) if resume => lines(text)?,
            Ok(_) => {
                std::fs::remove_file(&file)?;
                Vec::new()
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(error.into()),
        };
        let own = |line: &Line| line.place.build == *Build::running();
        let (own, others): (Vec<Line>, Vec<Line>) = lines.into_iter().partition(own);
        Ok((Self::of(own, Some(file))?, others.len()))
    }

    /// One of what a file has, for judging.
    pub(super) fn judging(file: &Path) -> Result<Self> {
        let unread = |error| Error::InvalidSetting(format!("{}: {error}", file.display()));
        let text = File::open(file).map_err(unread)?;
        let compressed = file.extension().is_some_and(|of| of == COMPRESSED);
        let lines = if compressed {
            lines(zstd::Decoder::new(text)?)?
        } else {
            lines(text)?
        };
        let kinds = [TRIAL, COUNTED_TRIAL];
        let trials = lines.iter().filter(|line| kinds.contains(&&*line.asked.0));
        let engines = trials.filter_map(|line| line.asked.1.get("engine")?.as_str());
        let families = engines.map(|spec| engine::family(spec).to_owned());
        Ok(Self {
            judged: Some(families.collect()),
            ..Self::of(lines, None)?
        })
    }

    fn of(lines: Vec<Line>, file: Option<PathBuf>) -> Result<Self> {
        let mut kept: Vec<(Place, HashMap<String, Line>)> = Vec::new();
        for line in lines {
            let of_build = |(known, _): &(Place, _)| known.build == line.place.build;
            // A build comes first once it has the last line so far.
            let mut own = match kept.iter().position(of_build) {
                Some(at) => kept.remove(at),
                None => (line.place.clone(), HashMap::new()),
            };
            own.1.insert(name(&line.asked)?, line);
            kept.insert(0, own);
        }
        Ok(Self {
            kept,
            build: 0,
            file,
            here: Place::here(),
            judged: None,
            place: None,
            seconds: 0.0,
            counted: HashSet::new(),
            own: Vec::new(),
        })
    }

    /// Whether nothing is measured.
    pub(super) fn is_judging(&self) -> bool {
        self.file.is_none()
    }

    /// How many builds have measured what there is.
    pub(super) fn builds(&self) -> usize {
        self.kept.len()
    }

    /// From here on [`taken`](Self::taken) tells of another experiment, of which all is by this
    /// build: 0 is the one that has the last line.
    pub(super) fn begin(&mut self, build: usize) {
        self.build = build;
        self.place = None;
        self.seconds = 0.0;
        self.own.clear();
    }

    /// What was taken since [`begin`](Self::begin) was not all of it: its seconds are another
    /// experiment's.
    pub(super) fn give_back(&mut self) {
        for counted in self.own.drain(..) {
            self.counted.remove(&counted);
        }
    }

    /// Where what was taken since [`begin`](Self::begin) had been measured, and the seconds of it
    /// that were in no other experiment's. What measures nothing is of where the build measured.
    pub(super) fn taken(&self) -> (Option<Place>, f64) {
        let of_build = self.kept.get(self.build).map(|(place, _)| place);
        let any = of_build.filter(|_| self.is_judging());
        (self.place.as_ref().or(any).cloned(), self.seconds)
    }

    /// Has no more been taken since [`begin`](Self::begin) than this.
    pub(super) fn set_seconds(&mut self, seconds: f64) {
        self.seconds = seconds;
    }

    /// The families of engines that were measured, of what there is to judge.
    pub(super) fn families(&self) -> Option<&HashSet<String>> {
        self.judged.as_ref()
    }

    /// What was found, if it was measured.
    pub(super) fn find<T: DeserializeOwned>(
        &mut self,
        kind: &str,
        asked: &impl Serialize,
    ) -> Result<Option<T>> {
        let name = name(&(kind.to_owned(), serde_json::to_value(asked)?))?;
        let own = self.kept.get(self.build);
        let Some(line) = own.and_then(|(_, lines)| lines.get(&name)) else {
            return match self.file {
                Some(_) => Ok(None),
                None => Err(Error::NotMeasured(name)),
            };
        };
        self.place.get_or_insert_with(|| line.place.clone());
        let counted = (self.build, name.clone());
        if self.counted.insert(counted.clone()) {
            self.seconds += line.seconds;
            self.own.push(counted);
        }
        match &line.found {
            Some(found) => Ok(Some(serde_json::from_value(found.clone())?)),
            None => Err(Error::Killed(name)),
        }
    }

    /// Whether it was taken for another experiment than that of [`begin`](Self::begin).
    pub(super) fn is_of_another(&self, kind: &str, asked: &impl Serialize) -> Result<bool> {
        let name = name(&(kind.to_owned(), serde_json::to_value(asked)?))?;
        let counted = (self.build, name);
        Ok(self.counted.contains(&counted) && !self.own.contains(&counted))
    }

    /// Keeps what was measured, since `start`.
    pub(super) fn keep<T: Serialize>(
        &mut self,
        kind: &str,
        asked: &impl Serialize,
        start: Instant,
        found: &Result<T>,
    ) -> Result<()> {
        let found = match found {
            Ok(found) => Some(serde_json::to_value(found)?),
            Err(Error::Killed(_)) => None,
            Err(_) => return Ok(()),
        };
        let line = Line {
            place: self.here.clone(),
            asked: (kind.to_owned(), serde_json::to_value(asked)?),
            found,
            seconds: start.elapsed().as_secs_f64(),
        };
        if let Some(file) = &self.file {
            let mut text = serde_json::to_vec(&line)?;
            text.push(b'\n');
            let mut file = OpenOptions::new().create(true).append(true).open(file)?;
            file.write_all(&text)?;
        }
        let name = name(&line.asked)?;
        self.counted.insert((self.build, name.clone()));
        if self.kept.is_empty() {
            self.kept.push((self.here.clone(), HashMap::new()));
        }
        self.kept[0].1.insert(name, line);
        Ok(())
    }
}

/// What a measurement is known by.
fn name((kind, asked): &(String, Value)) -> Result<String> {
    Ok(format!("{kind} {}", serde_json::to_string(asked)?))
}

/// The lines of a file; the last may have been cut off.
fn lines(text: impl Read) -> Result<Vec<Line>> {
    let mut lines = Vec::new();
    for line in BufReader::new(text).lines() {
        lines.extend(serde_json::from_str::<Line>(&line?));
    }
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(journal: &mut Journal, asked: u32, found: Result<f64>) {
        let start = Instant::now();
        journal.keep("speed", &asked, start, &found).unwrap();
    }

    #[test]
    fn what_was_measured_is_taken_again_and_nothing_else_is_there_to_judge() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join(FILE);
        let (mut journal, _) = Journal::measuring(file.clone(), false).unwrap();
        assert_eq!(journal.find::<f64>("speed", &1).unwrap(), None);
        measured(&mut journal, 1, Ok(2.5));
        measured(&mut journal, 2, Err(Error::Killed("too large".into())));
        measured(&mut journal, 3, Err(Error::Child("failed".into())));
        // A line that was cut off.
        let mut text = std::fs::read(&file).unwrap();
        text.extend_from_slice(b"{\"place\"");
        std::fs::write(&file, &text).unwrap();
        let (resumed, others) = Journal::measuring(file.clone(), true).unwrap();
        assert_eq!(others, 0);
        let packed = dir.path().join("measurements.jsonl.zst");
        std::fs::write(&packed, zstd::encode_all(&text[..], 1).unwrap()).unwrap();
        for mut journal in [resumed, Journal::judging(&packed).unwrap()] {
            assert_eq!(journal.find("speed", &1).unwrap(), Some(2.5));
            let killed = journal.find::<f64>("speed", &2);
            assert!(matches!(killed, Err(Error::Killed(_))), "{killed:?}");
            assert!(!journal.is_of_another("speed", &1).unwrap());
            let (place, seconds) = journal.taken();
            assert_eq!(place, Some(journal.here.clone()));
            assert!(seconds > 0.0);
            journal.begin(0);
            assert_eq!(journal.taken().1, 0.0);
            // What took the time was another experiment's.
            assert!(journal.is_of_another("speed", &1).unwrap());
            journal.find::<f64>("speed", &1).unwrap();
            assert_eq!(journal.taken().1, 0.0);
            let third = journal.find::<f64>("speed", &3);
            if journal.is_judging() {
                assert!(matches!(third, Err(Error::NotMeasured(_))), "{third:?}");
            } else {
                assert_eq!(third.unwrap(), None);
            }
        }
        let (_, _) = Journal::measuring(file.clone(), false).unwrap();
        assert!(!file.exists());
    }

    #[test]
    fn what_other_builds_measured_is_judged_and_not_gone_on_with() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join(FILE);
        let line = |commit: &str, asked: u32| {
            let mut place = Place::here();
            place.build.commit = commit.to_owned();
            serde_json::to_string(&Line {
                place,
                asked: ("speed".to_owned(), asked.into()),
                found: Some(7.0.into()),
                seconds: 1.0,
            })
            .unwrap()
        };
        let lines = [line("before", 1), line("before", 2), line("after", 2)];
        std::fs::write(&file, lines.join("\n")).unwrap();
        let (mut own, others) = Journal::measuring(file.clone(), true).unwrap();
        assert_eq!(others, 3);
        assert_eq!(own.find::<f64>("speed", &1).unwrap(), None);
        let mut judging = Journal::judging(&file).unwrap();
        // The last build first: it did not measure all.
        let commits = [0, 1].map(|build| {
            judging.begin(build);
            judging.taken().0.unwrap().build.commit
        });
        assert_eq!(
            (judging.builds(), commits),
            (2, ["after", "before"].map(String::from))
        );
        for (build, has_first) in [(0, false), (1, true)] {
            judging.begin(build);
            assert_eq!(judging.find("speed", &2).unwrap(), Some(7.0));
            let first = judging.find::<f64>("speed", &1);
            assert_eq!(first.is_ok(), has_first, "{first:?}");
            // What a build that lacks the rest has taken, the next experiment takes.
            assert_eq!(judging.taken().1, if has_first { 2.0 } else { 1.0 });
            if !has_first {
                judging.give_back();
            }
        }
        judging.begin(0);
        judging.find::<f64>("speed", &2).unwrap();
        assert_eq!(judging.taken().1, 1.0);
        let nowhere = Journal::judging(&dir.path().join("none"));
        assert!(matches!(nowhere, Err(Error::InvalidSetting(_))));
    }
}
