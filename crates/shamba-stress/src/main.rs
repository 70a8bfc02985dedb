//! The `stress` command: one kind of stress, or all of them in turn, for a number of cases or
//! minutes.
//!
//! Every line of results names the seeds, and a failing case the command that does it again. With
//! `--state` the counts of a run are kept in a file, and the next run goes on behind its last seed.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use serde::{Deserialize, Serialize};
use shamba_stress::damage::Damage;
use shamba_stress::kill::Kill;
use shamba_stress::memory::{HEADINGS, Memory, ROWS, Scale, Work};
use shamba_stress::power::{Dropped, Power};
use shamba_stress::threads::Threads;
use shamba_stress::{Kind, Limits, Outcome, Progress, run};

#[derive(Parser)]
#[command(
    name = "stress",
    version,
    about = "Puts the engine under stress and checks every answer"
)]
struct Cli {
    #[command(subcommand)]
    what: Option<What>,
    #[command(flatten)]
    how: How,
}

#[derive(Args)]
struct How {
    /// The first seed; without it one is drawn and printed.
    #[arg(long, global = true)]
    seed: Option<u64>,
    /// At most so many cases.
    #[arg(long, alias = "seeds", global = true)]
    cases: Option<u64>,
    /// For about so many minutes; `all` divides them among the kinds. One if neither is given.
    #[arg(long, global = true)]
    minutes: Option<f64>,
    /// Cases at a time, of those kinds whose cases use one thread. Default: the number of cores.
    #[arg(long, global = true)]
    jobs: Option<usize>,
    /// A file with the counts of all runs so far; a run goes on behind the last seed in it.
    #[arg(long, global = true)]
    state: Option<PathBuf>,
}

#[derive(Subcommand)]
enum What {
    /// Many threads, nearly all operations, random options, a memory budget that changes.
    Threads,
    /// Power failures on a simulated file system, in several lives.
    Power {
        /// Drops every sync of these: cases must fail then.
        #[arg(long)]
        drop_syncs: Option<Dropped>,
    },
    /// Kills of a process that writes, on a real folder.
    Kill,
    /// Damage of files, also with right checksums.
    Damage,
    /// Resident memory in control groups of the budget, 8 MiB and 64 KiB a thread: a table, row by
    /// row.
    ///
    /// With --minutes or --cases it does rows of the small size over and over instead.
    Memory {
        /// The engine's budget in MiB.
        #[arg(long, default_value_t = 32)]
        budget: u64,
        /// Seconds instead of minutes: an eighth of the entries and less.
        #[arg(long)]
        small: bool,
    },
    /// Every kind, one after another; the same as naming none.
    All,
    /// The process that `kill` kills.
    #[command(hide = true)]
    WriteUntilKilled { dir: PathBuf, seed: u64 },
    /// The process that `memory` measures.
    #[command(hide = true)]
    MemoryRow {
        dir: PathBuf,
        row: usize,
        budget: u64,
        seed: u64,
        scale: String,
    },
}

/// What all runs with one file of state came to.
#[derive(Default, Serialize, Deserialize)]
struct State {
    kinds: BTreeMap<String, KindState>,
}

#[derive(Default, Serialize, Deserialize)]
struct KindState {
    next_seed: u64,
    cases: u64,
    seconds: f64,
    failed_seeds: Vec<u64>,
    counts: BTreeMap<String, u64>,
}

impl State {
    fn read(path: &Path) -> std::io::Result<Self> {
        match std::fs::read(path) {
            Ok(bytes) => Ok(serde_json::from_slice(&bytes)?),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(State::default()),
            Err(error) => Err(error),
        }
    }

    /// Written whole and renamed, so that a run that is stopped leaves the old one or the new one.
    fn write(&self, path: &Path) -> std::io::Result<()> {
        let next = path.with_extension("tmp");
        std::fs::write(&next, serde_json::to_vec_pretty(self)?)?;
        std::fs::rename(next, path)
    }

    fn add(&mut self, name: &str, first: u64, outcome: &Outcome) {
        let kind = self.kinds.entry(name.to_owned()).or_default();
        let done = outcome.cases + outcome.failures.len() as u64;
        kind.next_seed = first.wrapping_add(done);
        kind.cases += outcome.cases;
        kind.seconds += outcome.took.as_secs_f64();
        let failed = outcome.failures.iter().map(|failure| failure.seed);
        kind.failed_seeds.extend(failed);
        for (name, count) in &outcome.counts {
            *kind.counts.entry((*name).to_owned()).or_default() += count;
        }
    }
}

/// How long a part of a run lasts before its counts are kept.
const PART: Duration = Duration::from_secs(60);

fn main() -> ExitCode {
    let cli = Cli::parse();
    match stress(&cli) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}

/// Whether every case went well.
fn stress(cli: &Cli) -> std::io::Result<bool> {
    let power = |dropped| -> Box<dyn Kind> { Box::new(Power { dropped }) };
    let kill = || -> std::io::Result<Box<dyn Kind>> {
        let stress = std::env::current_exe()?;
        Ok(Box::new(Kill { stress }))
    };
    let memory = |budget, scale| -> std::io::Result<Memory> {
        let stress = std::env::current_exe()?;
        Ok(Memory {
            stress,
            budget,
            scale,
        })
    };
    let kinds: Vec<Box<dyn Kind>> = match cli.what.as_ref().unwrap_or(&What::All) {
        What::Power { drop_syncs } => vec![power(*drop_syncs)],
        What::Kill => vec![kill()?],
        What::Threads => vec![Box::new(Threads)],
        What::Damage => vec![Box::new(Damage)],
        What::Memory { budget, small } => {
            let scale = if *small { Scale::Small } else { Scale::Full };
            let memory = memory(budget << 20, scale)?;
            if cli.how.minutes.is_none() && cli.how.cases.is_none() {
                return memory_table(&memory, cli.how.seed.unwrap_or(1));
            }
            vec![Box::new(memory)]
        }
        What::All => vec![
            Box::new(Threads),
            kill()?,
            power(None),
            Box::new(Damage),
            Box::new(memory(8 << 20, Scale::Small)?),
        ],
        What::WriteUntilKilled { dir, seed } => {
            Kill::write_for_ever(dir, *seed).map_err(std::io::Error::other)?;
            return Ok(true);
        }
        What::MemoryRow {
            dir,
            row,
            budget,
            seed,
            scale,
        } => {
            let work = Work {
                dir,
                budget: *budget,
                seed: *seed,
                scale: match &**scale {
                    "full" => Scale::Full,
                    _ => Scale::Small,
                },
            };
            Memory::be_measured(*row, &work).map_err(std::io::Error::other)?;
            return Ok(true);
        }
    };
    let how = &cli.how;
    let seed = how.seed.unwrap_or_else(|| {
        let now = std::time::UNIX_EPOCH.elapsed().unwrap_or_default();
        // Short enough to be typed, and far from the seeds of other runs.
        now.as_secs() % 1_000_000 * 1_000_000
    });
    let minutes = how.minutes.or(how.cases.is_none().then_some(1.0));
    let time = minutes.map(|minutes| Duration::from_secs_f64(minutes * 60.0 / kinds.len() as f64));
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let limits = Limits {
        seed,
        cases: how.cases,
        time,
        jobs: how.jobs.unwrap_or(cores),
    };
    let mut sound = true;
    for kind in kinds {
        sound &= stress_kind(&*kind, limits, how.state.as_deref())?;
    }
    Ok(sound)
}

/// Every row once, as a table in Markdown.
fn memory_table(memory: &Memory, seed: u64) -> std::io::Result<bool> {
    let mut table = comfy_table::Table::new();
    table.load_style(comfy_table::presets::ASCII_MARKDOWN);
    table.set_header(HEADINGS);
    let mut sound = true;
    for (number, row) in ROWS.iter().enumerate() {
        let measured = memory.measure(number, seed)?;
        sound &= measured.complaint().is_none();
        let name = [row.name.to_owned()];
        let cells: Vec<String> = name.into_iter().chain(measured.cells()).collect();
        eprintln!("{}", cells.join(", "));
        table.add_row(cells);
    }
    println!("{table}");
    Ok(sound)
}

/// One kind, in parts, so that what it came to is kept on the way.
fn stress_kind(kind: &dyn Kind, limits: Limits, file: Option<&Path>) -> std::io::Result<bool> {
    let name = kind.name();
    let mut first = limits.seed;
    if let Some(known) = file.map(State::read).transpose()?.and_then(|state| {
        let known = state.kinds.get(name)?;
        Some(known.next_seed)
    }) {
        first = known;
    }
    println!("{name}: from seed {first}");
    let start = std::time::Instant::now();
    let progress = Progress::of(name, &limits);
    let mut all = Outcome::default();
    loop {
        let left = limits.time.map(|time| time.saturating_sub(start.elapsed()));
        let part = Limits {
            seed: first,
            cases: limits.cases.map(|cases| cases - all.cases),
            time: Some(left.map_or(PART, |left| left.min(PART))),
            ..limits
        };
        let outcome = run(kind, part, &progress);
        if let Some(file) = file {
            let mut state = State::read(file)?;
            state.add(name, first, &outcome);
            state.write(file)?;
        }
        first = first.wrapping_add(outcome.cases);
        all.add(outcome);
        let over = left.is_some_and(|left| left <= PART)
            || limits.cases.is_some_and(|cases| all.cases >= cases);
        if over || !all.failures.is_empty() {
            break;
        }
    }
    drop(progress);
    let seconds = all.took.as_secs_f64();
    println!(
        "{name}: {} cases in {seconds:.0} s, {:.1} a second, {} failed; {:?}",
        all.cases,
        all.cases as f64 / seconds,
        all.failures.len(),
        all.counts
    );
    for failure in &all.failures {
        println!("FAILED {name} seed {}: {}", failure.seed, failure.what);
        println!("the failing case again: {}", kind.again(failure.seed));
    }
    Ok(all.failures.is_empty())
}
