//! The `shamba-bench` command: experiments over the engine and its competitors. This file is long
//! because the options of all its commands stand in one place.
use clap::{Args, Parser, Subcommand};
use shamba_bench::experiments::{cpu, keyspaces, small_budgets};
use shamba_bench::report::Report;
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
    #[command(flatten)]
    settings: compare::Settings,
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
            note(format!("{}", settings.out.join("results.md").display()));
            Ok(())
        }
        Command::Compare(arguments) => {
            let compared = compare::run(&arguments.settings, &mut note)?;
            let table = compared.table();
            if let Some(path) = &arguments.plot {
                compare::dots(&table).save(path)?;
            }
            show(&table, &arguments.output)
        }
        Command::Pressure(arguments) => {
            let (table, panels) = pressure::run(&arguments.grid, &mut note)?;
            if let Some(path) = &arguments.plot {
                plot::save(path, &panels, 3)?;
            }
            let (out, json) = (arguments.table, arguments.json);
            show(&table, &Output { out, json })
        }
        Command::Cpu(asked) => show(&cpu::run(&asked.settings, &mut note)?, &asked.output),
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
