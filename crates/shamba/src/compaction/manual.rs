//! Compacting a range because the caller asks: everything in it goes down to the deepest level, in
//! one run, without dead entries that no snapshot needs. Pure: says the next step, again and again.

use super::policy::PickerOptions;
use super::reclaim;
use super::task::{Draft, TargetRun, Task, is_level_busy, push_file};
use crate::base::key::SeqNo;
use crate::version::{FileMeta, Run, Version};

/// What to compact.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ManualRange<'a> {
    /// The first key; `None` from the start.
    pub(crate) from: Option<&'a [u8]>,
    /// The last key, inclusive; `None` to the end.
    pub(crate) to: Option<&'a [u8]>,
    /// Only files with data up to this sequence number are pushed, so that the work ends while
    /// writes go on: the newest number in use when the caller asked.
    pub(crate) max_seq: SeqNo,
    /// Files of lower numbers are rewritten whatever they hold: a filter is to be asked about all
    /// entries.
    pub(crate) rewrite_before: u64,
}

/// What is left to do.
#[derive(Debug)]
pub(crate) enum Manual {
    /// Nothing.
    Done,
    /// This next.
    Task(Task),
    /// Something, once the tasks under way are installed.
    Busy,
}

/// The next step of compacting a range. It is asked again after each step, until it says `Done`.
pub(crate) fn manual(version: &Version, range: ManualRange<'_>, options: &PickerOptions) -> Manual {
    let deepest = version.levels().len().saturating_sub(1).max(1);
    let step = (0..deepest)
        .find_map(|level| down(version, range, options, level))
        .or_else(|| one_run(version, range, deepest))
        .or_else(|| rewrite(version, range, options, deepest));
    match step {
        None => Manual::Done,
        Some(None) => Manual::Busy,
        Some(Some(task)) => match task.within(version, options) {
            Some(task) => Manual::Task(task),
            None => Manual::Busy,
        },
    }
}

const REASON: &str = "compacting a range";

fn wanted(file: &FileMeta, range: ManualRange<'_>) -> bool {
    file.min_seq() <= range.max_seq
}

fn meets(run: &Run, range: ManualRange<'_>) -> bool {
    let files = run.overlapping_range(range.from, range.to);
    files.iter().any(|file| wanted(file, range))
}

/// All files of a level that meet the wanted ones, or meet a file that does, and so on. The first
/// files added are those of the range.
fn closure(version: &Version, range: ManualRange<'_>, level: usize) -> Draft {
    let runs = version.runs_of(level);
    let mut draft = Draft::default();
    for run in runs {
        for file in run.overlapping_range(range.from, range.to) {
            if wanted(file, range) {
                draft.add(level, run, std::slice::from_ref(file));
            }
        }
    }
    let mut count = draft.files().count();
    while let Some((lo, hi)) = draft.hull() {
        let mut wider = Draft::default();
        for run in runs {
            wider.add(level, run, run.overlapping(&lo, &hi));
        }
        let grown = wider.files().count();
        draft = wider;
        if grown == count {
            break;
        }
        count = grown;
    }
    draft
}

/// The next task out of `level`. Outer `None`: nothing to do there; inner: blocked for now.
fn down(
    version: &Version,
    range: ManualRange<'_>,
    options: &PickerOptions,
    level: usize,
) -> Option<Option<Task>> {
    let runs = version.runs_of(level);
    if !runs.iter().any(|run| meets(run, range)) {
        return None;
    }
    let below = options.below(level)?;
    let targets = version.runs_of(below);
    // Single runs go down file by file, so that other work is not held up for long.
    if level > 0
        && let ([run], [] | [_]) = (runs, targets)
    {
        let files = run.overlapping_range(range.from, range.to);
        let mut files = files.iter().filter(|file| wanted(file, range)).peekable();
        files.peek()?;
        let step = files.find_map(|file| push_file(version, options, level, file, 1.0, REASON));
        return Some(step);
    }
    if is_level_busy(version, level) {
        return Some(None);
    }
    let mut draft = closure(version, range, level);
    let output = match targets {
        [run] => {
            draft.add_overlapping(below, run);
            TargetRun::Join(run.id())
        }
        _ => TargetRun::New,
    };
    Some(draft.finish(version, below, output, 1.0, REASON))
}

/// Makes one run of what the deepest level holds of the range.
fn one_run(version: &Version, range: ManualRange<'_>, level: usize) -> Option<Option<Task>> {
    let mut met = version
        .runs_of(level)
        .iter()
        .filter(|run| meets(run, range));
    let newest = met.next()?;
    met.next()?;
    let draft = closure(version, range, level);
    // A newer run may meet the widened range without meeting the range itself.
    let newest = version
        .runs_of(level)
        .iter()
        .filter(|run| draft.has_run(run.id()))
        .map(|run| run.id())
        .max()
        .unwrap_or(newest.id());
    if draft.files().any(|file| file.is_busy()) {
        return Some(None);
    }
    Some(draft.finish(version, level, TargetRun::Join(newest), 1.0, REASON))
}

/// Drops what is dead in the deepest level.
fn rewrite(
    version: &Version,
    range: ManualRange<'_>,
    options: &PickerOptions,
    level: usize,
) -> Option<Option<Task>> {
    let mut blocked = None;
    for run in version.runs_of(level) {
        for file in run.overlapping_range(range.from, range.to) {
            let asks = file.number() < range.rewrite_before;
            let dead = file.tombstones() > 0
                || file.garbage() > 0
                || file.ranges() > 0
                || reclaim::has_expired(file.expiry().first, options);
            if wanted(file, range) && (asks || dead && file.max_seq() <= options.oldest_snapshot) {
                match reclaim::rewrite(version, level, run, file, REASON) {
                    Some(task) if task.bottom || asks => {
                        let expired_to = options.expired_to;
                        return Some(Some(Task { expired_to, ..task }));
                    }
                    Some(_) => {}
                    None => blocked = Some(None),
                }
            }
        }
    }
    blocked
}
