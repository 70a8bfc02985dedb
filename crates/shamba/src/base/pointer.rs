//! What a tree stores of a value that lies in a value file (docs/format.md, "Value files"): which
//! file, and where in it.

use super::coding::{put_varint, take_varint};
use super::expiring::EXPIRY_BYTES;
use super::key::{EntryKind, MAX_SEQNO, SeqNo};

/// The most bytes of a pointer.
pub(crate) const MAX_POINTER_LEN: usize = 3 * 10;

/// The number of a value in pieces: no entry has it.
const IN_PIECES: SeqNo = MAX_SEQNO;

/// The key of a piece in its file.
pub(crate) const fn piece_key(number: u32) -> [u8; 4] {
    number.to_be_bytes()
}

/// The bytes of a stored value that say when the entry expires, if it does, and those behind them:
/// the value, or what points to it.
pub(crate) fn split(kind: EntryKind, stored: &[u8]) -> (&[u8], &[u8]) {
    let at = if kind.expires() { EXPIRY_BYTES } else { 0 };
    stored.split_at_checked(at).unwrap_or((stored, &[]))
}

/// Where a value lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ValuePointer {
    /// The number of the value file.
    pub(crate) file: u64,
    /// The sequence number that the value has there, under the key of the entry that points to it;
    /// [`IN_PIECES`] if it is all that the file has, in pieces.
    pub(crate) seq: SeqNo,
    /// The bytes of the value.
    pub(crate) len: u64,
}

impl ValuePointer {
    /// To a file that there never is.
    pub(crate) const NOWHERE: ValuePointer = ValuePointer {
        file: 0,
        seq: 0,
        len: 0,
    };

    /// A pointer to all that a file has, in pieces.
    pub(crate) const fn in_pieces(file: u64, len: u64) -> ValuePointer {
        ValuePointer {
            file,
            seq: IN_PIECES,
            len,
        }
    }

    /// Whether the value is all that its file has, in pieces.
    pub(crate) const fn is_in_pieces(self) -> bool {
        self.seq == IN_PIECES
    }

    /// Appends its bytes.
    pub(crate) fn put(self, out: &mut Vec<u8>) {
        put_varint(out, self.file);
        put_varint(out, self.seq);
        put_varint(out, self.len);
    }

    /// The pointer of these bytes, or [`ValuePointer::NOWHERE`].
    pub(crate) fn read(bytes: &[u8]) -> ValuePointer {
        ValuePointer::parse(bytes).unwrap_or(ValuePointer::NOWHERE)
    }

    /// The pointer of these bytes, which are all of them.
    pub(crate) fn parse(mut bytes: &[u8]) -> Option<ValuePointer> {
        let pointer = ValuePointer {
            file: take_varint(&mut bytes)?,
            seq: take_varint(&mut bytes).filter(|&seq| seq <= MAX_SEQNO)?,
            len: take_varint(&mut bytes)?,
        };
        bytes.is_empty().then_some(pointer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn pointers_are_read_as_they_were_written(
            (file, seq, len) in (any::<u64>(), 0..=MAX_SEQNO, any::<u64>()),
            other in any::<Vec<u8>>(),
        ) {
            let pointer = ValuePointer { file, seq, len };
            let mut bytes = Vec::new();
            pointer.put(&mut bytes);
            prop_assert_eq!(ValuePointer::parse(&bytes), Some(pointer));
            for end in 0..bytes.len() {
                prop_assert_eq!(ValuePointer::parse(&bytes[..end]), None);
            }
            bytes.push(0);
            prop_assert_eq!(ValuePointer::parse(&bytes), None);
            let _ = ValuePointer::parse(&other);
        }
    }
}
