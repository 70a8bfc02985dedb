//! Tab-separated lines.
//!
//! The key is the first column and the value the rest of the line, further tabs included, so that
//! files of many columns come back as they were. With other columns chosen, the values of several
//! are joined by tabs.
//!
//! With the default columns a line may be longer than memory: of a long one the value is read while
//! it is asked for.

use std::io::{self, BufRead, Read};

use super::lines::{Begun, Lines, trim_end};
use super::{Chosen, Entry, Problem, Reader, Selection, Text, Unwritten, Value};
use crate::text;

/// Lines are long from so many bytes on: more than a key takes, and little beside what an import
/// holds anyway.
const LONG: usize = 1 << 20;

pub(super) struct Tsv<R> {
    lines: Lines<R>,
    buffer: Vec<u8>,
    /// None for the default: the first column, and the rest of the line.
    chosen: Option<Chosen>,
    no_escapes: bool,
    /// The line read last is a long one; in `buffer` is what was not decoded yet.
    long: bool,
    /// All of it was read.
    ended: bool,
    /// What was decoded of its value, and how much of that was given away.
    decoded: Vec<u8>,
    given: usize,
}

impl<R: BufRead> Tsv<R> {
    pub(super) fn new(input: R, selection: &Selection) -> Result<Self, Problem> {
        let mut lines = Lines::new(input);
        let mut buffer = Vec::new();
        let mut header = None;
        if selection.named() && lines.next(&mut buffer)? {
            header = Some(
                trim_end(&buffer)
                    .split(|&byte| byte == b'\t')
                    .map(<[u8]>::to_vec)
                    .collect::<Vec<_>>(),
            );
        }
        let chosen = if selection.is_default() {
            None
        } else {
            Some(Chosen::find(selection, header.as_deref())?)
        };
        Ok(Tsv {
            lines,
            buffer,
            chosen,
            no_escapes: selection.no_escapes,
            long: false,
            ended: true,
            decoded: Vec::new(),
            given: 0,
        })
    }

    /// Reads the next line, of a long one the beginning; false at the end.
    fn read_line(&mut self) -> Result<bool, Problem> {
        while !self.ended {
            self.buffer.clear();
            self.ended = self.lines.more(&mut self.buffer)?;
        }
        self.buffer.clear();
        self.long = false;
        if self.chosen.is_some() {
            return self.lines.next(&mut self.buffer);
        }
        let begun = self.lines.begin(&mut self.buffer, LONG)?;
        self.long = begun == Begun::Part;
        self.ended = !self.long;
        Ok(begun != Begun::Nothing)
    }

    /// Of a long line the key; the value's first bytes stay.
    fn begin_long(&mut self, entry: &mut Entry) -> Result<(), String> {
        let tab = self.buffer.iter().position(|&byte| byte == b'\t');
        let tab = tab.ok_or_else(|| format!("no tab within {LONG} bytes"))?;
        decode(&self.buffer[..tab], self.no_escapes, &mut entry.key)?;
        self.buffer.drain(..=tab);
        self.decoded.clear();
        self.given = 0;
        Ok(())
    }

    /// Decodes what can be of what was read of a long value.
    fn decode_more(&mut self) -> io::Result<()> {
        let len = if self.ended || self.no_escapes {
            self.buffer.len()
        } else {
            // What may be the first byte of the line's end is not yet known to be of the value.
            let len = self
                .buffer
                .strip_suffix(b"\r")
                .unwrap_or(&self.buffer)
                .len();
            text::whole_escapes(&self.buffer[..len])
        };
        self.decoded.clear();
        self.given = 0;
        decode(&self.buffer[..len], self.no_escapes, &mut self.decoded)
            .map_err(|what| io::Error::new(io::ErrorKind::InvalidData, what))?;
        self.buffer.drain(..len);
        Ok(())
    }
}

/// Gives the value of a long line.
impl<R: BufRead> Read for Tsv<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while self.given == self.decoded.len() {
            if self.buffer.is_empty() && self.ended {
                return Ok(0);
            }
            self.decode_more()?;
            if self.decoded.is_empty() && !self.ended {
                self.ended = self.lines.more(&mut self.buffer)?;
                if self.ended {
                    let len = line(&self.buffer, self.no_escapes).len();
                    self.buffer.truncate(len);
                }
            }
        }
        let left = &self.decoded[self.given..];
        let bytes = left.len().min(into.len());
        into[..bytes].copy_from_slice(&left[..bytes]);
        self.given += bytes;
        Ok(bytes)
    }
}

/// A line without its end.
fn line(text: &[u8], no_escapes: bool) -> &[u8] {
    if no_escapes {
        text.strip_suffix(b"\n").unwrap_or(text)
    } else {
        trim_end(text)
    }
}

fn decode(text: &[u8], no_escapes: bool, out: &mut Vec<u8>) -> Result<(), String> {
    if no_escapes {
        out.extend_from_slice(text);
        Ok(())
    } else {
        text::unescape(text, out)
    }
}

impl<R: BufRead> Reader for Tsv<R> {
    fn next(&mut self, entry: &mut Entry) -> Result<bool, Problem> {
        if !self.read_line()? {
            return Ok(false);
        }
        entry.line = self.lines.number();
        entry.key.clear();
        entry.value.clear();
        let read = if self.long {
            self.begin_long(entry)
        } else {
            let line = line(&self.buffer, self.no_escapes);
            split(line, self.chosen.as_ref(), self.no_escapes, entry)
        };
        read.map(|()| true).map_err(|what| Problem::Malformed {
            line: entry.line,
            what,
        })
    }

    fn long_value(&mut self) -> Option<&mut dyn Read> {
        if self.long { Some(self) } else { None }
    }
}

fn split(
    line: &[u8],
    chosen: Option<&Chosen>,
    no_escapes: bool,
    entry: &mut Entry,
) -> Result<(), String> {
    let decode = |text: &[u8], out: &mut Vec<u8>| decode(text, no_escapes, out);
    let Some(chosen) = chosen else {
        let Some(tab) = line.iter().position(|&byte| byte == b'\t') else {
            let what = if line.is_empty() {
                "an empty line"
            } else {
                "no tab"
            };
            return Err(format!("{what}; a line is a key, a tab, a value"));
        };
        decode(&line[..tab], &mut entry.key)?;
        return decode(&line[tab + 1..], &mut entry.value);
    };
    let fields: Vec<&[u8]> = line.split(|&byte| byte == b'\t').collect();
    let columns = chosen.check(fields.len())?;
    decode(fields[chosen.key], &mut entry.key)?;
    for (at, &column) in columns.iter().enumerate() {
        if at > 0 {
            entry.value.push(b'\t');
        }
        decode(fields[column], &mut entry.value)?;
    }
    Ok(())
}

pub(super) fn write(
    no_escapes: bool,
    key: &[u8],
    value: &mut Value<'_>,
    out: &mut Text<'_>,
) -> Result<(), Unwritten> {
    if no_escapes {
        if key.contains(&b'\t') || key.contains(&b'\n') || value.any(|byte| byte == b'\n')? {
            return Err(Unwritten::Refused(
                "it has a line feed or its key a tab, which need escapes".to_owned(),
            ));
        }
        out.text.extend_from_slice(key);
        out.text.push(b'\t');
        value.append(out, |piece, text| text.extend_from_slice(piece))?;
    } else {
        text::escape(key, true, &mut out.text);
        out.text.push(b'\t');
        value.append(out, |piece, text| text::escape(piece, false, text))?;
    }
    out.text.push(b'\n');
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::tests::{read_all, written};
    use super::super::{Format, Style};
    use super::*;

    fn pairs(selection: &Selection, text: &str) -> Vec<(String, String)> {
        read_all(Format::Tsv, selection, text.as_bytes())
            .into_iter()
            .map(|entry| {
                entry
                    .map_err(|(line, what)| format!("{line}: {what}"))
                    .unwrap()
            })
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
    fn the_rest_of_the_line_is_the_value() {
        let all = pairs(&Selection::default(), "a\t1\tx\r\nb\\tc\tl1\\nl2\nd\t");
        assert_eq!(
            all,
            [pair("a", "1\tx"), pair("b\tc", "l1\nl2"), pair("d", "")]
        );
    }

    #[test]
    fn columns_by_number_and_name() {
        let by_number = Selection {
            key: Some("2".into()),
            value: vec!["3".into(), "1".into()],
            ..Selection::default()
        };
        assert_eq!(pairs(&by_number, "a\tb\tc\n"), [pair("b", "c\ta")]);
        let by_name = Selection {
            key: Some("id".into()),
            ..Selection::default()
        };
        assert_eq!(pairs(&by_name, "x\tid\ty\n1\tk\t2\n"), [pair("k", "1\t2")]);
        let missing = Selection {
            key: Some("no".into()),
            ..Selection::default()
        };
        assert!(matches!(
            Tsv::new(b"x\tid\n".as_slice(), &missing),
            Err(Problem::Columns(_))
        ));
    }

    #[test]
    fn malformed_lines_are_named_and_the_rest_is_read() {
        let all = read_all(
            Format::Tsv,
            &Selection::default(),
            b"a\t1\nnothing\n\nb\t\\q\nc\t2\n",
        );
        let lines: Vec<_> = all
            .iter()
            .filter_map(|entry| entry.as_ref().err())
            .map(|(line, _)| *line)
            .collect();
        assert_eq!(lines, [2, 3, 4]);
        assert_eq!(all.iter().flatten().count(), 2);
        let column = Selection {
            key: Some("3".into()),
            ..Selection::default()
        };
        let all = read_all(Format::Tsv, &column, b"a\tb\n");
        assert!(
            matches!(&all[..], [Err((1, what))] if what.contains("column 3")),
            "{all:?}"
        );
    }

    #[test]
    fn a_long_value_is_read_in_parts_and_may_be_passed_over() {
        // Escapes, and what only looks like a line's end, at every place of a part.
        let value = "\\x41\\n\\\\\r!".repeat(LONG / 4);
        let text = format!("a\t{value}\r\nb\t{value}\nc\t{value}\\q\nd\t{value}");
        for no_escapes in [false, true] {
            let selection = Selection {
                no_escapes,
                ..Selection::default()
            };
            let mut wanted = Vec::new();
            decode(value.as_bytes(), no_escapes, &mut wanted).unwrap();
            let mut reader = Tsv::new(text.as_bytes(), &selection).unwrap();
            let mut entry = Entry::default();
            for (at, key) in ["a", "b", "c", "d"].into_iter().enumerate() {
                assert!(reader.next(&mut entry).unwrap());
                assert_eq!(
                    (entry.line, &entry.key[..]),
                    (at as u64 + 1, key.as_bytes())
                );
                assert!(entry.value.is_empty());
                let mut got = Vec::new();
                let read = reader.long_value().unwrap().read_to_end(&mut got);
                match key {
                    "a" if no_escapes => assert!(got.strip_suffix(b"\r") == Some(&wanted[..])),
                    "c" if no_escapes => assert!(got.strip_suffix(b"\\q") == Some(&wanted[..])),
                    "c" => assert!(read.unwrap_err().kind() == io::ErrorKind::InvalidData),
                    _ => assert!(got == wanted, "{key}"),
                }
            }
            assert!(!reader.next(&mut entry).unwrap());
        }
        let mut reader = Tsv::new(text.as_bytes(), &Selection::default()).unwrap();
        let mut entry = Entry::default();
        let mut keys = Vec::new();
        while reader.next(&mut entry).unwrap() {
            keys.extend_from_slice(&entry.key);
        }
        assert_eq!(keys, b"abcd");
        let no_tab = [vec![b'x'; 3 * LONG], b"\ne\t1\n".to_vec()].concat();
        let all = read_all(Format::Tsv, &Selection::default(), &no_tab);
        let wrong = all.first().and_then(|first| first.as_ref().err());
        assert!(wrong.is_some_and(|(line, what)| *line == 1 && what.contains("no tab")));
        assert_eq!(
            all.get(1)
                .and_then(|entry| entry.as_ref().ok())
                .unwrap()
                .key,
            b"e"
        );
    }

    #[test]
    fn without_escapes_a_backslash_is_itself() {
        let selection = Selection {
            no_escapes: true,
            ..Selection::default()
        };
        assert_eq!(
            pairs(&selection, "a\\q\tc:\\temp\\\r\n"),
            [pair("a\\q", "c:\\temp\\\r")]
        );
        let write = |key: &[u8], value: &[u8]| {
            let style = Style {
                no_escapes: true,
                ..Style::default()
            };
            written(Format::Tsv, style, key, Value::Whole(value))
        };
        let text = write(b"a\\q", b"c:\\temp\\\r").unwrap();
        assert_eq!(text, b"a\\q\tc:\\temp\\\r\n");
        assert!(write(b"a", b"1\n2").is_err());
        assert!(write(b"a\tb", b"").is_err());
    }
}
