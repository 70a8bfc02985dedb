//! A sorted run: files whose key ranges do not meet, in key order. Immutable.

use std::sync::Arc;

use super::{FileMeta, Inconsistent};
use crate::base::key::prefix;

/// A run of files, disjoint and ascending by user key, so that one file at most can hold a key.
#[derive(Debug)]
pub(crate) struct Run {
    id: u64,
    files: Vec<Arc<FileMeta>>,
    /// `prefix(largest)` of each file, side by side: a search touches few cache lines and looks at
    /// a file only among those whose prefix equals the key's.
    prefixes: Vec<u64>,
    /// `prefix(smallest)` of each file.
    starts: Vec<u64>,
}

impl Run {
    /// A run of these files, in any order; an error when their key ranges meet.
    pub(crate) fn new(id: u64, mut files: Vec<Arc<FileMeta>>) -> Result<Self, Inconsistent> {
        files.sort_by(|a, b| a.smallest.cmp(&b.smallest));
        for file in &files {
            if file.smallest > file.largest {
                return Err(Inconsistent::new(format!(
                    "file {} ends before it starts",
                    file.number
                )));
            }
        }
        for pair in files.windows(2) {
            if let [a, b] = pair
                && a.largest >= b.smallest
            {
                return Err(Inconsistent::new(format!(
                    "files {} and {} of run {id} overlap",
                    a.number, b.number
                )));
            }
        }
        let prefixes = files.iter().map(|file| prefix(&file.largest)).collect();
        let starts = files.iter().map(|file| prefix(&file.smallest)).collect();
        Ok(Run {
            id,
            files,
            prefixes,
            starts,
        })
    }

    /// The run's id. Within a level, a larger id means newer data.
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// The files, ascending.
    pub(crate) fn files(&self) -> &[Arc<FileMeta>] {
        &self.files
    }

    /// The position of the first file whose largest key is at or after `key`.
    #[inline]
    pub(crate) fn lower_bound(&self, key: &[u8]) -> usize {
        let wanted = prefix(key);
        let start = self.prefixes.partition_point(|&p| p < wanted);
        if self.prefixes.get(start) == Some(&wanted) {
            return self.lower_bound_among_equals(start, wanted, key);
        }
        start
    }

    /// The same, of the files from `start` on, of which the first has this prefix.
    #[cold]
    fn lower_bound_among_equals(&self, start: usize, wanted: u64, key: &[u8]) -> usize {
        let ties = self
            .prefixes
            .get(start..)
            .map_or(0, |rest| rest.partition_point(|&p| p == wanted));
        let before = self
            .files
            .get(start..start + ties)
            .map_or(0, |tied| tied.partition_point(|file| *file.largest < *key));
        start + before
    }

    /// The one file that can hold `key`.
    #[inline]
    pub(crate) fn find(&self, key: &[u8]) -> Option<&Arc<FileMeta>> {
        let at = self.lower_bound(key);
        let file = self.files.get(at)?;
        // Most keys lie in some file and not near its first: the prefixes tell without a look at it.
        let wanted = prefix(key);
        let start = self.starts.get(at).copied().unwrap_or(wanted);
        (start < wanted || start == wanted && *file.smallest <= *key).then_some(file)
    }

    /// The files that meet `[lo, hi]`, both inclusive.
    pub(crate) fn overlapping(&self, lo: &[u8], hi: &[u8]) -> &[Arc<FileMeta>] {
        self.overlapping_range(Some(lo), Some(hi))
    }

    /// The files that meet a range whose ends are inclusive; `None` means no end.
    pub(crate) fn overlapping_range(
        &self,
        from: Option<&[u8]>,
        to: Option<&[u8]>,
    ) -> &[Arc<FileMeta>] {
        let start = from.map_or(0, |from| self.lower_bound(from));
        let rest = self.files.get(start..).unwrap_or_default();
        let len = to.map_or(rest.len(), |to| {
            rest.partition_point(|file| *file.smallest <= *to)
        });
        rest.get(..len).unwrap_or_default()
    }

    /// Bytes of all files.
    pub(crate) fn size(&self) -> u64 {
        self.files.iter().map(|file| file.size).sum()
    }

    /// Entries of all files.
    pub(crate) fn entries(&self) -> u64 {
        self.files.iter().map(|file| file.entries).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::super::file_meta::FileInfo;
    use super::*;
    use proptest::prelude::*;

    fn file(number: u64, smallest: &[u8], largest: &[u8]) -> Arc<FileMeta> {
        Arc::new(FileMeta::new(FileInfo {
            number,
            size: 1,
            smallest: smallest.into(),
            largest: largest.into(),
            ..FileInfo::default()
        }))
    }

    fn meets(file: &FileMeta, lo: &[u8], hi: &[u8]) -> bool {
        *file.smallest <= *hi && *file.largest >= *lo
    }

    #[test]
    fn overlapping_files_are_refused() {
        assert!(Run::new(1, vec![file(1, b"a", b"c"), file(2, b"c", b"d")]).is_err());
        assert!(Run::new(1, vec![file(1, b"c", b"a")]).is_err());
        let run = Run::new(1, vec![file(2, b"c", b"d"), file(1, b"a", b"b")]).unwrap();
        assert_eq!(run.files()[0].number, 1);
    }

    proptest! {
        /// Keys over a tiny alphabet share prefixes, so ties and misses both happen.
        #[test]
        fn searches_agree_with_a_scan(
            keys in prop::collection::btree_set("[ab]{0,11}", 0..40),
            probe in "[ab]{0,12}",
            other in "[ab]{0,12}",
        ) {
            let keys: Vec<_> = keys.into_iter().collect();
            let files: Vec<_> = keys
                .chunks(2)
                .enumerate()
                .map(|(i, pair)| file(i as u64, pair[0].as_bytes(), pair[pair.len() - 1].as_bytes()))
                .collect();
            let run = Run::new(1, files.clone()).unwrap();
            let probe = probe.as_bytes();
            let want = files.iter().find(|f| meets(f, probe, probe)).map(|f| f.number);
            prop_assert_eq!(run.find(probe).map(|f| f.number), want);
            let (lo, hi) = (probe.min(other.as_bytes()), probe.max(other.as_bytes()));
            let want: Vec<_> = files.iter().filter(|f| meets(f, lo, hi)).map(|f| f.number).collect();
            let got: Vec<_> = run.overlapping(lo, hi).iter().map(|f| f.number).collect();
            prop_assert_eq!(got, want);
            prop_assert_eq!(run.overlapping_range(None, None).len(), files.len());
        }
    }
}
