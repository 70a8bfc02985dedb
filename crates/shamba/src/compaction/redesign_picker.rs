//! Bringing a tree into the shape of another design, without a merge larger than ordinary ones.
//!
//! Pure, like all pickers. A level of several runs that is to be one run ([`one_run`]) is merged a
//! range of keys at a time: a task takes the files of all runs up to a key, which it may *cut* in
//! two (`Task::cut`), and no more bytes than the level's largest run has. What else a design
//! changes is done while a keyspace moves to it (`PickerOptions::moving`), and only then, so that a
//! tree in use is never compacted for the sake of its shape alone:
//!
//! * [`push_down_oversized`]: what is too large for its level goes down as it is where the level
//!   below is empty.
//! * [`collapse_levels`]: two neighbouring levels that would fit into the upper one become one
//!   level, and what lies below an empty level moves up as it is. So a tree of fewer, larger levels
//!   has few runs.
//! * [`rewrite_filters`]: files of before whose filters have other bits are rewritten.
//!
//! Ends: `one_run` leaves fewer files that meet; `push_down_oversized` and `collapse_levels` leave
//! fewer levels in use, or the same ones at their place; `rewrite_filters` rewrites a file once.
//! Data that come meanwhile only make levels fuller, so that less of them fits together.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use super::policy::{MergePolicy, PickerOptions};
use super::reclaim;
use super::task::{
    Draft, TargetRun, Task, TaskKind, is_level_busy, merge_level_in_place, push_file,
};
use crate::version::{FileMeta, Run, Version};

/// The next task that makes a level's runs one run. One at a time for each level.
pub(super) fn one_run(
    version: &Version,
    level: usize,
    score: f64,
    reason: &'static str,
) -> Option<Task> {
    let runs = version.runs_of(level);
    if runs.len() < 2 || is_level_busy(version, level) {
        return None;
    }
    let Some(start) = first_meeting(runs) else {
        return merge_level_in_place(version, level, score, reason);
    };
    let end = end_of_range(runs, start)?;
    let mut draft = Draft::default();
    for run in runs {
        draft.add(level, run, run.overlapping(start, end));
    }
    if draft.files().any(|file| file.largest() > end) {
        draft.cut_at(end);
    }
    let newest = TargetRun::Join(runs.first()?.id());
    draft.finish_as(TaskKind::Merge, version, level, newest, score, reason)
}

/// The smallest key of the first file that meets one before it; what lies before is in one run
/// already.
fn first_meeting(runs: &[Arc<Run>]) -> Option<&[u8]> {
    let mut largest: Option<&[u8]> = None;
    for file in in_order(runs, |_| 0, FileMeta::smallest) {
        if largest.is_some_and(|largest| largest >= file.smallest()) {
            return Some(file.smallest());
        }
        largest = Some(file.largest());
    }
    None
}

/// The last key of a range from `start` on of which files have no more bytes than the largest run,
/// but one file at least; of all that is left, if a cut would leave little, which is not worth
/// writing it twice.
fn end_of_range<'a>(runs: &'a [Arc<Run>], start: &[u8]) -> Option<&'a [u8]> {
    let room = runs.iter().map(|run| run.size()).max().unwrap_or(0);
    let from = |run: &Run| run.lower_bound(start);
    let mut later = in_order(runs, from, FileMeta::smallest).peekable();
    let (mut bytes, mut end, mut taken) = (0, None, 0);
    let mut last = None;
    for file in in_order(runs, from, FileMeta::largest) {
        last = Some(file.largest());
        while let Some(next) = later.next_if(|next| next.smallest() <= file.largest()) {
            bytes += next.size();
        }
        if bytes <= room || end.is_none() {
            (end, taken) = (last, bytes);
        }
    }
    if taken.saturating_mul(4) >= bytes.saturating_mul(3) {
        last
    } else {
        end
    }
}

/// The files of several runs in order of their smallest or largest key, of each run from a position
/// on. Files of a run do not meet, so they are in either order; what is listed is one of each run.
fn in_order<'a>(
    runs: &'a [Arc<Run>],
    from: impl Fn(&Run) -> usize,
    key: impl Fn(&'a FileMeta) -> &'a [u8],
) -> impl Iterator<Item = &'a FileMeta> {
    let head = move |run: usize, at: usize| {
        let file = runs.get(run)?.file_at(at)?;
        Some(Reverse((key(file), run, at)))
    };
    let starts = runs.iter().map(|run| from(run));
    let heads = starts.enumerate().filter_map(|(run, at)| head(run, at));
    let mut heads: BinaryHeap<_> = heads.collect();
    std::iter::from_fn(move || {
        let Reverse((_, run, at)) = heads.pop()?;
        heads.extend(head(run, at + 1));
        runs.get(run)?.file_at(at)
    })
}

/// The bytes that a level's run, or its only one, may have.
fn room_at(options: &PickerOptions, level: usize, last: bool) -> u64 {
    match options.policy {
        MergePolicy::LazyLeveling if last => options.capacity(level + 1),
        _ => options.capacity(level),
    }
}

/// Moves what is too large for its level down where nothing lies below; deepest first.
pub(super) fn push_down_oversized(version: &Version, options: &PickerOptions) -> Option<Task> {
    options.moving.as_ref()?;
    let last = last_level(version)?;
    let leveled = match options.policy {
        MergePolicy::Leveling { .. } => true,
        MergePolicy::Tiering => false,
        // Its last level goes down by itself.
        MergePolicy::LazyLeveling => return None,
    };
    for level in (1..=last).rev() {
        let Some(below) = options.below(level) else {
            continue;
        };
        let runs = version.runs_of(level);
        let Some(oldest) = runs.last() else { continue };
        let too_large = if leveled {
            runs.len() == 1 && oldest.size() > options.capacity(level)
        } else {
            // A run is to be as large as a leveled level of its number.
            level == last && oldest.size() > options.capacity(level + 1) / 2
        };
        if too_large && version.runs_of(below).is_empty() && !is_level_busy(version, level) {
            let mut draft = Draft::default();
            draft.add(level, oldest, oldest.files());
            const REASON: &str = "too large for its level; nothing below";
            let new = TargetRun::New;
            return draft.finish_as(TaskKind::TrivialMove, version, below, new, 0.9, REASON);
        }
    }
    None
}

fn last_level(version: &Version) -> Option<usize> {
    let levels = version.levels();
    levels.iter().rposition(|level| !level.is_empty())
}

/// Makes neighbouring levels one that fit into the upper one, from the top on, and moves levels up.
pub(super) fn collapse_levels(version: &Version, options: &PickerOptions) -> Option<Task> {
    options.moving.as_ref()?;
    let last = last_level(version)?;
    let used: Vec<usize> = (1..=last)
        .filter(|&level| !version.runs_of(level).is_empty())
        .collect();
    let mut above = 0;
    for &level in &used {
        if let Some(task) = (above + 1 < level)
            .then(|| move_up(version, options, above + 1, level, last))
            .flatten()
        {
            return Some(task);
        }
        above = level;
    }
    used.windows(2).find_map(|pair| match pair {
        [upper, lower] if upper + 1 == *lower => join(version, options, *upper, *lower == last),
        _ => None,
    })
}

/// Moves a level up into the highest of the empty levels from `first` on that it fits.
fn move_up(
    version: &Version,
    options: &PickerOptions,
    first: usize,
    level: usize,
    last: usize,
) -> Option<Task> {
    let runs = version.runs_of(level);
    let size = match options.policy {
        MergePolicy::Leveling { .. } => runs.iter().map(|run| run.size()).sum(),
        _ => runs.iter().map(|run| run.size()).max().unwrap_or(0),
    };
    let to = (first..level).find(|&to| size <= room_at(options, to, level == last))?;
    // Nothing may be on its way into what is empty now.
    if (first - 1..=level).any(|level| is_level_busy(version, level)) {
        return None;
    }
    // What is on its way down would only come back.
    if reclaim::moves_tombstones_down(version, level) {
        return None;
    }
    let mut draft = Draft::default();
    draft.add_runs(level, runs);
    const REASON: &str = "levels above are empty";
    let keep = TargetRun::Keep;
    draft.finish_as(TaskKind::TrivialMove, version, to, keep, 0.7, REASON)
}

/// Makes a level and the next one if they fit into the upper one.
fn join(version: &Version, options: &PickerOptions, upper: usize, last: bool) -> Option<Task> {
    const REASON: &str = "fits into one level with the next";
    let (lower, runs) = (upper + 1, version.runs_of(upper));
    let sum = |runs: &[Arc<Run>]| runs.iter().map(|run| run.size()).sum::<u64>();
    let total = sum(runs).saturating_add(sum(version.runs_of(lower)));
    if total > room_at(options, upper, last) {
        return None;
    }
    if version.runs_of(lower).len() > 1 {
        return one_run(version, lower, 0.7, REASON);
    }
    let ([run], [below]) = (runs, version.runs_of(lower)) else {
        return one_run(version, upper, 0.7, REASON);
    };
    // As small as what comes out of level 0: at once, or it would be refilled meanwhile.
    if total <= options.capacity(1) {
        let mut draft = Draft::default();
        draft.add(upper, run, run.files());
        draft.add(lower, below, below.files());
        let into = TargetRun::Join(below.id());
        return draft.finish(version, lower, into, 0.7, REASON);
    }
    run.files()
        .iter()
        .filter(|file| !file.is_busy())
        .find_map(|file| push_file(version, options, upper, file, 0.7, REASON))
}

/// Bytes by which the filters of a file may be off beside a quarter: pages are filled up.
const FILTER_SLACK: f64 = 4096.0;

/// Rewrites a file of before whose filters have clearly more or fewer bits than wanted.
pub(super) fn rewrite_filters(version: &Version, options: &PickerOptions) -> Option<Task> {
    let moving = options.moving.as_ref()?;
    let last = moving.bits.last()?;
    let mut deep = version.runs().filter(|(level, _)| *level > 0);
    deep.find_map(|(level, run)| {
        let wanted = *moving.bits.get(level).unwrap_or(last);
        let wrong = |file: &&FileMeta| {
            let bytes = wanted / 8.0 * file.entries() as f64;
            let off = (file.filter_bytes() as f64 - bytes).abs();
            file.created() < moving.since && off > bytes / 4.0 + FILTER_SLACK && !file.is_busy()
        };
        let file = run.files().iter().find(wrong)?;
        reclaim::rewrite(version, level, run, file, "its filter has other bits")
    })
}
