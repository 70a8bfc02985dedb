//! Bytes as text on one line, and back.
//!
//! `\\`, `\t`, `\n` and `\r` stand for a backslash, tab, line feed and carriage return; on the
//! command line also `\xNN` for any byte. All other bytes stand for themselves.

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

/// Appends what `text` stands for. The error says what is wrong with it.
pub fn unescape(text: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
    decode(text, false, out)
}

fn decode(text: &[u8], hex: bool, out: &mut Vec<u8>) -> Result<(), String> {
    let mut rest = text;
    while let Some(at) = rest.iter().position(|&byte| byte == b'\\') {
        out.extend_from_slice(&rest[..at]);
        let (byte, length) = match rest[at + 1..] {
            [b'\\', ..] => (b'\\', 2),
            [b't', ..] => (b'\t', 2),
            [b'n', ..] => (b'\n', 2),
            [b'r', ..] => (b'\r', 2),
            [b'x', high, low, ..] if hex => match (digit(high), digit(low)) {
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
    decode(bytes, true, &mut out).map_err(|what| {
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
            prop_assert_eq!(back, bytes);
        }
    }

    #[test]
    fn what_is_no_escape_is_refused() {
        for wrong in ["\\", "a\\q", "\\x41"] {
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
