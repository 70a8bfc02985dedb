//! `shamba import`: entries from a file or standard input, in batches that are written whole.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Args;
use shamba::WriteBatch;

use crate::args::{Global, count};
use crate::failure::Failure;
use crate::format::{self, Entry, Format, Problem, Selection};
use crate::open::{Access, EngineArgs, Opened, open};
use crate::show::{self, Progress};
use crate::text::preview;

const EXAMPLES: &str = "\
Formats (export writes the same, so that what goes in comes back):
  tsv    a line is a key, a tab, a value, of any length; further tabs belong to the value;
         \\t \\n \\r \\\\ stand for tab, line feed, carriage return, backslash
  csv    RFC 4180; several value columns are kept as one CSV record
  jsonl  {\"key\":\"…\",\"value\":\"…\"} a line, a number by its text; key_base64 and value_base64 for bytes that are not
         UTF-8; with --key FIELD the value is the whole object, as it stands

Of a key that comes twice the later value counts. A malformed line ends the import with its number;
nothing of its batch is written, earlier batches are: mend the line and import again.

Examples:
  shamba import db packages.tsv
  shamba import db people.csv --key email
  zcat events.jsonl.gz | shamba import db - --format jsonl --key id --skip-bad";

/// Import entries from a file or standard input
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct ImportArgs {
    /// The database folder; created when missing
    dir: PathBuf,
    /// The file, or - for standard input
    file: PathBuf,
    /// The format [default: by the file's extension]
    #[arg(long, value_enum)]
    format: Option<Format>,
    /// The key's column (a number from 1, or a name in the header line) or field
    /// [default: the first column, the field `key`]
    #[arg(long, value_name = "COLUMN")]
    key: Option<String>,
    /// The value's columns or fields, separated by commas [default: all the rest; with jsonl and
    /// --key the whole object]
    #[arg(long, value_name = "COLUMNS", value_delimiter = ',')]
    value: Vec<String>,
    /// The first line names the columns (tsv, csv); implied by names in --key and --value
    #[arg(long)]
    header: bool,
    /// Take backslashes literally (tsv)
    #[arg(long)]
    no_escapes: bool,
    /// Entries written together, whole or not at all
    #[arg(long, value_name = "N", default_value = "1000", value_parser = count)]
    batch: u64,
    /// Skip malformed entries and say how many there were
    #[arg(long)]
    skip_bad: bool,
    #[command(flatten)]
    engine: EngineArgs,
}

/// Bytes after which a batch is written though it has fewer entries than asked for.
const BATCH_BYTES: usize = 1 << 20;

pub fn run(global: &Global, args: &ImportArgs) -> Result<(), Failure> {
    let format = Format::choose(args.format, &args.file)?;
    if format == Format::Jsonl && args.header {
        return Err(Failure::usage(
            "--header has no meaning for jsonl",
            "choose fields by their names",
        ));
    }
    if format != Format::Tsv && args.no_escapes {
        return Err(Failure::usage(
            "--no-escapes has a meaning for tsv only",
            "leave it out",
        ));
    }
    let selection = Selection {
        key: args.key.clone(),
        value: args.value.clone(),
        header: args.header,
        no_escapes: args.no_escapes,
    };
    let (input, name, length) = open_input(&args.file)?;
    let progress = match length {
        Some(length) => Progress::bytes(global.quiet, "importing", length),
        None => Progress::endless(global.quiet, "entries imported:"),
    };
    let input = Counted {
        input,
        progress: length.is_some().then_some(&progress),
    };
    let mut reader = format::reader(
        format,
        &selection,
        BufReader::with_capacity(256 << 10, input),
    )
    .map_err(|problem| failure(problem, &name, 0))?;
    // Only now, so that a mistaken file name or column leaves no empty database behind.
    let opened = open(global, &args.dir, Access::Create, &args.engine)?;
    let start = Instant::now();
    let mut import = Import {
        opened: &opened,
        args,
        name: &name,
        most_of_value: most_of_value(&opened),
        batch: Vec::new(),
        bytes: 0,
        done: Totals::default(),
    };
    let mut entry = Entry::default();
    loop {
        match reader.next(&mut entry) {
            Ok(true) => {
                let entry = std::mem::take(&mut entry);
                match reader.long_value() {
                    None => import.add(entry)?,
                    Some(value) => import.add_long(entry, value)?,
                }
            }
            Ok(false) => break,
            Err(Problem::Malformed { line, what }) if args.skip_bad => import.done.skip(line, what),
            Err(problem) => return Err(failure(problem, &name, import.done.entries)),
        }
        if length.is_none() {
            progress.set(import.done.entries);
        }
    }
    import.write()?;
    let done = import.done;
    opened.db.sync()?;
    opened.close()?;
    drop(reader);
    drop(progress);
    if let Some((line, what)) = &done.first_skipped {
        let entries = if done.skipped == 1 {
            "entry"
        } else {
            "entries"
        };
        eprintln!(
            "warning: skipped {} malformed {entries}, the first at {name}:{line}: {what}",
            show::number(done.skipped)
        );
    }
    let time = start.elapsed().as_secs_f64();
    show::note(
        global.quiet,
        format_args!(
            "imported {} entries, {} of keys and values, in {}",
            show::number(done.entries),
            show::bytes(done.bytes),
            show::seconds(time)
        ),
    );
    Ok(())
}

#[derive(Debug, Default)]
struct Totals {
    entries: u64,
    bytes: u64,
    skipped: u64,
    first_skipped: Option<(u64, String)>,
}

impl Totals {
    fn skip(&mut self, line: u64, what: String) {
        self.skipped += 1;
        self.first_skipped.get_or_insert((line, what));
    }
}

struct Import<'a> {
    opened: &'a Opened,
    args: &'a ImportArgs,
    name: &'a str,
    /// A longer value is written by itself.
    most_of_value: u64,
    batch: Vec<Entry>,
    bytes: usize,
    done: Totals,
}

impl Import<'_> {
    fn add(&mut self, entry: Entry) -> Result<(), Failure> {
        self.bytes += entry.key.len() + entry.value.len();
        self.batch.push(entry);
        if self.batch.len() as u64 >= self.args.batch || self.bytes >= BATCH_BYTES {
            self.write()?;
        }
        Ok(())
    }

    /// The same with a value that may be longer than memory.
    fn add_long(&mut self, mut entry: Entry, value: &mut dyn Read) -> Result<(), Failure> {
        let begun = value
            .take(self.most_of_value + 1)
            .read_to_end(&mut entry.value);
        match begun {
            Ok(read) if read as u64 <= self.most_of_value => return self.add(entry),
            Ok(_) => {}
            Err(error) => return self.unread(&entry, &error),
        }
        // In its turn.
        self.write()?;
        let mut rest = Length {
            of: value,
            bytes: 0,
        };
        let all = entry.value.as_slice().chain(&mut rest);
        match self.opened.keyspace.put_reader(&entry.key, all) {
            Ok(()) => {
                self.done.entries += 1;
                self.done.bytes += (entry.key.len() + entry.value.len()) as u64 + rest.bytes;
                Ok(())
            }
            Err(shamba::Error::ValueSource { source }) => self.unread(&entry, &source),
            Err(error @ shamba::Error::KeyTooLarge { .. }) => self.refuse(&entry, &error),
            Err(error) => Err(error.into()),
        }
    }

    /// Leaves an entry out whose value could not be read, or ends the import.
    fn unread(&mut self, entry: &Entry, error: &io::Error) -> Result<(), Failure> {
        let (line, what) = (entry.line, error.to_string());
        let problem = match error.kind() {
            io::ErrorKind::InvalidData if self.args.skip_bad => {
                self.done.skip(line, what);
                return Ok(());
            }
            io::ErrorKind::InvalidData => Problem::Malformed { line, what },
            kind => Problem::Io(io::Error::new(kind, what)),
        };
        Err(failure(problem, self.name, self.done.entries))
    }

    /// Writes the batch. Entries the engine refuses for their size are malformed input.
    fn write(&mut self) -> Result<(), Failure> {
        while !self.batch.is_empty() {
            let mut batch = WriteBatch::new();
            for entry in &self.batch {
                batch.put_in(&self.opened.keyspace, &entry.key, &entry.value);
            }
            let Err(error) = self.opened.db.write(batch) else {
                break;
            };
            let refused = |entry: &Entry| match &error {
                shamba::Error::KeyTooLarge { max, .. } => entry.key.len() > *max,
                shamba::Error::ValueTooLarge { max, .. } => entry.value.len() > *max,
                _ => false,
            };
            let Some(at) = self.batch.iter().position(refused) else {
                return Err(error.into());
            };
            let later = self.batch.split_off(at + 1);
            let Some(entry) = self.batch.pop() else {
                return Err(error.into());
            };
            if matches!(error, shamba::Error::ValueTooLarge { .. }) {
                // By itself it may have any length, in its turn.
                self.write()?;
                self.put(&entry)?;
            } else {
                self.refuse(&entry, &error)?;
            }
            self.batch.extend(later);
        }
        self.done.entries += self.batch.len() as u64;
        self.done.bytes += self
            .batch
            .iter()
            .map(|entry| (entry.key.len() + entry.value.len()) as u64)
            .sum::<u64>();
        self.batch.clear();
        self.bytes = 0;
        Ok(())
    }

    fn put(&mut self, entry: &Entry) -> Result<(), Failure> {
        match self.opened.keyspace.put(&entry.key, &entry.value) {
            Ok(()) => {
                self.done.entries += 1;
                self.done.bytes += (entry.key.len() + entry.value.len()) as u64;
                Ok(())
            }
            Err(error @ shamba::Error::KeyTooLarge { .. }) => self.refuse(entry, &error),
            Err(error) => Err(error.into()),
        }
    }

    /// Leaves an entry out, or ends the import.
    fn refuse(&mut self, entry: &Entry, error: &shamba::Error) -> Result<(), Failure> {
        let line = entry.line;
        let what = format!("key `{}`: {error}", preview(&entry.key));
        if !self.args.skip_bad {
            return Err(failure(
                Problem::Malformed { line, what },
                self.name,
                self.done.entries,
            ));
        }
        self.done.skip(line, what);
        Ok(())
    }
}

/// How long a value may be that is written with others.
fn most_of_value(opened: &Opened) -> u64 {
    (opened.db.stats().memory.budget.limit / 16).min(64 << 20)
}

/// Counts what is read.
struct Length<'a> {
    of: &'a mut dyn Read,
    bytes: u64,
}

impl Read for Length<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.of.read(into)?;
        self.bytes += read as u64;
        Ok(read)
    }
}

fn failure(problem: Problem, name: &str, written: u64) -> Failure {
    match problem {
        Problem::Io(source) => Failure::io("read", name, source),
        Problem::Columns(what) => Failure::usage(
            what,
            "columns are numbers from 1, or names in the first line",
        ),
        Problem::Malformed { line, what } => {
            let before = match written {
                0 => "nothing was written".to_owned(),
                1 => "one entry was written before".to_owned(),
                _ => format!(
                    "{} entries were written before, in whole batches",
                    show::number(written)
                ),
            };
            Failure::data(
                format!("{name}:{line}: {what}"),
                format!(
                    "{before}; mend the line and import again, or pass over such lines with --skip-bad"
                ),
            )
        }
    }
}

type Input = (Box<dyn Read>, String, Option<u64>);

/// The input, its name for messages, and its length if it has one.
pub fn open_input(path: &Path) -> Result<Input, Failure> {
    if path.as_os_str() == "-" {
        return Ok((
            Box::new(io::stdin().lock()),
            "standard input".to_owned(),
            None,
        ));
    }
    let cannot = |source| Failure::io("read", path, source);
    let file = File::open(path).map_err(cannot)?;
    let metadata = file.metadata().map_err(cannot)?;
    if metadata.is_dir() {
        return Err(cannot(io::Error::from(io::ErrorKind::IsADirectory)));
    }
    let length = metadata.is_file().then_some(metadata.len());
    Ok((Box::new(file), path.display().to_string(), length))
}

/// Moves a progress bar by what is read.
struct Counted<'a> {
    input: Box<dyn Read>,
    progress: Option<&'a Progress>,
}

impl Read for Counted<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let read = self.input.read(buf)?;
        if let Some(progress) = self.progress {
            progress.advance(read as u64);
        }
        Ok(read)
    }
}

/// Reads all of standard input, up to a limit that tells it is too much.
pub fn read_stdin(at_most: u64) -> Result<Vec<u8>, Failure> {
    let mut value = Vec::new();
    let mut input = io::stdin().lock().take(at_most);
    input
        .read_to_end(&mut value)
        .map_err(|source| Failure::io("read", "standard input", source))?;
    Ok(value)
}
