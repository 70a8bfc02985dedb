//! Bytes as text on one line, and back.
//!
//! `\\`, `\t`, `\n` and `\r` stand for a backslash, tab, line feed and carriage return, `\xNN` for
//! any byte. All other bytes stand for themselves.

use std::ffi::OsStr;

use crate::failure::Failure;

/// Appends `bytes` with backslash, line feed and carriage return escaped, and tabs if asked for.
pub fn escape(bytes: &[u8], tabs: bool, out: &mut Vec<u8>) {
    for &byte in bytes {
        match byte {
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' if tabs => out.extend_from_slice(b"\\t"),
            _ => out.push(byte),
        }
    }
}

/// Whether a terminal would do something with a character instead of showing it: controls, and
/// what changes the direction or the end of lines.
fn commands_terminal(character: char) -> bool {
    const FORMATS: [std::ops::RangeInclusive<char>; 4] = [
        '\u{200e}'..='\u{200f}',
        '\u{2028}'..='\u{202e}',
        '\u{2066}'..='\u{2069}',
        '\u{061c}'..='\u{061c}',
    ];
    character.is_control() || FORMATS.iter().any(|formats| formats.contains(&character))
}

/// A line of JSON with what a terminal should not get as `\uNNNN`: it stands in strings only.
pub fn json_for_terminal(line: &[u8]) -> Vec<u8> {
    let mut out = String::with_capacity(line.len());
    for character in String::from_utf8_lossy(line).chars() {
        if character != '\n' && commands_terminal(character) {
            out += &format!("\\u{:04x}", u32::from(character));
        } else {
            out.push(character);
        }
    }
    out.into_bytes()
}

/// As [`escape`], with what a terminal should not get as `\xNN` too, and what is not UTF-8.
pub fn escape_for_terminal(bytes: &[u8], tabs: bool, out: &mut Vec<u8>) {
    let hex = |bytes: &[u8], out: &mut Vec<u8>| {
        let digits = bytes.iter().map(|byte| format!("\\x{byte:02x}"));
        digits.for_each(|digits| out.extend_from_slice(digits.as_bytes()));
    };
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            let mut buffer = [0; 4];
            let text = character.encode_utf8(&mut buffer).as_bytes();
            match character {
                '\t' | '\n' | '\r' => escape(text, tabs, out),
                _ if commands_terminal(character) => hex(text, out),
                _ => escape(text, tabs, out),
            }
        }
        hex(chunk.invalid(), out);
    }
}

/// Appends what `text` stands for. The error says what is wrong with it.
pub fn unescape(text: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
    let mut rest = text;
    while let Some(at) = rest.iter().position(|&byte| byte == b'\\') {
        out.extend_from_slice(&rest[..at]);
        let (byte, length) = match rest[at + 1..] {
            [b'\\', ..] => (b'\\', 2),
            [b't', ..] => (b'\t', 2),
            [b'n', ..] => (b'\n', 2),
            [b'r', ..] => (b'\r', 2),
            [b'x', high, low, ..] => match (digit(high), digit(low)) {
                (Some(high), Some(low)) => (high << 4 | low, 4),
                _ => return Err("`\\x` takes two hexadecimal digits".to_owned()),
            },
            [] => return Err("a backslash at the end; write `\\\\` for a backslash".to_owned()),
            [other, ..] => {
                let other = other.escape_ascii();
                return Err(format!(
                    "unknown escape `\\{other}`; write `\\\\` for a backslash"
                ));
            }
        };
        out.push(byte);
        rest = &rest[at + length..];
    }
    out.extend_from_slice(rest);
    Ok(())
}

/// How much of a text that goes on can be unescaped by itself: no escape is cut in two.
pub fn whole_escapes(text: &[u8]) -> usize {
    let mut end = 0;
    while let Some(at) = text[end..].iter().position(|&byte| byte == b'\\') {
        let start = end + at;
        let length = match text.get(start + 1) {
            Some(b'x') => 4,
            Some(_) => 2,
            None => return start,
        };
        if start + length > text.len() {
            return start;
        }
        end = start + length;
    }
    text.len()
}

fn digit(byte: u8) -> Option<u8> {
    char::from(byte)
        .to_digit(16)
        .and_then(|digit| u8::try_from(digit).ok())
}

/// A key or value given on the command line: its bytes as they are, or with escapes resolved.
pub fn argument(argument: &OsStr, escaped: bool) -> Result<Vec<u8>, Failure> {
    let bytes = argument.as_encoded_bytes();
    if !escaped {
        return Ok(bytes.to_vec());
    }
    let mut out = Vec::with_capacity(bytes.len());
    unescape(bytes, &mut out).map_err(|what| {
        Failure::usage(
            format!("`{}`: {what}", argument.display()),
            "with --escaped, \\t \\n \\r \\\\ and \\xNN are escapes",
        )
    })?;
    Ok(out)
}

/// Bytes for a message: printable, and not too long.
pub fn preview(bytes: &[u8]) -> String {
    const MOST: usize = 60;
    let shown = &bytes[..bytes.len().min(MOST)];
    let mut text = match std::str::from_utf8(shown) {
        Ok(text) if !text.chars().any(char::is_control) => text.to_owned(),
        _ => shown.escape_ascii().to_string(),
    };
    if bytes.len() > MOST {
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_byte_string_comes_back(bytes: Vec<u8>, tabs: bool) {
            let (mut text, mut back) = (Vec::new(), Vec::new());
            escape(&bytes, tabs, &mut text);
            prop_assert!(!text.iter().any(|byte| matches!(byte, b'\n' | b'\r')));
            prop_assert!(!tabs || !text.contains(&b'\t'));
            unescape(&text, &mut back).unwrap();
            prop_assert_eq!(&back, &bytes);
            (text, back) = (Vec::new(), Vec::new());
            escape_for_terminal(&bytes, tabs, &mut text);
            let shown = std::str::from_utf8(&text).unwrap();
            prop_assert!(!shown.chars().any(|c| c.is_control() && (tabs || c != '\t')), "{shown:?}");
            unescape(&text, &mut back).unwrap();
            prop_assert_eq!(back, bytes);
        }
    }

    #[test]
    fn terminals_get_no_commands() {
        let mut out = Vec::new();
        escape_for_terminal("\x1b[2Jü\u{9b}\x7f\u{202e}".as_bytes(), true, &mut out);
        assert_eq!(out, "\\x1b[2Jü\\xc2\\x9b\\x7f\\xe2\\x80\\xae".as_bytes());
        let line = serde_json::to_string("\x1b[2Jü\u{9b}\u{202e}").unwrap() + "\n";
        let shown = json_for_terminal(line.as_bytes());
        assert_eq!(shown, b"\"\\u001b[2J\xc3\xbc\\u009b\\u202e\"\n");
        let back: String = serde_json::from_slice(&shown).unwrap();
        assert_eq!(back, "\x1b[2Jü\u{9b}\u{202e}");
    }

    #[test]
    fn what_is_no_escape_is_refused() {
        for wrong in ["\\", "a\\q", "\\x4", "\\xg0"] {
            assert!(
                unescape(wrong.as_bytes(), &mut Vec::new()).is_err(),
                "{wrong}"
            );
        }
        for wrong in ["\\x4", "\\xg0"] {
            assert!(argument(OsStr::new(wrong), true).is_err(), "{wrong}");
        }
        assert_eq!(
            argument(OsStr::new("a\\x00\\xfF"), true).unwrap(),
            b"a\0\xff"
        );
        assert_eq!(argument(OsStr::new("a\\x00"), false).unwrap(), b"a\\x00");
    }

    #[test]
    fn previews_are_short_and_printable() {
        assert_eq!(preview("straße".as_bytes()), "straße");
        assert_eq!(preview(b"a\nb\xff"), "a\\nb\\xff");
        assert!(preview(&[b'x'; 1000]).len() < 70);
    }
}
