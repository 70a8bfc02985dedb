//! Statistics in a few lines of text: entries by keyspace, memory by role, reads of lookups, what
//! is stopped.

use std::fmt;

use super::{KeyspaceStatistics, LevelStatistics, Statistics};
use crate::base::size::SizeText;
use crate::budget::MemoryStats;
use crate::metrics::Counters;

/// A line for each keyspace, one for memory, one for lookups and one for what is held; further ones
/// where something is stopped. The text is for people, and may become another.
impl fmt::Display for Statistics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for keyspace in &self.keyspaces {
            writeln!(f, "{keyspace}")?;
        }
        show_memory(&self.memory.budget, f)?;
        show_lookups(&self.counters, f)?;
        let (held, open) = (self.snapshots, self.open_tables);
        write!(
            f,
            "\nheld: {held} snapshots and iterators; {open} tables open"
        )?;
        for (what, reason) in [
            ("writes", &self.writes_stopped),
            ("flushes", &self.flushes_stopped),
            ("compactions", &self.compactions_stopped),
            ("new manifests", &self.manifest_stopped),
        ] {
            if let Some(reason) = reason {
                write!(f, "\n{what} are stopped: {reason}")?;
            }
        }
        Ok(())
    }
}

/// What is used of the budget, and for what.
fn show_memory(budget: &MemoryStats, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let [used, limit, peak] = [budget.used, budget.limit, budget.peak].map(SizeText);
    write!(f, "memory: {used} of {limit}, {peak} at most")?;
    let roles = budget.by_role.iter().filter(|(_, bytes)| *bytes > 0);
    for (number, (role, bytes)) in roles.enumerate() {
        let before = if number == 0 { ":" } else { "," };
        write!(f, "{before} {} {}", role.name(), SizeText(*bytes))?;
    }
    Ok(())
}

/// How many lookups there were, and what they read.
fn show_lookups(counters: &Counters, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let (lookups, found) = (counters.lookups, counters.lookups_found);
    let data = counters.data_reads;
    let (index, filter) = (counters.index_reads, counters.filter_reads);
    write!(f, "\nlookups: {lookups}, {found} found")?;
    if lookups > 0 {
        let each = (data + index + filter) as f64 / lookups as f64;
        write!(f, ", {each:.3} storage reads each")?;
    }
    write!(
        f,
        " ({data} of data, {index} of indexes, {filter} of filters)"
    )
}

/// One line: entries, tombstones and overwritten values included, and where they are.
impl fmt::Display for KeyspaceStatistics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sum = |of: fn(&LevelStatistics) -> u64| self.levels.iter().map(of).sum::<u64>();
        let (in_tables, in_memory) = (sum(|level| level.entries), self.memtable_entries);
        let (bytes, files) = (
            SizeText(sum(|level| level.bytes)),
            sum(|level| level.files as u64),
        );
        let levels = self.levels.iter().filter(|level| level.files > 0).count();
        write!(
            f,
            "keyspace `{}`: {} entries: {in_tables} in {files} tables of {levels} levels ({bytes}), \
             {in_memory} in memory ({})",
            self.name,
            in_tables + in_memory,
            SizeText(self.memtable_bytes),
        )?;
        let values = &self.values;
        if values.files > 0 {
            let (files, bytes) = (values.files, SizeText(values.value_bytes));
            let garbage = SizeText(values.garbage_bytes);
            write!(f, "; {bytes} in {files} value files ({garbage} garbage)")?;
        }
        Ok(())
    }
}
