//! Range tombstones as they are kept: cut where any of them begins or ends, so that those over a
//! *fragment* cover all of it. Plain data.
//!
//! An end that is empty stands for no end: no key is less than the empty one, so that it bounds
//! nothing otherwise.

use super::key::{MAX_KEY_LEN, SeqNo};
use crate::error::Result;

/// Keys that the same range tombstones cover.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fragment {
    /// The first key.
    pub(crate) start: Vec<u8>,
    /// What lies behind them, or empty for no end.
    pub(crate) end: Vec<u8>,
    /// The sequence numbers of the tombstones, newest first.
    pub(crate) seqs: Vec<SeqNo>,
}

/// What covers a key.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Cover {
    /// The newest tombstone that is seen; 0 for none.
    pub(crate) seq: SeqNo,
    /// Whether it hides all that its own source has of those keys, besides what older ones have.
    pub(crate) hides_own: bool,
    /// The keys of which that is true: from the first, to the second or without an end.
    pub(crate) start: Vec<u8>,
    pub(crate) end: Vec<u8>,
}

/// Whether a key lies before the end of a fragment.
#[inline]
pub(crate) fn is_before(key: &[u8], end: &[u8]) -> bool {
    end.is_empty() || key < end
}

/// The lesser of two ends.
pub(crate) fn lesser_end<'a>(a: &'a [u8], b: &'a [u8]) -> &'a [u8] {
    if is_before(a, b) && !a.is_empty() {
        a
    } else {
        b
    }
}

/// The key that comes right after a key: the end of a range that includes it.
pub(crate) fn successor(key: &[u8]) -> Vec<u8> {
    let mut next = key.to_vec();
    if next.len() < MAX_KEY_LEN {
        next.push(0);
        return next;
    }
    // None is longer, so that it is the next one of its length or less.
    while let Some(byte) = next.pop() {
        if byte < u8::MAX {
            next.push(byte + 1);
            break;
        }
    }
    next
}

/// The last key before an end, or where there is none the end.
pub(crate) fn last_before(end: &[u8]) -> &[u8] {
    end.strip_suffix(&[0]).unwrap_or(end)
}

/// The newest of some tombstones (newest first) that readers of a number see; 0 for none.
#[inline]
pub(crate) fn newest_seen(seqs: impl IntoIterator<Item = SeqNo>, snapshot: SeqNo) -> SeqNo {
    let mut seqs = seqs.into_iter();
    seqs.find(|&seq| seq <= snapshot).unwrap_or(0)
}

/// Fragments in the order of keys, which do not meet, from one source.
pub(crate) trait Fragments: Send {
    /// The fragment that a key is in, or else the first behind it. Keys come in ascending order.
    fn at_or_after(&mut self, key: &[u8]) -> Result<Option<Fragment>>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_lies_between_a_key_and_its_successor() {
        assert_eq!(successor(b"a"), b"a\0");
        assert_eq!(successor(b""), b"\0");
        let mut longest = vec![7; MAX_KEY_LEN];
        longest[MAX_KEY_LEN - 1] = 0xff;
        longest[MAX_KEY_LEN - 2] = 0xff;
        let next = successor(&longest);
        assert_eq!(next.len(), MAX_KEY_LEN - 2);
        assert_eq!(next.last(), Some(&8));
        assert!(longest < next);
        assert!(successor(&vec![0xff; MAX_KEY_LEN]).is_empty());
        assert_eq!(last_before(&successor(b"a")), b"a");
        assert_eq!(last_before(b"a"), b"a");
    }

    #[test]
    fn no_end_is_behind_every_key() {
        assert!(is_before(b"z", b""));
        assert!(!is_before(b"b", b"b"));
        assert_eq!(lesser_end(b"", b"b"), b"b");
        assert_eq!(lesser_end(b"b", b""), b"b");
        assert_eq!(lesser_end(b"a", b"b"), b"a");
        assert_eq!(lesser_end(b"", b""), b"");
    }
}
