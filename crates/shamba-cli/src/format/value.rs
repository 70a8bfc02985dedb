//! A value on its way to an output: whole, or in pieces where it is larger than memory allows. It
//! may be gone through more than once, so that a format can look at it before it writes it.

use std::io::{self, Read, Seek, Write};

/// Bytes of a piece. Formats make up to six times as many of them.
const PIECE: usize = 16 << 10;

/// What a value in pieces is read from.
pub trait Source: Read + Seek {}

impl<S: Read + Seek> Source for S {}

/// The value of an entry that is written.
pub enum Value<'a> {
    Whole(&'a [u8]),
    Pieces(Box<dyn Source + 'a>),
}

/// Why an entry was not written.
#[derive(Debug)]
pub enum Unwritten {
    /// The format has no way to write it.
    Refused(String),
    /// Its value could not be read.
    Value(io::Error),
    /// The output did not take it.
    Output(io::Error),
}

/// Text of entries, and the output that it goes to.
pub struct Text<'a> {
    /// What was not written yet.
    pub text: Vec<u8>,
    pub to: &'a mut dyn Write,
}

impl<'a> Text<'a> {
    pub fn new(to: &'a mut dyn Write) -> Self {
        Text {
            text: Vec::new(),
            to,
        }
    }

    /// Writes the text so far.
    pub fn spill(&mut self) -> Result<(), Unwritten> {
        self.to.write_all(&self.text).map_err(Unwritten::Output)?;
        self.text.clear();
        Ok(())
    }
}

impl Value<'_> {
    /// Gives all bytes, in order. No piece ends within a character, but for the last one.
    pub fn each(
        &mut self,
        mut take: impl FnMut(&[u8]) -> Result<(), Unwritten>,
    ) -> Result<(), Unwritten> {
        let source = match self {
            Value::Whole(bytes) => return take(bytes),
            Value::Pieces(source) => source,
        };
        source.rewind().map_err(Unwritten::Value)?;
        let mut buffer = vec![0; PIECE];
        let mut begun = 0;
        loop {
            let read = source
                .read(&mut buffer[begun..])
                .map_err(Unwritten::Value)?;
            let end = begun + read;
            if read == 0 {
                return take(&buffer[..end]);
            }
            begun = begun_character(&buffer[..end]);
            take(&buffer[..end - begun])?;
            buffer.copy_within(end - begun..end, 0);
        }
    }

    /// Appends all bytes, as `encode` makes text of them.
    pub fn append(
        &mut self,
        out: &mut Text<'_>,
        mut encode: impl FnMut(&[u8], &mut Vec<u8>),
    ) -> Result<(), Unwritten> {
        self.each(|piece| {
            encode(piece, &mut out.text);
            out.spill()
        })
    }

    /// Whether there is a byte like that.
    pub fn any(&mut self, like: impl Fn(u8) -> bool) -> Result<bool, Unwritten> {
        let mut found = false;
        self.each(|piece| {
            found = found || piece.iter().any(|&byte| like(byte));
            Ok(())
        })?;
        Ok(found)
    }

    /// Whether it is UTF-8.
    pub fn is_text(&mut self) -> Result<bool, Unwritten> {
        let mut text = true;
        self.each(|piece| {
            text = text && std::str::from_utf8(piece).is_ok();
            Ok(())
        })?;
        Ok(text)
    }
}

/// How many bytes at the end begin a character that could go on behind them.
fn begun_character(bytes: &[u8]) -> usize {
    let begins = |length: &usize| {
        let tail = bytes.len().checked_sub(*length).map(|at| &bytes[at..]);
        tail.is_some_and(|tail| match std::str::from_utf8(tail) {
            Ok(_) => false,
            Err(error) => error.valid_up_to() == 0 && error.error_len().is_none(),
        })
    };
    (1..=3).find(begins).unwrap_or(0)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Gives few bytes at a time, as a reader may.
    struct Slow<'a>(io::Cursor<&'a [u8]>, usize);

    impl Read for Slow<'_> {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            let most = into.len().min(self.1);
            self.0.read(&mut into[..most])
        }
    }

    impl Seek for Slow<'_> {
        fn seek(&mut self, to: io::SeekFrom) -> io::Result<u64> {
            self.0.seek(to)
        }
    }

    /// A value in pieces of so many bytes.
    pub fn in_pieces(bytes: &[u8], of: usize) -> Value<'_> {
        Value::Pieces(Box::new(Slow(io::Cursor::new(bytes), of)))
    }

    proptest! {
        #[test]
        fn pieces_of_text_are_text(text: String, of in 1..9usize) {
            let mut value = in_pieces(text.as_bytes(), of);
            let mut back = String::new();
            value.each(|piece| {
                back += std::str::from_utf8(piece).expect("a whole character");
                Ok(())
            }).unwrap();
            prop_assert_eq!(&back, &text);
            prop_assert!(value.is_text().unwrap());
        }

        #[test]
        fn pieces_of_bytes_are_the_bytes(bytes: Vec<u8>, of in 1..9usize) {
            let mut value = in_pieces(&bytes, of);
            let mut back = Vec::new();
            value.each(|piece| {
                back.extend_from_slice(piece);
                Ok(())
            }).unwrap();
            prop_assert_eq!(&back, &bytes);
            prop_assert_eq!(value.is_text().unwrap(), std::str::from_utf8(&bytes).is_ok());
            prop_assert_eq!(value.any(|byte| byte == 7).unwrap(), bytes.contains(&7));
        }
    }
}
