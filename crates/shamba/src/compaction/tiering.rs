//! Tiering: a level collects runs; when it has as many as the size ratio, they become one run of
//! the next level.

use super::policy::PickerOptions;
use super::task::{Draft, TargetRun, Task, is_level_busy, merge_level_in_place};
use super::{reclaim, redesign_picker};
use crate::version::Version;

/// The next task under tiering.
pub(super) fn pick(version: &Version, options: &PickerOptions) -> Option<Task> {
    let last = version.levels().len().saturating_sub(1);
    if let Some(task) = redesign_picker::push_down_oversized(version, options) {
        return Some(task);
    }
    full_levels(version, options, version.levels().len())
        .into_iter()
        .find_map(|(score, level)| match options.below(level) {
            // A last level of another design's may be all there is: not at once, then.
            Some(_) if options.moving.is_some() && level > 0 && level == last => {
                redesign_picker::one_run(version, level, score, FULL)
            }
            Some(below) => merge_down(version, level, below, u64::MAX, score, FULL),
            None => merge_level_in_place(version, level, score, FULL),
        })
        .or_else(|| {
            reclaim::tombstones(version, |level, run, _| {
                push_runs(version, options, level, run)
            })
        })
        .or_else(|| redesign_picker::collapse_levels(version, options))
        .or_else(|| redesign_picker::rewrite_filters(version, options))
        .or_else(|| reclaim::in_place(version, options))
}

pub(super) const FULL: &str = "level has as many runs as the size ratio";

/// The levels above `end` with too many runs, fullest first.
pub(super) fn full_levels(
    version: &Version,
    options: &PickerOptions,
    end: usize,
) -> Vec<(f64, usize)> {
    let ratio = options.ratio();
    let mut full: Vec<(f64, usize)> = (0..end)
        .map(|level| (version.runs_of(level).len(), level))
        .filter(|&(runs, _)| runs >= ratio)
        .map(|(runs, level)| (runs as f64 / ratio as f64, level))
        .collect();
    full.sort_by(|a, b| b.0.total_cmp(&a.0));
    full
}

/// The runs of a level up to id `newest`, as one new run of the level below. One such task at a
/// time leaves a level, whatever files it takes: a later one would carry newer data, and must not
/// be installed earlier.
pub(super) fn merge_down(
    version: &Version,
    level: usize,
    below: usize,
    newest: u64,
    score: f64,
    reason: &'static str,
) -> Option<Task> {
    if is_level_busy(version, level) {
        return None;
    }
    let mut draft = Draft::default();
    for run in version.runs_of(level) {
        if run.id() <= newest {
            draft.add(level, run, run.files());
        }
    }
    draft.finish(version, below, TargetRun::New, score, reason)
}

/// Brings a run that is mostly tombstones towards what they delete: with the older runs of its
/// level, into the next level, or in place when there is no level below.
pub(super) fn push_runs(
    version: &Version,
    options: &PickerOptions,
    level: usize,
    run: u64,
) -> Option<Task> {
    const REASON: &str = "file is mostly tombstones";
    let deepest = level + 1 >= version.levels().len();
    match options.below(level) {
        Some(below) if !deepest => merge_down(version, level, below, run, 0.5, REASON),
        _ => {
            if is_level_busy(version, level) {
                return None;
            }
            let mut draft = Draft::default();
            for older in version.runs_of(level) {
                if older.id() <= run {
                    draft.add(level, older, older.files());
                }
            }
            draft.finish(version, level, TargetRun::Join(run), 0.5, REASON)
        }
    }
}
