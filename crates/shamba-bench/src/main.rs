//! The `shamba-bench` command: experiments over the engine and its competitors. This file is long
//! because the options of all its commands stand in one place.
use clap::{Args, Parser, Subcommand};
use shamba_bench::experiments::{
    cpu, hash_sharing, keyspaces, memory_scaling, model, small_budgets,
};
use shamba_bench::record::{self, Row};
use shamba_bench::report::Report;
use shamba_bench::summary::{self, Sides};
use shamba_bench::{Result, cell, compare, engine, plot, pressure, reproduce, trace};
use std::path::PathBuf;
use std::process::ExitCode;

/// Measures the SHaMBa engine, alone and beside other engines.
///
/// Engines: shamba[:WORDS], WORDS being a preset (state-of-the-art, partitioned, shamba-eq-p, ...)
/// and what differs from it (bloom, blocked, ribbon or auto, partitioned or whole, rehash, paper,
/// lru, cold, monkey or measured, tiering, lazy or full, modules=N, units=N/K, still, epoch=N,
/// first=B), joined by '+'; with --features rocksdb,fjall,redb also fjall, redb and
/// rocksdb[:(bloom|ribbon|hybrid)-(whole|partitioned)[+hyper|+unsharded][+hits][+hash]].
#[derive(Parser)]
#[command(version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Engines side by side, in memory and under memory pressure: throughput, reads, sizes, ratios.
    Compare(Compare),
    /// Pages and reads per lookup under small memory budgets, in the standard setting.
    Pressure(Pressure),
    /// Instructions per lookup and scan with everything resident; ratios to the last engine.
    Cpu(Asked<cpu::Settings>),
    /// Reads per lookup and writes per entry beside Monkey's cost model.
    Model(Model),
    /// Reads in vain at equal filter memory as data grow, with uniform filters and with Monkey's.
    MemoryScaling(MemoryScaling),
    /// Lookups that hash their key once against those that hash it for each table.
    ///
    /// By key size, number of levels, share of empty lookups and device, with the hashes counted
    /// and the model's prediction beside. The paper (DaMoN 2021) has empty lookups 10 % faster on a
    /// PCIe SSD and 40 % faster on a RAM disk, and hashing that costs the same whatever the number
    /// of levels. It hashes with MurmurHash64 (235 ns for 1 KiB); XXH3 takes a fraction of that, so
    /// there is less to gain here: the column "model, MM64" has the gain with the paper's hash.
    HashSharing(HashSharing),
    /// Many keyspaces beside one: times of puts, of creating and opening them, and of writing some
    /// at once.
    Keyspaces(Asked<keyspaces::Settings>),
    /// Imports, scans and a compaction under the least budgets beside one that limits nothing:
    /// times.
    SmallBudgets(Asked<small_budgets::Settings>),
    /// Tables and figures of the papers, and ours, measured again: a report with a verdict on each
    /// claim.
    Reproduce(reproduce::Settings),
    /// Save a generated workload as a file of operations, to be replayed.
    Record(trace::Recording),
    /// Replay a file of operations on engines, every answer checked.
    Replay(Replay),
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

/// An experiment's settings, and where its tables go.
#[derive(Args)]
struct Asked<S: Args> {
    #[command(flatten)]
    settings: S,
    #[command(flatten)]
    output: Output,
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
    /// Lookups of each reading phase; seeks are a fifth, lookups under pressure a twentieth, scans
    /// of 1000 entries a five-hundredth of it.
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
    /// Draw the throughputs into this SVG file.
    #[arg(long)]
    plot: Option<PathBuf>,
    #[command(flatten)]
    output: Output,
}

#[derive(Args)]
struct Pressure {
    #[command(flatten)]
    grid: pressure::Settings,
    #[command(flatten)]
    verdict: Verdict,
}

/// What is shown of measured cells.
#[derive(Args)]
struct Verdict {
    /// Also take these CSV files of measured cells into account (times compare within a run only).
    #[arg(long, value_delimiter = ',')]
    rows: Vec<PathBuf>,
    /// The engine to judge.
    #[arg(long, default_value = "shamba")]
    ours: String,
    /// Its competitors: those whose specification begins with this.
    #[arg(long, default_value = "rocksdb")]
    theirs: String,
    /// Write the table here: JSON if the name ends in .json, CSV otherwise.
    #[arg(long)]
    table: Option<PathBuf>,
    /// Draw pages per lookup over the budget into this SVG file.
    #[arg(long)]
    plot: Option<PathBuf>,
    /// Print JSON instead of a table.
    #[arg(long)]
    json: bool,
}

impl Verdict {
    fn show(&self, mut rows: Vec<Row>) -> Result<()> {
        for path in &self.rows {
            for row in record::read(path)? {
                if !rows.iter().any(|known| known.same_cell(&row)) {
                    rows.push(row);
                }
            }
        }
        let sides = Sides {
            ours: self.ours.clone(),
            theirs: self.theirs.clone(),
        };
        if let Some(path) = &self.plot {
            plot::save(path, &summary::panels(&rows), 3)?;
        }
        let output = Output {
            out: self.table.clone(),
            json: self.json,
        };
        show(&summary::versus(&rows, &sides), &output)
    }
}

#[derive(Args)]
struct Model {
    #[command(flatten)]
    settings: model::Settings,
    /// Draw reads per empty lookup over bits per key into this SVG file.
    #[arg(long)]
    plot: Option<PathBuf>,
    #[command(flatten)]
    output: Output,
}

#[derive(Args)]
struct MemoryScaling {
    #[command(flatten)]
    settings: memory_scaling::Settings,
    /// Write reads by bits per key here as CSV.
    #[arg(long)]
    by_bits: Option<PathBuf>,
    /// Draw reads over entries and over bits per key into this SVG file.
    #[arg(long)]
    plot: Option<PathBuf>,
    #[command(flatten)]
    output: Output,
}

#[derive(Args)]
struct HashSharing {
    #[command(flatten)]
    settings: hash_sharing::Settings,
    #[command(flatten)]
    output: Output,
    /// Draw the gains, measured and predicted, into this SVG file.
    #[arg(long)]
    plot: Option<PathBuf>,
}

#[derive(Args)]
struct Replay {
    #[command(flatten)]
    replaying: trace::Replaying,
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
    let mut note = |line: String| eprintln!("{line}");
    match command {
        Command::Cell => cell::answer(),
        Command::Engines => {
            println!("{}", engine::available().join("\n"));
            Ok(())
        }
        Command::Record(recording) => {
            let operations = trace::record(&recording)?;
            note(format!(
                "{operations} operations in {}",
                recording.out.display()
            ));
            Ok(())
        }
        Command::Replay(arguments) => show(
            &trace::run(&arguments.replaying, &mut note)?,
            &arguments.output,
        ),
        Command::Reproduce(settings) if settings.list => {
            println!("{}", reproduce::list());
            Ok(())
        }
        Command::Reproduce(settings) => {
            reproduce::run(&settings, &mut note)?;
            note(format!("{}", settings.out.join("report.html").display()));
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
            let table = compare::run(&settings, note)?.medians;
            if let Some(path) = &arguments.plot {
                compare::dots(&table).save(path)?;
            }
            show(&table, &arguments.output)
        }
        Command::Pressure(arguments) => {
            let rows = pressure::run(&arguments.grid, &mut note)?;
            arguments.verdict.show(rows)
        }
        Command::Cpu(asked) => show(&cpu::run(&asked.settings, &mut note)?, &asked.output),
        Command::Model(arguments) => {
            let (table, verdict, panels) = model::run(&arguments.settings, &mut note)?;
            if let Some(path) = &arguments.plot {
                plot::save(path, &panels, 3)?;
            }
            show(&table, &arguments.output)?;
            if !arguments.output.json {
                println!("\n{verdict}");
            }
            Ok(())
        }
        Command::MemoryScaling(arguments) => {
            let outcome = memory_scaling::run(&arguments.settings, &mut note)?;
            if let Some(path) = &arguments.by_bits {
                outcome.bits.save(path)?;
            }
            if let Some(path) = &arguments.plot {
                plot::save(path, &outcome.panels, 2)?;
            }
            show(&outcome.growth, &arguments.output)?;
            if !arguments.output.json {
                println!(
                    "\n{}\n\n{}\n\n{}",
                    outcome.bits, outcome.equals, outcome.reach
                );
            }
            Ok(())
        }
        Command::HashSharing(arguments) => {
            let (table, panels) = hash_sharing::run(&arguments.settings, &mut note)?;
            if let Some(path) = &arguments.plot {
                plot::save(path, &panels, 2)?;
            }
            show(&table, &arguments.output)
        }
        Command::Keyspaces(asked) => {
            show_all(&keyspaces::run(&asked.settings, &mut note)?, &asked.output)
        }
        Command::SmallBudgets(asked) => show_all(
            &small_budgets::run(&asked.settings, &mut note)?,
            &asked.output,
        ),
    }
}

/// Several tables; the second is written to `NAME-2.csv`, and so on.
fn show_all(reports: &[Report], output: &Output) -> Result<()> {
    for (number, report) in (1..).zip(reports) {
        let mut out = output.out.clone();
        if let (Some(path), 2..) = (&mut out, number) {
            let stem = path.file_stem().unwrap_or_default().to_string_lossy();
            let end = path.extension().unwrap_or("csv".as_ref());
            path.set_file_name(format!("{stem}-{number}.{}", end.to_string_lossy()));
        }
        let json = output.json;
        show(report, &Output { out, json })?;
    }
    Ok(())
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
