//! Lines of any bytes, numbered from 1, of bounded length.

use std::io::{self, BufRead, Read};

use super::Problem;

/// The longest line or record taken, in bytes: the largest value allowed, with every byte escaped.
pub(super) const MAX_LEN: usize = 160 << 20;

/// What is read at a time of a line that is not read whole, in bytes.
const PART: u64 = 64 << 10;

/// What there was of the next line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Begun {
    Nothing,
    Whole,
    /// Its first bytes.
    Part,
}

/// Cuts input into lines.
pub(super) struct Lines<R> {
    input: R,
    number: u64,
}

impl<R: BufRead> Lines<R> {
    pub(super) fn new(input: R) -> Self {
        Lines { input, number: 0 }
    }

    /// The number of the line read last.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// Appends the next line to `into`, its end (if it has one) included; false at the end of the
    /// input. A line that would make `into` longer than [`MAX_LEN`] is passed over.
    pub(super) fn next(&mut self, into: &mut Vec<u8>) -> Result<bool, Problem> {
        let room = (MAX_LEN + 1).saturating_sub(into.len());
        let read = self
            .input
            .by_ref()
            .take(room as u64)
            .read_until(b'\n', into)?;
        if read == 0 && room > 0 {
            return Ok(false);
        }
        self.number += 1;
        if into.len() <= MAX_LEN {
            return Ok(true);
        }
        if into.last() != Some(&b'\n') {
            self.input.skip_until(b'\n')?;
        }
        *into = Vec::new();
        Err(Problem::Malformed {
            line: self.number,
            what: format!("longer than {MAX_LEN} bytes"),
        })
    }

    /// Appends the next line to `into`, or its first `most` bytes, which [`Lines::more`] goes on
    /// behind.
    pub(super) fn begin(&mut self, into: &mut Vec<u8>, most: usize) -> io::Result<Begun> {
        let mut part = self.input.by_ref().take(most as u64);
        let read = part.read_until(b'\n', into)?;
        if read == 0 {
            return Ok(Begun::Nothing);
        }
        self.number += 1;
        if read < most || into.last() == Some(&b'\n') {
            return Ok(Begun::Whole);
        }
        Ok(Begun::Part)
    }

    /// Appends more of a line that was begun, its end included; whether that was all.
    pub(super) fn more(&mut self, into: &mut Vec<u8>) -> io::Result<bool> {
        let mut part = self.input.by_ref().take(PART);
        let read = part.read_until(b'\n', into)? as u64;
        Ok(read < PART || into.last() == Some(&b'\n'))
    }
}

/// A line without its end, `\n` or `\r\n`.
pub(super) fn trim_end(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufReader, repeat};

    #[test]
    fn lines_with_and_without_an_end() {
        let mut lines = Lines::new(b"a\r\n\nb".as_slice());
        let mut seen = Vec::new();
        let mut line = Vec::new();
        while lines.next(&mut line).unwrap() {
            seen.push(trim_end(&line).to_vec());
            line.clear();
        }
        assert_eq!(seen, [b"a".to_vec(), b"".to_vec(), b"b".to_vec()]);
        assert_eq!(lines.number(), 3);
    }

    #[test]
    fn an_endless_line_is_refused_and_passed_over() {
        let endless = repeat(b'x')
            .take(MAX_LEN as u64 + 9)
            .chain(b"\nnext\n".as_slice());
        let mut lines = Lines::new(BufReader::new(endless));
        let mut line = Vec::new();
        assert!(matches!(
            lines.next(&mut line),
            Err(Problem::Malformed { line: 1, .. })
        ));
        assert!(lines.next(&mut line).unwrap());
        assert_eq!(line, b"next\n");
    }
}
