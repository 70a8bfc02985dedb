//! The range tombstones of several sources, as fragments of them all. Single-threaded.

use std::sync::Arc;

use crate::base::fragment::{Fragment, Fragments, is_before, lesser_end};
use crate::base::key::SeqNo;
use crate::error::Result;
use crate::table::{Table, TableCache};
use crate::version::{FileMeta, Version};

use super::Boundaries;

/// The range tombstones of some files of a run, ascending; holds one table open at a time.
pub(crate) struct RunFragments {
    tables: Arc<TableCache>,
    /// Those that have any.
    files: Vec<FileMeta>,
    at: usize,
    open: Option<Arc<Table>>,
}

impl RunFragments {
    /// Those of the files that have any; `None` if none has.
    pub(crate) fn of<'a>(
        tables: &Arc<TableCache>,
        files: impl IntoIterator<Item = &'a FileMeta>,
    ) -> Option<Box<dyn Fragments>> {
        let files = files.into_iter().filter(|file| file.ranges() > 0);
        let files: Vec<_> = files.cloned().collect();
        if files.is_empty() {
            return None;
        }
        Some(Box::new(RunFragments {
            tables: tables.clone(),
            files,
            at: 0,
            open: None,
        }))
    }
}

impl Fragments for RunFragments {
    fn at_or_after(&mut self, key: &[u8]) -> Result<Option<Fragment>> {
        while let Some(file) = self.files.get(self.at) {
            if file.largest() >= key {
                let table = match &self.open {
                    Some(table) => table,
                    None => self.open.insert(self.tables.get(file)?),
                };
                let found = table.ranges().and_then(|ranges| ranges.at_or_after(key));
                if found.is_some() {
                    return Ok(found);
                }
            }
            self.open = None;
            self.at += 1;
        }
        Ok(None)
    }
}

/// A source of a merge.
struct Source {
    fragments: Box<dyn Fragments>,
    /// Where it is, once it was asked; `None` at its end.
    head: Option<Option<Fragment>>,
}

/// The fragments of several sources, in order: cut where one of any begins or ends.
pub(crate) struct FragmentMerge {
    sources: Vec<Source>,
    /// Where the next one begins at the earliest, and an end for all.
    from: Vec<u8>,
    to: Vec<u8>,
    is_over: bool,
}

impl FragmentMerge {
    /// Fragments from a key on, up to an end, which may be empty for none.
    pub(crate) fn new(sources: Vec<Box<dyn Fragments>>, from: Vec<u8>, to: Vec<u8>) -> Self {
        let source = |fragments| Source {
            fragments,
            head: None,
        };
        FragmentMerge {
            is_over: sources.is_empty(),
            sources: sources.into_iter().map(source).collect(),
            from,
            to,
        }
    }

    /// The next one.
    pub(crate) fn next(&mut self) -> Result<Option<Fragment>> {
        if self.is_over {
            return Ok(None);
        }
        // Each source is at the fragment around the place where the next one begins, or behind it.
        for source in &mut self.sources {
            let is_past = |head: &Fragment| !is_before(&self.from, &head.end);
            let is_known = match &source.head {
                None => false,
                Some(None) => true,
                Some(Some(head)) => !is_past(head),
            };
            if !is_known {
                source.head = Some(source.fragments.at_or_after(&self.from)?);
            }
        }
        // The first that begins anywhere, up to where any begins or ends.
        let heads = || {
            self.sources
                .iter()
                .filter_map(|source| source.head.as_ref()?.as_ref())
        };
        let first = heads()
            .map(|head| head.start.as_slice().max(&self.from))
            .min();
        let Some(start) = first.filter(|start| is_before(start, &self.to)) else {
            self.is_over = true;
            return Ok(None);
        };
        let mut end = self.to.as_slice();
        let mut seqs: Vec<SeqNo> = Vec::new();
        for head in heads() {
            if head.start.as_slice() <= start {
                end = lesser_end(end, &head.end);
                seqs.extend(&head.seqs);
            } else {
                end = lesser_end(end, &head.start);
            }
        }
        seqs.sort_unstable_by(|a, b| b.cmp(a));
        seqs.dedup();
        let (start, end) = (start.to_vec(), end.to_vec());
        self.is_over = end.is_empty();
        self.from.clone_from(&end);
        Ok(Some(Fragment { start, end, seqs }))
    }
}

/// The most files that one merge or flush drops without reading them; others are dropped later.
const MOST_DROPPED: usize = 4096;

/// Files of a version all of whose entries are hidden by range tombstones, from every reader:
/// nobody need read them again.
pub(crate) fn hidden_files(
    version: &Version,
    fragments: &mut FragmentMerge,
    boundaries: &Boundaries,
) -> Result<Vec<FileMeta>> {
    let mut hidden = Vec::new();
    let mut next = fragments.next()?;
    while let Some(mut over) = next {
        next = fragments.next()?;
        // What is deleted from one fragment to the next is one range for a file: its entries are
        // older than the newest tombstone of each, and all who see them see all of these.
        let newest = |one: &Fragment| one.seqs.first().copied().unwrap_or(0);
        let (mut least, mut most) = (newest(&over), newest(&over));
        while let Some(after) = next.take_if(|after| after.start == over.end) {
            (least, most) = (least.min(newest(&after)), most.max(newest(&after)));
            over.end = after.end;
            next = fragments.next()?;
        }
        for (_, run) in version.runs() {
            let first = run.lower_bound(&over.start);
            for file in (first..).map_while(|at| run.file_at(at)) {
                if !is_before(file.largest(), &over.end) || hidden.len() == MOST_DROPPED {
                    break;
                }
                let inside = *file.smallest() >= *over.start;
                if inside && file.max_seq() < least && boundaries.see_alike(file.min_seq(), most) {
                    hidden.push(file.clone());
                }
            }
        }
    }
    Ok(hidden)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Fragments in a list.
    struct Listed(Vec<Fragment>);

    impl Fragments for Listed {
        fn at_or_after(&mut self, key: &[u8]) -> Result<Option<Fragment>> {
            let found = self.0.iter().find(|one| is_before(key, &one.end));
            Ok(found.cloned())
        }
    }

    fn fragments() -> impl Strategy<Value = Vec<Fragment>> {
        let keys = prop::collection::btree_set(prop::collection::vec(0u8..6, 1..3), 0..9);
        (keys, 1u64..9, any::<u16>()).prop_map(|(keys, seq, gaps)| {
            let keys: Vec<_> = keys.into_iter().collect();
            let pairs = keys.windows(2).enumerate();
            let kept = pairs.filter(|(at, _)| gaps >> at & 1 == 0);
            let of = |(at, pair): (usize, &[Vec<u8>])| Fragment {
                start: pair[0].clone(),
                end: pair[1].clone(),
                seqs: vec![seq + 10 * (at as u64 % 3 + 1), seq],
            };
            kept.map(of).collect()
        })
    }

    proptest! {
        #[test]
        fn merged_fragments_cover_what_each_source_does(
            sources in prop::collection::vec(fragments(), 0..4),
            from in prop::collection::vec(0u8..6, 0..2),
            to in prop::collection::vec(0u8..6, 0..2),
            keys in prop::collection::vec(prop::collection::vec(0u8..7, 0..3), 12),
        ) {
            let boxed = sources.iter().map(|list| {
                Box::new(Listed(list.clone())) as Box<dyn Fragments>
            });
            let mut merge = FragmentMerge::new(boxed.collect(), from.clone(), to.clone());
            let mut merged = Vec::new();
            while let Some(fragment) = merge.next()? {
                prop_assert!(is_before(&fragment.start, &fragment.end));
                let last: Option<&Fragment> = merged.last();
                prop_assert!(last.is_none_or(|last| last.end <= fragment.start));
                merged.push(fragment);
            }
            for key in keys {
                let over = |list: &[Fragment]| {
                    let covers = |one: &&Fragment| one.start <= key && is_before(&key, &one.end);
                    let seqs = list.iter().find(covers).map(|one| one.seqs.clone());
                    seqs.unwrap_or_default()
                };
                let mut expected: Vec<SeqNo> = sources.iter().flat_map(|list| over(list)).collect();
                expected.sort_unstable_by(|a, b| b.cmp(a));
                expected.dedup();
                if key < from || !is_before(&key, &to) {
                    expected.clear();
                }
                prop_assert_eq!(over(&merged), expected, "{:?}", key);
            }
        }
    }
}
