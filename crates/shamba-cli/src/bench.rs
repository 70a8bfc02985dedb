//! `shamba bench`: one workload against a database of this engine, every answer checked.

use std::path::PathBuf;
use std::time::Instant;

use clap::{Args, ValueEnum};
use serde::Serialize;
use shamba::{Db, IterOptions, KeyspaceOptions, KeyspaceStatistics, MemoryUsage};
use shamba_bench::proc_io;
use shamba_bench::runner::{self, Amount, Data, Order};
use shamba_bench::workload::{Distribution, KeyKind, KeySpace, Mix, Operation, Sizes, ValueSpec};

use crate::args::{Global, amount, count};
use crate::engine::Padded;
use crate::failure::Failure;
use crate::measure::{self, Phase};
use crate::open::EngineArgs;
use crate::show::{self, Progress};
use crate::stats;

const EXAMPLES: &str = "\
Workloads other than fillseq and fillrandom first fill the database in random order. Keys, values and
operations follow from --seed, and every answer is checked against them.

Examples:
  shamba bench fillrandom --entries 5M
  shamba bench readmissing --entries 5M --memory 32MiB --bits-per-key 14
  shamba bench ycsb-a --threads 2 --distribution uniform --json
  shamba bench fillseq --entries 10M --dir big && shamba bench seekrandom --entries 10M --dir big --reuse";

/// Measure a workload on a database filled for it
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct BenchArgs {
    #[arg(value_enum)]
    workload: Workload,
    /// Entries of the database
    #[arg(long, value_name = "N", default_value = "1M", value_parser = count)]
    entries: u64,
    /// Operations measured, all threads together
    #[arg(long, value_name = "N", default_value = "200k", value_parser = count)]
    ops: u64,
    /// Operations before measuring
    #[arg(long, value_name = "N", default_value = "0", value_parser = amount)]
    warmup: u64,
    /// Threads
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    threads: u16,
    /// Distribution of keys: uniform, zipf, zipf1.2, normal, normal0.1 or latest
    /// [default: uniform; ycsb: the workload's own]
    #[arg(long, value_name = "NAME")]
    distribution: Option<Distribution>,
    /// Bytes of a key
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u16).range(16..=4096))]
    key_size: u16,
    /// Bytes of a value
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(0..=67_108_864))]
    value_size: u32,
    /// Share of a value's bytes, 0 to 1, that compress away
    #[arg(long, value_name = "SHARE", default_value_t = 0.0)]
    compressible: f64,
    /// Entries of a write while filling
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    batch: u32,
    /// Writes per second beside the reads of readwhilewriting; 0 for as many as possible
    #[arg(long, value_name = "N", default_value = "20k", value_parser = amount)]
    write_rate: u64,
    /// Seed of every random choice
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// The database folder, kept [default: a temporary one]
    #[arg(long)]
    dir: Option<PathBuf>,
    /// The folder was filled before, with the same entries, sizes and seed
    #[arg(long, requires = "dir")]
    reuse: bool,
    /// The result as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    engine: EngineArgs,
}

/// What is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Workload {
    /// Write all entries in key order
    Fillseq,
    /// Write all entries in random order
    Fillrandom,
    /// Write existing entries again
    Overwrite,
    /// Look existing keys up
    Readrandom,
    /// Look absent keys up
    Readmissing,
    /// Seek to existing keys and read ten entries
    Seekrandom,
    /// Read all entries in key order
    Scan,
    /// Look existing keys up beside a writer
    Readwhilewriting,
    /// Half reads, half updates
    YcsbA,
    /// 95 % reads, 5 % updates
    YcsbB,
    /// Reads
    YcsbC,
    /// 95 % reads of the latest, 5 % inserts
    YcsbD,
    /// 95 % short scans, 5 % inserts
    YcsbE,
    /// Half reads, half read-modify-writes
    YcsbF,
}

impl Workload {
    fn name(self) -> String {
        self.to_possible_value()
            .map_or_else(String::new, |value| value.get_name().to_owned())
    }

    /// The mix of operations; None for fills and the whole scan.
    fn mix(self, distribution: Option<Distribution>) -> Result<Option<Mix>, Failure> {
        let only = |operation| Mix::only(operation, Distribution::Uniform);
        let mut mix = match self {
            Workload::Fillseq | Workload::Fillrandom | Workload::Scan => return Ok(None),
            Workload::Overwrite => only(Operation::Update),
            Workload::Readrandom | Workload::Readwhilewriting => only(Operation::Read),
            Workload::Readmissing => only(Operation::ReadMissing),
            Workload::Seekrandom => Mix {
                scan: Sizes::Fixed(10),
                ..only(Operation::Scan)
            },
            Workload::YcsbA => Mix::ycsb('a')?,
            Workload::YcsbB => Mix::ycsb('b')?,
            Workload::YcsbC => Mix::ycsb('c')?,
            Workload::YcsbD => Mix::ycsb('d')?,
            Workload::YcsbE => Mix::ycsb('e')?,
            Workload::YcsbF => Mix::ycsb('f')?,
        };
        if let Some(distribution) = distribution {
            mix.distribution = distribution;
        }
        Ok(Some(mix))
    }
}

#[derive(Serialize)]
struct Report<'a> {
    workload: String,
    entries: u64,
    key_size: u16,
    value_size: u32,
    threads: u16,
    seed: u64,
    distribution: Option<String>,
    memory_limit: u64,
    phases: &'a [Phase],
    /// After the last write, until no compaction was due.
    compaction_seconds: f64,
    keyspaces: Vec<KeyspaceStatistics>,
    memory: MemoryUsage,
    process_peak_bytes: u64,
}

pub fn run(global: &Global, args: &BenchArgs) -> Result<(), Failure> {
    if !(0.0..=1.0).contains(&args.compressible) {
        return Err(Failure::usage(
            "--compressible is not between 0 and 1",
            "0 for values that do not compress",
        ));
    }
    let mix = args.workload.mix(args.distribution)?;
    let temporary = match args.dir {
        Some(_) => None,
        None => Some(temporary_folder("shamba-bench-")?),
    };
    let dir = args
        .dir
        .as_deref()
        .or(temporary.as_ref().map(tempfile::TempDir::path))
        .unwrap_or(std::path::Path::new("."));
    let mut options = args.engine.options(global.budget());
    if !args.reuse {
        options = options.keyspace(args.engine.keyspace(KeyspaceOptions::default()));
    }
    let db = match options
        .create_if_missing(!args.reuse)
        .error_if_exists(!args.reuse)
        .open(dir)
    {
        Err(shamba::Error::AlreadyExists { path }) => {
            let what = format!("{} holds a database already", path.display());
            return Err(Failure::usage(
                what,
                "choose another folder, or measure that database with --reuse",
            ));
        }
        opened => opened?,
    };
    args.engine.alter(&db, &db.default_keyspace())?;
    let (phases, compaction_seconds) = phases(global, args, mix.as_ref(), &db)?;
    let stats = db.stats();
    let report = Report {
        workload: args.workload.name(),
        entries: args.entries,
        key_size: args.key_size,
        value_size: args.value_size,
        threads: args.threads,
        seed: args.seed,
        distribution: mix.map(|mix| mix.distribution.name()),
        memory_limit: stats.memory.budget.limit,
        phases: &phases,
        compaction_seconds,
        keyspaces: stats.keyspaces,
        memory: stats.memory,
        process_peak_bytes: proc_io::peak_memory(),
    };
    db.close()?;
    if args.json {
        show::print_json(&report)
    } else {
        show::print(text(&report))
    }
}

fn phases(
    global: &Global,
    args: &BenchArgs,
    mix: Option<&Mix>,
    db: &Db,
) -> Result<(Vec<Phase>, f64), Failure> {
    let kind = if args.key_size < 32 {
        KeyKind::Plain
    } else {
        KeyKind::Spread
    };
    let keys = KeySpace::new(kind, args.entries);
    let padding = usize::from(args.key_size).saturating_sub(keys.key_len());
    let engine = Padded::new(db, padding);
    let data = Data {
        keys,
        values: ValueSpec {
            size: Sizes::Fixed(args.value_size as usize),
            compressible: args.compressible,
        },
        seed: args.seed,
        load_seed: args.seed,
    };
    let threads = usize::from(args.threads);
    let mut phases = Vec::new();
    let mut compaction_seconds = 0.0;
    let is_fill = matches!(args.workload, Workload::Fillseq | Workload::Fillrandom);
    if is_fill || !args.reuse {
        let order = if args.workload == Workload::Fillseq {
            Order::Sequential
        } else {
            Order::Random
        };
        // What is only the way to another workload is done in the quickest way.
        let (name, threads, batch) = if is_fill {
            (args.workload.name(), threads, args.batch as usize)
        } else {
            ("fill".to_owned(), 1, 100.max(args.batch as usize))
        };
        phases.push(measure::phase(
            db,
            global.quiet,
            &name,
            args.entries,
            |done| Ok(runner::fill(&engine, &data, order, threads, batch, done)?),
        )?);
        compaction_seconds = rest(db, global.quiet)?;
    }
    let amount = |operations, phase| Amount {
        operations,
        threads,
        phase,
    };
    if let Some(mix) = mix {
        if args.warmup > 0 {
            phases.push(measure::phase(
                db,
                global.quiet,
                "warm-up",
                args.warmup,
                |done| {
                    Ok(runner::run(
                        &engine,
                        &data,
                        mix,
                        amount(args.warmup, 1),
                        done,
                    )?)
                },
            )?);
        }
        let mut writer = None;
        phases.push(measure::phase(
            db,
            global.quiet,
            &args.workload.name(),
            args.ops,
            |done| {
                let amount = amount(args.ops, 2);
                if args.workload != Workload::Readwhilewriting {
                    return Ok(runner::run(&engine, &data, mix, amount, done)?);
                }
                let (reads, writes) =
                    runner::run_while_writing(&engine, &data, mix, amount, args.write_rate, done)?;
                writer = Some(writes.summary());
                Ok(reads)
            },
        )?);
        if let (Some(summary), Some(beside)) = (writer, phases.last()) {
            let writes = Phase {
                name: "its writer".to_owned(),
                summary,
                reads: Default::default(),
                ..beside.clone()
            };
            phases.push(writes);
        }
    } else if args.workload == Workload::Scan {
        phases.push(scan(global, args, db)?);
    }
    Ok((phases, compaction_seconds))
}

/// Waits for compaction; how many seconds it took.
pub fn rest(db: &Db, quiet: bool) -> Result<f64, Failure> {
    let _progress = Progress::spinner(quiet, "waiting for compaction");
    let start = Instant::now();
    db.flush()?;
    db.wait_for_compaction()?;
    Ok(start.elapsed().as_secs_f64())
}

/// A new folder for temporary files, removed at the end.
pub fn temporary_folder(prefix: &str) -> Result<tempfile::TempDir, Failure> {
    tempfile::Builder::new()
        .prefix(prefix)
        .tempdir()
        .map_err(|source| Failure::io("create", std::env::temp_dir(), source))
}

/// Reads everything in order and checks that it is everything and in order.
fn scan(global: &Global, args: &BenchArgs, db: &Db) -> Result<Phase, Failure> {
    let mut phase = measure::empty_phase("scan");
    let progress = Progress::count(global.quiet, "scan", args.entries);
    let start = Instant::now();
    let mut iter = db.cursor(IterOptions::default())?;
    iter.seek_to_first()?;
    let (mut entries, mut previous) = (0u64, Vec::new());
    while iter.valid() {
        if entries > 0 && iter.key() <= previous.as_slice() {
            return Err(shamba_bench::Error::WrongAnswer(format!(
                "entry {entries} of the scan is out of order"
            ))
            .into());
        }
        previous.clear();
        previous.extend_from_slice(iter.key());
        entries += 1;
        if entries.is_multiple_of(4096) {
            progress.set(entries);
        }
        iter.next()?;
    }
    if entries < args.entries || (!args.reuse && entries > args.entries) {
        let what = format!("the scan saw {entries} of {} entries", args.entries);
        return Err(shamba_bench::Error::WrongAnswer(what).into());
    }
    let seconds = start.elapsed().as_secs_f64();
    phase.summary.operations = entries;
    phase.summary.seconds = seconds;
    phase.summary.per_second = entries as f64 / seconds.max(1e-9);
    phase.summary.mean_us = seconds * 1e6 / entries.max(1) as f64;
    phase.process = proc_io::ProcessIo::now().since(&phase.process);
    Ok(phase)
}

fn text(report: &Report<'_>) -> String {
    let phases: Vec<&Phase> = report.phases.iter().collect();
    let mut parts = vec![
        format!(
            "{}: {} entries, keys of {} B, values of {} B, {} threads, memory {}",
            report.workload,
            show::number(report.entries),
            report.key_size,
            report.value_size,
            report.threads,
            show::bytes(report.memory_limit)
        ),
        measure::latencies(&phases),
    ];
    parts.extend(measure::reads(&phases));
    parts.extend(report.phases.iter().find_map(|phase| {
        let writes = measure::writes(&phase.writes)?;
        Some(format!("{}: {writes}", phase.name))
    }));
    if report.compaction_seconds > 0.0 {
        parts.push(format!(
            "compaction came to rest {} after the fill",
            show::seconds(report.compaction_seconds)
        ));
    }
    parts.extend(report.keyspaces.iter().map(stats::levels));
    parts.push(show::memory(&report.memory));
    parts.push(format!(
        "the process took at most {}",
        show::bytes(report.process_peak_bytes)
    ));
    parts.join("\n\n")
}
