//! JSON objects, one a line.
//!
//! Without fields chosen, an object is `{"key":"…","value":"…"}`, numbers by their text, where
//! `key_base64` and `value_base64` stand in for bytes that are not UTF-8. With a key field, the
//! value is the whole object as it stands in the input, or the fields chosen: one string by its
//! text, anything else as JSON.

use std::collections::HashMap;
use std::io::{self, BufRead, Write};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use base64::write::EncoderWriter;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::lines::{Lines, trim_end};
use super::{Entry, Problem, Reader, Selection, Text, Unwritten, Value};

pub(super) struct Jsonl<R> {
    lines: Lines<R>,
    buffer: Vec<u8>,
    selection: Selection,
}

impl<R: BufRead> Jsonl<R> {
    pub(super) fn new(input: R, selection: &Selection) -> Self {
        Jsonl {
            lines: Lines::new(input),
            buffer: Vec::new(),
            selection: selection.clone(),
        }
    }
}

impl<R: BufRead> Reader for Jsonl<R> {
    fn next(&mut self, entry: &mut Entry) -> Result<bool, Problem> {
        self.buffer.clear();
        if !self.lines.next(&mut self.buffer)? {
            return Ok(false);
        }
        entry.line = self.lines.number();
        let line = trim_end(&self.buffer);
        let read = if self.selection.is_default() {
            plain(line, entry)
        } else {
            fields(line, &self.selection, entry)
        };
        read.map(|()| true).map_err(|what| Problem::Malformed {
            line: entry.line,
            what,
        })
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Plain<'a> {
    #[serde(borrow)]
    key: Option<&'a RawValue>,
    key_base64: Option<String>,
    #[serde(borrow)]
    value: Option<&'a RawValue>,
    value_base64: Option<String>,
}

fn plain(line: &[u8], entry: &mut Entry) -> Result<(), String> {
    let Plain {
        key,
        key_base64,
        value,
        value_base64,
    } = serde_json::from_slice(line).map_err(|e| {
        format!(
            "{}; an object has the fields `key` and `value`, or choose one with --key",
            explain(&e)
        )
    })?;
    entry.key = bytes("key", key, key_base64)?;
    entry.value = bytes("value", value, value_base64)?;
    Ok(())
}

fn bytes(name: &str, raw: Option<&RawValue>, base64: Option<String>) -> Result<Vec<u8>, String> {
    match (raw, base64) {
        (Some(raw), None) if is_string_or_number(raw.get()) => Ok(text(raw.get())),
        (Some(_), None) => Err(format!("the field `{name}` is not a string or number")),
        (None, Some(base64)) => STANDARD
            .decode(base64)
            .map_err(|e| format!("`{name}_base64`: {e}")),
        (None, None) => Err(format!("the field `{name}` is missing")),
        (Some(_), Some(_)) => Err(format!("both `{name}` and `{name}_base64` are given")),
    }
}

fn fields(line: &[u8], selection: &Selection, entry: &mut Entry) -> Result<(), String> {
    let object: HashMap<String, &RawValue> =
        serde_json::from_slice(line).map_err(|e| explain(&e))?;
    let get = |name: &str| {
        object
            .get(name)
            .map(|raw| raw.get())
            .ok_or_else(|| format!("the field `{name}` is missing"))
    };
    let name = selection.key.as_deref().unwrap_or("key");
    let key = get(name)?;
    if !is_string_or_number(key) {
        return Err(format!("the field `{name}` is not a string or number"));
    }
    entry.key = text(key);
    entry.value = match selection.value.as_slice() {
        [] => line.to_vec(),
        [only] => text(get(only)?),
        several => {
            let parts = several
                .iter()
                .map(|name| {
                    Ok(format!(
                        "{}:{}",
                        serde_json::Value::from(name.as_str()),
                        get(name)?
                    ))
                })
                .collect::<Result<Vec<_>, String>>()?;
            format!("{{{}}}", parts.join(",")).into_bytes()
        }
    };
    Ok(())
}

fn is_string_or_number(raw: &str) -> bool {
    raw.starts_with(|first: char| first == '"' || first == '-' || first.is_ascii_digit())
}

/// A string by its text, anything else as JSON.
fn text(raw: &str) -> Vec<u8> {
    serde_json::from_str::<String>(raw)
        .unwrap_or_else(|_| raw.to_owned())
        .into_bytes()
}

/// What is wrong, with the column; the line in serde's message is always 1.
fn explain(error: &serde_json::Error) -> String {
    let message = error.to_string();
    let what = message.split(" at line ").next().unwrap_or(&message);
    match error.column() {
        0 => what.to_owned(),
        column => format!("column {column}: {what}"),
    }
}

pub(super) fn write(
    key: &[u8],
    value: &mut Value<'_>,
    out: &mut Text<'_>,
) -> Result<(), Unwritten> {
    out.text.push(b'{');
    write_field("key", key, &mut out.text).map_err(Unwritten::Refused)?;
    out.text.push(b',');
    match value {
        Value::Whole(value) => {
            write_field("value", value, &mut out.text).map_err(Unwritten::Refused)?;
        }
        Value::Pieces(_) => write_pieces(value, out)?,
    }
    out.text.extend_from_slice(b"}\n");
    Ok(())
}

/// Writes what [`write_field`] does of a value that is whole.
fn write_pieces(value: &mut Value<'_>, out: &mut Text<'_>) -> Result<(), Unwritten> {
    if value.is_text()? {
        out.text.extend_from_slice(b"\"value\":\"");
        value.each(|piece| {
            let changed = |error| Unwritten::Value(io::Error::other(error));
            let piece = std::str::from_utf8(piece).map_err(changed)?;
            let start = out.text.len();
            serde_json::to_writer(&mut out.text, piece)
                .map_err(|error| Unwritten::Refused(error.to_string()))?;
            // Without the quotes.
            out.text.remove(start);
            out.text.pop();
            out.spill()
        })?;
    } else {
        out.text.extend_from_slice(b"\"value_base64\":\"");
        out.spill()?;
        let mut base64 = EncoderWriter::new(&mut *out.to, &STANDARD);
        value.each(|piece| base64.write_all(piece).map_err(Unwritten::Output))?;
        base64.finish().map_err(Unwritten::Output)?;
    }
    out.text.push(b'"');
    Ok(())
}

/// Appends `"name":"…"`, or `"name_base64":"…"` for bytes that are not UTF-8.
pub(super) fn write_field(name: &str, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
    match std::str::from_utf8(bytes) {
        Ok(text) => {
            out.extend_from_slice(format!("\"{name}\":").as_bytes());
            serde_json::to_writer(out, text).map_err(|e| e.to_string())
        }
        Err(_) => {
            out.extend_from_slice(
                format!("\"{name}_base64\":\"{}\"", STANDARD.encode(bytes)).as_bytes(),
            );
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{read_all, written};
    use super::super::{Format, Style};
    use super::*;

    fn select(key: &str, value: &[&str]) -> Selection {
        Selection {
            key: Some(key.into()),
            value: value.iter().map(|&name| name.into()).collect(),
            ..Selection::default()
        }
    }

    fn one(selection: &Selection, text: &str) -> Result<(String, String), String> {
        let all = read_all(Format::Jsonl, selection, text.as_bytes());
        assert_eq!(all.len(), 1);
        match all.into_iter().next() {
            Some(Ok(entry)) => Ok((
                String::from_utf8(entry.key).unwrap(),
                String::from_utf8(entry.value).unwrap(),
            )),
            Some(Err((line, what))) => Err(format!("{line}: {what}")),
            None => unreachable!("one entry"),
        }
    }

    #[test]
    fn bytes_that_are_no_text_are_base64() {
        let value = Value::Whole(b"\xff\x00");
        let out = written(Format::Jsonl, Style::default(), b"k\"\n", value).unwrap();
        assert_eq!(out, b"{\"key\":\"k\\\"\\n\",\"value_base64\":\"/wA=\"}\n");
    }

    #[test]
    fn numbers_are_keys_by_their_text() {
        let plain = Selection::default();
        let (key, value) = one(&plain, r#"{"key":12.50,"value":-3}"#).unwrap();
        assert_eq!((&*key, &*value), ("12.50", "-3"));
        let (key, _) = one(&select("id", &[]), r#"{"id":12.50}"#).unwrap();
        assert_eq!(key, "12.50");
        // A text that begins as an array does is a text.
        let (key, _) = one(&select("id", &[]), r#"{"id":"[a]"}"#).unwrap();
        assert_eq!(key, "[a]");
    }

    #[test]
    fn fields_and_whole_objects() {
        let line = r#"{"id": 7, "name":"a\tb", "tags":["x"]}"#;
        assert_eq!(
            one(&select("id", &[]), line).unwrap(),
            ("7".into(), line.into())
        );
        assert_eq!(
            one(&select("name", &["tags"]), line).unwrap(),
            ("a\tb".into(), r#"["x"]"#.into())
        );
        let several = one(&select("id", &["tags", "name"]), line).unwrap().1;
        assert_eq!(several, r#"{"tags":["x"],"name":"a\tb"}"#);
    }

    #[test]
    fn malformed_objects_say_what_is_wrong() {
        let plain = Selection::default();
        for (selection, text, expected) in [
            (&plain, "", "EOF"),
            (&plain, "[1]", "column"),
            (&plain, r#"{"key":"a"}"#, "`value` is missing"),
            (&plain, r#"{"key":"a","value":"b","more":1}"#, "--key"),
            (&plain, r#"{"key":"a","key_base64":"","value":""}"#, "both"),
            (&plain, r#"{"key_base64":"!","value":""}"#, "key_base64"),
            (&plain, r#"{"key":"a","value":"b"} x"#, "trailing"),
            (&select("id", &[]), r#"{"key":"a"}"#, "`id` is missing"),
            (&select("id", &[]), r#"{"id":{}}"#, "not a string"),
            (&select("id", &[]), r#"{"id":true}"#, "not a string"),
            (&plain, r#"{"key":[1],"value":"b"}"#, "not a string"),
            (&select("id", &["v"]), r#"{"id":1}"#, "`v` is missing"),
        ] {
            let error = one(selection, &format!("{text}\n")).unwrap_err();
            assert!(
                error.starts_with("1: ") && error.contains(expected),
                "{text}: {error}"
            );
        }
    }
}
