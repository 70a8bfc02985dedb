//! The command line: commands, the options they share, and how their values are read.

use clap::{Args, Parser, Subcommand};
use shamba::{Error, MemoryBudget, parse_size};

use crate::{bench, demo, export, import, merge, point, scan, shell, stats, tune, upkeep};

const EXAMPLES: &str = "\
Examples:
  shamba demo                                  see what the engine does, in a few minutes
  shamba import db packages.tsv                a line is a key, a tab, a value
  zcat log.jsonl.gz | shamba import db - --format jsonl --key id
  shamba get db bash
  shamba scan db --prefix lib --limit 10
  shamba stats db
  shamba tune db --updates 90 --empty-lookups 10
  shamba export db --output copy.tsv

Exit codes:
  0  done
  1  the key is not there (get)
  2  the command line makes no sense
  3  the database or the system reported an error
  4  damage was found in the database's files
  5  the input data is malformed
  6  a limit that was to be kept was not (demo)

SIZE is a number of bytes with an optional unit: 65536, 64K or 64KiB, 32M, 1G are binary, as RocksDB,
Docker and systemd write them; 1 GB is 1000000000.";

/// An embedded key-value engine that lives within one memory budget.
#[derive(Debug, Parser)]
#[command(name = "shamba", version, after_help = EXAMPLES, max_term_width = 100)]
pub struct Cli {
    #[command(flatten)]
    pub global: Global,
    #[command(subcommand)]
    pub command: Command,
}

/// Options of every command.
#[derive(Debug, Args)]
pub struct Global {
    /// Memory the engine may use, at least 1M: a SIZE, or a share of the container's or machine's
    /// as `25%` [default: 25%; demo: 32M; tune: what the present design has]
    #[arg(long, global = true, value_name = "SIZE", value_parser = memory)]
    pub memory: Option<MemoryBudget>,
    /// The keyspace to work on [default: the default keyspace]
    #[arg(long, global = true, value_name = "NAME")]
    pub keyspace: Option<String>,
    /// No progress bars, notes or warnings
    #[arg(long, short, global = true)]
    pub quiet: bool,
}

impl Global {
    /// The memory budget: what was asked for, or a quarter of the container or machine.
    pub fn budget(&self) -> MemoryBudget {
        let quarter = || MemoryBudget::share_of_container(0.25);
        self.memory.clone().unwrap_or_else(quarter)
    }

    /// The memory budget: what was asked for, or so many bytes.
    pub fn budget_or(&self, bytes: u64) -> MemoryBudget {
        let default = || MemoryBudget::bytes(bytes);
        self.memory.clone().unwrap_or_else(default)
    }
}

#[derive(Debug, Subcommand)]
pub enum Command {
    Import(import::ImportArgs),
    Export(export::ExportArgs),
    Get(point::GetArgs),
    Put(point::PutArgs),
    Delete(point::DeleteArgs),
    Merge(merge::MergeArgs),
    Scan(scan::ScanArgs),
    Stats(stats::StatsArgs),
    Verify(upkeep::VerifyArgs),
    Compact(upkeep::CompactArgs),
    Checkpoint(upkeep::CheckpointArgs),
    Tune(Box<tune::TuneArgs>),
    Bench(bench::BenchArgs),
    Demo(demo::DemoArgs),
    Completions(shell::CompletionsArgs),
    Man(shell::ManArgs),
}

/// Reads a memory budget: a SIZE, or a share.
fn memory(text: &str) -> Result<MemoryBudget, String> {
    text.parse().map_err(reason)
}

/// Reads a SIZE.
pub fn size(text: &str) -> Result<u64, String> {
    parse_size(text).map_err(reason)
}

/// What is wrong with a value; which option it is of, the command line says.
fn reason(error: Error) -> String {
    match error {
        Error::InvalidOption { what, .. } => what,
        other => other.to_string(),
    }
}

/// Reads a number, with `_` between digits if you like, or `k`, `M`, `G` for thousands, millions,
/// billions.
pub fn amount(text: &str) -> Result<u64, String> {
    let plain = text.replace('_', "");
    let unit = match plain.chars().last() {
        Some('k' | 'K') => 1_000,
        Some('m' | 'M') => 1_000_000,
        Some('g' | 'G') => 1_000_000_000,
        _ => 1,
    };
    let digits = plain.strip_suffix(char::is_alphabetic).unwrap_or(&plain);
    digits
        .parse::<u64>()
        .ok()
        .filter(|_| unit > 1 || digits == plain)
        .and_then(|number| number.checked_mul(unit))
        .ok_or_else(|| format!("`{text}` is not a number; write for example 5000, 60_000 or 5M"))
}

/// As [`amount`], and not zero.
pub fn count(text: &str) -> Result<u64, String> {
    match amount(text)? {
        0 => Err("it must not be zero".to_owned()),
        count => Ok(count),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn sizes_and_shares_are_read_as_the_engine_reads_them() {
        assert_eq!(size("64K"), Ok(64 << 10));
        assert_eq!(memory("1 GB").unwrap().limit(), 1_000_000_000);
        assert!(memory("25%").is_ok());
        let refused = |text| memory(text).unwrap_err();
        assert!(refused("much").starts_with("`much` is not a size; write"));
        assert!(refused("101%").ends_with("above 0% and at most 100%"));
    }

    #[test]
    fn counts() {
        assert_eq!(count("60_000"), Ok(60_000));
        assert_eq!(count("5M"), Ok(5_000_000));
        assert_eq!(amount("0"), Ok(0));
        for nonsense in ["", "0", "-1", "k", "1.5", "7x", "99999999999G"] {
            assert!(count(nonsense).is_err(), "{nonsense}");
        }
    }
}
