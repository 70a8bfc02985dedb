//! Where a sequence of logs validly ends, and handing out the records up to there.
//!
//! [`decide`] is pure: it judges what reading each log found. Protocol: [`Survey::of`] reads every
//! log once for its checksums and decides, so that nothing is changed or applied when the answer is
//! an error; then [`Survey::replay`] reads again and applies.

use std::path::{Path, PathBuf};

use super::format::LogInfo;
use super::mode::RecoveryMode;
use super::reader::{LogDamage, LogEnd, LogFile, Record, open_log, walk};
use crate::fs::Fs;
use crate::{Error, Result};

/// The end of a recovery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RecoveryOutcome {
    /// The position to start the next log at. Its predecessors count as durable only once the
    /// recovered records are durable elsewhere, or the logs themselves were synced before.
    pub(crate) end: u64,
    /// Records applied.
    pub(crate) records: u64,
    /// Why the records end where they do, if not because everything was read; after
    /// [`RecoveryMode::SkipDamaged`] the first thing left out.
    pub(crate) stopped: Option<Stop>,
}

/// Where a sequence of logs stops being valid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Stop {
    /// The log.
    pub(crate) path: PathBuf,
    /// Where, in bytes from the start of the file.
    pub(crate) offset: u64,
    /// What was expected there.
    pub(crate) what: &'static str,
}

/// A log to recover.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NeededLog {
    /// Its file.
    pub(crate) path: PathBuf,
    /// What its header has to say, where that is known.
    pub(crate) info: Option<LogInfo>,
}

/// A log of which every byte is valid and is handed out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WholeLog {
    /// Its file.
    pub(crate) path: PathBuf,
    /// What its header says.
    pub(crate) info: LogInfo,
    /// The position where it ends.
    pub(crate) end: u64,
}

/// Positions that logs have reached, as is known from elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Reached {
    /// Logs were durable up to here.
    pub(crate) durable: u64,
    /// Tables hold what was logged before here, or some of it.
    pub(crate) in_tables: u64,
}

/// What to apply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Plan {
    /// Logs by index, in order, and the position to read each up to.
    pub(super) logs: Vec<(usize, u64)>,
    pub(super) end: u64,
    pub(super) stopped: Option<Stop>,
}

/// Logs that were read and judged, and what to apply of them.
#[derive(Debug)]
pub(crate) struct Survey {
    paths: Vec<PathBuf>,
    /// The files of the first of them, which are kept open.
    held: Vec<LogFile>,
    mode: RecoveryMode,
    plan: Plan,
    whole: Option<Vec<WholeLog>>,
    longest: u32,
}

impl Survey {
    /// The payload of the longest record that is handed out, or longer, in bytes: [`Self::replay`]
    /// has one record in memory at a time.
    pub(crate) fn longest(&self) -> u64 {
        self.longest.into()
    }

    /// Judges logs given in the order they were written; changes nothing.
    ///
    /// # Errors
    /// `Corruption` as the mode says, `UnsupportedFormat` for a log of a newer format, `Io` for
    /// reads that failed.
    pub(crate) fn of(
        fs: &dyn Fs,
        logs: Vec<NeededLog>,
        reached: Reached,
        mode: RecoveryMode,
    ) -> Result<Survey> {
        Survey::judge(fs, logs, reached, mode, Vec::new())
    }

    /// The same, beside a process that may go on writing and removing logs: as many as there are
    /// files for are opened before any is read. Of the others one that is removed meanwhile is
    /// missing.
    ///
    /// # Errors
    /// As [`Survey::of`].
    pub(crate) fn beside_a_writer(
        fs: &dyn Fs,
        logs: Vec<NeededLog>,
        reached: Reached,
        mode: RecoveryMode,
    ) -> Result<Survey> {
        let mut held = Vec::new();
        for log in &logs {
            match open_log(fs, &log.path) {
                Ok(file) => held.push(file),
                // The others, and tables, need some too.
                Err(error) if error.is_out_of_files() => {
                    held.truncate(held.len() / 2);
                    break;
                }
                Err(error) => return Err(error),
            }
        }
        Survey::judge(fs, logs, reached, mode, held)
    }

    fn judge(
        fs: &dyn Fs,
        logs: Vec<NeededLog>,
        reached: Reached,
        mode: RecoveryMode,
        held: Vec<LogFile>,
    ) -> Result<Survey> {
        let start = logs.first().and_then(|log| log.info).map(|info| info.base);
        let look = |(index, log): (usize, &NeededLog)| {
            let file = file_of(&held, index, fs, &log.path)?;
            let end = walk(file, &log.path, mode, u64::MAX, None)?;
            let other = (end.info.zip(log.info)).is_some_and(|(found, known)| found != known);
            Ok(if other {
                LogEnd::headless(&log.path, Some(LogDamage::of_whole_log(ANOTHER_LOG)))
            } else {
                end
            })
        };
        let ends = logs.iter().enumerate().map(look);
        let ends = ends.collect::<Result<Vec<_>>>()?;
        let plan = decide(&ends, start, reached, mode)?;
        let whole = match mode {
            RecoveryMode::SkipDamaged => None,
            _ => whole(&ends, &plan, reached),
        };
        let paths = logs.into_iter().map(|log| log.path).collect();
        Ok(Survey {
            paths,
            held,
            mode,
            plan,
            whole,
            longest: ends.iter().map(|log| log.longest).max().unwrap_or(0),
        })
    }

    /// The position up to which records are handed out.
    pub(crate) fn end(&self) -> u64 {
        self.plan.end
    }

    /// The logs, oldest first, if nothing is wrong with any of them: then a later log may follow
    /// them. Where something was left out, or cut off, they are not to be read again once anything
    /// follows.
    pub(crate) fn whole_logs(&self) -> Option<&[WholeLog]> {
        self.whole.as_deref()
    }

    /// Hands the records up to the valid end to `apply`.
    ///
    /// # Errors
    /// `Io`, `Corruption` when the logs read differently now, and whatever `apply` returns.
    pub(crate) fn replay(
        &self,
        fs: &dyn Fs,
        apply: &mut dyn FnMut(Record<'_>) -> Result<()>,
    ) -> Result<RecoveryOutcome> {
        let mut records = 0;
        for &(index, end) in &self.plan.logs {
            let Some(path) = self.paths.get(index) else {
                continue;
            };
            let mut counted = |record: Record<'_>| {
                records += 1;
                apply(record)
            };
            let file = file_of(&self.held, index, fs, path)?;
            let again = walk(file, path, self.mode, end, Some(&mut counted))?;
            if let Some(damage) = again
                .damage
                .filter(|_| self.mode != RecoveryMode::SkipDamaged)
            {
                let what = "a log changed, or reads differently, while it was recovered";
                return Err(Error::corruption(path, damage.offset, what));
            }
        }
        Ok(RecoveryOutcome {
            end: self.plan.end,
            records,
            stopped: self.plan.stopped.clone(),
        })
    }
}

/// A log's file: the one that is kept open, or opened now.
fn file_of(held: &[LogFile], index: usize, fs: &dyn Fs, path: &Path) -> Result<LogFile> {
    match held.get(index) {
        Some(file) => Ok(file.clone()),
        None => open_log(fs, path),
    }
}

/// [`Survey::of`] and [`Survey::replay`], where nothing durable is made of the records.
pub(crate) fn recover_logs(
    fs: &dyn Fs,
    logs: Vec<NeededLog>,
    mode: RecoveryMode,
    apply: &mut dyn FnMut(Record<'_>) -> Result<()>,
) -> Result<RecoveryOutcome> {
    Survey::of(fs, logs, Reached::default(), mode)?.replay(fs, apply)
}

/// Judges what reading a sequence of logs found.
///
/// The valid sequence is a chain: each log's base is its predecessor's valid end. Logs between two
/// links of the chain were given up by an earlier recovery, which started the next link at the end
/// it found. A log takes up positions even when it is empty, so a base names one predecessor.
///
/// `start` is where the first log begins, if that is known, and `reached` how far the chain must
/// go.
pub(super) fn decide(
    ends: &[LogEnd],
    start: Option<u64>,
    reached: Reached,
    mode: RecoveryMode,
) -> Result<Plan> {
    if mode == RecoveryMode::SkipDamaged {
        return Ok(salvage(ends, start));
    }
    // The logs that go on from each other, and where the last of them validly ends.
    let chain = chain(ends, start);
    let last = chain.last().copied();
    let last_log = last.and_then(|index| ends.get(index));
    let end = last_log.map_or(start.unwrap_or(0), |log| log.valid_end);
    let stop = stop(ends, last);
    let error = |stop: &Stop| Err(Error::corruption(&stop.path, stop.offset, stop.what));
    // Where the logs end, be it for damage or because nothing follows.
    let place = || {
        stop.clone().or_else(|| {
            let log = last_log.or(ends.first())?;
            Some(Stop {
                path: log.path.clone(),
                offset: end.saturating_sub(log.info.map_or(end, |info| info.base)),
                what: CUT_OFF,
            })
        })
    };
    // Whether the logs may end here: not for damage of any kind, or not where anything valid says
    // that more was durable.
    match (mode, &stop) {
        (RecoveryMode::AbsoluteConsistency, Some(stop)) => return error(stop),
        (RecoveryMode::AbsoluteConsistency, None) if chain.len() < ends.len() => {
            let left_out = (0..ends.len()).find(|index| !chain.contains(index));
            if let Some(log) = left_out.and_then(|index| ends.get(index)) {
                return Err(Error::corruption(&log.path, 0, NOT_CONTINUED));
            }
        }
        (RecoveryMode::TolerateTornTail, Some(stop)) if durable_after(ends, last, end) => {
            return error(stop);
        }
        _ => {}
    }
    // What the manifest says was durable, or is in tables, must be there as well.
    if mode == RecoveryMode::PointInTime {
        if let Some(place) = place().filter(|_| end < reached.in_tables) {
            let what = format!("{}; {NO_SUCH_MOMENT}", place.what);
            return Err(Error::corruption(&place.path, place.offset, what));
        }
    } else if let Some(place) = place().filter(|_| end < reached.durable) {
        return error(&place);
    }
    let logs = chain
        .iter()
        .filter_map(|&index| Some((index, ends.get(index)?.valid_end)));
    Ok(Plan {
        logs: logs.collect(),
        end,
        stopped: stop,
    })
}

const CUT_OFF: &str = "the log ends here, but more of it was durable";
const ANOTHER_LOG: &str = "this is not the log that the manifest names";
const NO_SUCH_MOMENT: &str = "tables hold later writes, so that there is no moment before this to go \
    back to: `RecoveryMode::SkipDamaged` gets out what can be read";
const NOT_CONTINUED: &str = "the log does not continue its predecessor";

/// The indexes of the logs that follow one another.
fn chain(ends: &[LogEnd], start: Option<u64>) -> Vec<usize> {
    let mut chain = Vec::new();
    // Without a first header, only a log that starts at nothing can follow.
    let found = || ends.first()?.info.map(|info| info.base);
    let mut end = start.or_else(found).unwrap_or(0);
    for (index, log) in ends.iter().enumerate() {
        if log.info.is_some_and(|info| info.base == end) {
            chain.push(index);
            end = log.valid_end;
        }
    }
    chain
}

/// Where and why the chain ends; `None` when it takes in everything there is.
fn stop(ends: &[LogEnd], last: Option<usize>) -> Option<Stop> {
    let last_log = last.and_then(|index| ends.get(index));
    let next = ends.get(last.map_or(0, |index| index + 1));
    let in_last = last_log.and_then(|log| Some((log, log.damage.as_ref()?)));
    let in_next = next.and_then(|log| Some((log, log.damage.as_ref()?)));
    let headless = in_next.filter(|(log, _)| log.info.is_none());
    let at = |(log, damage): (&LogEnd, &LogDamage)| Stop {
        path: log.path.clone(),
        offset: damage.offset,
        what: damage.what,
    };
    in_last.or(headless).map(at).or_else(|| {
        next.map(|log| Stop {
            path: log.path.clone(),
            offset: 0,
            what: NOT_CONTINUED,
        })
    })
}

/// Whether anything valid after the chain's end shows that more was durable.
fn durable_after(ends: &[LogEnd], last: Option<usize>, end: u64) -> bool {
    let last_log = last.and_then(|index| ends.get(index));
    let within = last_log.and_then(|log| log.later_synced).unwrap_or(0);
    let later = ends
        .get(last.map_or(0, |index| index + 1)..)
        .unwrap_or_default();
    within > end
        || later.iter().any(|log| match (last, log.info) {
            // Without a chain its end is unknown, but a log that calls its whole past durable
            // speaks of one that is not there.
            (None, Some(info)) => log.claims() >= info.base,
            _ => log.claims() > end || log.damage.as_ref().is_some_and(|damage| damage.certain),
        })
}

/// The logs, if all of them are in the plan to their last byte, and go as far as they are known to
/// have gone.
fn whole(ends: &[LogEnd], plan: &Plan, reached: Reached) -> Option<Vec<WholeLog>> {
    let far = plan.end >= reached.durable.max(reached.in_tables);
    if !far || plan.stopped.is_some() || plan.logs.len() < ends.len() {
        return None;
    }
    let whole = |log: &LogEnd| {
        Some(WholeLog {
            path: log.path.clone(),
            info: log.info.filter(|_| log.damage.is_none())?,
            end: log.valid_end,
        })
    };
    ends.iter().map(whole).collect()
}

/// Everything that has a header.
fn salvage(ends: &[LogEnd], start: Option<u64>) -> Plan {
    let logs = ends
        .iter()
        .enumerate()
        .filter(|(_, log)| log.info.is_some());
    let damaged = ends.iter().find_map(|log| {
        let damage = log.damage.as_ref()?;
        Some(Stop {
            path: log.path.clone(),
            offset: damage.offset,
            what: damage.what,
        })
    });
    let complete = stop(ends, chain(ends, start).last().copied()).is_none();
    Plan {
        logs: logs.map(|(index, _)| (index, u64::MAX)).collect(),
        end: ends.iter().map(|log| log.last_end).max().unwrap_or(0),
        stopped: damaged.or_else(|| {
            let broken = ends.first().filter(|_| !complete)?;
            Some(Stop {
                path: broken.path.clone(),
                offset: 0,
                what: "the logs do not continue one another",
            })
        }),
    }
}
