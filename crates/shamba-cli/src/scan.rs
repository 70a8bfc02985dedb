//! `shamba scan`: entries in key order within bounds, and the bounds themselves.

use std::ffi::OsString;
use std::io::{self, BufWriter, Write};
use std::ops::Bound;
use std::path::PathBuf;

use clap::Args;
use shamba::IterOptions;

use crate::args::{Global, count};
use crate::entries::Entries;
use crate::failure::Failure;
use crate::format::{self, Format, Style, Text, Unwritten, Value};
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
    let range = range.keys_only(args.keys_only || args.count);
    let opened = open(global, &args.dir, Access::Read, &EngineArgs::default())?;
    let mut entries = Entries::new(&opened, range, args.reverse)?;
    let limit = args.limit.unwrap_or(u64::MAX);
    if args.count {
        let mut count = 0;
        while entries.valid() && count < limit {
            count += 1;
            entries.next()?;
        }
        drop(entries);
        show::print(count)?;
        return opened.close();
    }
    let mut out = BufWriter::with_capacity(64 << 10, io::stdout().lock());
    let mut shown = Shown {
        json: args.json,
        out: &mut out,
    };
    let mut text = Text::new(&mut shown);
    let mut left = limit;
    while entries.valid() && left > 0 {
        let written = entry(args, entries.key(), &mut entries.value()?, &mut text);
        written.map_err(|unwritten| match unwritten {
            Unwritten::Refused(what) => Failure::data(what, "use `shamba export`"),
            Unwritten::Value(error) => Failure::value(error),
            Unwritten::Output(error) => Failure::output(error),
        })?;
        left -= 1;
        entries.next()?;
    }
    out.flush().map_err(Failure::output)?;
    drop(entries);
    opened.close()
}

fn entry(
    args: &ScanArgs,
    key: &[u8],
    value: &mut Value<'_>,
    out: &mut Text<'_>,
) -> Result<(), Unwritten> {
    match (args.json, args.keys_only) {
        (false, false) => {
            text::escape_for_terminal(key, true, &mut out.text);
            out.text.push(b'\t');
            value.append(out, |piece, line| {
                text::escape_for_terminal(piece, false, line);
            })?;
            out.text.push(b'\n');
        }
        (true, false) => format::write(Format::Jsonl, Style::default(), key, value, out)?,
        (false, true) => {
            text::escape_for_terminal(key, true, &mut out.text);
            out.text.push(b'\n');
        }
        (true, true) => {
            format::write_json_key(key, &mut out.text).map_err(Unwritten::Refused)?;
        }
    }
    out.spill()
}

/// Standard output. JSON comes in whole characters, and goes on without what a terminal should not
/// get.
struct Shown<'a> {
    json: bool,
    out: &'a mut dyn Write,
}

impl Write for Shown<'_> {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        if self.json {
            self.out.write_all(&text::json_for_terminal(text))?;
        } else {
            self.out.write_all(text)?;
        }
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}
