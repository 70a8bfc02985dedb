//! The import and export formats. What one command exports, the other imports unchanged.
//!
//! | format | an entry | what is escaped |
//! |---|---|---|
//! | `tsv` | a line: key, tab, value | `\\ \n \r`, and `\t` in the key; further tabs belong to the value |
//! | `csv` | a record of two fields, RFC 4180 | by quotes |
//! | `jsonl` | a line: `{"key":"…","value":"…"}` | as JSON; what is not UTF-8 is given in `key_base64` and `value_base64` |
//!
//! Readers take their input in order and stop at nothing but its end: after a malformed entry the
//! next call goes on behind it. They hold one entry in memory, but of a long value of `tsv` only
//! the part that is read.

mod csv;
mod jsonl;
mod lines;
mod tsv;
mod value;

use std::io::{self, BufRead, Read};
use std::path::Path;

use clap::ValueEnum;

use crate::failure::Failure;
pub use value::{Text, Unwritten, Value};

/// A format of import and export.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Lines of key, tab, value
    Tsv,
    /// Records as of RFC 4180
    Csv,
    /// A JSON object a line
    Jsonl,
}

impl Format {
    /// What was asked for, or what the name of the file says.
    pub fn choose(asked: Option<Format>, file: &Path) -> Result<Format, Failure> {
        let extension = || Some(file.extension()?.to_str()?.to_ascii_lowercase());
        asked
            .or_else(|| match extension()?.as_str() {
                "tsv" | "tab" => Some(Format::Tsv),
                "csv" => Some(Format::Csv),
                "jsonl" | "ndjson" => Some(Format::Jsonl),
                _ => None,
            })
            .ok_or_else(|| {
                Failure::usage(
                    format!(
                        "the name `{}` does not say which format it is",
                        file.display()
                    ),
                    "add --format tsv, csv or jsonl",
                )
            })
    }
}

/// One entry of the input.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The line it starts in, from 1.
    pub line: u64,
    pub key: Vec<u8>,
    pub value: Vec<u8>,
}

/// Why an entry could not be read.
#[derive(Debug)]
pub enum Problem {
    /// It is malformed; the next one can be read.
    Malformed { line: u64, what: String },
    /// Reading failed.
    Io(io::Error),
    /// The columns asked for are not there at all.
    Columns(String),
}

impl From<io::Error> for Problem {
    fn from(error: io::Error) -> Self {
        Problem::Io(error)
    }
}

/// A reader of one format.
pub trait Reader {
    /// Reads the next entry into `entry`; false at the end.
    fn next(&mut self, entry: &mut Entry) -> Result<bool, Problem>;

    /// The value of the entry read last, where it is too long to be held: in the entry it is empty.
    /// What is malformed in it is an error of the kind `InvalidData`.
    fn long_value(&mut self) -> Option<&mut dyn Read> {
        None
    }
}

/// A column or field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Column {
    /// By its number, from 0.
    Number(usize),
    /// By its name in the header.
    Name(String),
}

/// Which parts of the input become keys and values.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selection {
    /// The key's column or field.
    pub key: Option<String>,
    /// Those of the value; empty for all the rest.
    pub value: Vec<String>,
    /// Whether the first line names the columns.
    pub header: bool,
    /// Whether a backslash in TSV is only a backslash.
    pub no_escapes: bool,
}

impl Selection {
    /// Whether the default columns are taken.
    fn is_default(&self) -> bool {
        self.key.is_none() && self.value.is_empty()
    }

    /// The columns as of their names: a number counts from 1, anything else is a name.
    fn columns(&self) -> Result<(Column, Vec<Column>), Problem> {
        let column = |text: &String| match text.parse::<usize>() {
            Ok(0) => Err(Problem::Columns("columns are numbered from 1".to_owned())),
            Ok(number) => Ok(Column::Number(number - 1)),
            Err(_) => Ok(Column::Name(text.clone())),
        };
        let key = self.key.as_ref().map_or(Ok(Column::Number(0)), column)?;
        Ok((
            key,
            self.value.iter().map(column).collect::<Result<_, _>>()?,
        ))
    }

    /// Whether a header line is needed.
    fn named(&self) -> bool {
        let mut all = self.key.iter().chain(&self.value);
        self.header || all.any(|text| text.parse::<usize>().is_err())
    }
}

/// Columns by number, once the header is known.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Chosen {
    key: usize,
    /// Empty for all but the key.
    value: Vec<usize>,
}

impl Chosen {
    fn find(selection: &Selection, header: Option<&[Vec<u8>]>) -> Result<Chosen, Problem> {
        let (key, value) = selection.columns()?;
        let number = |column: &Column| match column {
            Column::Number(number) => Ok(*number),
            Column::Name(name) => header
                .and_then(|header| header.iter().position(|field| field == name.as_bytes()))
                .ok_or_else(|| Problem::Columns(format!("the header names no column `{name}`"))),
        };
        Ok(Chosen {
            key: number(&key)?,
            value: value.iter().map(number).collect::<Result<_, _>>()?,
        })
    }

    /// The value's columns among `fields`, or what is wrong.
    fn check(&self, fields: usize) -> Result<Vec<usize>, String> {
        let most = self
            .value
            .iter()
            .chain([&self.key])
            .max()
            .copied()
            .unwrap_or(0);
        if most >= fields {
            return Err(format!(
                "column {} is missing: there are {fields}",
                most + 1
            ));
        }
        if !self.value.is_empty() {
            return Ok(self.value.clone());
        }
        let rest: Vec<usize> = (0..fields).filter(|&column| column != self.key).collect();
        if rest.is_empty() {
            Err("there is a key but no value".to_owned())
        } else {
            Ok(rest)
        }
    }
}

/// Keys, one a line, as `scan --keys-only` writes them.
pub struct Keys<R>(lines::Lines<R>);

impl<R: BufRead> Keys<R> {
    /// The keys of the lines of this input.
    pub fn new(input: R) -> Self {
        Keys(lines::Lines::new(input))
    }

    /// Puts the next key in place of `key`; false at the end of the input. `line` is for scratch.
    pub fn next(&mut self, line: &mut Vec<u8>, key: &mut Vec<u8>) -> Result<bool, Problem> {
        line.clear();
        key.clear();
        if !self.0.next(line)? {
            return Ok(false);
        }
        crate::text::unescape(lines::trim_end(line), key).map_err(|what| Problem::Malformed {
            line: self.0.number(),
            what,
        })?;
        Ok(true)
    }
}

/// A reader of `input`.
pub fn reader<'a>(
    format: Format,
    selection: &Selection,
    input: impl BufRead + 'a,
) -> Result<Box<dyn Reader + 'a>, Problem> {
    Ok(match format {
        Format::Tsv => Box::new(tsv::Tsv::new(input, selection)?),
        Format::Csv => Box::new(csv::Csv::new(input, selection)?),
        Format::Jsonl => Box::new(jsonl::Jsonl::new(input, selection)),
    })
}

/// How entries are written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Style {
    /// Only the values, each as a line (JSON objects imported whole).
    pub values_only: bool,
    /// Values are CSV records themselves: their fields stand beside the key.
    pub columns: bool,
    /// Backslashes in TSV are only backslashes.
    pub no_escapes: bool,
}

/// Writes an entry as text, its line end included. What is refused, is so before a byte of it is
/// written.
pub fn write(
    format: Format,
    style: Style,
    key: &[u8],
    value: &mut Value<'_>,
    out: &mut Text<'_>,
) -> Result<(), Unwritten> {
    if style.values_only {
        if value.any(|byte| byte == b'\n')? {
            return Err(Unwritten::Refused(
                "the value has several lines, so that a value a line would not give it back"
                    .to_owned(),
            ));
        }
        value.append(out, |piece, text| text.extend_from_slice(piece))?;
        out.text.push(b'\n');
        return out.spill();
    }
    match format {
        Format::Tsv => tsv::write(style.no_escapes, key, value, out)?,
        Format::Csv => csv::write(style.columns, key, value, out)?,
        Format::Jsonl => jsonl::write(key, value, out)?,
    }
    out.spill()
}

/// Appends a key alone, as a line of JSON.
pub fn write_json_key(key: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
    out.push(b'{');
    jsonl::write_field("key", key, out)?;
    out.extend_from_slice(b"}\n");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::value::tests::in_pieces;
    use super::*;
    use proptest::prelude::*;

    /// All entries, or the problems of those that are malformed.
    pub(super) fn read_all(
        format: Format,
        selection: &Selection,
        text: &[u8],
    ) -> Vec<Result<Entry, (u64, String)>> {
        let mut reader = reader(format, selection, text).expect("columns");
        let mut all = Vec::new();
        loop {
            let mut entry = Entry::default();
            match reader.next(&mut entry) {
                Ok(true) => all.push(Ok(entry)),
                Ok(false) => return all,
                Err(Problem::Malformed { line, what }) => all.push(Err((line, what))),
                Err(other) => panic!("{other:?}"),
            }
        }
    }

    /// The text of an entry, or why there is none.
    pub(super) fn written(
        format: Format,
        style: Style,
        key: &[u8],
        mut value: Value<'_>,
    ) -> Result<Vec<u8>, Unwritten> {
        let mut text = Vec::new();
        write(format, style, key, &mut value, &mut Text::new(&mut text))?;
        Ok(text)
    }

    proptest! {
        #[test]
        fn values_in_pieces_are_written_as_whole_ones_are(value: Vec<u8>, of in 1..9usize) {
            let plain = Style::default();
            let flags = [
                plain,
                Style { no_escapes: true, ..plain },
                Style { columns: true, ..plain },
                Style { values_only: true, ..plain },
            ];
            let text = String::from_utf8_lossy(&value).into_owned().into_bytes();
            for value in [&value, &text] {
                for format in [Format::Tsv, Format::Csv, Format::Jsonl] {
                    for style in flags {
                        let whole = written(format, style, b"k", Value::Whole(value)).ok();
                        let pieces = written(format, style, b"k", in_pieces(value, of)).ok();
                        prop_assert_eq!(whole, pieces, "{:?} {:?}", format, style);
                    }
                }
            }
        }

        #[test]
        fn what_is_written_is_read_back(entries: Vec<(Vec<u8>, Vec<u8>)>) {
            for format in [Format::Tsv, Format::Csv, Format::Jsonl] {
                let mut text = Vec::new();
                for (key, value) in &entries {
                    let value = Value::Whole(value);
                    text.extend(written(format, Style::default(), key, value).unwrap());
                }
                let back: Vec<_> = read_all(format, &Selection::default(), &text)
                    .into_iter()
                    .map(|entry| entry.map(|entry| (entry.key, entry.value)))
                    .collect::<Result<_, _>>()
                    .unwrap();
                prop_assert_eq!(&back, &entries, "{:?}", format);
            }
        }

        #[test]
        fn arbitrary_input_never_panics(text: Vec<u8>) {
            for format in [Format::Tsv, Format::Csv, Format::Jsonl] {
                let lines = text.iter().filter(|&&byte| byte == b'\n').count() + 1;
                prop_assert!(read_all(format, &Selection::default(), &text).len() <= lines);
            }
        }
    }

    #[test]
    fn no_more_than_pieces_of_a_value_are_in_memory() {
        struct Largest(usize);
        impl io::Write for Largest {
            fn write(&mut self, text: &[u8]) -> io::Result<usize> {
                self.0 = self.0.max(text.len());
                Ok(text.len())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let no_text = [vec![b'"'; 1 << 20], vec![0xff]].concat();
        for value in [vec![1; 1 << 20], no_text] {
            for format in [Format::Tsv, Format::Csv, Format::Jsonl] {
                let mut largest = Largest(0);
                let mut text = Text::new(&mut largest);
                let mut value = in_pieces(&value, usize::MAX);
                write(format, Style::default(), b"k", &mut value, &mut text).unwrap();
                let held = text.text.capacity();
                assert!(held <= 256 << 10, "{format:?} had {held} bytes of text");
                assert!(
                    largest.0 <= 128 << 10,
                    "{format:?} wrote {} at once",
                    largest.0
                );
            }
        }
    }

    #[test]
    fn formats_by_name() {
        let choose = |name: &str| Format::choose(None, Path::new(name)).ok();
        assert_eq!(choose("a.b.TSV"), Some(Format::Tsv));
        assert_eq!(choose("x.ndjson"), Some(Format::Jsonl));
        assert_eq!(choose("-"), None);
        assert_eq!(choose("x.gz"), None);
        assert_eq!(
            Format::choose(Some(Format::Csv), Path::new("a.tsv")).ok(),
            Some(Format::Csv)
        );
    }
}
