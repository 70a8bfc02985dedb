//! `shamba demo`: a database many times its memory, filled and read under one small budget.
//!
//! Nothing here may hold memory that grows with the data: what is measured is this process.

use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;
use shamba::{Db, KeyspaceOptions, KeyspaceStatistics, MemoryUsage};
use shamba_bench::engine::Shamba;
use shamba_bench::proc_io;
use shamba_bench::runner::{self, Amount, Data, Order};
use shamba_bench::workload::{Distribution, KeyKind, KeySpace, Mix, ValueSpec};

use crate::args::{Global, count, size};
use crate::bench::{rest, temporary_folder};
use crate::failure::Failure;
use crate::measure::{self, Phase, Writes};
use crate::open::EngineArgs;
use crate::show;
use crate::stats;

const EXAMPLES: &str = "\
The folder needs about three times the size of the data while it is filled.

Examples:
  shamba demo
  shamba demo --size 64MiB                     a quick look
  shamba demo --size 8GiB --memory 64MiB --dir /mnt/data/demo
  shamba demo --bits-per-key 14 --json";

/// Fill a database far larger than its memory, look keys up, and show what that took
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct DemoArgs {
    /// Keys and values to write: entries of 64 bytes
    #[arg(long, value_name = "SIZE", default_value = "1GiB", value_parser = size)]
    size: u64,
    /// Lookups of existing keys, and of absent ones
    #[arg(long, value_name = "N", default_value = "100k", value_parser = count)]
    lookups: u64,
    /// The database folder, kept [default: a temporary one]
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Seed of every random choice
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// The result as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    engine: EngineArgs,
}

/// The budget when none is asked for.
const MEMORY: u64 = 32 << 20;

/// What the process may take beside the budget: its code, stacks, and the allocator's slack.
const ALLOWANCE: u64 = 32 << 20;

/// Bytes of a key and of a value.
const KEY: u64 = 32;
const VALUE: usize = 32;

/// Entries of one write.
const BATCH: usize = 100;

#[derive(Serialize)]
struct Report {
    entries: u64,
    bytes: u64,
    memory_limit: u64,
    fill: Phase,
    /// From the last write until no compaction was due.
    compaction_seconds: f64,
    /// Of the fill and its compactions.
    writes: Writes,
    write_amplification: Option<f64>,
    existing: Phase,
    absent: Phase,
    keyspaces: Vec<KeyspaceStatistics>,
    memory: MemoryUsage,
    process_peak_bytes: u64,
    process_allowed_bytes: u64,
}

pub fn run(global: &Global, args: &DemoArgs) -> Result<(), Failure> {
    let temporary = match args.dir {
        Some(_) => None,
        None => Some(temporary_folder("shamba-demo-")?),
    };
    let dir = args
        .dir
        .as_deref()
        .or(temporary.as_ref().map(tempfile::TempDir::path))
        .unwrap_or(Path::new("."));
    let base = KeyspaceOptions::new()
        .write_buffer(4 << 20)
        .target_file(8 << 20);
    let options = args
        .engine
        .options(global.budget_or(MEMORY))
        .keyspace(args.engine.keyspace(base))
        .error_if_exists(true);
    let db = options.open(dir)?;
    let limit = db.stats().memory.budget.limit;
    let entries = (args.size / (KEY + VALUE as u64)).max(1);
    if !args.json {
        show::print(format_args!(
            "{} entries of {} B (keys {KEY} B, values {VALUE} B), {}, in random order\nmemory budget {}, folder {}\n",
            show::number(entries),
            KEY + VALUE as u64,
            show::bytes(entries * (KEY + VALUE as u64)),
            show::bytes(limit),
            dir.display()
        ))?;
    }
    let report = measure(global, args, &db, entries)?;
    db.close()?;
    if args.json {
        show::print_json(&report)?
    } else {
        show::print(text(&report))?
    }
    if report.process_peak_bytes <= report.process_allowed_bytes {
        Ok(())
    } else {
        Err(Failure::Limit(format!(
            "the process took {}, more than the {} of budget and allowance",
            show::bytes(report.process_peak_bytes),
            show::bytes(report.process_allowed_bytes)
        )))
    }
}

fn measure(global: &Global, args: &DemoArgs, db: &Db, entries: u64) -> Result<Report, Failure> {
    let engine = Shamba::from(db.clone());
    let data = Data {
        keys: KeySpace::new(KeyKind::Spread, entries),
        values: ValueSpec::random(VALUE),
        seed: args.seed,
        load_seed: args.seed,
    };
    let start = db.stats().counters;
    let fill = measure::phase(db, global.quiet, "fill", entries, |done| {
        Ok(runner::fill(&engine, &data, Order::Random, 1, BATCH, done)?)
    })?;
    let compaction_seconds = rest(db, global.quiet)?;
    let writes = Writes::between(&start, &db.stats().counters);
    let lookups = |name: &str, existing: f64, operations: u64, phase: u64| {
        let mix = Mix::lookups(existing, Distribution::Uniform);
        let amount = Amount {
            operations,
            threads: 1,
            phase,
        };
        measure::phase(db, global.quiet, name, operations, |done| {
            Ok(runner::run(&engine, &data, &mix, amount, done)?)
        })
    };
    lookups("warm-up", 0.5, (args.lookups / 2).max(1), 1)?;
    let existing = lookups("look up existing keys", 1.0, args.lookups, 2)?;
    let absent = lookups("look up absent keys", 0.0, args.lookups, 3)?;
    let stats = db.stats();
    let report = Report {
        entries,
        bytes: entries * (KEY + VALUE as u64),
        memory_limit: stats.memory.budget.limit,
        fill,
        compaction_seconds,
        write_amplification: writes.amplification(),
        writes,
        existing,
        absent,
        keyspaces: stats.keyspaces,
        process_allowed_bytes: stats.memory.budget.limit + ALLOWANCE,
        memory: stats.memory,
        process_peak_bytes: proc_io::peak_memory(),
    };
    Ok(report)
}

fn text(report: &Report) -> String {
    let phases = [&report.fill, &report.existing, &report.absent];
    let mut parts = vec![
        measure::latencies(&phases),
        format!(
            "fill {}, compaction to rest {} more; all {} answers were right",
            show::seconds(report.fill.summary.seconds),
            show::seconds(report.compaction_seconds),
            show::number(report.existing.summary.operations + report.absent.summary.operations)
        ),
    ];
    parts.extend(measure::reads(&phases));
    parts.extend(measure::writes(&report.writes));
    parts.extend(report.keyspaces.iter().map(stats::levels));
    parts.push(show::memory(&report.memory));
    let (peak, allowed) = (report.process_peak_bytes, report.process_allowed_bytes);
    parts.push(match peak {
        0 => "the process's real memory is only measured on Linux".to_owned(),
        _ => format!(
            "real memory of the process, at most: {} of {} (budget + {})\n{} {}",
            show::bytes(peak),
            show::bytes(allowed),
            show::bytes(ALLOWANCE),
            show::bar(peak as f64 / allowed as f64, 60),
            if peak <= allowed { "kept" } else { "EXCEEDED" }
        ),
    });
    parts.join("\n\n")
}
