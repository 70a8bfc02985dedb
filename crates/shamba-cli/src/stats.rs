//! `shamba stats`: what is on storage and in memory, and what was read and written.

use std::path::PathBuf;

use clap::Args;
use shamba::{Counters, KeyspaceStatistics, Statistics};

use crate::args::Global;
use crate::failure::Failure;
use crate::open::{Access, EngineArgs, open};
use crate::show;

/// Show levels, runs, files, sizes, filter bits, memory by role, reads by kind
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  shamba stats db\n  shamba stats db --json | jq .memory")]
pub struct StatsArgs {
    /// The database folder
    dir: PathBuf,
    /// As JSON
    #[arg(long)]
    json: bool,
}

pub fn run(global: &Global, args: &StatsArgs) -> Result<(), Failure> {
    let opened = open(global, &args.dir, Access::Read, &EngineArgs::default())?;
    let mut stats = opened.db.stats();
    if let Some(name) = &global.keyspace {
        stats.keyspaces.retain(|keyspace| keyspace.name == *name);
    }
    match args.json {
        true => show::print_json(&stats)?,
        false => show::print(text(&stats))?,
    }
    opened.close()
}

fn text(stats: &Statistics) -> String {
    let mut parts: Vec<String> = stats.keyspaces.iter().map(levels).collect();
    parts.push(show::memory(&stats.memory));
    parts.push(format!(
        "tables open: {}, snapshots and iterators held: {}",
        stats.open_tables, stats.snapshots
    ));
    parts.push(reads(&stats.counters));
    for (what, reason) in [
        ("writes", &stats.writes_stopped),
        ("compactions", &stats.compactions_stopped),
    ] {
        if let Some(reason) = reason {
            parts.push(format!("{what} are stopped: {reason}"));
        }
    }
    parts.join("\n\n")
}

/// The levels of a keyspace.
pub fn levels(keyspace: &KeyspaceStatistics) -> String {
    let header = [
        "level",
        "runs",
        "files",
        "size",
        "entries",
        "tombstones",
        "filters",
        "indexes",
        "bits/key",
        "lookups",
        "of these found",
    ];
    let rows: Vec<Vec<String>> = keyspace
        .levels
        .iter()
        .filter(|level| level.files > 0)
        .map(|level| {
            vec![
                level.level.to_string(),
                show::number(level.runs as u64),
                show::number(level.files as u64),
                show::bytes(level.bytes),
                show::number(level.entries),
                show::number(level.tombstones),
                show::bytes(level.filter_bytes),
                show::bytes(level.index_bytes),
                format!("{:.1}", level.bits_per_key),
                show::number(level.probes),
                show::number(level.positives),
            ]
        })
        .collect();
    let waiting = match keyspace.frozen_memtables {
        0 => String::new(),
        frozen => format!(", {frozen} memtables waiting to be flushed"),
    };
    let mut text = format!(
        "keyspace `{}`: {} entries in memory ({}){waiting}",
        keyspace.name,
        show::number(keyspace.memtable_entries),
        show::bytes(keyspace.memtable_bytes)
    );
    match rows.is_empty() {
        true => text += ", no tables",
        false => text += &format!("\n{}", show::table(&header, &rows)),
    }
    text
}

fn reads(counters: &Counters) -> String {
    let each = |reads: u64| match counters.lookups {
        0 => "-".to_owned(),
        lookups => show::measured(reads as f64 / lookups as f64),
    };
    let row = |name: &str, reads: u64, pages: u64| {
        vec![
            name.to_owned(),
            show::number(reads),
            show::number(pages),
            each(reads),
        ]
    };
    let rows = [
        row("data", counters.data_reads, counters.data_pages),
        row("index", counters.index_reads, counters.index_pages),
        row("filter", counters.filter_reads, counters.filter_pages),
    ];
    format!(
        "{}\nsince the database was opened: {} lookups ({} found), {} blocks found in memory, {} tables ruled out by filters, {} false positives",
        show::table(&["storage reads", "reads", "pages", "reads/lookup"], &rows),
        show::number(counters.lookups),
        show::number(counters.lookups_found),
        show::number(counters.cache_hits),
        show::number(counters.filter_negatives),
        show::number(counters.false_positives),
    )
}
