//! `shamba get`, `put` and `delete`: one key.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufRead, IsTerminal, Read, Write};
use std::ops::Bound;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use shamba::{IterOptions, ValueReader, WriteOptions};

use crate::args::Global;
use crate::failure::Failure;
use crate::open::{Access, EngineArgs, open};
use crate::text::{argument, preview};

/// Print the value of a key, byte by byte as it is
#[derive(Debug, Args)]
#[command(
    after_help = "Exits with 1 when the key is not there.\n\nExamples:\n  shamba get db bash\n  shamba get db --escaped 'a\\x00b' --output value.bin"
)]
pub struct GetArgs {
    /// The database folder
    dir: PathBuf,
    /// The key
    #[arg(allow_hyphen_values = true)]
    key: OsString,
    /// Write the value to this file instead
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// The key is written with escapes: \t \n \r \\ \xNN
    #[arg(long)]
    escaped: bool,
    /// Print the number of a counter (`shamba merge`)
    #[arg(long)]
    number: bool,
}

/// Set a key to a value
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  shamba put db greeting hello\n  shamba put db film - < film.mp4\n  shamba put db session/17 open --ttl 30m"
)]
pub struct PutArgs {
    /// The database folder; created when missing
    dir: PathBuf,
    /// The key
    #[arg(allow_hyphen_values = true)]
    key: OsString,
    /// The value, or - for standard input
    #[arg(allow_hyphen_values = true)]
    value: OsString,
    /// Key and value are written with escapes: \t \n \r \\ \xNN
    #[arg(long)]
    escaped: bool,
    /// How long the key is to have the value, such as 90s, 15m, 12h or 30days
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    ttl: Option<Duration>,
}

/// Remove a key, or all keys of a range in one operation; one that is not there is no error
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  shamba delete db greeting\n  shamba delete db --prefix session/\n  shamba delete db --from 2026-01 --to 2026-07"
)]
pub struct DeleteArgs {
    /// The database folder
    dir: PathBuf,
    /// The key
    #[arg(
        allow_hyphen_values = true,
        required_unless_present_any = ["prefix", "from", "to"],
        conflicts_with_all = ["prefix", "from", "to"]
    )]
    key: Option<OsString>,
    /// All keys that begin so
    #[arg(long, value_name = "PREFIX", allow_hyphen_values = true, conflicts_with_all = ["from", "to"])]
    prefix: Option<OsString>,
    /// All keys from this one on
    #[arg(long, value_name = "KEY", allow_hyphen_values = true)]
    from: Option<OsString>,
    /// All keys before this one
    #[arg(long, value_name = "KEY", allow_hyphen_values = true)]
    to: Option<OsString>,
    /// Keys are written with escapes: \t \n \r \\ \xNN
    #[arg(long)]
    escaped: bool,
}

pub fn get(global: &Global, args: &GetArgs) -> Result<(), Failure> {
    let key = argument(&args.key, args.escaped)?;
    let opened = open(global, &args.dir, Access::Read, &EngineArgs::default())?;
    let Some(mut value) = opened.keyspace.get_reader(&key)? else {
        return Err(Failure::Absent { key: preview(&key) });
    };
    let number = args.number.then(|| counted(&mut value)).transpose()?;
    let mut shown: Box<dyn Read> = match number {
        Some(number) => Box::new(io::Cursor::new(number)),
        None => Box::new(value),
    };
    match &args.output {
        Some(path) => {
            let on = |source| Failure::io("write", path, source);
            let mut file = File::create(path).map_err(on)?;
            copy(&mut shown, &mut file, &on)?;
        }
        None => {
            let mut out = io::stdout().lock();
            let last = copy(&mut shown, &mut out, &Failure::output)?;
            // A prompt should not stick to the value; a program gets exactly its bytes.
            let end: &[u8] = if out.is_terminal() && last != Some(b'\n') {
                b"\n"
            } else {
                b""
            };
            out.write_all(end)
                .and_then(|()| out.flush())
                .map_err(Failure::output)?;
        }
    }
    drop(shown);
    opened.close()
}

/// Copies a value, in pieces; gives its last byte.
fn copy(
    from: &mut dyn Read,
    to: &mut dyn Write,
    on_write: &dyn Fn(io::Error) -> Failure,
) -> Result<Option<u8>, Failure> {
    let mut buffer = vec![0; 64 << 10];
    let mut last = None;
    loop {
        let bytes = from.read(&mut buffer).map_err(Failure::value)?;
        let Some(read) = buffer.get(..bytes).filter(|read| !read.is_empty()) else {
            return Ok(last);
        };
        to.write_all(read).map_err(on_write)?;
        last = read.last().copied();
    }
}

/// The number of a counter, as text.
fn counted(value: &mut ValueReader) -> Result<Vec<u8>, Failure> {
    let mut bytes = [0; 8];
    if value.len() != bytes.len() as u64 {
        return Err(Failure::data(
            format!("the value has {} bytes, and a counter 8", value.len()),
            "print it without --number",
        ));
    }
    value.read_exact(&mut bytes).map_err(Failure::value)?;
    Ok(i64::from_le_bytes(bytes).to_string().into_bytes())
}

pub fn put(global: &Global, args: &PutArgs) -> Result<(), Failure> {
    let key = argument(&args.key, args.escaped)?;
    let options = WriteOptions::synced().ttl(args.ttl);
    let failed = |source| Failure::io("read", "standard input", source);
    // Before a database is made for it.
    let mut input = io::stdin().lock();
    let value = match args.value.as_encoded_bytes() {
        b"-" => input.fill_buf().map(|_| None).map_err(failed)?,
        _ => Some(argument(&args.value, args.escaped)?),
    };
    let opened = open(global, &args.dir, Access::Create, &EngineArgs::default())?;
    let written = match value {
        Some(value) => opened.keyspace.put_with(&key, &value, options),
        // In pieces, however much there is.
        None => opened.keyspace.put_reader_with(&key, input, options),
    };
    match written {
        Err(shamba::Error::ValueSource { source }) => {
            return Err(failed(io::Error::new(source.kind(), source)));
        }
        written => written?,
    }
    opened.close()
}

pub fn delete(global: &Global, args: &DeleteArgs) -> Result<(), Failure> {
    let read = |key: &Option<OsString>| {
        let read = key.as_ref().map(|key| argument(key, args.escaped));
        read.transpose()
    };
    let (key, prefix) = (read(&args.key)?, read(&args.prefix)?);
    let (from, to) = (read(&args.from)?, read(&args.to)?);
    let opened = open(global, &args.dir, Access::Write, &EngineArgs::default())?;
    let (keyspace, options) = (&opened.keyspace, WriteOptions::synced());
    match (key, prefix) {
        (Some(key), _) => keyspace.delete_with(&key, options)?,
        (None, Some(prefix)) => {
            let range = IterOptions::prefix(&prefix);
            keyspace.delete_range_with((range.lower, range.upper), options)?;
        }
        (None, None) => {
            let from = from.map_or(Bound::Unbounded, Bound::Included);
            let to = to.map_or(Bound::Unbounded, Bound::Excluded);
            keyspace.delete_range_with((from, to), options)?;
        }
    }
    opened.close()
}
