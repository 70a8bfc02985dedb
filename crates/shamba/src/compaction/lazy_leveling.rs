//! Lazy leveling (Dostoevsky): tiering on all levels but the last, which is one run.

use super::policy::PickerOptions;
use super::task::{Draft, TargetRun, Task, TaskKind, is_level_busy};
use super::tiering::{self, FULL};
use super::{reclaim, redesign_picker};
use crate::version::Version;

/// The next task under lazy leveling.
pub(super) fn pick(version: &Version, options: &PickerOptions) -> Option<Task> {
    let last = version.levels().len().saturating_sub(1).max(1);
    grow(version, options, last)
        .or_else(|| {
            tiering::full_levels(version, options, last)
                .into_iter()
                .find_map(|(score, level)| {
                    if level + 1 == last {
                        into_last(version, level, u64::MAX, score, FULL)
                    } else {
                        tiering::merge_down(version, level, level + 1, u64::MAX, score, FULL)
                    }
                })
        })
        .or_else(|| {
            let runs = version.runs_of(last).len() as f64;
            redesign_picker::one_run(version, last, runs, "the last level has more than one run")
        })
        .or_else(|| {
            reclaim::tombstones(version, |level, run, _| {
                if level >= last {
                    None
                } else if level + 1 == last {
                    into_last(version, level, run, 0.5, "file is mostly tombstones")
                } else {
                    tiering::push_runs(version, options, level, run)
                }
            })
        })
        .or_else(|| redesign_picker::collapse_levels(version, options))
        .or_else(|| redesign_picker::rewrite_filters(version, options))
        .or_else(|| reclaim::in_place(version, options))
}

/// How many bytes the last level holds before it goes down by one: what a full tiered level above
/// it holds, times the size ratio.
pub(super) fn last_capacity(options: &PickerOptions, last: usize) -> u64 {
    options.capacity(last + 1)
}

/// A last level over its capacity becomes the next level, and its place fills with runs.
fn grow(version: &Version, options: &PickerOptions, last: usize) -> Option<Task> {
    let size = version.levels().get(last)?.size();
    let capacity = last_capacity(options, last);
    let below = options.below(last)?;
    if size <= capacity || is_level_busy(version, last) {
        return None;
    }
    let [run] = version.runs_of(last) else {
        return None;
    };
    let mut draft = Draft::default();
    draft.add(last, run, run.files());
    draft.finish_as(
        TaskKind::TrivialMove,
        version,
        below,
        TargetRun::New,
        size as f64 / capacity as f64,
        "the last level is over capacity",
    )
}

/// The runs of the level above the last up to id `newest`, with the files they meet there.
fn into_last(
    version: &Version,
    level: usize,
    newest: u64,
    score: f64,
    reason: &'static str,
) -> Option<Task> {
    if is_level_busy(version, level) {
        return None;
    }
    let last = level + 1;
    let mut draft = Draft::default();
    for run in version.runs_of(level) {
        if run.id() <= newest {
            draft.add(level, run, run.files());
        }
    }
    let output = match version.runs_of(last) {
        [] => TargetRun::New,
        [run] => {
            draft.add_overlapping(last, run);
            TargetRun::Join(run.id())
        }
        // It is being made one run; it gets one more.
        _ => TargetRun::New,
    };
    draft.finish(version, last, output, score, reason)
}
