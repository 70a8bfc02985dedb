//! What the partitions of new tables inherit of the visits of the partitions they come from or lie
//! above, so that a new table is as hot as its readers will find it.
//!
//! [`Parents`] says what a table is written of or above. An [`Inheritance`] is gathered before
//! tables are written; while they are, it says about what a partition will inherit
//! ([`InheritedVisits`]), and when they are installed, [`Inheritance::inherited`] says it exactly:
//! a partition's visits go in equal parts to the new partitions that its range meets. Of the visits
//! of several runs the rules of `shamba_model::expected_reads` make one. Visits are read when they
//! are asked for, so that those of the meantime count. Thread-safe.

use std::sync::Arc;

use shamba_model::expected_reads::{Visits, merged_visits, page_reads, visits_above};

use super::Task;
use crate::table::{InheritedVisits, KeySpan, TableCache};
use crate::value::PartitionStats;
use crate::version::{FileMeta, Version};

/// Where a new table comes from.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Parents<'a> {
    /// A flush above a version.
    Flush(&'a Version),
    /// A merge.
    Merge(&'a Task),
}

impl Parents<'_> {
    /// Whether it is known how often the files are asked that a new one of this key range
    /// (inclusive) comes from or lies above: of one, and of all of them. Where the new one inherits
    /// nothing, nobody asks it then.
    pub(crate) fn are_known(&self, smallest: &[u8], largest: &[u8]) -> bool {
        let mut any = false;
        let mut is_known = |file: &FileMeta| {
            any = true;
            file.visits().is_some()
        };
        let all = match self {
            Parents::Flush(version) => {
                let runs = version.runs().map(|(_, run)| run);
                let mut below = runs.flat_map(|run| run.overlapping(smallest, largest));
                below.all(&mut is_known)
            }
            Parents::Merge(task) => {
                let meets =
                    |file: &&FileMeta| *file.smallest() <= *largest && *file.largest() >= *smallest;
                task.files().filter(meets).all(&mut is_known)
            }
        };
        all && any
    }
}

/// Where the visits of new tables come from.
#[derive(Debug)]
pub(crate) struct Inheritance {
    /// Newest first.
    runs: Vec<ParentRun>,
    /// Entries of all runs, 1 at least.
    all_entries: u64,
    rule: Rule,
}

#[derive(Debug)]
enum Rule {
    /// The runs go into the new tables.
    Merge,
    /// The new table, of so many entries, lies above the runs.
    Above(u64),
}

/// Files of a run, ascending.
#[derive(Debug)]
struct ParentRun {
    files: Vec<Parent>,
}

/// A file.
#[derive(Debug)]
struct Parent {
    smallest: Box<[u8]>,
    largest: Box<[u8]>,
    entries: u64,
    /// None where nobody has ever asked it.
    partition_stats: Option<Arc<PartitionStats>>,
    /// Where each partition but the last ends; none where only the file as a whole is known.
    separators: Vec<Box<[u8]>>,
}

/// A piece of an parent and its visits.
#[derive(Debug, Clone, Copy)]
struct KeyPiece<'a> {
    span: KeySpan<'a>,
    visits: Visits,
}

impl Parent {
    fn of(file: &FileMeta, tables: Option<&TableCache>) -> Self {
        let mut parent = Parent {
            smallest: file.smallest().into(),
            largest: file.largest().into(),
            entries: file.entries(),
            partition_stats: None,
            separators: Vec::new(),
        };
        let known = match file.slot().partition_stats() {
            Some(partition_stats) => !partition_stats.all_visits().is_none(),
            None => file.slot().is_hinted(),
        };
        if !known {
            return parent;
        }
        // A file that cannot be opened will fail the merge by itself.
        let table = file.slot().peek().or_else(|| {
            let tables = tables?;
            tables.get(file).ok()
        });
        if let Some(table) = table {
            let spans: Vec<KeySpan<'_>> = table.spans(file.smallest()).collect();
            let before_last = spans.len().saturating_sub(1);
            let inner = spans.iter().take(before_last);
            parent.separators = inner.map(|span| span.last.into()).collect();
        }
        parent.partition_stats = file.slot().partition_stats();
        parent
    }

    fn memory(&self) -> usize {
        let separators = self.separators.iter();
        size_of::<Self>()
            + self.smallest.len()
            + self.largest.len()
            + separators.map(|key| key.len() + 32).sum::<usize>()
    }

    /// The visits of the piece that may hold `key`, and about how many entries it has.
    fn piece_at(&self, key: &[u8]) -> Option<(Visits, f32)> {
        let partition_stats = self.partition_stats.as_ref()?;
        if self.separators.is_empty() {
            return Some((partition_stats.all_visits(), self.entries as f32));
        }
        let number = self.separators.partition_point(|end| **end < *key);
        let pieces = self.separators.len() + 1;
        Some((
            partition_stats.visits(number as u32),
            self.entries as f32 / pieces as f32,
        ))
    }

    fn pieces(&self) -> impl Iterator<Item = KeyPiece<'_>> {
        let one = self.separators.is_empty();
        (0..=self.separators.len()).map(move |number| {
            let before = number.checked_sub(1);
            let before = before.and_then(|before| self.separators.get(before));
            let visits = match &self.partition_stats {
                Some(partition_stats) if one => partition_stats.all_visits(),
                Some(partition_stats) => partition_stats.visits(number as u32),
                None => Visits::default(),
            };
            KeyPiece {
                span: KeySpan {
                    first: before.unwrap_or(&self.smallest),
                    open: before.is_some(),
                    last: self.separators.get(number).unwrap_or(&self.largest),
                },
                visits,
            }
        })
    }
}

impl ParentRun {
    fn entries(&self) -> u64 {
        self.files.iter().map(|file| file.entries).sum()
    }

    /// What comes to an entry at `key`, lately.
    fn visits_at(&self, key: &[u8]) -> Option<Visits> {
        let at = self.files.partition_point(|file| *file.largest < *key);
        let (mut visits, entries) = self.files.get(at)?.piece_at(key)?;
        let one = 1.0 / entries.max(1.0);
        (visits.empty, visits.positive) = (visits.empty * one, visits.positive * one);
        visits.scans *= one;
        Some(visits)
    }

    /// The files that meet a span.
    fn meeting(&self, span: KeySpan<'_>) -> impl Iterator<Item = &Parent> {
        let ends_before = |file: &Parent| !span.starts_by(&file.largest);
        let start = self.files.partition_point(ends_before);
        let rest = self.files.get(start..).unwrap_or_default();
        rest.iter()
            .take_while(move |file| *file.smallest <= *span.last)
    }
}

impl Inheritance {
    fn new(runs: Vec<ParentRun>, rule: Rule) -> Self {
        let entries: u64 = runs.iter().map(ParentRun::entries).sum();
        Inheritance {
            runs,
            all_entries: entries.max(1),
            rule,
        }
    }

    /// Of the tables that a task will write. Opens those of its inputs that somebody has asked.
    pub(crate) fn of_merge(task: &Task, tables: &TableCache) -> Self {
        let run = |files: &[FileMeta]| ParentRun {
            files: (files.iter())
                .map(|file| Parent::of(file, Some(tables)))
                .collect(),
        };
        let runs = task.inputs.iter().map(|input| run(&input.files));
        Inheritance::new(runs.collect(), Rule::Merge)
    }

    /// Of a table of so many entries over a range of keys (inclusive) that will be flushed above a
    /// version: the newest run below it counts, and where that one has nothing, the next. Opens
    /// nothing: of a table that is not open only its visits as a whole are known.
    pub(crate) fn of_flush(version: &Version, range: (&[u8], &[u8]), entries: u64) -> Self {
        let (smallest, largest) = range;
        let mut runs = Vec::new();
        for (_, run) in version.runs() {
            let below = run.overlapping(smallest, largest);
            let (Some(first), Some(last)) = (below.first(), below.last()) else {
                continue;
            };
            let whole = *first.smallest() <= *smallest && *last.largest() >= *largest;
            let files = below.iter().map(|file| Parent::of(file, None));
            runs.push(ParentRun {
                files: files.collect(),
            });
            if whole {
                break;
            }
        }
        Inheritance::new(runs, Rule::Above(entries))
    }

    /// Whether nobody is known to read there.
    pub(crate) fn is_cold(&self) -> bool {
        let mut files = self.runs.iter().flat_map(|run| &run.files);
        files.all(|file| file.partition_stats.is_none())
    }

    /// Memory held, in bytes.
    pub(crate) fn memory(&self) -> u64 {
        let files = self.runs.iter().flat_map(|run| &run.files);
        files.map(|file| file.memory() as u64).sum()
    }

    /// The visits of all new partitions, which are ascending and apart.
    pub(crate) fn inherited(&self, new: &[KeySpan<'_>]) -> Vec<Visits> {
        let mut runs = Vec::with_capacity(self.runs.len());
        for run in &self.runs {
            let mut parts = vec![None; new.len()];
            for piece in run.files.iter().flat_map(Parent::pieces) {
                let start = new.partition_point(|span| !piece.span.starts_by(span.last));
                let end = new.partition_point(|span| span.starts_by(piece.span.last));
                let among = piece.visits.among(end.saturating_sub(start));
                for part in parts.iter_mut().take(end).skip(start) {
                    *part.get_or_insert(Visits::default()) += among;
                }
            }
            runs.push(parts);
        }
        (0..new.len())
            .map(|number| self.combine(runs.iter().map(|parts| *parts.get(number)?)))
            .collect()
    }

    /// What a partition inherits whose range has these visits in each run.
    fn combine(&self, runs: impl Iterator<Item = Option<Visits>>) -> Visits {
        match self.rule {
            Rule::Merge => merged_visits(runs),
            Rule::Above(new) => {
                let below = self.runs.iter().zip(runs);
                let newest = below.filter_map(|(run, part)| Some((run, part?))).next();
                newest.map_or(Visits::default(), |(run, below)| {
                    visits_above(below, new as f32 / run.entries().max(1) as f32)
                })
            }
        }
    }
}

impl InheritedVisits for Inheritance {
    /// As if there were one more new partition to each side.
    fn visits(&self, span: KeySpan<'_>) -> Visits {
        let part = |run: &ParentRun| {
            let mut sum = None;
            for piece in run.meeting(span).flat_map(Parent::pieces) {
                if piece.span.starts_by(span.last) && span.starts_by(piece.span.last) {
                    let past = usize::from(piece.span.last > span.last);
                    let among = 1 + usize::from(piece.span.first < span.first) + past;
                    *sum.get_or_insert(Visits::default()) += piece.visits.among(among);
                }
            }
            sum
        };
        self.combine(self.runs.iter().map(part))
    }

    fn page_reads(&self, key: &[u8], entries: usize) -> f32 {
        let known = self.runs.iter();
        let mut known = known.filter_map(|run| Some((run.visits_at(key)?, run.entries() as f32)));
        match self.rule {
            Rule::Merge => {
                let all = self.all_entries as f32;
                page_reads(known.map(|(visits, of)| (visits, of / all)), entries as f32)
            }
            Rule::Above(new) => {
                let newest = known.next().map(|(visits, below)| {
                    let part = below / new.max(1) as f32;
                    (visits_above(visits, 1.0 / part), part)
                });
                page_reads(newest, entries as f32)
            }
        }
    }
}

#[cfg(test)]
mod tests;
