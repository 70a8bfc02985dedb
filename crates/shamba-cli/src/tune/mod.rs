//! `shamba tune`: which design suits data, device, memory and workload best, and what it gains.
//!
//! Three layers say what is given, an upper one where it speaks before those below: flags, a
//! description file, the database. [`merged`] lays them over each other, [`problem`] adds what is
//! assumed and checks it all, [`answer`] asks the model (`shamba_model`), [`text`] shows the answer
//! to a person, and [`serve`] does it all again and again for a page.

mod answer;
mod database;
mod inputs;
mod merged;
mod problem;
mod serve;
mod text;
mod value;

use std::io::Read;
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Map, Value};

use crate::args::Global;
use crate::failure::Failure;
use crate::import::open_input;
use crate::show;
use database::Known;
use inputs::Inputs;
use problem::Problem;
use value::Number;

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
    serve: serve::ServeArgs,
    #[command(flatten)]
    inputs: Inputs,
}

pub fn run(global: &Global, args: &TuneArgs) -> Result<(), Failure> {
    let mut given = args.inputs.clone();
    if global.memory.is_some() {
        given.memory = Some(Number(global.budget().limit() as f64));
    }
    if let Some(path) = &args.description {
        given = given.over(read_description(path)?);
    }
    if args.serve.asked() {
        let source = serve::Source::new(global, given, args.dir.as_deref(), args.keys.as_deref())?;
        return serve::run(global, &args.serve, source);
    }
    let known: Option<Known> = match &args.dir {
        Some(dir) => Some(database::ask(global, dir, args.keys.as_deref())?),
        None => None,
    };
    let problem = Problem::new(given, known)?;
    if args.print_description {
        return match args.json {
            true => show::print_json(&problem.inputs),
            false => show::print(text::description(&problem.inputs)?),
        };
    }
    let changed = match args.what_if.as_slice() {
        [] => None,
        changes => {
            let inputs = change(&problem.inputs, changes)?;
            Some((changes.to_vec(), Problem::new(inputs, None)?))
        }
    };
    let answer = answer::answer(&problem, changed)?;
    match args.json {
        true => show::print_json(&answer),
        false => show::print(text::text(&answer)),
    }
}

/// Reads a description: JSON if it begins with a brace, which no TOML does.
fn read_description(path: &Path) -> Result<Inputs, Failure> {
    let (mut input, name, _) = open_input(path)?;
    let mut text = String::new();
    input
        .read_to_string(&mut text)
        .map_err(|source| Failure::io("read", &name, source))?;
    let malformed = |line: usize, what: &str| {
        Failure::data(
            format!("{name}:{line}: {what}"),
            "`shamba tune --entries 1M --print-description` prints a complete description",
        )
    };
    if text.trim_start().starts_with('{') {
        return serde_json::from_str(&text).map_err(|e| malformed(e.line(), &e.to_string()));
    }
    toml::from_str(&text).map_err(|e| {
        let start = e.span().map_or(0, |span| span.start);
        let before = text.get(..start).unwrap_or_default();
        malformed(before.matches('\n').count() + 1, e.message())
    })
}

/// Complete inputs with some of them changed.
fn change(inputs: &Inputs, changes: &[String]) -> Result<Inputs, Failure> {
    let hint = "write for example --what-if entries=10G; the keys are the names of the flags";
    let mut map = Map::new();
    for change in changes {
        let Some((key, value)) = change.split_once('=') else {
            return Err(Failure::usage(format!("`{change}` has no `=`"), hint));
        };
        let key = key.trim().trim_start_matches("--").to_owned();
        let value = match value.trim() {
            "" => Value::Null,
            value => Value::from(value),
        };
        if map.insert(key.clone(), value).is_some() {
            return Err(Failure::usage(format!("`{key}` is changed twice"), hint));
        }
    }
    let nothing = |(key, value): (&String, &Value)| value.is_null().then(|| key.clone());
    let taken: Vec<String> = map.iter().filter_map(nothing).collect();
    let wrong = |error| Failure::usage(format!("--what-if: {error}"), hint);
    let mut named: Inputs = serde_json::from_value(Value::Object(map)).map_err(wrong)?;
    make_room(&mut named, inputs)?;
    let mut base = serde_json::to_value(inputs).map_err(wrong)?;
    if let Value::Object(base) = &mut base {
        base.retain(|key, _| !taken.contains(key));
    }
    let mut base: Inputs = serde_json::from_value(base).map_err(wrong)?;
    // What fills the memory there is fills other memory differently.
    if named.entries.is_some() || named.memory.is_some() || named.present_write_buffer.is_some() {
        base.present_bits_per_key = None;
    }
    if named.memory < base.present_write_buffer && named.memory.is_some() {
        base.present_write_buffer = None;
    }
    Ok(named.over(base))
}

/// Scales the shares that were not named so that all sum to 1 again.
fn make_room(named: &mut Inputs, inputs: &Inputs) -> Result<(), Failure> {
    let shares = named.shares();
    let taken: f64 = shares
        .iter()
        .filter_map(|(_, share)| *share)
        .map(|share| share.0)
        .sum();
    if shares.iter().all(|(_, share)| share.is_none()) {
        return Ok(());
    }
    let unit = if taken > 1.0 { 100.0 } else { 1.0 };
    let others = inputs.shares().into_iter().zip(shares);
    let others = others.filter(|(_, (_, share))| share.is_none());
    let others: f64 = others
        .filter_map(|((_, share), _)| share)
        .map(|share| share.0)
        .sum();
    let left = 1.0 - taken / unit;
    if left < 0.0 || (left > 1e-6 && others == 0.0) {
        return Err(Failure::usage(
            format!("the shares of operations that --what-if names sum to {taken}"),
            "name others too, so that all sum to 1, or to 100 if they are percentages",
        ));
    }
    let scale = if others > 0.0 { left / others } else { 0.0 };
    let mut all = inputs.shares().map(|(_, share)| share);
    for (share, (_, own)) in all.iter_mut().zip(shares) {
        *share = match own {
            Some(own) => Some(Number(own.0 / unit)),
            None => share.map(|share| Number(share.0 * scale)),
        };
    }
    named.set_shares(all);
    Ok(())
}
