//! Comma-separated records as of RFC 4180.
//!
//! Reading is strict where the `csv` crate is lenient by design: a stray quote or one that is never
//! closed is malformed input, not a longer field. Several value columns are kept as one CSV
//! record.

use std::io::BufRead;

use super::lines::{Lines, MAX_LEN};
use super::{Chosen, Entry, Problem, Reader, Selection, Text, Unwritten, Value};

pub(super) struct Csv<R> {
    lines: Lines<R>,
    buffer: Vec<u8>,
    record: Record,
    chosen: Chosen,
    /// Fields of the first record: all have as many.
    width: Option<usize>,
}

impl<R: BufRead> Csv<R> {
    pub(super) fn new(input: R, selection: &Selection) -> Result<Self, Problem> {
        let none = Chosen {
            key: 0,
            value: Vec::new(),
        };
        let mut csv = Csv {
            lines: Lines::new(input),
            buffer: Vec::new(),
            record: Record::default(),
            chosen: none,
            width: None,
        };
        let mut header = None;
        if selection.named() && csv.read()?.is_some() {
            csv.width = Some(csv.record.ends.len());
            header = Some(csv.record.fields().map(<[u8]>::to_vec).collect::<Vec<_>>());
        }
        csv.chosen = Chosen::find(selection, header.as_deref())?;
        Ok(csv)
    }

    /// Reads a record; the line it starts in, or None at the end.
    fn read(&mut self) -> Result<Option<u64>, Problem> {
        self.record.clear();
        let start = self.lines.number() + 1;
        loop {
            self.buffer.clear();
            if !self.lines.next(&mut self.buffer)? {
                return match self.record.finish() {
                    Finish::Nothing => Ok(None),
                    Finish::Whole => Ok(Some(start)),
                    Finish::Open => Err(malformed(start, "a quote is opened and never closed")),
                };
            }
            match self.record.feed(&self.buffer) {
                Ok(true) => return Ok(Some(start)),
                Ok(false) if self.record.data.len() <= MAX_LEN => {}
                Ok(false) => {
                    return Err(malformed(
                        start,
                        "a quote is opened and not closed within any sensible length",
                    ));
                }
                Err(what) => return Err(malformed(self.lines.number(), what)),
            }
        }
    }
}

fn malformed(line: u64, what: impl Into<String>) -> Problem {
    Problem::Malformed {
        line,
        what: what.into(),
    }
}

impl<R: BufRead> Reader for Csv<R> {
    fn next(&mut self, entry: &mut Entry) -> Result<bool, Problem> {
        let Some(line) = self.read()? else {
            return Ok(false);
        };
        let fields: Vec<&[u8]> = self.record.fields().collect();
        let columns = self
            .chosen
            .check(fields.len())
            .map_err(|what| malformed(line, what))?;
        let width = *self.width.get_or_insert(fields.len());
        if fields.len() != width {
            return Err(malformed(
                line,
                format!("{} fields where the first record has {width}", fields.len()),
            ));
        }
        entry.line = line;
        entry.key.clear();
        entry.key.extend_from_slice(fields[self.chosen.key]);
        entry.value.clear();
        match columns.as_slice() {
            [only] => entry.value.extend_from_slice(fields[*only]),
            several => {
                for (at, &column) in several.iter().enumerate() {
                    if at > 0 {
                        entry.value.push(b',');
                    }
                    field(fields[column], &mut entry.value);
                }
            }
        }
        Ok(true)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum State {
    #[default]
    FieldStart,
    Unquoted,
    Quoted,
    /// After a quote inside a quoted field: its end, or the first half of a doubled quote.
    Quote,
}

enum Finish {
    Nothing,
    Whole,
    Open,
}

/// One record, fed line by line.
#[derive(Debug, Default)]
struct Record {
    data: Vec<u8>,
    ends: Vec<usize>,
    state: State,
}

impl Record {
    fn clear(&mut self) {
        self.data.clear();
        self.ends.clear();
        self.state = State::FieldStart;
    }

    fn fields(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts
            .zip(&self.ends)
            .map(|(start, &end)| &self.data[start..end])
    }

    fn end_field(&mut self) {
        self.ends.push(self.data.len());
        self.state = State::FieldStart;
    }

    /// Takes a line with its end; whether the record is whole.
    fn feed(&mut self, line: &[u8]) -> Result<bool, String> {
        for (at, &byte) in line.iter().enumerate() {
            let at_end = &line[at..] == b"\n" || &line[at..] == b"\r\n";
            match (self.state, byte) {
                (State::Quoted, b'"') => self.state = State::Quote,
                (State::Quoted, _) => self.data.push(byte),
                (_, _) if at_end => {
                    self.end_field();
                    return Ok(true);
                }
                (_, b',') => self.end_field(),
                (State::FieldStart, b'"') => self.state = State::Quoted,
                (State::Quote, b'"') => {
                    self.data.push(b'"');
                    self.state = State::Quoted;
                }
                (State::Quote, _) => {
                    return Err(format!(
                        "text after the closing quote of field {}",
                        self.ends.len() + 1
                    ));
                }
                (State::Unquoted, b'"') => {
                    let number = self.ends.len() + 1;
                    return Err(format!(
                        "a quote inside field {number}, which is not quoted; quote the field and double the quote"
                    ));
                }
                (State::FieldStart | State::Unquoted, _) => {
                    self.data.push(byte);
                    self.state = State::Unquoted;
                }
            }
        }
        Ok(false)
    }

    /// The end of the input, perhaps in a last line without an end.
    fn finish(&mut self) -> Finish {
        match self.state {
            State::Quoted => Finish::Open,
            State::FieldStart if self.ends.is_empty() => Finish::Nothing,
            _ => {
                self.end_field();
                Finish::Whole
            }
        }
    }
}

/// Appends a field, quoted where it needs to be.
fn field(bytes: &[u8], out: &mut Vec<u8>) {
    if !bytes.iter().any(|&byte| needs_quotes(byte)) {
        out.extend_from_slice(bytes);
        return;
    }
    out.push(b'"');
    quoted(bytes, out);
    out.push(b'"');
}

fn needs_quotes(byte: u8) -> bool {
    matches!(byte, b',' | b'"' | b'\n' | b'\r')
}

/// Appends bytes as they stand between quotes.
fn quoted(bytes: &[u8], out: &mut Vec<u8>) {
    for &byte in bytes {
        if byte == b'"' {
            out.push(b'"');
        }
        out.push(byte);
    }
}

pub(super) fn write(
    columns: bool,
    key: &[u8],
    value: &mut Value<'_>,
    out: &mut Text<'_>,
) -> Result<(), Unwritten> {
    field(key, &mut out.text);
    out.text.push(b',');
    if columns || !value.any(needs_quotes)? {
        value.append(out, |piece, text| text.extend_from_slice(piece))?;
    } else {
        out.text.push(b'"');
        value.append(out, quoted)?;
        out.text.push(b'"');
    }
    out.text.push(b'\n');
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::tests::{read_all, written};
    use super::super::{Format, Style};
    use super::*;
    use proptest::prelude::*;

    fn select(key: &str, value: &[&str]) -> Selection {
        Selection {
            key: Some(key.into()),
            value: value.iter().map(|&name| name.into()).collect(),
            ..Selection::default()
        }
    }

    fn pairs(selection: &Selection, text: &str) -> Vec<(String, String)> {
        read_all(Format::Csv, selection, text.as_bytes())
            .into_iter()
            .map(|entry| entry.unwrap())
            .map(|entry| {
                (
                    String::from_utf8(entry.key).unwrap(),
                    String::from_utf8(entry.value).unwrap(),
                )
            })
            .collect()
    }

    fn pair(key: &str, value: &str) -> (String, String) {
        (key.to_owned(), value.to_owned())
    }

    #[test]
    fn quotes_line_ends_and_empty_fields() {
        let text = "a,1\r\n\"b\"\"c\",\"l1\nl2,\"\nd,\n,\"\"";
        let expected = [
            pair("a", "1"),
            pair("b\"c", "l1\nl2,"),
            pair("d", ""),
            pair("", ""),
        ];
        assert_eq!(pairs(&Selection::default(), text), expected);
    }

    #[test]
    fn columns_are_kept_as_a_record() {
        let text = "id,name,note\n7,\"a,b\",x\n";
        assert_eq!(pairs(&select("id", &[]), text), [pair("7", "\"a,b\",x")]);
        assert_eq!(pairs(&select("id", &["name"]), text), [pair("7", "a,b")]);
        assert_eq!(
            pairs(&select("3", &["2", "1"]), "1,2,3\n"),
            [pair("3", "2,1")]
        );
        let columns = Style {
            columns: true,
            ..Style::default()
        };
        let value = Value::Whole(b"\"a,b\",x");
        let out = written(Format::Csv, columns, b"7", value).unwrap();
        assert_eq!(out, b"7,\"a,b\",x\n");
    }

    #[test]
    fn malformed_records_are_named_and_the_rest_is_read() {
        let text = b"a,1\nb\"c,2\n\"d\"e,3\nf\n\ng,1,2\nh,4\n\"i,5\nj,6\n";
        let all = read_all(Format::Csv, &Selection::default(), text);
        let lines: Vec<_> = all
            .iter()
            .filter_map(|entry| entry.as_ref().err())
            .map(|(line, _)| *line)
            .collect();
        assert_eq!(lines, [2, 3, 4, 5, 6, 8]);
        let keys: Vec<_> = all
            .iter()
            .flatten()
            .map(|entry| entry.key.clone())
            .collect();
        assert_eq!(keys, [b"a", b"h"]);
    }

    proptest! {
        #[test]
        fn the_csv_crate_reads_the_same(entries: Vec<(Vec<u8>, Vec<u8>)>) {
            let mut text = Vec::new();
            for (key, value) in &entries {
                let value = Value::Whole(value);
                text.extend(written(Format::Csv, Style::default(), key, value).unwrap());
            }
            let mut reader = ::csv::ReaderBuilder::new()
                .has_headers(false)
                .from_reader(text.as_slice());
            let back: Vec<_> = reader.byte_records().map(|record| {
                let record = record.unwrap();
                (record[0].to_vec(), record[1].to_vec())
            }).collect();
            prop_assert_eq!(back, entries);
        }
    }
}
