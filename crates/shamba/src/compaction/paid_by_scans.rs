//! Merges that scans have paid for. Pure.
//!
//! A scan looks for its place in each run, and where memory does not hold that page it reads one
//! for each. A merge of the run into the next saves that, once for all scans after it, and costs
//! what it reads and writes. Nobody knows how many scans will come; so it is done when those that
//! came have read as many pages as it costs: then all that was read and merged is at most twice
//! what it would have been at the best moment, whatever comes (ski rental; Karlin et al.,
//! Algorithmica 3, 1988). LevelDB's compactions after so many seeks are the model, which count
//! what lookups read too, whether the page was in memory or not, at a fixed price.
//!
//! Counted is by file, so that where scans go the tree is merged, and left alone elsewhere.

use super::leveling::level0_down;
use super::policy::{Granularity, PickerOptions};
use super::reclaim::is_bottom;
use super::task::{Task, TaskKind, push_file};
use crate::fs::PAGE;
use crate::version::Version;

const REASON: &str = "scans read as much of it as its merging costs";

/// Urgent as little as what reclaims space.
const SCORE: f64 = 0.3;

/// Whether the reads that scans made of what a task brings down are as many as it costs.
fn is_paid(task: &Task, options: &PickerOptions) -> bool {
    let brought = (task.inputs.iter()).filter(|input| input.level < task.output_level);
    let files = brought.flat_map(|input| &input.files);
    let reads: u64 = files.map(|file| file.seek_reads()).sum();
    task.kind == TaskKind::TrivialMove || reads as f64 >= price(task.input_bytes(), options)
}

/// What merging so many bytes costs, in reads of a page.
fn price(bytes: u64, options: &PickerOptions) -> f64 {
    bytes as f64 / PAGE as f64 * options.page_cost
}

/// A merge under leveling that scans have paid for. Ends: files that a merge writes were read by
/// nobody, and what moves goes down a level.
pub(super) fn pick(
    version: &Version,
    options: &PickerOptions,
    granularity: Granularity,
) -> Option<Task> {
    if granularity == Granularity::Level || !options.merge_for_scans {
        return None;
    }
    let read = |level: usize| {
        let files = version.runs_of(level).iter().flat_map(|run| run.files());
        files.map(|file| file.seek_reads()).sum::<u64>()
    };
    if read(0) > 0
        && let Some(task) = level0_down(version, options, SCORE, REASON)
        && is_paid(&task, options)
    {
        return Some(task);
    }
    for level in 1..version.levels().len() {
        let [run] = version.runs_of(level) else {
            continue;
        };
        for file in run.files().iter().filter(|file| !file.is_busy()) {
            // It is read and written itself at least.
            if file.seek_reads() > 0
                && file.seek_reads() as f64 >= price(file.size(), options)
                && !is_bottom(version, level, run.id(), file)
                && let Some(task) = push_file(version, options, level, file, SCORE, REASON)
                && is_paid(&task, options)
            {
                return Some(task);
            }
        }
    }
    None
}
