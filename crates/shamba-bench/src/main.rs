//! The `shamba-bench` command: experiments over the engine and its competitors. This file is long
//! because the options of all its commands stand in one place.
use clap::{Args, Parser, Subcommand};
use shamba_bench::experiments::{
    cpu, hash_sharing, keyspaces, memory_scaling, model, self_design, small_budgets,
};
use shamba_bench::report::Report;
use shamba_bench::{Result, cell, compare, engine, plot, pressure, reproduce, trace};
use std::path::{Path, PathBuf};
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
    Cpu(Cpu),
    /// Reads per lookup and writes per entry beside Monkey's cost model.
    Model(Model),
    /// Reads in vain at equal filter memory as data grow, with uniform filters and with Monkey's.
    MemoryScaling(MemoryScaling),
    /// The engine that chooses its design beside its default one, over mixes of lookups and
    /// updates.
    SelfDesign(SelfDesignArguments),
    /// A workload that turns from writing to reading: automatic design beside fixed ones.
    Turn(TurnArguments),
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
    Keyspaces(Keyspaces),
    /// Imports, scans and a compaction under the least budgets beside one that limits nothing:
    /// times.
    SmallBudgets(SmallBudgets),
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
struct Cpu {
    #[command(flatten)]
    settings: cpu::Settings,
    #[command(flatten)]
    output: Output,
    /// Draw the table into this SVG file.
    #[arg(long)]
    plot: Option<PathBuf>,
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
struct Keyspaces {
    #[command(flatten)]
    settings: keyspaces::Settings,
    /// Write the table of those written at once here: JSON if the name ends in .json, CSV
    /// otherwise.
    #[arg(long)]
    at_once_out: Option<PathBuf>,
    #[command(flatten)]
    output: Output,
}

#[derive(Args)]
struct SmallBudgets {
    #[command(flatten)]
    settings: small_budgets::Settings,
    /// Write the table of scans and compactions here: JSON if the name ends in .json, CSV
    /// otherwise.
    #[arg(long)]
    scans_out: Option<PathBuf>,
    #[command(flatten)]
    output: Output,
}

#[derive(Args)]
struct Replay {
    #[command(flatten)]
    replaying: trace::Replaying,
    #[command(flatten)]
    output: Output,
}

#[derive(Args)]
struct SelfDesignArguments {
    #[command(flatten)]
    mixes: self_design::Mixes,
    #[command(flatten)]
    output: Output,
    /// Draw the pages per operation into this SVG file.
    #[arg(long)]
    plot: Option<PathBuf>,
}

#[derive(Args)]
struct TurnArguments {
    #[command(flatten)]
    turn: self_design::Turn,
    #[command(flatten)]
    output: Output,
    /// Draw the pages so far into this SVG file.
    #[arg(long)]
    plot: Option<PathBuf>,
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
        Command::Cpu(arguments) => {
            let table = cpu::run(&arguments.settings, &mut note)?;
            let axes = ["", "engine", "positive", "instructions"];
            draw(&table, axes, arguments.plot.as_deref())?;
            show(&table, &arguments.output)
        }
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
        Command::SelfDesign(arguments) => {
            let table = self_design::mixes(&arguments.mixes, &mut note)?;
            let axes = ["lookups are", "engine", "lookups %", "pages/op"];
            draw(&table, axes, arguments.plot.as_deref())?;
            show(&table, &arguments.output)
        }
        Command::Turn(arguments) => {
            let (horizon, table, panel) = self_design::turn(&arguments.turn, &mut note)?;
            if !arguments.output.json {
                println!("{horizon}\n");
            }
            if let Some(path) = &arguments.plot {
                plot::save(path, &[panel], 1)?;
            }
            show(&table, &arguments.output)
        }
        Command::HashSharing(arguments) => {
            let (table, panels) = hash_sharing::run(&arguments.settings, &mut note)?;
            if let Some(path) = &arguments.plot {
                plot::save(path, &panels, 2)?;
            }
            show(&table, &arguments.output)
        }
        Command::Keyspaces(arguments) => {
            let (many, at_once) = keyspaces::run(&arguments.settings, &mut note)?;
            show(&many, &arguments.output)?;
            show_more(&at_once, arguments.at_once_out, arguments.output.json)
        }
        Command::SmallBudgets(arguments) => {
            let (imports, others) = small_budgets::run(&arguments.settings, &mut note)?;
            show(&imports, &arguments.output)?;
            show_more(&others, arguments.scans_out, arguments.output.json)
        }
    }
}

fn draw(table: &Report, axes: [&str; 4], path: Option<&Path>) -> Result<()> {
    let [panel, line, x, y] = axes;
    match path {
        Some(path) => plot::save(path, &plot::of_report(table, panel, line, x, y), 3),
        None => Ok(()),
    }
}

/// A second table of an experiment, in the same form.
fn show_more(report: &Report, out: Option<PathBuf>, json: bool) -> Result<()> {
    if !json {
        println!();
    }
    show(report, &Output { out, json })
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
