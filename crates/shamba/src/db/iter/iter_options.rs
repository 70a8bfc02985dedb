//! What an iterator covers: plain data.

use std::ops::{Bound, Range, RangeFrom, RangeFull, RangeInclusive, RangeTo, RangeToInclusive};

use crate::base::fragment::{is_before, successor};
use crate::base::key::MAX_KEY_LEN;
use crate::error::{Error, Result};

/// A range of keys: `"a".."b"`, `b"a"..=b"b"`, `key..`, `..`, or a pair of [`Bound`]s, of anything
/// that is bytes. (Not [`std::ops::RangeBounds`], with which the type of the keys would have to be
/// spelled out.) Implemented for these types only.
pub trait KeyRange: sealed::Sealed {
    /// Where the range begins and where it ends.
    fn into_bounds(self) -> (Bound<Vec<u8>>, Bound<Vec<u8>>);
}

mod sealed {
    pub trait Sealed {}
}

fn owned(bound: Bound<impl AsRef<[u8]>>) -> Bound<Vec<u8>> {
    bound.map(|key| key.as_ref().to_vec())
}

/// Implements [`KeyRange`] for a kind of range, given how its bounds are had.
macro_rules! key_range {
    ($($range:ty, $this:ident => $lower:expr, $upper:expr;)*) => {$(
        impl<K: AsRef<[u8]>> sealed::Sealed for $range {}

        impl<K: AsRef<[u8]>> KeyRange for $range {
            fn into_bounds(self) -> (Bound<Vec<u8>>, Bound<Vec<u8>>) {
                let $this = self;
                (owned($lower), owned($upper))
            }
        }
    )*};
}

key_range! {
    Range<K>, it => Bound::Included(it.start), Bound::Excluded(it.end);
    RangeInclusive<K>, it => Bound::Included(it.start()), Bound::Included(it.end());
    RangeFrom<K>, it => Bound::Included(it.start), Bound::<K>::Unbounded;
    RangeTo<K>, it => Bound::<K>::Unbounded, Bound::Excluded(it.end);
    RangeToInclusive<K>, it => Bound::<K>::Unbounded, Bound::Included(it.end);
    (Bound<K>, Bound<K>), it => it.0, it.1;
}

impl sealed::Sealed for RangeFull {}

impl KeyRange for RangeFull {
    fn into_bounds(self) -> (Bound<Vec<u8>>, Bound<Vec<u8>>) {
        (Bound::Unbounded, Bound::Unbounded)
    }
}

/// What an iterator covers.
///
/// ```
/// use shamba::IterOptions;
/// let names = IterOptions::prefix("name/");
/// let middle = IterOptions::range("b".."d");
/// let (from, key) = (b"m".as_slice(), vec![7, 7]);
/// let all = [IterOptions::range(from..), IterOptions::range(..=key), IterOptions::range(..)];
/// # let _ = (names, middle, all);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct IterOptions {
    /// Where the range begins: the key itself is covered if the bound includes it. Default
    /// unbounded.
    pub lower: Bound<Vec<u8>>,
    /// Where the range ends: the key itself is covered if the bound includes it. Default unbounded.
    /// A range that ends before it begins is empty.
    pub upper: Bound<Vec<u8>>,
    /// Whether the blocks it reads are kept in the cache. Default true; false for a long scan
    /// that should leave the cache to others.
    pub fill_cache: bool,
    /// Whether values are left out: they are empty then, and those that lie in value files are not
    /// read. Default false.
    pub keys_only: bool,
}

impl Default for IterOptions {
    fn default() -> Self {
        IterOptions {
            lower: Bound::Unbounded,
            upper: Bound::Unbounded,
            fill_cache: true,
            keys_only: false,
        }
    }
}

impl IterOptions {
    /// Every key in a range.
    #[must_use]
    pub fn range(range: impl KeyRange) -> Self {
        let (lower, upper) = range.into_bounds();
        IterOptions {
            lower,
            upper,
            ..IterOptions::default()
        }
    }

    /// Every key that begins with `prefix`.
    #[must_use]
    pub fn prefix(prefix: impl AsRef<[u8]>) -> Self {
        let prefix = prefix.as_ref();
        let mut after = prefix.to_vec();
        let upper = loop {
            match after.pop() {
                None => break Bound::Unbounded,
                Some(u8::MAX) => {}
                Some(byte) => {
                    after.push(byte + 1);
                    break Bound::Excluded(after);
                }
            }
        };
        IterOptions {
            lower: Bound::Included(prefix.to_vec()),
            upper,
            ..IterOptions::default()
        }
    }

    /// Sets [`IterOptions::lower`].
    #[must_use]
    pub fn lower(mut self, bound: Bound<Vec<u8>>) -> Self {
        self.lower = bound;
        self
    }

    /// Sets [`IterOptions::upper`].
    #[must_use]
    pub fn upper(mut self, bound: Bound<Vec<u8>>) -> Self {
        self.upper = bound;
        self
    }

    /// Sets [`IterOptions::fill_cache`].
    #[must_use]
    pub fn fill_cache(mut self, yes: bool) -> Self {
        self.fill_cache = yes;
        self
    }

    /// Sets [`IterOptions::keys_only`].
    #[must_use]
    pub fn keys_only(mut self, yes: bool) -> Self {
        self.keys_only = yes;
        self
    }

    /// The first key of the range and the key behind it (empty for no end); `None` where no key is
    /// in it.
    pub(in crate::db) fn ends(&self) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        let (start, end) = (self.lower.as_ref(), self.upper.as_ref());
        if let (
            Bound::Included(start) | Bound::Excluded(start),
            Bound::Included(end) | Bound::Excluded(end),
        ) = (start, end)
            && start > end
        {
            let (start, end) = (start.clone(), end.clone());
            return Err(Error::InvertedRange { start, end });
        }
        let start = match start {
            Bound::Included(key) => key.clone(),
            Bound::Excluded(key) => match successor(key) {
                none if none.is_empty() => return Ok(None),
                next => next,
            },
            Bound::Unbounded => Vec::new(),
        };
        let end = match end {
            // The empty key is before all others.
            Bound::Excluded(key) if key.is_empty() => return Ok(None),
            // No key lies between the longest one and what is right behind it.
            Bound::Excluded(key) if key.len() > MAX_KEY_LEN && key.last() == Some(&0) => {
                let longest = key.get(..key.len() - 1).unwrap_or_default();
                successor(longest)
            }
            Bound::Excluded(key) => key.clone(),
            Bound::Included(key) => successor(key),
            Bound::Unbounded => Vec::new(),
        };
        Ok(is_before(&start, &end).then_some((start, end)))
    }

    /// Whether a key is in the range.
    pub(in crate::db) fn covers(&self, key: &[u8]) -> bool {
        !self.before_lower(key) && !self.past_upper(key)
    }

    /// The first key of the range between two, the first included; an empty second is no end.
    pub(in crate::db) fn first_between(&self, start: &[u8], end: &[u8]) -> Option<Vec<u8>> {
        let lower = match &self.lower {
            Bound::Included(lower) => lower.clone(),
            Bound::Excluded(lower) => successor(lower),
            Bound::Unbounded => Vec::new(),
        };
        let none = matches!(&self.lower, Bound::Excluded(_)) && lower.is_empty();
        let first = lower.max(start.to_vec());
        (!none && is_before(&first, end) && !self.past_upper(&first)).then_some(first)
    }

    /// Bytes that the bounds take.
    pub(in crate::db) fn bound_bytes(&self) -> usize {
        let bytes = |bound: &Bound<Vec<u8>>| match bound {
            Bound::Included(key) | Bound::Excluded(key) => key.capacity(),
            Bound::Unbounded => 0,
        };
        bytes(&self.lower) + bytes(&self.upper)
    }

    /// Whether a key, and all before it, lie below the range.
    pub(in crate::db) fn before_lower(&self, key: &[u8]) -> bool {
        match &self.lower {
            Bound::Included(lower) => key < lower.as_slice(),
            Bound::Excluded(lower) => key <= lower.as_slice(),
            Bound::Unbounded => false,
        }
    }

    /// Whether a key, and all after it, lie above the range.
    pub(in crate::db) fn past_upper(&self, key: &[u8]) -> bool {
        match &self.upper {
            Bound::Included(upper) => key > upper.as_slice(),
            Bound::Excluded(upper) => key >= upper.as_slice(),
            Bound::Unbounded => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_anything_that_is_bytes() {
        let bounds = |range: IterOptions| (range.lower, range.upper);
        let (a, b) = (b"a".to_vec(), b"b".to_vec());
        let included = || Bound::Included(a.clone());
        let half_open = (included(), Bound::Excluded(b.clone()));
        let none = Bound::<Vec<u8>>::Unbounded;
        assert_eq!(bounds(IterOptions::range("a".."b")), half_open);
        assert_eq!(bounds(IterOptions::range(b"a"..b"b")), half_open);
        assert_eq!(bounds(IterOptions::range(a.clone()..b.clone())), half_open);
        assert_eq!(bounds(IterOptions::range(&a..&b)), half_open);
        assert_eq!(
            bounds(IterOptions::range("a".to_owned().."b".to_owned())),
            half_open
        );
        assert_eq!(
            bounds(IterOptions::range(b"a".as_slice()..)),
            (included(), none.clone())
        );
        assert_eq!(
            bounds(IterOptions::range([97u8]..=[98u8])),
            (included(), Bound::Included(b.clone()))
        );
        assert_eq!(
            bounds(IterOptions::range(.."b")),
            (none.clone(), Bound::Excluded(b.clone()))
        );
        assert_eq!(
            bounds(IterOptions::range(..="b")),
            (none.clone(), Bound::Included(b))
        );
        assert_eq!(bounds(IterOptions::range(..)), (none.clone(), none.clone()));
        assert_eq!(
            bounds(IterOptions::range((Bound::Excluded("a"), Bound::Unbounded))),
            (Bound::Excluded(a), none)
        );
    }
}
