//! Keys as the tree orders them: user key ascending by bytes, then tag descending (newest first).
//!
//! A [`Tag`] packs the sequence number and the entry kind. Its bytes on storage are a varint
//! (docs/format.md, "Entries").

use std::cmp::Ordering;

use super::expiring::EXPIRY_BYTES;

/// A sequence number: the position of a write in the database's history. Zero means "older than
/// every snapshot"; compaction writes it at the bottom of the tree.
pub(crate) type SeqNo = u64;

/// The largest sequence number.
pub(crate) const MAX_SEQNO: SeqNo = (1 << 56) - 1;

/// The longest user key, in bytes.
pub(crate) const MAX_KEY_LEN: usize = 65_535;

/// The longest value, in bytes.
pub(crate) const MAX_VALUE_LEN: usize = 64 << 20;

/// What an entry says of its key. The format reserves the kinds not written yet, so that adding
/// them needs no new format. A database that uses one says so in its manifest, as a feature; a
/// reader that meets one unannounced reports damage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub(crate) enum EntryKind {
    /// A tombstone.
    Delete = 0,
    /// A value.
    Put = 1,
    /// What is to be merged into what lies below, by the keyspace's operator.
    Operand = 2,
    /// A value with a time to live ([`super::expiring`]).
    Expiring = 4,
    /// A value that lies in a value file ([`super::pointer`]).
    Pointer = 5,
    /// Such a value with a time to live: the moment, then the pointer.
    ExpiringPointer = 6,
}

impl EntryKind {
    /// Whether the stored value begins with the moment when it expires.
    #[inline]
    pub(crate) const fn expires(self) -> bool {
        matches!(self, EntryKind::Expiring | EntryKind::ExpiringPointer)
    }

    /// Whether the value lies in a value file.
    #[inline]
    pub(crate) const fn is_pointer(self) -> bool {
        matches!(self, EntryKind::Pointer | EntryKind::ExpiringPointer)
    }
}

/// Kind 3 is no entry's, but that of deletions of ranges in logs.
const KIND_BITS: u32 = 3;

/// Sequence number and kind in one integer; larger is newer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Tag(u64);

impl Tag {
    /// The tag that sorts before every other tag of the same user key.
    pub(crate) const NEWEST: Tag = Tag(u64::MAX >> (8 - KIND_BITS));
    /// The tag that sorts after every other tag of the same user key.
    pub(crate) const OLDEST: Tag = Tag(0);

    /// A tag from its parts.
    pub(crate) const fn new(seq: SeqNo, kind: EntryKind) -> Self {
        Tag(seq << KIND_BITS | kind as u64)
    }

    /// Where a search for the newest entry at or before `seq` starts.
    pub(crate) const fn seek(seq: SeqNo) -> Self {
        Tag(seq << KIND_BITS | ((1 << KIND_BITS) - 1))
    }

    /// The sequence number.
    pub(crate) const fn seq(self) -> SeqNo {
        self.0 >> KIND_BITS
    }

    /// The kind, or `None` when it is one this build does not know.
    pub(crate) const fn kind(self) -> Option<EntryKind> {
        match self.0 & ((1 << KIND_BITS) - 1) {
            0 => Some(EntryKind::Delete),
            1 => Some(EntryKind::Put),
            2 => Some(EntryKind::Operand),
            4 => Some(EntryKind::Expiring),
            5 => Some(EntryKind::Pointer),
            6 => Some(EntryKind::ExpiringPointer),
            _ => None,
        }
    }

    /// Whether an entry of this kind may have a value of so many bytes.
    #[inline]
    pub(crate) const fn allows(self, value: usize) -> bool {
        match self.kind() {
            None => false,
            Some(EntryKind::Expiring | EntryKind::ExpiringPointer) => value >= EXPIRY_BYTES,
            Some(_) => true,
        }
    }

    /// The integer on storage.
    pub(crate) const fn to_raw(self) -> u64 {
        self.0
    }

    /// From the integer on storage.
    pub(crate) const fn from_raw(raw: u64) -> Self {
        Tag(raw)
    }
}

/// The order of the tree: user key ascending, then tag descending.
#[inline]
pub(crate) fn compare(a_key: &[u8], a_tag: Tag, b_key: &[u8], b_tag: Tag) -> Ordering {
    a_key.cmp(b_key).then_with(|| b_tag.cmp(&a_tag))
}

/// The first eight bytes of a key as a big-endian integer (shorter keys padded with zeros): if
/// two prefixes differ, they order as their keys do.
#[inline]
pub(crate) fn prefix(key: &[u8]) -> u64 {
    match key.first_chunk::<8>() {
        Some(head) => u64::from_be_bytes(*head),
        None => {
            let mut head = [0u8; 8];
            for (to, from) in head.iter_mut().zip(key) {
                *to = *from;
            }
            u64::from_be_bytes(head)
        }
    }
}

/// The length of the common prefix of two byte strings.
#[inline]
pub(crate) fn common_prefix(a: &[u8], b: &[u8]) -> usize {
    let (a8, _) = a.as_chunks::<8>();
    let (b8, _) = b.as_chunks::<8>();
    let mut len = 0;
    for (x, y) in a8.iter().zip(b8) {
        let differ = u64::from_le_bytes(*x) ^ u64::from_le_bytes(*y);
        if differ != 0 {
            return len + differ.trailing_zeros() as usize / 8;
        }
        len += 8;
    }
    let rest = a.iter().skip(len).zip(b.iter().skip(len));
    len + rest.take_while(|(x, y)| x == y).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newer_entries_of_a_key_sort_first() {
        let old = Tag::new(3, EntryKind::Put);
        let new = Tag::new(4, EntryKind::Delete);
        assert_eq!(compare(b"k", new, b"k", old), Ordering::Less);
        assert_eq!(compare(b"j", old, b"k", new), Ordering::Less);
        assert_eq!(compare(b"k", Tag::seek(3), b"k", old), Ordering::Less);
        assert_eq!(compare(b"k", Tag::seek(3), b"k", new), Ordering::Greater);
        assert!(Tag::NEWEST > Tag::new(MAX_SEQNO, EntryKind::Put));
    }

    #[test]
    fn prefixes_order_as_keys() {
        let keys: [&[u8]; 6] = [b"", b"\0", b"a", b"aaaaaaaa", b"aaaaaaaab", b"b"];
        for pair in keys.windows(2) {
            assert!(prefix(pair[0]) <= prefix(pair[1]));
        }
    }
}
