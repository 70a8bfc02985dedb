//! The operations in a batch's bytes. Decoding takes arbitrary bytes and never panics.

use crate::base::coding;
use crate::base::expiring::EXPIRY_BYTES;
use crate::base::fragment::is_before;
use crate::base::key::{EntryKind, MAX_KEY_LEN, MAX_VALUE_LEN, Tag};
use crate::base::pointer::MAX_POINTER_LEN;

/// What an operation does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OpKind {
    /// It writes an entry.
    Entry(EntryKind),
    /// It deletes all keys from the key on to the value, which is not one of them; an empty one is
    /// no end.
    DeleteRange,
}

/// The number of [`OpKind::DeleteRange`], which no kind of entry has.
const DELETE_RANGE: u8 = 3;

impl OpKind {
    pub(super) const fn to_byte(self) -> u8 {
        match self {
            OpKind::Entry(kind) => kind as u8,
            OpKind::DeleteRange => DELETE_RANGE,
        }
    }
}

/// One operation of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BatchOp<'a> {
    pub(crate) keyspace: u32,
    pub(crate) kind: OpKind,
    pub(crate) key: &'a [u8],
    pub(crate) value: &'a [u8],
}

/// The operations in a batch's bytes; an item of `None` says that the bytes are malformed.
pub(crate) struct BatchOps<'a>(pub(crate) &'a [u8]);

impl<'a> Iterator for BatchOps<'a> {
    type Item = Option<BatchOp<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let op = decode(&mut self.0);
        if op.is_none() {
            self.0 = &[];
        }
        Some(op)
    }
}

fn decode<'a>(input: &mut &'a [u8]) -> Option<BatchOp<'a>> {
    let (&kind, rest) = input.split_first()?;
    *input = rest;
    let keyspace = u32::try_from(coding::take_varint(input)?).ok()?;
    let key = coding::take_bytes(input).filter(|key| key.len() <= MAX_KEY_LEN)?;
    // Those without a value.
    if kind == EntryKind::Delete as u8 {
        return Some(BatchOp {
            keyspace,
            kind: OpKind::Entry(EntryKind::Delete),
            key,
            value: &[],
        });
    }
    if kind == DELETE_RANGE {
        let end = coding::take_bytes(input).filter(|end| end.len() <= MAX_KEY_LEN)?;
        return is_before(key, end).then_some(BatchOp {
            keyspace,
            kind: OpKind::DeleteRange,
            key,
            value: end,
        });
    }
    // And those with one.
    let (kind, most) = if kind == EntryKind::Put as u8 {
        (EntryKind::Put, MAX_VALUE_LEN)
    } else if kind == EntryKind::Operand as u8 {
        (EntryKind::Operand, MAX_VALUE_LEN)
    } else if kind == EntryKind::Expiring as u8 {
        (EntryKind::Expiring, MAX_VALUE_LEN + EXPIRY_BYTES)
    } else if kind == EntryKind::Pointer as u8 {
        (EntryKind::Pointer, MAX_POINTER_LEN)
    } else if kind == EntryKind::ExpiringPointer as u8 {
        (EntryKind::ExpiringPointer, MAX_POINTER_LEN + EXPIRY_BYTES)
    } else {
        return None;
    };
    let value = coding::take_bytes(input).filter(|value| value.len() <= most)?;
    let is_whole = Tag::new(0, kind).allows(value.len());
    is_whole.then_some(BatchOp {
        keyspace,
        kind: OpKind::Entry(kind),
        key,
        value,
    })
}
