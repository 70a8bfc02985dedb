//! Getting space back when nothing more urgent is to do. Level 0 is left alone: it is small, and
//! soon merged. Pure.

use std::sync::Arc;

use super::policy::PickerOptions;
use super::task::{Draft, TargetRun, Task, TaskKind, older_than};
use crate::base::clock::Moment;
use crate::version::{FileMeta, ValueFile, Version};

/// The first task `push` gives for a file that is mostly tombstones with older data below it.
/// Ends: each task brings such a file at least one level or run down.
pub(super) fn tombstones(
    version: &Version,
    push: impl Fn(usize, u64, &FileMeta) -> Option<Task>,
) -> Option<Task> {
    for (level, run) in version.runs().filter(|(level, _)| *level > 0) {
        for file in run.files() {
            if !file.is_busy()
                && is_to_sink(version, level, run.id(), file)
                && let Some(task) = push(level, run.id(), file)
            {
                return Some(task);
            }
        }
    }
    None
}

/// Whether a file is mostly tombstones, with older data below it.
fn is_to_sink(version: &Version, level: usize, run: u64, file: &FileMeta) -> bool {
    file.tombstones().saturating_mul(2) > file.entries() && !is_bottom(version, level, run, file)
}

/// Whether [`tombstones`] brings a file of the level down.
pub(super) fn moves_tombstones_down(version: &Version, level: usize) -> bool {
    let runs = version.runs_of(level).iter();
    let mut files = runs.flat_map(|run| run.files().iter().map(|file| (run.id(), file)));
    files.any(|(run, file)| is_to_sink(version, level, run, file))
}

/// Rewrites a file of the bottom in its place when that drops its tombstones, or more than half of
/// its entries, or all have expired that ever do. Ends: no snapshot needs what is dropped, so it is
/// gone afterwards.
pub(super) fn in_place(version: &Version, options: &PickerOptions) -> Option<Task> {
    for (level, run) in version.runs().filter(|(level, _)| *level > 0) {
        for file in run.files() {
            if (file.tombstones() > 0
                || file.ranges() > 0
                || file.garbage().saturating_mul(2) > file.entries()
                || has_expired(file.expiry().last, options))
                && file.max_seq() <= options.oldest_snapshot
                && !file.is_busy()
                && is_bottom(version, level, run.id(), file)
            {
                let task = rewrite(version, level, run, file, "file holds dead entries");
                let expired_to = options.expired_to;
                return task.map(|task| Task { expired_to, ..task });
            }
        }
    }
    values(version)
}

/// Rewrites a file in its place that points to value files of which more than half is garbage, so
/// that what it points to goes elsewhere, where that gives back as much as the file has. Ends: it
/// does not point there afterwards.
fn values(version: &Version) -> Option<Task> {
    if !version
        .value_files()
        .iter()
        .any(ValueFile::is_mostly_garbage)
    {
        return None;
    }
    for (level, run) in version.runs().filter(|(level, _)| *level > 0) {
        for file in run.files() {
            if !file.is_busy() && garbage_beside(version, file) >= file.size().max(1) {
                let reason = "file points to values among garbage";
                return rewrite(version, level, run, file, reason);
            }
        }
    }
    None
}

/// The part of the garbage that it takes a file to give back, in bytes: of each value file that is
/// mostly garbage as much as the file points to of what is pointed to there, so at least as many
/// bytes as it points to. Rewriting it writes these, and the file.
fn garbage_beside(version: &Version, file: &FileMeta) -> u64 {
    let part = |(number, bytes): (u64, u64)| {
        let values = version.value_files().get(number);
        let values = values.filter(|values| values.is_mostly_garbage())?;
        let all = u128::from(values.garbage()) * u128::from(bytes);
        u64::try_from(all / u128::from(values.live.max(1))).ok()
    };
    let parts = file.pointed_to().filter_map(part);
    parts.fold(0, u64::saturating_add)
}

/// Whether a moment has passed for every reader.
pub(super) fn has_expired(moment: Moment, options: &PickerOptions) -> bool {
    (1..=options.expired_to).contains(&moment)
}

/// Rewrites one file in its place.
pub(super) fn rewrite(
    version: &Version,
    level: usize,
    run: &Arc<crate::version::Run>,
    file: &FileMeta,
    reason: &'static str,
) -> Option<Task> {
    let mut draft = Draft::default();
    draft.add(level, run, std::slice::from_ref(file));
    let output = TargetRun::Join(run.id());
    draft.finish_as(TaskKind::Merge, version, level, output, 0.25, reason)
}

/// Whether no older run meets the file.
pub(super) fn is_bottom(version: &Version, level: usize, run: u64, file: &FileMeta) -> bool {
    !older_than(version, level, run).any(|older| {
        !older
            .overlapping(file.smallest(), file.largest())
            .is_empty()
    })
}
