//! `shamba export`: all entries in key order, in a format that import takes back.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use clap::Args;

use crate::args::Global;
use crate::entries::Entries;
use crate::failure::Failure;
use crate::format::{self, Format, Style, Text, Unwritten};
use crate::open::{Access, EngineArgs, open};
use crate::scan::Bounds;
use crate::show::{self, Progress};
use crate::text::preview;

const EXAMPLES: &str = "\
The formats are those of `shamba import`, in which they come back unchanged. Entries are in key order.

Examples:
  shamba export db > copy.tsv
  shamba export db --output copy.jsonl
  shamba export db --format csv --header id,name,note --columns   (imported with --key id)
  shamba export db --format jsonl --values-only                   (imported with --key FIELD)";

/// Export entries, in key order, to a file or standard output; when they expire is left out
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct ExportArgs {
    /// The database folder
    dir: PathBuf,
    /// The format [default: by the output's extension, else tsv]
    #[arg(long, value_enum)]
    format: Option<Format>,
    /// The file to write, complete or not at all [default: standard output]
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    bounds: Bounds,
    /// Values are CSV records themselves: put their fields beside the key (csv)
    #[arg(long)]
    columns: bool,
    /// A first line to write (tsv, csv)
    #[arg(long, value_name = "LINE")]
    header: Option<String>,
    /// Only the values, one a line: gives back JSON objects imported whole
    #[arg(long)]
    values_only: bool,
    /// Write backslashes literally (tsv)
    #[arg(long)]
    no_escapes: bool,
}

pub fn run(global: &Global, args: &ExportArgs) -> Result<(), Failure> {
    let format = match &args.output {
        Some(path) => Format::choose(args.format, path)?,
        None => args.format.unwrap_or(Format::Tsv),
    };
    for (given, name, right) in [
        (args.columns, "--columns", format == Format::Csv),
        (args.no_escapes, "--no-escapes", format == Format::Tsv),
        (args.header.is_some(), "--header", format != Format::Jsonl),
    ] {
        if given && !right {
            return Err(Failure::usage(
                format!("{name} has no meaning for this format"),
                "`shamba export --help` says for which it has",
            ));
        }
    }
    let style = Style {
        values_only: args.values_only,
        columns: args.columns,
        no_escapes: args.no_escapes,
    };
    let range = args.bounds.resolve()?;
    let opened = open(global, &args.dir, Access::Read, &EngineArgs::default())?;
    let progress = match args.output {
        Some(_) => Progress::endless(global.quiet, "entries exported:"),
        None => Progress::endless(true, ""),
    };
    let mut output = Output::create(args.output.as_deref())?;
    let mut text = Text::new(&mut output);
    if let Some(header) = &args.header {
        text.text.extend_from_slice(header.as_bytes());
        text.text.push(b'\n');
    }
    let mut walk = Entries::new(&opened, range.fill_cache(false), false)?;
    let mut entries = 0u64;
    while walk.valid() {
        let written = format::write(format, style, walk.key(), &mut walk.value()?, &mut text);
        if let Err(unwritten) = written {
            return Err(match unwritten {
                Unwritten::Refused(what) => Failure::data(
                    format!(
                        "entry `{}` cannot be written so: {what}",
                        preview(walk.key())
                    ),
                    "export it in another format",
                ),
                Unwritten::Value(error) => Failure::value(error),
                Unwritten::Output(error) => output.failed(error),
            });
        }
        entries += 1;
        if entries.is_multiple_of(1024) {
            progress.set(entries);
        }
        walk.next()?;
    }
    drop(walk);
    // A header without entries.
    if let Err(Unwritten::Output(error)) = text.spill() {
        return Err(output.failed(error));
    }
    output.finish()?;
    opened.close()?;
    drop(progress);
    if args.output.is_some() {
        show::note(
            global.quiet,
            format_args!("exported {} entries", show::number(entries)),
        );
    }
    Ok(())
}

/// Standard output, or a file that appears under its name once it is complete.
enum Output {
    Stdout(BufWriter<io::StdoutLock<'static>>),
    File {
        writer: BufWriter<File>,
        partial: PathBuf,
        path: PathBuf,
    },
}

const BUFFER: usize = 64 << 10;

impl Output {
    fn create(path: Option<&Path>) -> Result<Output, Failure> {
        let Some(path) = path else {
            return Ok(Output::Stdout(BufWriter::with_capacity(
                BUFFER,
                io::stdout().lock(),
            )));
        };
        if path.is_dir() {
            return Err(Failure::io(
                "write",
                path,
                io::Error::from(io::ErrorKind::IsADirectory),
            ));
        }
        let mut name = path.as_os_str().to_owned();
        name.push(".partial");
        let partial = PathBuf::from(name);
        let file =
            File::create(&partial).map_err(|source| Failure::io("create", &partial, source))?;
        Ok(Output::File {
            writer: BufWriter::with_capacity(BUFFER, file),
            partial,
            path: path.to_path_buf(),
        })
    }

    /// The error that it did not take what was written.
    fn failed(&self, source: io::Error) -> Failure {
        match self {
            Output::Stdout(_) => Failure::output(source),
            Output::File { partial, .. } => Failure::io("write", partial, source),
        }
    }

    fn finish(&mut self) -> Result<(), Failure> {
        self.flush().map_err(|source| self.failed(source))?;
        match self {
            Output::Stdout(_) => Ok(()),
            Output::File {
                writer,
                partial,
                path,
            } => {
                writer
                    .get_ref()
                    .sync_all()
                    .map_err(|source| Failure::io("sync", &*partial, source))?;
                std::fs::rename(&*partial, &*path)
                    .map_err(|source| Failure::io("rename", &*partial, source))
            }
        }
    }
}

impl Write for Output {
    /// All of it: what encodes on the way may not take a part for an answer.
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        match self {
            Output::Stdout(writer) => writer.write_all(text)?,
            Output::File { writer, .. } => writer.write_all(text)?,
        }
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Output::Stdout(writer) => writer.flush(),
            Output::File { writer, .. } => writer.flush(),
        }
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        if let Output::File { partial, .. } = self {
            // After success it is not there any more; after a failure nobody wants it.
            let _gone = std::fs::remove_file(partial);
        }
    }
}
