//! Merges that scans have paid for. Pure.
//!
//! A scan looks for its place in each run, and where memory does not hold it there it reads a block
//! of each. A merge of the run into the next saves that to all scans after it, and costs what it
//! reads and writes. Nobody knows how many scans will come; so it is done when those that came have
//! read as many pages as it costs: then the reads and the merge together come to about twice what
//! they would have been at the best moment, whatever comes (ski rental; Karlin et al.,
//! Algorithmica 3, 1988). LevelDB's compactions after so many seeks are the model, which count what
//! lookups read too, whether the block was in memory or not, at a fixed price.
//!
//! Counted is by file, so that the tree is merged where scans go and left alone elsewhere. Not in
//! the price are merges that follow because the next level is too full with what it got; and where
//! scans go to one end of a file, all of it is paid for.

use std::sync::Arc;

use super::leveling::level0_down;
use super::policy::{Granularity, PickerOptions};
use super::reclaim::is_bottom;
use super::task::{Task, push_file};
use crate::fs::PAGE;
use crate::version::{FileMeta, Run, Version};

const REASON: &str = "scans have read as much of it as its merging costs";

/// Urgent as little as what reclaims space.
const SCORE: f64 = 0.3;

/// A merge under leveling that scans have paid for. Ends: of what a merge writes nothing was
/// counted yet, and what moves goes down a level. Of a tree on its way to another design, where
/// levels move up too, nothing is taken.
pub(super) fn pick(
    version: &Version,
    options: &PickerOptions,
    granularity: Granularity,
) -> Option<Task> {
    let off = !options.merge_for_scans || options.moving.is_some();
    if off || granularity == Granularity::Level {
        return None;
    }
    let task = level0(version, options);
    let mut levels = 1..version.levels().len();
    task.or_else(|| levels.find_map(|level| one_file(version, options, level)))
}

/// What merging so many bytes costs, in reads of a page.
fn price(bytes: u64, options: &PickerOptions) -> f64 {
    bytes as f64 / PAGE as f64 * options.page_cost
}

/// Whether scans read so many pages, and no fewer than the merge of so many bytes costs.
fn is_paid(pages: u64, bytes: u64, options: &PickerOptions) -> bool {
    pages > 0 && pages as f64 >= price(bytes, options)
}

/// Bytes of a run's files between two keys.
fn met(run: &Arc<Run>, smallest: &[u8], largest: &[u8]) -> u64 {
    let files = run.overlapping(smallest, largest).iter();
    files.map(|file| file.size()).sum()
}

/// All of level 0, or as much of it as there is memory for.
fn level0(version: &Version, options: &PickerOptions) -> Option<Task> {
    let all = version.runs_of(0).iter().flat_map(|run| run.files());
    let (pages, bytes) = all.fold((0, 0), |(pages, bytes), file| {
        (pages + file.seek_pages(), bytes + file.size())
    });
    // Before a list is made of what may be many files.
    if !is_paid(pages, bytes, options) {
        return None;
    }
    let task = level0_down(version, options, SCORE, REASON)?.within(version, options)?;
    let inputs = task.inputs.iter().filter(|input| input.level == 0);
    let read = inputs.map(|input| input.files.iter().map(FileMeta::seek_pages).sum::<u64>());
    // A run is left afterwards, in which scans still look for their place.
    let joins = task
        .inputs
        .iter()
        .any(|input| input.level == task.output_level);
    let left = if joins { None } else { read.clone().max() };
    let saved = read.sum::<u64>() - left.unwrap_or(0);
    is_paid(saved, task.input_bytes(), options).then_some(task)
}

/// A file of a level.
fn one_file(version: &Version, options: &PickerOptions, level: usize) -> Option<Task> {
    let [run] = version.runs_of(level) else {
        return None;
    };
    let below = version.runs_of(options.below(level)?).first();
    let mut idle = run.files().iter().filter(|file| !file.is_busy());
    idle.find_map(|file| {
        let pages = file.seek_pages();
        let bytes = || {
            let met = below.map(|run| met(run, file.smallest(), file.largest()));
            file.size() + met.unwrap_or(0)
        };
        if is_paid(pages, file.size(), options)
            && is_paid(pages, bytes(), options)
            && !is_bottom(version, level, run.id(), file)
        {
            push_file(version, options, level, file, SCORE, REASON)
        } else {
            None
        }
    })
}
