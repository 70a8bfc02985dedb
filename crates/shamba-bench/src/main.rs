//! The `shamba-bench` command: experiments over the engine and its competitors.
use clap::{Args, Parser, Subcommand};
use shamba_bench::experiments::{cpu, indexes, mixes, range_filters, reopen, writes};
use shamba_bench::report::Report;
use shamba_bench::{Result, cell, compare, engine, pressure, reproduce, trace};
use std::path::PathBuf;
use std::process::ExitCode;

/// Measures the SHaMBa engine, alone and beside other engines.
///
/// Engines: shamba[:WORDS], WORDS being a preset (state-of-the-art, partitioned, shamba-eq-p, ...)
/// and what differs from it (bloom, blocked, ribbon or auto, partitioned or whole, rehash, pages,
/// paper, lru, cold, monkey or measured, tiering, lazy or full, modules=N, units=N/K, still,
/// epoch=N, first=B, blobs), joined by '+'; with --features rocksdb,fjall,redb also fjall, redb and
/// rocksdb[:(bloom|ribbon|hybrid)-(whole|partitioned)[+hyper|+unsharded][+hits][+hash][+blobs]];
/// With blobs they keep large values in files of their own.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Engines side by side, in memory and under memory pressure: throughput, reads, sizes, ratios;
    /// or (`--workloads`) their counters, transactions, range deletions and large values.
    Compare(Asked<compare::Settings>),
    /// Pages and reads per lookup under small memory budgets, in the standard setting.
    Pressure(Asked<pressure::Settings>),
    /// Instructions per lookup and scan, all resident or in a budget, and per put into a memtable;
    /// ratios to the last engine.
    Cpu(Asked<cpu::Settings>),
    /// Bytes of index for each data block, by the kind of the keys.
    Indexes(Asked<indexes::Settings>),
    /// False positives of range filters by bits per key, the engine's beside those of the
    /// literature.
    RangeFilters(Asked<range_filters::Settings>),
    /// Pages per lookup after a database was closed and opened again, beside those before.
    Reopen(Asked<reopen::Settings>),
    /// Pages per lookup while entries are overwritten, beside lookups alone before and after.
    Writes(Asked<writes::Settings>),
    /// Mixes of operations under small budgets by the clock, engines taking turns: YCSB A to F.
    Mixes(Asked<mixes::Settings>),
    /// Tables and figures of the papers, and ours, measured again: a report with a verdict on each
    /// claim.
    Reproduce(reproduce::Settings),
    /// Save a generated workload as a file of operations, to be replayed.
    Record(trace::Recording),
    /// Replay a file of operations on engines, every answer checked.
    Replay(Asked<trace::Replaying>),
    /// The engines in this build.
    Engines,
    /// Answers one measurement request on standard input.
    #[command(name = cell::COMMAND, hide = true)]
    Cell,
}

/// An experiment's settings, and where its table goes.
#[derive(Args)]
struct Asked<S: Args> {
    #[command(flatten)]
    settings: S,
    /// Also write the table here: JSON if the name ends in .json, CSV otherwise.
    #[arg(long)]
    table: Option<PathBuf>,
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

fn note(line: String) {
    eprintln!("{line}");
}

fn run(command: Command) -> Result<()> {
    match command {
        Command::Cell => cell::answer()?,
        Command::Engines => println!("{}", engine::available().join("\n")),
        Command::Record(recording) => {
            let (operations, out) = (trace::record(&recording)?, recording.out.display());
            note(format!("{operations} operations in {out}"));
        }
        Command::Reproduce(settings) if settings.list => println!("{}", reproduce::list()),
        Command::Reproduce(settings) => {
            reproduce::run(&settings, &mut note)?;
            note(format!("{}", settings.out.join("results.md").display()));
        }
        Command::Replay(asked) => asked.show(trace::run)?,
        Command::Compare(asked) => {
            asked.show(|settings, note| Ok(compare::run(settings, note)?.table()))?;
        }
        Command::Pressure(asked) => asked.show(pressure::run)?,
        Command::Cpu(asked) => asked.show(cpu::run)?,
        Command::Writes(asked) => asked.show(writes::run)?,
        Command::Mixes(asked) => asked.show(mixes::run)?,
        Command::Reopen(asked) => asked.show(reopen::run)?,
        Command::RangeFilters(asked) => asked.show(range_filters::run)?,
        Command::Indexes(asked) => asked.show(indexes::run)?,
    }
    Ok(())
}

impl<S: Args> Asked<S> {
    /// Prints the table of an experiment of these settings, and keeps it.
    fn show(
        &self,
        measured: impl FnOnce(&S, &mut dyn FnMut(String)) -> Result<Report>,
    ) -> Result<()> {
        let report = measured(&self.settings, &mut note)?;
        if let Some(path) = &self.table {
            report.save(path)?;
        }
        println!("{report}");
        Ok(())
    }
}
