//! Tab-separated lines.
//!
//! The key is the first column and the value the rest of the line, further tabs included, so that
//! files of many columns come back as they were. With other columns chosen, the values of several
//! are joined by tabs.

use std::io::BufRead;

use super::lines::{Lines, trim_end};
use super::{Chosen, Entry, Problem, Reader, Selection};
use crate::text;

pub(super) struct Tsv<R> {
    lines: Lines<R>,
    buffer: Vec<u8>,
    /// None for the default: the first column, and the rest of the line.
    chosen: Option<Chosen>,
    no_escapes: bool,
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
        })
    }
}

impl<R: BufRead> Reader for Tsv<R> {
    fn next(&mut self, entry: &mut Entry) -> Result<bool, Problem> {
        self.buffer.clear();
        if !self.lines.next(&mut self.buffer)? {
            return Ok(false);
        }
        entry.line = self.lines.number();
        entry.key.clear();
        entry.value.clear();
        let line = if self.no_escapes {
            self.buffer.strip_suffix(b"\n").unwrap_or(&self.buffer)
        } else {
            trim_end(&self.buffer)
        };
        split(line, self.chosen.as_ref(), self.no_escapes, entry)
            .map(|()| true)
            .map_err(|what| Problem::Malformed {
                line: entry.line,
                what,
            })
    }
}

fn split(
    line: &[u8],
    chosen: Option<&Chosen>,
    no_escapes: bool,
    entry: &mut Entry,
) -> Result<(), String> {
    let decode = |text: &[u8], out: &mut Vec<u8>| {
        if no_escapes {
            out.extend_from_slice(text);
            Ok(())
        } else {
            text::unescape(text, out)
        }
    };
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
    value: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), String> {
    if no_escapes {
        if key.contains(&b'\t') || key.contains(&b'\n') || value.contains(&b'\n') {
            return Err("it has a line feed or its key a tab, which need escapes".to_owned());
        }
        out.extend_from_slice(key);
        out.push(b'\t');
        out.extend_from_slice(value);
    } else {
        text::escape(key, true, out);
        out.push(b'\t');
        text::escape(value, false, out);
    }
    out.push(b'\n');
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::Format;
    use super::super::tests::read_all;
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
    fn without_escapes_a_backslash_is_itself() {
        let selection = Selection {
            no_escapes: true,
            ..Selection::default()
        };
        assert_eq!(
            pairs(&selection, "a\\q\tc:\\temp\\\r\n"),
            [pair("a\\q", "c:\\temp\\\r")]
        );
        let mut text = Vec::new();
        write(true, b"a\\q", b"c:\\temp\\\r", &mut text).unwrap();
        assert_eq!(text, b"a\\q\tc:\\temp\\\r\n");
        assert!(write(true, b"a", b"1\n2", &mut text).is_err());
        assert!(write(true, b"a\tb", b"", &mut text).is_err());
    }
}
