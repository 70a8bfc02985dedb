//! `shamba scan`: entries in key order within bounds, and the bounds themselves.

use std::ffi::OsString;
use std::io::{self, BufWriter, Write};
use std::ops::Bound;
use std::path::PathBuf;

use clap::Args;
use shamba::IterOptions;

use crate::args::{Global, count};
use crate::failure::Failure;
use crate::format::{self, Format, Style};
use crate::open::{Access, EngineArgs, open};
use crate::{show, text};

const EXAMPLES: &str = "\
An entry is a line: key, tab, value, with \\t \\n \\r \\\\ in place of those bytes and \\xNN of those that
a terminal should not get. `shamba import` reads it back.

Examples:
  shamba scan db --count
  shamba scan db --limit 10
  shamba scan db --prefix lib --keys-only
  shamba scan db --from m --to n --reverse --json";

/// Show entries in key order
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct ScanArgs {
    /// The database folder
    dir: PathBuf,
    #[command(flatten)]
    bounds: Bounds,
    /// Stop after this many entries
    #[arg(long, value_name = "N", value_parser = count)]
    limit: Option<u64>,
    /// From the last key to the first
    #[arg(long)]
    reverse: bool,
    /// Leave the values out
    #[arg(long)]
    keys_only: bool,
    /// Print how many entries there are, and none of them
    #[arg(long, conflicts_with_all = ["reverse", "keys_only", "json"])]
    count: bool,
    /// A JSON object a line: {"key":"…","value":"…"}, base64 where it is not UTF-8
    #[arg(long)]
    json: bool,
}

/// A range of keys.
#[derive(Debug, Args)]
pub struct Bounds {
    /// Only keys from this one on
    #[arg(long, value_name = "KEY", conflicts_with = "prefix")]
    from: Option<OsString>,
    /// Only keys before this one
    #[arg(long, value_name = "KEY", conflicts_with = "prefix")]
    to: Option<OsString>,
    /// Only keys with this prefix
    #[arg(long, value_name = "KEY")]
    prefix: Option<OsString>,
    /// Keys on the command line are written with escapes: \t \n \r \\ \xNN
    #[arg(long)]
    escaped: bool,
}

impl Bounds {
    /// The range as the engine takes it.
    pub fn resolve(&self) -> Result<IterOptions, Failure> {
        let key = |argument: &Option<OsString>| {
            argument
                .as_ref()
                .map(|argument| text::argument(argument, self.escaped))
                .transpose()
        };
        if let Some(prefix) = key(&self.prefix)? {
            return Ok(IterOptions::prefix(prefix));
        }
        let (from, to) = (key(&self.from)?, key(&self.to)?);
        if let (Some(from), Some(to)) = (&from, &to)
            && from > to
        {
            return Err(Failure::usage(
                "--from lies after --to",
                "exchange them; --reverse changes the order, not the bounds",
            ));
        }
        let lower = from.map_or(Bound::Unbounded, Bound::Included);
        let upper = to.map_or(Bound::Unbounded, Bound::Excluded);
        Ok(IterOptions::range((lower, upper)))
    }
}

pub fn run(global: &Global, args: &ScanArgs) -> Result<(), Failure> {
    let range = args.bounds.resolve()?.fill_cache(false);
    let opened = open(global, &args.dir, Access::Read, &EngineArgs::default())?;
    let mut out = BufWriter::with_capacity(64 << 10, io::stdout().lock());
    let mut iter = opened.keyspace.cursor(range)?;
    if args.reverse {
        iter.seek_to_last()?
    } else {
        iter.seek_to_first()?
    }
    let limit = args.limit.unwrap_or(u64::MAX);
    if args.count {
        let mut count = 0;
        while iter.valid() && count < limit {
            count += 1;
            iter.next()?;
        }
        drop(iter);
        show::print(count)?;
        return opened.close();
    }
    let mut left = limit;
    let mut line = Vec::new();
    while iter.valid() && left > 0 {
        line.clear();
        entry(args, iter.key(), iter.value(), &mut line)
            .map_err(|what| Failure::data(what, "use `shamba export`"))?;
        if args.json {
            line = text::json_for_terminal(&line);
        }
        out.write_all(&line).map_err(Failure::output)?;
        left -= 1;
        if args.reverse {
            iter.prev()?
        } else {
            iter.next()?
        }
    }
    out.flush().map_err(Failure::output)?;
    drop(iter);
    opened.close()
}

fn entry(args: &ScanArgs, key: &[u8], value: &[u8], line: &mut Vec<u8>) -> Result<(), String> {
    match (args.json, args.keys_only) {
        (false, false) => {
            text::escape_for_terminal(key, true, line);
            line.push(b'\t');
            text::escape_for_terminal(value, false, line);
            line.push(b'\n');
            Ok(())
        }
        (true, false) => format::write(Format::Jsonl, Style::default(), key, value, line),
        (false, true) => {
            text::escape_for_terminal(key, true, line);
            line.push(b'\n');
            Ok(())
        }
        (true, true) => format::write_json_key(key, line),
    }
}
