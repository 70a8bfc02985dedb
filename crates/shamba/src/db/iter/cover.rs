//! What an iterator covers: plain data.

use std::ops::Bound;

/// What an iterator covers.
///
/// ```
/// use shamba::IterOptions;
/// let names = IterOptions::prefix(b"name/");
/// let middle = IterOptions::range(b"b".to_vec()..b"d".to_vec());
/// # let _ = (names, middle);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IterOptions {
    /// The smallest key.
    pub lower: Bound<Vec<u8>>,
    /// The largest key.
    pub upper: Bound<Vec<u8>>,
    /// Whether the blocks it reads are kept in the cache. Default true; false for a long scan
    /// that should leave the cache to others.
    pub fill_cache: bool,
}

impl Default for IterOptions {
    fn default() -> Self {
        IterOptions {
            lower: Bound::Unbounded,
            upper: Bound::Unbounded,
            fill_cache: true,
        }
    }
}

impl IterOptions {
    /// Every key in a range.
    pub fn range(range: impl std::ops::RangeBounds<Vec<u8>>) -> Self {
        IterOptions {
            lower: range.start_bound().cloned(),
            upper: range.end_bound().cloned(),
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

    /// Sets [`IterOptions::fill_cache`].
    #[must_use]
    pub fn fill_cache(mut self, yes: bool) -> Self {
        self.fill_cache = yes;
        self
    }

    /// Whether a key, and all before it, lie below the range.
    pub(super) fn before_lower(&self, key: &[u8]) -> bool {
        match &self.lower {
            Bound::Included(lower) => key < lower.as_slice(),
            Bound::Excluded(lower) => key <= lower.as_slice(),
            Bound::Unbounded => false,
        }
    }

    /// Whether a key, and all after it, lie above the range.
    pub(super) fn past_upper(&self, key: &[u8]) -> bool {
        match &self.upper {
            Bound::Included(upper) => key > upper.as_slice(),
            Bound::Excluded(upper) => key >= upper.as_slice(),
            Bound::Unbounded => false,
        }
    }
}
