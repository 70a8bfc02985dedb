//! The filter bits of tables that are about to be written.
//!
//! Where filter memory is divided by the place in the tree (`FilterOptions::allocation`), a table's
//! bits come from the present version, by `shamba_model::growing`: pure functions of the levels'
//! entries, what they usually hold, and the visits that were measured. Asked once for each flush
//! and merge, and for files that are to be moved ([`rebuild_if_misfit`]). Tables under way
//! elsewhere count as what they are made of.

use std::collections::HashSet;
use std::sync::Arc;

use shamba_model::expected_reads::Visits;
use shamba_model::growing::{Content, Level, MOST_MISFIT, Table, next_filter, usual};

use crate::compaction::{Granularity, MergePolicy, Parents, TargetRun, Task, TaskKind};
use crate::db::keyspaces::KeyspaceInner;
use crate::filter::curve;
use crate::version::{FileMeta, Run, Version};

/// Filter bits of a table for which it is not written again.
const LEAST_MISFIT: f64 = 4096.0;

/// Where a table is to be, and of what.
pub(super) struct TableSite {
    level: usize,
    entries: u64,
    /// The run it joins; `None` for one of its own.
    run: Option<u64>,
    /// The numbers of the files it replaces.
    replaced: HashSet<u64>,
    /// The empty visits to expect, as [`visits`] counts them; 0 where that is not asked for.
    visits: f64,
}

impl TableSite {
    pub(super) fn of(level: usize, entries: u64, parents: Parents<'_>, measured: bool) -> Self {
        let (run, visits, replaced) = match parents {
            Parents::Flush(version) => {
                let runs = version.runs().map(|(_, run)| run.files());
                let visits = most(runs.filter(|_| measured), |visits| visits.empty);
                (None, visits, HashSet::new())
            }
            Parents::Merge(task) => {
                let run = match task.output {
                    TargetRun::Join(run) => Some(run),
                    TargetRun::New | TargetRun::Keep => None,
                };
                let inputs = task.inputs.iter().map(|input| &input.files);
                let visits = most(inputs.filter(|_| measured), |visits| visits.empty);
                let replaced = task.files().map(|file| file.number()).collect();
                (run, visits, replaced)
            }
        };
        TableSite {
            level,
            entries,
            run,
            replaced,
            visits,
        }
    }
}

/// The lookups that came to a file lately, handed on from table to table by key range; none to one
/// that was never opened.
fn visits(file: &FileMeta) -> Visits {
    let add = |mut sum: Visits, more| {
        sum += more;
        sum
    };
    file.slot()
        .visits()
        .into_iter()
        .fold(Visits::default(), add)
}

/// The visits of the run that has most. A lookup may visit several runs, but once to what is
/// merged out of them; and to a run that reaches over all keys come all lookups but those that end
/// above it.
fn most<'a>(
    runs: impl Iterator<Item = impl IntoIterator<Item = &'a FileMeta>>,
    count: impl Fn(Visits) -> f32,
) -> f64 {
    let mut most = 0.0;
    for files in runs {
        let counts = files.into_iter().map(|file| f64::from(count(visits(file))));
        most = counts.sum::<f64>().max(most);
    }
    most
}

/// The bits per key of a table at a place; `None` where they do not depend on it. Also where memory
/// does not hold a list of the tables, or the model refuses the numbers, which it has no reason to:
/// a filter of any size gives the same answers.
pub(super) fn bits_by_place(
    keyspace: &KeyspaceInner,
    version: &Version,
    place: impl FnOnce(bool) -> TableSite,
) -> Option<f64> {
    let options = keyspace.options();
    let filter = &options.filter;
    let (positive, measured) = filter.allocation.rule()?;
    let _listed = keyspace.list_of(version)?;
    let place = place(measured);
    let levels = shape(keyspace, version, &place, measured);
    let curve = curve(options.filter_wish().families);
    let found = next_filter(&levels, place.level, positive, filter.bits_per_key, curve);
    found.ok().map(|filter| filter.bits_per_key)
}

/// The tree once a table is written, the table last of its level.
fn shape(
    keyspace: &KeyspaceInner,
    version: &Version,
    place: &TableSite,
    measured: bool,
) -> Vec<Level> {
    // Lookups, in the unit of visits; none where nothing was measured.
    let lookups = if measured {
        let runs = version.runs().map(|(_, run)| run.files());
        most(runs, |visits| visits.empty + visits.positive)
    } else {
        0.0
    };
    let per_lookup = |visits: f64| (lookups > 0.0).then(|| visits / lookups);
    let stays = |file: &FileMeta| !place.replaced.contains(&file.number());
    let table = |file: &FileMeta| Table {
        entries: file.entries().max(1) as f64,
        visits: if lookups > 0.0 {
            per_lookup(f64::from(visits(file).empty))
        } else {
            None
        },
    };
    // What a level holds on average, and not now, says how its filters share memory.
    let buffer = buffer_entries(keyspace, version).unwrap_or(place.entries as f64);
    let level = |number: usize| {
        let files_of = |run: &Arc<Run>| run.files().iter().any(&stays);
        let runs = version.runs_of(number).iter().filter(|run| files_of(run));
        let ids: Vec<u64> = runs.map(|run| run.id()).collect();
        let files = version.runs_of(number).iter().flat_map(|run| run.files());
        let files = files.filter(|file| stays(file));
        let mut level = Level {
            tables: files.map(table).collect(),
            runs: ids.len() as f64,
            usual: usual_content(keyspace, buffer, number),
        };
        if lookups == 0.0 && !level.tables.is_empty() {
            // Alike but for their sizes, they count as one.
            let entries = level.tables.iter().map(|table| table.entries).sum();
            level.tables = vec![Table {
                entries,
                visits: None,
            }];
        }
        // And the table that is about to be written, in its run or in a new one.
        if number == place.level {
            level.tables.push(Table {
                entries: place.entries.max(1) as f64,
                visits: per_lookup(place.visits),
            });
            let joins = place.run.is_some_and(|run| ids.contains(&run));
            level.runs += f64::from(u8::from(!joins));
        }
        level
    };
    let levels = version.levels().len().max(place.level + 1);
    (0..levels).map(level).collect()
}

/// What a level holds on average.
fn usual_content(keyspace: &KeyspaceInner, buffer_entries: f64, level: usize) -> Content {
    let options = keyspace.options();
    let by_file = MergePolicy::Leveling {
        granularity: Granularity::File,
    };
    let by_file = options.merge_policy == by_file;
    let policy = options.merge_policy.modelled();
    let (ratio, runs) = (options.size_ratio, options.level0_runs);
    usual(policy, by_file, ratio, runs, buffer_entries, level as u32).unwrap_or_default()
}

/// The entries that a level holds for each power of the size ratio: of the bytes of its capacity
/// under leveling; where levels count runs, those that flushes really wrote.
fn buffer_entries(keyspace: &KeyspaceInner, version: &Version) -> Option<f64> {
    if let MergePolicy::Leveling { .. } = keyspace.options().merge_policy {
        let sums = version.sums();
        let (bytes, entries) = (sums.size, sums.entries);
        let buffer = keyspace.options().write_buffer as f64;
        return (entries > 0).then(|| buffer * entries as f64 / bytes.max(1) as f64);
    }
    let ratio = f64::from(keyspace.options().size_ratio);
    let of = |(level, run): (usize, &Arc<Run>)| run.entries() as f64 / ratio.powi(level as i32);
    version.runs().map(of).next()
}

/// Makes a move a merge where a file's filter would be wrong at its new place: else the filters of
/// data that is written in the order of its keys would be those of a small level for ever.
pub(super) fn rebuild_if_misfit(keyspace: &KeyspaceInner, version: &Version, task: Task) -> Task {
    // Runs that keep their ids move as they are, all at once.
    if task.kind != TaskKind::TrivialMove
        || task.output == TargetRun::Keep
        || keyspace.options().filter.allocation.rule().is_none()
    {
        return task;
    }
    let (level, output) = (task.output_level, task.output);
    task.rewriting(|file| {
        let place = |measured| TableSite {
            level,
            entries: file.entries(),
            run: match output {
                TargetRun::Join(run) => Some(run),
                TargetRun::New | TargetRun::Keep => None,
            },
            replaced: HashSet::from([file.number()]),
            visits: if measured {
                f64::from(visits(file).empty)
            } else {
                0.0
            },
        };
        bits_by_place(keyspace, version, place).is_some_and(|bits| {
            let misfit = (bits - file.filter_bits()).abs();
            misfit > MOST_MISFIT && misfit * file.entries() as f64 > LEAST_MISFIT
        })
    })
}
