//! Leveling: one run per level from level 1 on; a level over its capacity gives files to the next.
//! Pure.

use std::sync::Arc;

use super::policy::{Granularity, PickerOptions};
use super::task::{Draft, TargetRun, Task, TaskKind, is_level_busy, push_file, run_below};
use super::{reclaim, redesign_picker};
use crate::version::{FileMeta, Run, Version};

/// The next task under leveling.
pub(super) fn pick(
    version: &Version,
    options: &PickerOptions,
    granularity: Granularity,
) -> Option<Task> {
    // After a change of design: what is too large for its level.
    if let Some(task) = redesign_picker::push_down_oversized(version, options) {
        return Some(task);
    }
    // The level that is fullest for its size gives first.
    let mut scores: Vec<(f64, usize)> = (0..version.levels().len())
        .map(|level| (score(version, options, level), level))
        .collect();
    scores.sort_by(|a, b| b.0.total_cmp(&a.0));
    scores
        .into_iter()
        .filter(|&(score, level)| {
            if level == 0 {
                score >= 1.0
            } else {
                score > 1.0
            }
        })
        .find_map(|(score, level)| match (level, granularity) {
            (0, _) => from_level0(version, options, granularity, score),
            (_, Granularity::File) => one_file(version, options, level, score),
            (_, Granularity::Level) => whole_level(version, options, level, score),
        })
        .or_else(|| {
            // Left over from another policy. No task goes out of such a level before it is one run,
            // and into it only new runs from level 0.
            (1..version.levels().len()).find_map(|level| {
                let runs = version.runs_of(level).len() as f64;
                redesign_picker::one_run(version, level, runs, "level has more than one run")
            })
        })
        .or_else(|| {
            reclaim::tombstones(version, |level, _, file| {
                push_file(
                    version,
                    options,
                    level,
                    file,
                    0.5,
                    "file is mostly tombstones",
                )
            })
        })
        .or_else(|| redesign_picker::collapse_levels(version, options))
        .or_else(|| redesign_picker::rewrite_filters(version, options))
        .or_else(|| reclaim::in_place(version, options))
}

/// How full a level is; what is on its way down does not count.
fn score(version: &Version, options: &PickerOptions, level: usize) -> f64 {
    let idle = |run: &Arc<Run>| -> u64 {
        run.files()
            .iter()
            .filter(|file| !file.is_busy())
            .map(|file| file.size())
            .sum()
    };
    if level == 0 {
        let idle = version.runs_of(0).iter().filter(|run| idle(run) > 0);
        idle.count() as f64 / f64::from(options.level0_runs.max(1))
    } else {
        let bytes: u64 = version.runs_of(level).iter().map(idle).sum();
        bytes as f64 / options.capacity(level) as f64
    }
}

/// Level 0 to level 1: one task at a time, since its runs overlap.
fn from_level0(
    version: &Version,
    options: &PickerOptions,
    granularity: Granularity,
    score: f64,
) -> Option<Task> {
    const REASON: &str = "level 0 has too many runs";
    if is_level_busy(version, 0) {
        return None;
    }
    let below = options.below(0)?;
    let several = version.runs_of(below).len() > 1;
    let (output, target) = match run_below(version, 0, below) {
        Some(found) => found,
        // Level 1 is being made one run. Rather than let writes wait for that, it gets one more.
        None if several && score >= 2.0 => (TargetRun::New, None),
        None => return None,
    };

    // Runs that meet nothing older go down as they are.
    let mut free = Draft::default();
    for run in version.runs_of(0) {
        let movable: Vec<_> = run
            .files()
            .iter()
            .filter(|file| {
                let meets =
                    |run: &Arc<Run>| !run.overlapping(file.smallest(), file.largest()).is_empty();
                let older = version.runs_of(0).iter().filter(|r| r.id() < run.id());
                !older.chain(target).any(meets)
            })
            .cloned()
            .collect();
        free.add(0, run, &movable);
    }
    if !free.is_empty() && !several {
        return free.finish_as(
            TaskKind::TrivialMove,
            version,
            below,
            output,
            score,
            "meets nothing older in levels 0 and 1",
        );
    }

    // Where memtables are small, runs gather in level 0 until they are worth what merging with
    // level 1 writes.
    if let Some(target) = target
        && is_staged(version, options, target)
    {
        let task = stage(version, options, score);
        let few = !options.too_many_files
            && version.runs_of(0).len() <= STAGED_RUNS * options.level0_runs as usize;
        if task.is_some() || few {
            return task;
        }
    }
    match granularity {
        Granularity::File => merge_level0(version, (below, output, target), score, REASON),
        Granularity::Level => {
            let mut draft = Draft::default();
            draft.add_runs(0, version.runs_of(0));
            down_whole(version, options, draft, (below, output), score, REASON)
        }
    }
}

/// Level 0 to level 1, whether it is full or not.
pub(super) fn level0_down(
    version: &Version,
    options: &PickerOptions,
    score: f64,
    reason: &'static str,
) -> Option<Task> {
    if is_level_busy(version, 0) {
        return None;
    }
    let below = options.below(0)?;
    let (output, target) = run_below(version, 0, below)?;
    merge_level0(version, (below, output, target), score, reason)
}

/// All runs of level 0 at once, since a newer one must not pass an older one, with what they meet
/// of a run below.
fn merge_level0(
    version: &Version,
    (below, output, target): (usize, TargetRun, Option<&Arc<Run>>),
    score: f64,
    reason: &'static str,
) -> Option<Task> {
    let mut draft = Draft::default();
    draft.add_runs(0, version.runs_of(0));
    if let Some(run) = target {
        draft.add_overlapping(below, run);
    }
    draft.finish(version, below, output, score, reason)
}

/// For each of the runs that level 0 is merged at, how many small ones it may have.
pub(super) const STAGED_RUNS: usize = 4;

/// Whether level 0 should go on gathering: where memory makes flushes much smaller than the buffer
/// that the levels are made for, each merge into level 1 would write many times as much as it
/// brings. So level 0 first reaches as many bytes as it meets there, or to a buffer.
fn is_staged(version: &Version, options: &PickerOptions, target: &Run) -> bool {
    let runs = version.runs_of(0);
    let mut draft = Draft::default();
    draft.add_runs(0, runs);
    let Some((lo, hi)) = draft.hull() else {
        return false;
    };
    let bytes = runs.iter().map(|run| run.size()).sum::<u64>();
    let met: u64 = target
        .overlapping(&lo, &hi)
        .iter()
        .map(|file| file.size())
        .sum();
    options.flush_bytes.saturating_mul(2) <= options.buffer_bytes
        && bytes < met.min(options.buffer_bytes)
}

/// Neighbours of level 0 that are about as large become one run, as many as the level is merged at:
/// so it has few runs for its bytes, and writes each byte once for each so many times that it
/// grows.
fn stage(version: &Version, options: &PickerOptions, score: f64) -> Option<Task> {
    let together = options.level0_runs.max(2) as usize;
    // Flushes make tables of about an eighth of a memtable and more, mostly of half.
    let unit = (options.flush_bytes / 2).max(1);
    let tier = |run: &Arc<Run>| (run.size() / unit).max(1).ilog(together as u64);
    let runs = version.runs_of(0);
    let mut alike = runs.chunk_by(|newer, older| tier(newer) == tier(older));
    let group = alike.find(|group| group.len() >= together)?;
    let mut draft = Draft::default();
    draft.add_runs(0, group);
    let newest = TargetRun::Join(group.first()?.id());
    const REASON: &str = "level 0 gathers small runs";
    draft.finish_as(TaskKind::Merge, version, 0, newest, score, REASON)
}

/// The most files that go down a level in one move. A move of so many takes 40 KiB, and its edit 10
/// KiB of the manifest; with half of it a level of 250,000 tables that was made for more memory is
/// looked through twice as often until it is in its place, with twice of it a move takes twice the
/// memory.
const MOVED_AT_ONCE: usize = 1024;

/// Some file of an overfull level: the one that rewrites least for what it brings down.
fn one_file(version: &Version, options: &PickerOptions, level: usize, score: f64) -> Option<Task> {
    let [run] = version.runs_of(level) else {
        return None;
    };
    let below = options.below(level)?;
    let (output, target) = run_below(version, level, below)?;

    // No list of all: there may be a quarter of a million.
    let idle = || run.files().iter().filter(|file| !file.is_busy());
    let bytes: u64 = idle().map(|file| file.size()).sum();
    let mut excess = bytes.saturating_sub(options.capacity(level));
    let mut free = Vec::new();
    let mut least: Option<(f64, &FileMeta)> = None;
    for file in idle() {
        // What lies below a file is what merging it would write besides.
        let met = target.map(|run| run.overlapping(file.smallest(), file.largest()));
        let met = met.into_iter().flatten();
        if met.clone().any(|other| other.is_busy()) {
            continue;
        }
        let met: u64 = met.map(|other| other.size()).sum();
        if met == 0 && excess > 0 {
            excess = excess.saturating_sub(file.size());
            free.push(FileMeta::clone(file));
            if excess == 0 || free.len() >= MOVED_AT_ONCE {
                break;
            }
        }
        // Among equals the one with the smallest key.
        let ratio = met as f64 / file.size().max(1) as f64;
        if least.is_none_or(|(least, _)| ratio < least) {
            least = Some((ratio, file));
        }
    }
    // What meets nothing below moves for free; else the file goes that is cheapest to merge.
    let mut draft = Draft::default();
    if !free.is_empty() {
        draft.add(level, run, &free);
        return draft.finish_as(
            TaskKind::TrivialMove,
            version,
            below,
            output,
            score,
            "level is over capacity; meets nothing below",
        );
    }
    let (_, file) = least?;
    push_file(
        version,
        options,
        level,
        file,
        score,
        "level is over capacity",
    )
}

/// A whole level with the whole next level.
fn whole_level(
    version: &Version,
    options: &PickerOptions,
    level: usize,
    score: f64,
) -> Option<Task> {
    let [run] = version.runs_of(level) else {
        return None;
    };
    let below = options.below(level)?;
    let (output, _) = run_below(version, level, below)?;
    let mut draft = Draft::default();
    draft.add(level, run, run.files());
    const REASON: &str = "level is over capacity";
    down_whole(version, options, draft, (below, output), score, REASON)
}

/// A draft with the whole of the level below; if that is over its capacity with it, with the whole
/// of the next level too, and so on: what would go on at once is not written first (Monkey, section
/// 2, of whose entries `(T-1)/T` are written on each level).
fn down_whole(
    version: &Version,
    options: &PickerOptions,
    mut draft: Draft,
    (mut to, mut output): (usize, TargetRun),
    score: f64,
    reason: &'static str,
) -> Option<Task> {
    loop {
        match version.runs_of(to) {
            [] => {}
            [run] => draft.add(to, run, run.files()),
            // What joins several runs as one more must not get below them.
            _ => break,
        }
        let bytes: u64 = draft.files().map(|file| file.size()).sum();
        let fits = bytes <= options.capacity(to);
        let Some(next) = options.below(to).filter(|_| !fits) else {
            break;
        };
        let Some((next_output, _)) = run_below(version, to, next) else {
            break;
        };
        if is_level_busy(version, next) {
            break;
        }
        (to, output) = (next, next_output);
    }
    draft.finish(version, to, output, score, reason)
}
