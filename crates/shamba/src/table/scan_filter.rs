//! A table's filter for scans, of prefixes or of ranges, and how a scan asks it.
//!
//! It is a filter as that of the keys is: modules in each partition, behind those of the keys, with
//! blocks that come through the cache and are worth what the scans are that they spare a read of
//! index and data. So it has statistics of its own ([`PartitionStats`]), beside those of the keys'
//! filter: who comes to a partition are scans here. Bytes are specified in docs/format.md,
//! "Filters of prefixes" and "Filters of ranges".
//!
//! Protocol of a scan: [`Table::ask_scan_filter`] before it looks for its place, and with the
//! [`ScanVisit`] that lets it pass [`Table::count_scan_visit`] once it found something or
//! nothing. Thread-safe.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use super::reader::Table;
use super::source::label;
use super::stated_scan_filter::ScanFilter;
use crate::base::sample;
use crate::cache::{Owner, Priority};
use crate::error::Result;
use crate::filter::{self, FilteredScan, MAX_MODULES, ModulePlan};
use crate::fs::{BlockKind, Purpose};
use crate::value::{Outcome, PartitionStats, last_of};

/// What a table says of a scan.
#[derive(Debug)]
pub(crate) enum ScanAnswer {
    /// It may have keys of the scan.
    Maybe(Option<ScanVisit>),
    /// It has none that the scan asks for.
    Absent,
}

/// A scan that passed a partition's filter.
#[derive(Debug)]
pub(crate) struct ScanVisit {
    partition: u32,
    /// Whether all of the filter was asked.
    is_certain: bool,
}

/// A scan in one partition.
struct ScanProbe<'a> {
    table: &'a Table,
    filter: &'a ScanFilter,
    stats: &'a Arc<PartitionStats>,
    scan: &'a FilteredScan,
    partition: usize,
    /// Columns probed of each module.
    probed: [u8; MAX_MODULES],
    /// Whether what is read is offered to the cache.
    fill: bool,
}

/// What one module says.
enum Said {
    Maybe,
    /// The key is absent; and whether what says so is in memory now.
    Absent {
        stays: bool,
    },
}

impl Table {
    /// Whether the table may have keys that a scan asks for, from the scan's start on.
    /// What is read to know it is offered to the cache if `fill`, and the scan counts then.
    pub(crate) fn ask_scan_filter(&self, scan: &FilteredScan, fill: bool) -> Result<ScanAnswer> {
        let filter = self
            .scan_filter
            .as_deref()
            .filter(|of| *of.rule == *scan.rule());
        let stats = self.partition_stats().scan_filter();
        let Some((filter, stats)) = filter.zip(stats) else {
            return Ok(ScanAnswer::Maybe(None));
        };
        let counts = scan.counts();
        counts.probes.fetch_add(1, Relaxed);
        let mut separator = Vec::new();
        let first = self.top.find(scan.start());
        for partition in first..self.top.len() {
            let mut probe = ScanProbe {
                table: self,
                filter,
                stats: &stats,
                scan,
                partition,
                probed: [0; MAX_MODULES],
                fill,
            };
            if probe.may_hold()? {
                let is_certain = !probe.is_incomplete();
                let partition = partition as u32;
                return Ok(ScanAnswer::Maybe(Some(ScanVisit {
                    partition,
                    is_certain,
                })));
            }
            // Keys of the scan may come behind the partition where its separator may be one.
            separator.clear();
            self.top.separator(partition, &mut separator);
            if !scan.is_of(&separator) {
                break;
            }
        }
        // Behind the last partition are range tombstones at most.
        counts.negatives.fetch_add(1, Relaxed);
        Ok(ScanAnswer::Absent)
    }

    /// Counts a scan that passed, and whether it found a key.
    pub(crate) fn count_scan_visit(&self, scan: &FilteredScan, visit: &ScanVisit, found: bool) {
        let Some(stats) = self.partition_stats().scan_filter() else {
            return;
        };
        // Where the scan begins within its prefix others may have it: the filter let it pass for
        // them, most likely, if all of it did.
        let outcome = match (found, scan.is_whole(), visit.is_certain) {
            (true, _, _) | (false, false, true) => Outcome::Found,
            (false, true, _) => Outcome::FalsePositive,
            (false, false, false) => Outcome::Absent,
        };
        record(&stats, visit.partition, outcome);
    }
}

/// Counts a scan that came to a partition: every one, or a sample while memory is plenty.
fn record(stats: &PartitionStats, partition: u32, outcome: Outcome) {
    let weight = if stats.count_every_access() {
        1
    } else {
        sample::weight_of_scan() as u16
    };
    if weight > 0 {
        stats.record(partition, outcome, weight);
    }
}

impl ScanProbe<'_> {
    /// Asks all that is in memory of the partition's filter, then what is worth a read.
    fn may_hold(&mut self) -> Result<bool> {
        let filter = self.filter;
        for (number, plan) in filter.plan.modules.iter().enumerate() {
            if let Said::Absent { .. } = self.probe_resident(number, plan) {
                self.count(Outcome::Rejected);
                return Ok(false);
            }
        }
        while self.is_incomplete()
            && let Some(number) = self.best_read()
            && let Some(plan) = filter.plan.modules.get(number)
        {
            if let Said::Absent { stays } = self.probe_read(number, plan)? {
                let outcome = if stays {
                    Outcome::Rejected
                } else {
                    Outcome::FalsePositive
                };
                self.count(outcome);
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Counts a scan that the filter rejected, unless it is to leave no trace in the cache.
    fn count(&self, outcome: Outcome) {
        if self.fill {
            record(self.stats, self.partition as u32, outcome);
        }
    }

    fn is_incomplete(&self) -> bool {
        let mut modules = self.filter.plan.modules.iter().zip(&self.probed);
        modules.any(|(plan, probed)| *probed < plan.columns)
    }

    /// The module to read next, if any is worth it; where recency decides what memory holds, each.
    fn best_read(&self) -> Option<usize> {
        let modules = self.filter.plan.modules.iter().zip(&self.probed);
        if !self.table.blocks.cache().policy().is_active() {
            return modules
                .into_iter()
                .position(|(plan, probed)| *probed < plan.columns);
        }
        let stats = self.stats;
        stats.best_to_read(self.partition as u32, &self.probed, false)
    }

    /// The pages of the block that is to be asked, of a module.
    fn block(&self, number: usize, plan: &ModulePlan) -> Option<std::ops::Range<u32>> {
        let place = self.table.plan.modules.len() + number;
        let pages = self.table.top.module(self.partition, place)?;
        let layout = self.filter.plan.layout;
        Some(self.scan.block_of(plan, number, layout, pages))
    }

    fn note(&mut self, number: usize, columns: u8) {
        if let Some(probed) = self.probed.get_mut(number) {
            *probed = columns;
        }
    }

    /// Asks what is in memory of a module.
    fn probe_resident(&mut self, number: usize, plan: &ModulePlan) -> Said {
        let Some(pages) = self.block(number, plan) else {
            self.note(number, plan.columns);
            return Said::Maybe;
        };
        let Some(block) = self.table.blocks.resident(pages.start) else {
            return Said::Maybe;
        };
        let columns = filter::columns(plan, &block);
        let rejected_by = self.scan.rejecting_columns(plan, number, &block);
        // One without columns says nothing on storage either.
        self.note(
            number,
            match columns {
                0 => plan.columns,
                _ => columns.count_ones() as u8,
            },
        );
        if rejected_by == 0 {
            return Said::Maybe;
        }
        // Of what only the last column rejects it is known what that one is worth.
        if plan.columns > 1
            && rejected_by == last_of(columns)
            && self.stats.needs_rejections()
            && !self.later_rejects(number)
        {
            let blocks = &self.table.blocks;
            blocks
                .cache()
                .count_sole_rejection(&blocks.block_key(pages.start));
        }
        Said::Absent { stays: true }
    }

    /// Whether what is in memory of a module behind this one rejects the scan; those before it let
    /// it pass.
    fn later_rejects(&self, number: usize) -> bool {
        let modules = self.filter.plan.modules.iter().enumerate();
        modules.skip(number + 1).any(|(number, plan)| {
            let pages = self.block(number, plan);
            let block = pages.and_then(|pages| self.table.blocks.peek(pages.start));
            block.is_some_and(|block| self.scan.rejecting_columns(plan, number, &block) != 0)
        })
    }

    /// Reads a module's block, asks it and offers it to the cache. A damaged one is done without.
    fn probe_read(&mut self, number: usize, plan: &ModulePlan) -> Result<Said> {
        let table = self.table;
        self.note(number, plan.columns);
        let Some(pages) = self.block(number, plan) else {
            return Ok(Said::Maybe);
        };
        let kind = BlockKind::Filter(number as u8);
        let start = pages.start;
        let counts = self.scan.counts();
        counts.pages.fetch_add(pages.len() as u64, Relaxed);
        // Asked before it is offered: the cache may keep only a part of it.
        let read = table.blocks.read_raw(pages, label(kind, Purpose::Scan));
        let read = read.and_then(|raw| {
            let bytes = raw.decode(&table.blocks, raw.stored(&table.blocks)?)?;
            let rejected_by = self.scan.rejecting_columns(plan, number, &bytes);
            self.stats.note_filter_read(rejected_by == 0);
            let owner = Owner {
                key: table.blocks.block_key(start),
                kind,
                priority: Priority::of(kind),
                partitions: Some(self.stats),
                partition: self.partition as u32,
                rejected_by,
            };
            // What it keeps may be what rejects the scan, or not.
            let kept = self
                .fill
                .then(|| table.blocks.cache().insert(owner, &bytes));
            let stays = |kept: &[u8]| filter::columns(plan, kept) & rejected_by != 0;
            Ok(match rejected_by {
                0 => Said::Maybe,
                _ => Said::Absent {
                    stays: kept.flatten().is_some_and(|block| stays(&block)),
                },
            })
        });
        // A damaged one costs reads alone.
        match read {
            Err(error) if error.is_corruption() => {
                log::warn!("a filter for scans is ignored: {error}");
                counts.damaged.fetch_add(1, Relaxed);
                Ok(Said::Maybe)
            }
            said => said,
        }
    }
}
