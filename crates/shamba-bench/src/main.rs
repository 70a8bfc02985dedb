//! The `shamba-bench` command: experiments over the engine and its competitors.
use clap::{Args, Parser, Subcommand};
use shamba_bench::report::Report;
use shamba_bench::workload::Distribution;
use shamba_bench::{Result, cell, compare, engine, pressure};
use std::path::PathBuf;
use std::process::ExitCode;

/// Measures the SHaMBa engine, alone and beside other engines.
///
/// Engines: shamba[:(bloom|blocked)-(partitioned|whole)[+rehash]]; with --features rocksdb,fjall
/// also fjall and rocksdb[:(bloom|ribbon)-(whole|partitioned)[+hyper][+hits][+hash]].
#[derive(Parser)]
#[command(version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Engines side by side, everything in memory: throughput and ratios.
    Compare(Compare),
    /// Pages and reads per lookup under small memory budgets, in the standard setting.
    Pressure(Pressure),
    /// The engines in this build.
    Engines,
    /// Answers one measurement request on standard input.
    #[command(name = cell::COMMAND, hide = true)]
    Cell,
}

#[derive(Args)]
struct Output {
    /// Also write the result here: JSON if the name ends in .json, CSV otherwise.
    #[arg(long)]
    out: Option<PathBuf>,
    /// Print JSON instead of a table.
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
struct Compare {
    /// Engines, the one to judge first.
    #[arg(long, value_delimiter = ',', required = true)]
    engines: Vec<String>,
    /// Entries.
    #[arg(long, default_value_t = 5_000_000)]
    entries: u64,
    /// Bytes of a value (keys have 16).
    #[arg(long, default_value_t = 100)]
    value_size: usize,
    /// Lookups of each reading phase; seeks are a fifth of it.
    #[arg(long, default_value_t = 1_000_000)]
    reads: u64,
    /// Thread counts.
    #[arg(long, value_delimiter = ',', default_value = "1,2")]
    threads: Vec<usize>,
    /// Repetitions; medians are reported.
    #[arg(long, default_value_t = 3)]
    repeat: usize,
    /// Writes per second beside the reads of readwhilewriting, 0 for no limit.
    #[arg(long, default_value_t = 20_000)]
    write_rate: u64,
    /// Folder for the databases, which are removed afterwards.
    #[arg(long, default_value_os_t = std::env::temp_dir())]
    dir: PathBuf,
    /// Seed of every random choice.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    output: Output,
}

#[derive(Args)]
struct Pressure {
    /// Engines.
    #[arg(long, value_delimiter = ',', required = true)]
    engines: Vec<String>,
    /// Entries of 64 B.
    #[arg(long, default_value_t = pressure::STANDARD_ENTRIES)]
    entries: u64,
    /// Budgets in percent of RocksDB's filters and indexes.
    #[arg(long, value_delimiter = ',', default_value = "10,40,70,100")]
    budgets: Vec<f64>,
    /// Shares of lookups for existing keys.
    #[arg(long, value_delimiter = ',', default_value = "0,0.5,1")]
    positives: Vec<f64>,
    /// uniform, zipf[THETA], normal[SHARE] or latest.
    #[arg(long, default_value = "uniform")]
    distribution: Distribution,
    /// Lookups before measuring.
    #[arg(long, default_value_t = 60_000)]
    warm_up: u64,
    /// Lookups measured.
    #[arg(long, default_value_t = 30_000)]
    measured: u64,
    /// Repetitions; medians are reported.
    #[arg(long, default_value_t = 1)]
    repeat: usize,
    /// Folder where loaded databases are kept for the next run.
    #[arg(long)]
    dir: PathBuf,
    /// Seed of every random choice; databases are kept by seed.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    output: Output,
}

fn main() -> ExitCode {
    match run(Arguments::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("shamba-bench: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> Result<()> {
    let note = |line| eprintln!("{line}");
    match command {
        Command::Cell => cell::answer(),
        Command::Engines => {
            println!("{}", engine::available().join("\n"));
            Ok(())
        }
        Command::Compare(arguments) => {
            let settings = compare::Settings {
                engines: arguments.engines,
                entries: arguments.entries,
                value_size: arguments.value_size,
                reads: arguments.reads,
                threads: arguments.threads,
                repeat: arguments.repeat,
                write_rate: arguments.write_rate,
                dir: arguments.dir,
                seed: arguments.seed,
            };
            show(&compare::run(&settings, note)?, &arguments.output)
        }
        Command::Pressure(arguments) => {
            let settings = pressure::Settings {
                engines: arguments.engines,
                entries: arguments.entries,
                budgets: arguments.budgets,
                positives: arguments.positives,
                distribution: arguments.distribution,
                warm_up: arguments.warm_up,
                measured: arguments.measured,
                repeat: arguments.repeat,
                dir: arguments.dir,
                seed: arguments.seed,
            };
            show(&pressure::run(&settings, note)?, &arguments.output)
        }
    }
}

fn show(report: &Report, output: &Output) -> Result<()> {
    if let Some(path) = &output.out {
        report.save(path)?;
    }
    if output.json {
        println!("{}", report.to_json()?);
    } else {
        println!("{report}");
    }
    Ok(())
}
