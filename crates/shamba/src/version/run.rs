//! A sorted run: files whose key ranges do not meet, in key order. Immutable.
//!
//! The files stand in leaves, which runs share: the run after an edit has new leaves only where the
//! edit changed something, so that an edit costs what it changes and not what the run holds. A run
//! of a few files is one leaf.

use std::sync::Arc;

use super::file_meta::PLACE_BYTES;
use super::{FileMeta, Inconsistent, Sums};
use crate::base::key::prefix;

/// The most files of a leaf. An edit copies 24 bytes for each file of the leaves it touches, and 24
/// for each leaf of the run: with 256 that is 6 KiB a leaf, and 24 KiB for the leaves of 250,000
/// files. Half of it halves the one and doubles the other.
const LEAF: usize = 256;

/// Leaves of fewer files are joined with a neighbour, where both fit into one.
const SMALL_LEAF: usize = LEAF / 4;

/// Some files of a run, side by side; not empty.
#[derive(Debug)]
struct Leaf {
    files: Box<[FileMeta]>,
    /// `prefix(largest)` of each file, side by side: a search touches few cache lines and looks at
    /// a file only among those whose prefix equals the key's.
    prefixes: Box<[u64]>,
    /// `prefix(smallest)` of each file.
    starts: Box<[u64]>,
    sums: Sums,
}

impl Leaf {
    fn new(files: &[FileMeta]) -> Arc<Leaf> {
        Arc::new(Leaf {
            files: files.into(),
            prefixes: files.iter().map(|file| prefix(file.largest())).collect(),
            starts: files.iter().map(|file| prefix(file.smallest())).collect(),
            sums: files.iter().map(Sums::of).sum(),
        })
    }

    /// The position of the first file whose largest key is at or after `key`.
    #[inline]
    fn lower_bound(&self, key: &[u8], wanted: u64) -> usize {
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
        let before = self.files.get(start..start + ties).map_or(0, |tied| {
            tied.partition_point(|file| *file.largest() < *key)
        });
        start + before
    }
}

/// A run of files, disjoint and ascending by user key, so that one file at most can hold a key.
#[derive(Debug)]
pub(crate) struct Run {
    id: u64,
    leaves: Box<[Arc<Leaf>]>,
    /// `prefix(largest)` of each leaf's last file.
    ends: Box<[u64]>,
    /// The position of each leaf's first file.
    firsts: Box<[usize]>,
    sums: Sums,
}

impl Run {
    /// A run of these files, in any order; an error when their key ranges meet.
    pub(crate) fn new(id: u64, mut files: Vec<FileMeta>) -> Result<Self, Inconsistent> {
        files.sort_by(|a, b| a.smallest().cmp(b.smallest()));
        check_order(id, files.iter())?;
        let mut leaves = Vec::new();
        push_leaves(&mut leaves, &files);
        Ok(Run::of_leaves(id, leaves))
    }

    fn of_leaves(id: u64, leaves: Vec<Arc<Leaf>>) -> Run {
        let last = |leaf: &Arc<Leaf>| leaf.prefixes.last().copied().unwrap_or(u64::MAX);
        let mut before = 0;
        let mut first = |leaf: &Arc<Leaf>| {
            let first = before;
            before += leaf.files.len();
            first
        };
        Run {
            id,
            ends: leaves.iter().map(last).collect(),
            firsts: leaves.iter().map(&mut first).collect(),
            sums: leaves.iter().map(|leaf| leaf.sums).sum(),
            leaves: leaves.into(),
        }
    }

    /// The run without the files at these positions (ascending) and with these others, in any
    /// order; an error when key ranges meet.
    pub(crate) fn edited(
        &self,
        gone: &[usize],
        mut new: Vec<FileMeta>,
    ) -> Result<Run, Inconsistent> {
        // New files in key order go through the leaves beside the old ones.
        new.sort_by(|a, b| a.smallest().cmp(b.smallest()));
        let (mut gone, mut new) = (gone.iter().peekable(), new.into_iter().peekable());
        let mut leaves: Vec<Arc<Leaf>> = Vec::with_capacity(self.leaves.len() + 1);
        for (number, (leaf, &first)) in self.leaves.iter().zip(&self.firsts).enumerate() {
            let is_last = number + 1 == self.leaves.len();
            let end = leaf.files.last();
            let mut here = Vec::new();
            while let Some(file) =
                new.next_if(|new| is_last || end.is_some_and(|end| new.smallest() <= end.largest()))
            {
                here.push(file);
            }
            // A leaf that nothing changes in is shared with the run before.
            let past = first + leaf.files.len();
            if here.is_empty() && gone.peek().is_none_or(|&&at| at >= past) {
                leaves.push(Arc::clone(leaf));
                continue;
            }
            for (at, file) in (first..).zip(&leaf.files) {
                if gone.next_if_eq(&&at).is_none() {
                    here.push(file.clone());
                }
            }
            here.sort_by(|a, b| a.smallest().cmp(b.smallest()));
            check_order(self.id, here.iter())?;
            push_leaves(&mut leaves, &here);
        }
        if self.leaves.is_empty() {
            return Run::new(self.id, new.collect());
        }
        // Leaves were checked alone; what is left is where two of them meet.
        let leaves = with_small_ones_joined(leaves);
        for pair in leaves.windows(2) {
            if let [a, b] = pair {
                check_order(self.id, a.files.last().into_iter().chain(b.files.first()))?;
            }
        }
        Ok(Run::of_leaves(self.id, leaves))
    }

    /// Checks that the files are in order and do not meet.
    pub(super) fn check(&self) -> Result<(), Inconsistent> {
        check_order(self.id, self.files().iter())
    }

    /// The run's id. Within a level, a larger id means newer data.
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// The files, ascending.
    pub(crate) fn files(&self) -> FilesOfRun<'_> {
        FilesOfRun {
            run: self,
            start: 0,
            end: self.sums.files,
        }
    }

    /// The sums over the files.
    pub(crate) fn sums(&self) -> Sums {
        self.sums
    }

    /// The leaf that holds the first file whose largest key is at or after `key`.
    #[inline]
    fn leaf_for(&self, key: &[u8], wanted: u64) -> usize {
        let start = self.ends.partition_point(|&end| end < wanted);
        if self.ends.get(start) == Some(&wanted) {
            return self.leaf_among_equals(start, wanted, key);
        }
        start
    }

    /// The same, of the leaves from `start` on, of which the first ends with this prefix.
    #[cold]
    fn leaf_among_equals(&self, start: usize, wanted: u64, key: &[u8]) -> usize {
        let tied = self
            .ends
            .iter()
            .skip(start)
            .take_while(|&&end| end == wanted);
        let tied = self.leaves.get(start..start + tied.count()).unwrap_or(&[]);
        let ends_before = |leaf: &Arc<Leaf>| {
            let last = leaf.files.last();
            last.is_some_and(|last| *last.largest() < *key)
        };
        start + tied.partition_point(ends_before)
    }

    /// The position of the first file whose largest key is at or after `key`.
    pub(crate) fn lower_bound(&self, key: &[u8]) -> usize {
        let wanted = prefix(key);
        let leaf = self.leaf_for(key, wanted);
        match (self.firsts.get(leaf), self.leaves.get(leaf)) {
            (Some(first), Some(leaf)) => first + leaf.lower_bound(key, wanted),
            _ => self.sums.files,
        }
    }

    /// How many files have their smallest key at or before `key`.
    pub(crate) fn starting_by(&self, key: &[u8]) -> usize {
        let at = self.lower_bound(key);
        let starts = self
            .file_at(at)
            .is_some_and(|file| *file.smallest() <= *key);
        at + usize::from(starts)
    }

    /// The file at a position.
    pub(crate) fn file_at(&self, at: usize) -> Option<&FileMeta> {
        let leaf = self
            .firsts
            .partition_point(|&first| first <= at)
            .checked_sub(1)?;
        let within = at - self.firsts.get(leaf)?;
        self.leaves.get(leaf)?.files.get(within)
    }

    /// The largest key of all files; none without files.
    pub(crate) fn largest(&self) -> Option<&[u8]> {
        Some(self.file_at(self.sums.files.checked_sub(1)?)?.largest())
    }

    /// Where a file is, if it is here.
    pub(crate) fn position_of(&self, file: &FileMeta) -> Option<usize> {
        let at = self.lower_bound(file.smallest());
        let found = self.file_at(at)?;
        (found.number() == file.number()).then_some(at)
    }

    /// The bytes that a run takes which differs from this one by a small edit, beside what both
    /// share: a leaf, and the lists of leaves.
    pub(super) fn bytes_of_change(&self) -> u64 {
        let list =
            self.leaves.len() * (size_of::<Arc<Leaf>>() + size_of::<u64>() + size_of::<usize>());
        (self.sums.files.min(LEAF) * PLACE_BYTES + list) as u64
    }

    /// The one file that can hold `key`.
    #[inline(always)]
    pub(crate) fn find(&self, key: &[u8]) -> Option<&FileMeta> {
        let wanted = prefix(key);
        let leaf = self.leaves.get(self.leaf_for(key, wanted))?;
        let at = leaf.lower_bound(key, wanted);
        let file = leaf.files.get(at)?;
        // Most keys lie in some file and not near its first: the prefixes tell without a look at
        // it.
        let start = leaf.starts.get(at).copied().unwrap_or(wanted);
        (start < wanted || start == wanted && *file.smallest() <= *key).then_some(file)
    }

    /// The files that meet `[lo, hi]`, both inclusive.
    pub(crate) fn overlapping(&self, lo: &[u8], hi: &[u8]) -> FilesOfRun<'_> {
        self.overlapping_range(Some(lo), Some(hi))
    }

    /// The files that meet a range whose ends are inclusive; `None` means no end.
    pub(crate) fn overlapping_range(
        &self,
        from: Option<&[u8]>,
        to: Option<&[u8]>,
    ) -> FilesOfRun<'_> {
        let start = from.map_or(0, |from| self.lower_bound(from));
        let end = to.map_or(self.sums.files, |to| self.starting_by(to));
        FilesOfRun {
            run: self,
            start,
            end: end.max(start),
        }
    }

    /// Bytes of all files.
    pub(crate) fn size(&self) -> u64 {
        self.sums.size
    }

    /// Entries of all files.
    pub(crate) fn entries(&self) -> u64 {
        self.sums.entries
    }
}

/// That files end after they start, and before the next one starts.
fn check_order<'a>(
    run: u64,
    files: impl Iterator<Item = &'a FileMeta>,
) -> Result<(), Inconsistent> {
    let mut before: Option<&FileMeta> = None;
    for file in files {
        if file.smallest() > file.largest() {
            return Err(Inconsistent::new(format!(
                "file {} ends before it starts",
                file.number()
            )));
        }
        if let Some(before) = before
            && before.largest() >= file.smallest()
        {
            return Err(Inconsistent::new(format!(
                "files {} and {} of run {run} overlap",
                before.number(),
                file.number()
            )));
        }
        before = Some(file);
    }
    Ok(())
}

/// Adds files, ascending, in as few leaves as hold them, all about as full.
fn push_leaves(leaves: &mut Vec<Arc<Leaf>>, files: &[FileMeta]) {
    let count = files.len().div_ceil(LEAF).max(1);
    let each = files.len().div_ceil(count).max(1);
    leaves.extend(files.chunks(each).map(Leaf::new));
}

/// Makes one leaf of neighbours of which one is small, where they fit into one.
fn with_small_ones_joined(leaves: Vec<Arc<Leaf>>) -> Vec<Arc<Leaf>> {
    let mut joined: Vec<Arc<Leaf>> = Vec::with_capacity(leaves.len());
    for leaf in leaves {
        match joined.last_mut() {
            Some(last)
                if last.files.len().min(leaf.files.len()) < SMALL_LEAF
                    && last.files.len() + leaf.files.len() <= LEAF =>
            {
                *last = Leaf::new(&[&*last.files, &*leaf.files].concat());
            }
            _ => joined.push(leaf),
        }
    }
    joined
}

/// Files of a run, side by side, ascending.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FilesOfRun<'a> {
    run: &'a Run,
    start: usize,
    end: usize,
}

impl<'a> FilesOfRun<'a> {
    /// How many there are.
    pub(crate) fn len(self) -> usize {
        self.end - self.start
    }

    /// Whether there are none.
    pub(crate) fn is_empty(self) -> bool {
        self.start == self.end
    }

    /// The first one.
    pub(crate) fn first(self) -> Option<&'a FileMeta> {
        self.iter().next()
    }

    /// The last one.
    pub(crate) fn last(self) -> Option<&'a FileMeta> {
        self.iter().next_back()
    }

    /// One after the other.
    pub(crate) fn iter(self) -> FilesIter<'a> {
        let leaves = &self.run.leaves;
        let leaf_of = |at: usize| self.run.firsts.partition_point(|&first| first <= at);
        // The leaves that hold the first and the last of them.
        let (Some(from), Some(to)) = (leaf_of(self.start).checked_sub(1), self.end.checked_sub(1))
        else {
            return FilesIter::default();
        };
        let to = leaf_of(to).saturating_sub(1);
        let part = |leaf: usize| {
            let (Some(&first), Some(leaf)) = (self.run.firsts.get(leaf), leaves.get(leaf)) else {
                return [].iter();
            };
            let start = self.start.saturating_sub(first);
            let end = (self.end - first).min(leaf.files.len());
            leaf.files.get(start..end).unwrap_or_default().iter()
        };
        if self.is_empty() {
            return FilesIter::default();
        }
        FilesIter {
            front: part(from),
            between: leaves.get(from + 1..to).unwrap_or_default().iter(),
            back: if to > from { part(to) } else { [].iter() },
        }
    }
}

impl<'a> IntoIterator for FilesOfRun<'a> {
    type Item = &'a FileMeta;
    type IntoIter = FilesIter<'a>;

    fn into_iter(self) -> FilesIter<'a> {
        self.iter()
    }
}

/// An iterator over files of a run.
#[derive(Debug, Clone, Default)]
pub(crate) struct FilesIter<'a> {
    front: std::slice::Iter<'a, FileMeta>,
    between: std::slice::Iter<'a, Arc<Leaf>>,
    back: std::slice::Iter<'a, FileMeta>,
}

impl<'a> Iterator for FilesIter<'a> {
    type Item = &'a FileMeta;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(file) = self.front.next() {
                return Some(file);
            }
            match self.between.next() {
                Some(leaf) => self.front = leaf.files.iter(),
                None => return self.back.next(),
            }
        }
    }
}

impl DoubleEndedIterator for FilesIter<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(file) = self.back.next_back() {
                return Some(file);
            }
            match self.between.next_back() {
                Some(leaf) => self.back = leaf.files.iter(),
                None => return self.front.next_back(),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::file_meta::FileInfo;
    use super::*;
    use proptest::prelude::*;

    fn file(number: u64, smallest: &[u8], largest: &[u8]) -> FileMeta {
        FileMeta::new(&FileInfo {
            number,
            size: 1,
            smallest: smallest.into(),
            largest: largest.into(),
            ..FileInfo::default()
        })
    }

    fn meets(file: &FileMeta, lo: &[u8], hi: &[u8]) -> bool {
        *file.smallest() <= *hi && *file.largest() >= *lo
    }

    #[test]
    fn overlapping_files_are_refused() {
        assert!(Run::new(1, vec![file(1, b"a", b"c"), file(2, b"c", b"d")]).is_err());
        assert!(Run::new(1, vec![file(1, b"c", b"a")]).is_err());
        let run = Run::new(1, vec![file(2, b"c", b"d"), file(1, b"a", b"b")]).unwrap();
        assert_eq!(run.files().first().unwrap().number(), 1);
    }

    /// Files of two keys each, of the numbers given, which are also their places.
    fn files(numbers: impl Iterator<Item = u64>) -> Vec<FileMeta> {
        let key = |number: u64| number.to_be_bytes();
        let file = |number| file(number, &key(3 * number), &key(3 * number + 1));
        numbers.map(file).collect()
    }

    #[test]
    fn a_run_after_an_edit_shares_the_leaves_that_the_edit_does_not_touch() {
        let run = Run::new(1, files(0..20_000)).unwrap();
        let [gone, new] = [[7000, 7001], [7000, 7001]].map(|numbers| files(numbers.into_iter()));
        let at: Vec<usize> = gone
            .iter()
            .map(|file| run.position_of(file).unwrap())
            .collect();
        let after = run.edited(&at, new).unwrap();
        let shared = |leaf: &&Arc<Leaf>| run.leaves.iter().any(|own| Arc::ptr_eq(own, leaf));
        let count = after.leaves.iter().filter(shared).count();
        assert_eq!(count + 1, run.leaves.len());
        assert!(run.leaves.len() < 100);
    }

    #[test]
    fn leaves_stay_neither_full_nor_empty() {
        let mut run = Run::new(1, files(0..5000)).unwrap();
        for at in 0..4000 {
            run = run.edited(&[at / 7], Vec::new()).unwrap();
        }
        assert_eq!(run.files().len(), 1000);
        assert!(
            run.leaves.len() <= 1000 / SMALL_LEAF + 1,
            "{}",
            run.leaves.len()
        );
        for number in 5000..9000 {
            run = run.edited(&[], files(number..number + 1)).unwrap();
        }
        let sizes: Vec<_> = run.leaves.iter().map(|leaf| leaf.files.len()).collect();
        assert!(sizes.iter().all(|len| *len <= LEAF), "{sizes:?}");
        assert!(sizes.len() < 60, "{sizes:?}");
        run.check().unwrap();
    }

    proptest! {
        /// An edited run is the run of the files that are left and of the new ones; and where these
        /// meet neither is made.
        #[test]
        fn edits_agree_with_a_new_run(
            old in prop::collection::btree_set(0..3000u64, 0..900),
            gone in prop::collection::btree_set(0..3000u64, 0..300),
            new in prop::collection::btree_set(0..3000u64, 0..300),
            clash in any::<bool>(),
        ) {
            let run = Run::new(1, files(old.iter().copied())).unwrap();
            let left: Vec<u64> = old.difference(&gone).copied().collect();
            let new: Vec<u64> = new.into_iter().filter(|n| clash || !left.contains(n)).collect();
            let at: Vec<usize> = (0..old.len())
                .filter(|&at| gone.contains(&run.file_at(at).unwrap().number()))
                .collect();
            let edited = run.edited(&at, files(new.iter().copied()));
            let whole = Run::new(1, files(left.into_iter().chain(new)));
            prop_assert_eq!(edited.is_ok(), whole.is_ok());
            let (Ok(edited), Ok(whole)) = (edited, whole) else { return Ok(()) };
            let numbers = |run: &Run| run.files().iter().map(|f| f.number()).collect::<Vec<_>>();
            prop_assert_eq!(numbers(&edited), numbers(&whole));
            prop_assert_eq!(edited.sums(), whole.sums());
            prop_assert_eq!(edited.check(), Ok(()));
            let back: Vec<_> = edited.files().iter().rev().map(|f| f.number()).collect();
            prop_assert!(back.iter().rev().eq(&numbers(&edited)));
            for key in (0..9000u64).step_by(97) {
                let key = key.to_be_bytes();
                let found = whole.files().iter().find(|f| meets(f, &key, &key)).map(|f| f.number());
                prop_assert_eq!(edited.find(&key).map(|f| f.number()), found);
                let by = whole.files().iter().filter(|f| *f.smallest() <= key[..]).count();
                prop_assert_eq!(edited.starting_by(&key), by);
            }
        }

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
                .map(|(i, pair)| {
                    file(i as u64, pair[0].as_bytes(), pair[pair.len() - 1].as_bytes())
                })
                .collect();
            let run = Run::new(1, files.clone()).unwrap();
            let probe = probe.as_bytes();
            let want = files.iter().find(|f| meets(f, probe, probe)).map(|f| f.number());
            prop_assert_eq!(run.find(probe).map(|f| f.number()), want);
            let (lo, hi) = (probe.min(other.as_bytes()), probe.max(other.as_bytes()));
            let want = files.iter().filter(|f| meets(f, lo, hi));
            let want: Vec<_> = want.map(|f| f.number()).collect();
            let got: Vec<_> = run.overlapping(lo, hi).iter().map(|f| f.number()).collect();
            prop_assert_eq!(got, want);
            prop_assert_eq!(run.overlapping_range(None, None).len(), files.len());
        }
    }
}
