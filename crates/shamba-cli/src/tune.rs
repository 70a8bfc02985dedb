//! `shamba tune`: which design suits data, device, memory and workload best, and what it gains.
//!
//! All is worked out by the crate `shamba_tune`. Here flags and files become its inputs, the
//! database is asked with the lookups of `shamba stats`, and what comes of it is printed.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use shamba::Keyspace;
use shamba_tune::database::{self, Known};
use shamba_tune::description::{self, Malformed};
use shamba_tune::serve::{Database, PageServer, Source};
use shamba_tune::{Inputs, Number, Problem, what_if};

use crate::args::Global;
use crate::failure::Failure;
use crate::import::open_input;
use crate::show;
use crate::stats::look_up;

const HELP: &str = "\
Costs are pages read by an operation in a full tree, as the model of Monkey predicts them: for a
lookup of an absent key, of an existing one, for a range lookup, and for what merging an update
costs later, writes counted as reads. Operations per second are those of one after the other on a
device with --read-latency, in no time of the processor and with no page in memory.

--memory is for the write buffer and all filters together. Without it the best design gets as much
as the present one has.

Flags come before the description, the description before the database. A database tells entries,
their size, the filter bits of its files, and its present design if that was ever changed while it
was open (redesign, auto_design); with --keys also how many lookups find their key. Operations are
counted only while it is open, and the options it is opened with are not kept: what had to be assumed
is listed.

The shares of operations sum to 1, or to 100 as percentages. Shares left out count as 0; if all are,
half of all operations are updates and half point lookups.

A --what-if is one of these inputs with another value, by its name without dashes, or with none, as in
size-ratio=, to take it away. Several change together. Shares of operations that no --what-if names keep their proportions in what is left.
Changing entries or memory leaves the present design its buffer, if that fits, and its filters what
memory is left.

A NUMBER or SHARE may have a unit: 0.25, 25%, 60_000, 100M (millions), 64MiB.

--serve opens a page with all of this on this machine: every input as a field, the tree, the curve of
lookup against update cost with the defaults of known stores on it, what-ifs beside the present, links
that keep the inputs, and what was measured in the database beside what is predicted. Only this
machine can reach it (127.0.0.1), and it loads nothing from elsewhere. It stops with Ctrl-C, by its
own button, or after --idle minutes without a request.

Examples:
  shamba tune db
  shamba tune --entries 1G --entry-size 128 --memory 2GiB \\
      --empty-lookups 30 --existing-lookups 20 --updates 50
  shamba tune db --keys sample.txt
  shamba tune db --read-latency 80 --max-lookup-cost 1.1
  shamba tune db --merge-policy leveling --allocation uniform
  shamba tune db --what-if entries=10G --what-if updates=90%
  shamba tune db --print-description > tune.toml      edit it, then
  shamba tune --description tune.toml --json | jq .best
  shamba tune --serve
  shamba tune db --keys sample.txt --serve --port 0";

/// Find the best merge policy, size ratio, buffer and filters for a workload, and what they gain
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub struct TuneArgs {
    /// The database folder [default: none, all is given]
    dir: Option<PathBuf>,
    /// Inputs from a TOML or JSON file whose keys are the flags below, and memory; - for standard
    /// input
    #[arg(long, value_name = "FILE")]
    description: Option<PathBuf>,
    /// Look these keys up in the database, one a line as `scan --keys-only` writes them, there or
    /// not, to know how many lookups are empty; - for standard input
    #[arg(long, value_name = "FILE", requires = "dir")]
    keys: Option<PathBuf>,
    /// Print all inputs as a description, and do nothing else; as JSON with --json
    #[arg(long, conflicts_with = "what_if")]
    print_description: bool,
    /// Set the best design beside that for a changed input; can be given several times
    #[arg(long, value_name = "KEY=VALUE")]
    what_if: Vec<String>,
    /// As JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    serve: ServeArgs,
    #[command(flatten)]
    inputs: Inputs,
}

/// How the page is served.
#[derive(Debug, Clone, Args)]
struct ServeArgs {
    /// Serve a page on this machine on which to explore designs
    #[arg(
        long,
        conflicts_with_all = ["json", "what_if", "print_description"],
        help_heading = "Page"
    )]
    serve: bool,
    /// The port of the page; 0 for any that is free
    #[arg(
        long,
        value_name = "PORT",
        requires = "serve",
        default_value_t = 8417,
        help_heading = "Page"
    )]
    port: u16,
    /// Minutes without a request after which serving ends
    #[arg(
        long,
        value_name = "MINUTES",
        requires = "serve",
        default_value = "60",
        value_parser = minutes,
        help_heading = "Page"
    )]
    idle: Duration,
}

fn minutes(text: &str) -> Result<Duration, String> {
    let minutes: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    if minutes > 0.0 && minutes <= 60.0 * 24.0 * 365.0 {
        Ok(Duration::from_secs_f64(minutes * 60.0))
    } else {
        Err("it must be above 0 and at most a year".to_owned())
    }
}

pub fn run(global: &Global, args: &TuneArgs) -> Result<(), Failure> {
    let mut given = args.inputs.clone();
    if global.memory.is_some() {
        given.memory = Some(Number(global.budget().limit() as f64));
    }
    if let Some(path) = &args.description {
        given = given.over(read_description(path)?);
    }
    if args.serve.serve {
        return serve(global, args, given);
    }
    let problem = Problem::new(given, ask(global, args)?)?;
    if args.print_description {
        return if args.json {
            show::print_json(&problem.inputs)
        } else {
            show::print(description::to_toml(&problem.inputs)?)
        };
    }
    let changed = match args.what_if.as_slice() {
        [] => None,
        changes => {
            let inputs = what_if::change(&problem.inputs, changes)?;
            Some((changes.to_vec(), Problem::new(inputs, None)?))
        }
    };
    let answer = shamba_tune::answer(&problem, changed)?;
    if args.json {
        show::print_json(&answer)
    } else {
        show::print(shamba_tune::text(&answer))
    }
}

fn serve(global: &Global, args: &TuneArgs, given: Inputs) -> Result<(), Failure> {
    if args
        .keys
        .as_ref()
        .is_some_and(|path| path.as_os_str() == "-")
    {
        return Err(Failure::usage(
            "--serve cannot read keys from standard input",
            "give a file: its keys are looked up again whenever the page measures",
        ));
    }
    let known = ask(global, args)?;
    let database = args.dir.as_ref().map(|dir| attached(global, args, dir));
    let server = PageServer::bind(args.serve.port, Source::new(given, database.zip(known))?)?;
    show::print(server.url())?;
    eprintln!("Ctrl-C stops it, as does its own button");
    let ended = server.run(args.serve.idle)?;
    show::note(global.quiet, format!("stopped: {ended}"));
    Ok(())
}

/// What the database knows, if one was named.
fn ask(global: &Global, args: &TuneArgs) -> Result<Option<Known>, Failure> {
    let (keyspace, keys) = (global.keyspace.as_deref(), args.keys.as_deref());
    let ask = |dir: &PathBuf| ask_dir(dir, keyspace, keys, global.quiet);
    args.dir.as_ref().map(ask).transpose()
}

fn ask_dir(
    dir: &Path,
    keyspace: Option<&str>,
    keys: Option<&Path>,
    quiet: bool,
) -> Result<Known, Failure> {
    let look_up = keys.map(|path| move |keyspace: &Keyspace| look_up(keyspace, path, quiet));
    database::ask(dir, keyspace, look_up)
}

/// The database as the page has it: asked again without progress, since nobody is at the terminal.
fn attached(global: &Global, args: &TuneArgs, dir: &Path) -> Database {
    let (dir, keys, keyspace) = (dir.to_owned(), args.keys.clone(), global.keyspace.clone());
    Database {
        path: dir.display().to_string(),
        keyspace: keyspace.clone(),
        keys: keys.as_ref().map(|path| path.display().to_string()),
        ask: Box::new(move || {
            ask_dir(&dir, keyspace.as_deref(), keys.as_deref(), true).map_err(|failure| {
                let (what, hint) = failure.words();
                shamba_tune::Error::refused(what, hint.unwrap_or_default())
            })
        }),
    }
}

fn read_description(path: &Path) -> Result<Inputs, Failure> {
    let (mut input, name, _) = open_input(path)?;
    let mut text = String::new();
    input
        .read_to_string(&mut text)
        .map_err(|source| Failure::io("read", &name, source))?;
    description::parse(&text).map_err(|Malformed { line, what }| {
        Failure::data(
            format!("{name}:{line}: {what}"),
            "`shamba tune --entries 1M --print-description` prints a complete description",
        )
    })
}
