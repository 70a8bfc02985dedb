//! Phases of a measurement: what each took, what it read and wrote, and how that is shown.

use std::sync::atomic::AtomicU64;

use serde::Serialize;
use shamba::{Counters, Db};
use shamba_bench::proc_io::ProcessIo;
use shamba_bench::runner::{Outcome, Summary};

use crate::failure::Failure;
use crate::show::{self, Progress};

/// One phase.
#[derive(Debug, Clone, Serialize)]
pub struct Phase {
    /// What was done.
    pub name: String,
    /// Operations, time and latency.
    pub summary: Summary,
    /// Storage reads of its lookups, by kind; reads of iterators and compactions are not among
    /// them.
    pub reads: Reads,
    /// Bytes written on its behalf.
    pub writes: Writes,
    /// What the kernel says the process read and wrote.
    pub process: ProcessIo,
}

/// Reads of lookups.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct Reads {
    pub lookups: u64,
    pub found: u64,
    pub data: u64,
    pub index: u64,
    pub filter: u64,
    pub pages: u64,
    pub false_positives: u64,
    pub cache_hits: u64,
}

/// Bytes written.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct Writes {
    /// Keys and values given.
    pub user: u64,
    pub log: u64,
    pub flush: u64,
    pub compaction: u64,
    pub slowdowns: u64,
    pub slowdown_micros: u64,
    pub stalls: u64,
    pub stall_micros: u64,
}

impl Writes {
    /// Bytes written to tables for each byte given.
    pub fn amplification(&self) -> Option<f64> {
        (self.user > 0).then(|| (self.flush + self.compaction) as f64 / self.user as f64)
    }
}

impl Reads {
    fn between(before: &Counters, after: &Counters) -> Self {
        let pages = |counters: &Counters| {
            counters.data_pages + counters.index_pages + counters.filter_pages
        };
        Reads {
            lookups: after.lookups - before.lookups,
            found: after.lookups_found - before.lookups_found,
            data: after.data_reads - before.data_reads,
            index: after.index_reads - before.index_reads,
            filter: after.filter_reads - before.filter_reads,
            pages: pages(after) - pages(before),
            false_positives: after.false_positives - before.false_positives,
            cache_hits: after.cache_hits - before.cache_hits,
        }
    }
}

impl Writes {
    /// What was written between two pictures of the counters.
    pub fn between(before: &Counters, after: &Counters) -> Self {
        Writes {
            user: after.user_bytes_written - before.user_bytes_written,
            log: after.wal_bytes - before.wal_bytes,
            flush: after.flush_bytes - before.flush_bytes,
            compaction: after.compaction_bytes_written - before.compaction_bytes_written,
            slowdowns: after.write_slowdowns - before.write_slowdowns,
            slowdown_micros: after.write_slowdown_micros - before.write_slowdown_micros,
            stalls: after.write_stalls - before.write_stalls,
            stall_micros: after.write_stall_micros - before.write_stall_micros,
        }
    }
}

/// Does one phase of about `total` operations behind a progress bar.
pub fn phase(
    db: &Db,
    quiet: bool,
    name: &str,
    total: u64,
    work: impl FnOnce(&AtomicU64) -> Result<Outcome, Failure>,
) -> Result<Phase, Failure> {
    let done = AtomicU64::new(0);
    let before = db.stats().counters;
    let process = ProcessIo::now();
    let outcome = Progress::count(quiet, name, total).watch(&done, || work(&done))?;
    let process = ProcessIo::now().since(&process);
    let after = db.stats().counters;
    Ok(Phase {
        name: name.to_owned(),
        summary: outcome.summary(),
        reads: Reads::between(&before, &after),
        writes: Writes::between(&before, &after),
        process,
    })
}

/// Rates of operations, and latencies of calls, of phases.
pub fn latencies(phases: &[&Phase]) -> String {
    let rows: Vec<Vec<String>> = phases
        .iter()
        .map(|phase| {
            let summary = &phase.summary;
            // The last call of a thread may have fewer.
            let calls = summary.calls;
            let each = (summary.operations + calls / 2).checked_div(calls);
            let each = each.unwrap_or(1);
            let name = match each {
                0 | 1 => phase.name.clone(),
                _ => format!("{}, {each} entries a write", phase.name),
            };
            let mut row = vec![
                name,
                show::number(summary.operations),
                show::seconds(summary.seconds),
                show::number(summary.per_second as u64),
            ];
            let percentiles = [
                summary.mean_us,
                summary.p50_us,
                summary.p99_us,
                summary.p999_us,
                summary.max_us,
            ];
            row.extend(percentiles.iter().map(|&time| show::measured(time)));
            row
        })
        .collect();
    let header = [
        "operation",
        "operations",
        "time",
        "per second",
        "mean µs",
        "p50 µs",
        "p99 µs",
        "p99.9 µs",
        "max µs",
    ];
    show::table(&header, &rows)
}

/// Reads per lookup by kind; nothing for phases without lookups.
pub fn reads(phases: &[&Phase]) -> Option<String> {
    let rows: Vec<Vec<String>> = phases
        .iter()
        .filter(|phase| phase.reads.lookups > 0)
        .map(|phase| {
            let reads = &phase.reads;
            let each = |amount: u64| show::measured(amount as f64 / reads.lookups as f64);
            vec![
                phase.name.clone(),
                each(reads.data),
                each(reads.index),
                each(reads.filter),
                each(reads.data + reads.index + reads.filter),
                each(reads.pages),
                each(reads.false_positives),
            ]
        })
        .collect();
    let header = [
        "storage reads per lookup",
        "data",
        "index",
        "filter",
        "all",
        "pages",
        "false positives",
    ];
    (!rows.is_empty()).then(|| show::table(&header, &rows))
}

/// Bytes written, and how that compares with what was given.
pub fn writes(writes: &Writes) -> Option<String> {
    let amplification = writes.amplification()?;
    let mut text = format!(
        "written: {} of keys and values; log {}, flushes {}, compactions {}: {:.1} bytes of tables for each byte given",
        show::bytes(writes.user),
        show::bytes(writes.log),
        show::bytes(writes.flush),
        show::bytes(writes.compaction),
        amplification
    );
    if writes.slowdowns + writes.stalls > 0 {
        text += &format!(
            "\nwrites were slowed down {} times ({}) and waited {} times ({})",
            show::number(writes.slowdowns),
            show::seconds(writes.slowdown_micros as f64 / 1e6),
            show::number(writes.stalls),
            show::seconds(writes.stall_micros as f64 / 1e6)
        );
    }
    Some(text)
}

/// A phase whose summary its caller fills in; it holds the process's counters as they are now.
pub fn empty_phase(name: &str) -> Phase {
    Phase {
        name: name.to_owned(),
        summary: Summary::default(),
        reads: Reads::default(),
        writes: Writes::default(),
        process: ProcessIo::now(),
    }
}
