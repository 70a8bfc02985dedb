//! The `shamba` command: a database folder's import, export, queries, upkeep and measurements.
//!
//! Each command is one module with its arguments and its `run`; [`open`] opens databases,
//! [`mod@format`] reads and writes the import and export formats, [`show`] prints tables and
//! progress, [`failure`] turns every error into a message, a hint and an exit code. Results go to
//! standard output, everything else to standard error.
#![deny(unsafe_code)]

mod allocator;
mod args;
mod bench;
mod demo;
mod engine;
mod entries;
mod export;
mod failure;
mod format;
mod import;
mod measure;
mod merge;
mod open;
mod point;
mod scan;
mod shell;
mod show;
mod stats;
mod text;
mod tune;
mod upkeep;

use clap::Parser;
use std::process::ExitCode;

use args::{Cli, Command};
use failure::Failure;

fn main() -> ExitCode {
    allocator::share_one_heap();
    let cli = Cli::parse();
    show::start_logging(cli.global.quiet);
    match run(&cli) {
        Ok(()) => {
            show::tell_warnings(None);
            ExitCode::SUCCESS
        }
        Err(failure) => {
            show::tell_warnings(Some(&failure.words().0));
            failure.report()
        }
    }
}

fn run(cli: &Cli) -> Result<(), Failure> {
    let global = &cli.global;
    match &cli.command {
        Command::Import(args) => import::run(global, args),
        Command::Export(args) => export::run(global, args),
        Command::Get(args) => point::get(global, args),
        Command::Put(args) => point::put(global, args),
        Command::Delete(args) => point::delete(global, args),
        Command::Merge(args) => merge::run(global, args),
        Command::Scan(args) => scan::run(global, args),
        Command::Stats(args) => stats::run(global, args),
        Command::Verify(args) => upkeep::verify(global, args),
        Command::Compact(args) => upkeep::compact(global, args),
        Command::Checkpoint(args) => upkeep::checkpoint(global, args),
        Command::Tune(args) => tune::run(global, args),
        Command::Bench(args) => bench::run(global, args),
        Command::Demo(args) => demo::run(global, args),
        Command::Completions(args) => shell::completions(args),
        Command::Man(args) => shell::man(args),
    }
}
