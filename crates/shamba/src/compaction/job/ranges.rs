//! Range tombstones on their way into tables, beside entries: which are over the present key, and
//! where they are cut since a table ends.

use super::{Current, TablesInTheMaking, begin, finish, is_full};
use crate::base::fragment::{Fragment, is_before, successor};
use crate::base::key::{MAX_KEY_LEN, SeqNo};
use crate::compaction::{FragmentMerge, Retain};
use crate::error::Result;

/// Range tombstones on the way beside entries.
pub(super) struct RangesAhead {
    fragments: FragmentMerge,
    /// The fragment that the present key is in.
    over: Option<Fragment>,
    next: Option<Fragment>,
}

impl RangesAhead {
    pub(super) fn new(mut fragments: FragmentMerge) -> Result<Self> {
        let next = fragments.next()?;
        Ok(RangesAhead {
            fragments,
            over: None,
            next,
        })
    }

    /// Whether the next key, or the end, lies behind the present fragment or in the next.
    pub(super) fn is_behind(&self, key: Option<&[u8]>) -> bool {
        let ended = |over: &Fragment| key.is_none_or(|key| !is_before(key, &over.end));
        let begun = |next: &Fragment| key.is_none_or(|key| next.start.as_slice() <= key);
        self.over.as_ref().is_some_and(ended) || self.next.as_ref().is_some_and(begun)
    }

    /// On to the next key, or to the end; tables are told of the fragments on the way.
    pub(super) fn go_to(
        &mut self,
        key: Option<&[u8]>,
        retain: &Retain,
        tables: &mut TablesInTheMaking<'_, '_>,
    ) -> Result<()> {
        while self.is_behind(key) {
            if self.over.take().is_some() {
                tables.end_range();
                continue;
            }
            let Some(next) = self.next.take() else { break };
            self.next = self.fragments.next()?;
            let entry_at_start = key.is_some_and(|key| *key == *next.start);
            let range = Fragment {
                seqs: retain.range_tombstones(&next.seqs),
                ..next.clone()
            };
            self.over = Some(next);
            tables.begin_range(range, entry_at_start)?;
        }
        Ok(())
    }

    /// The tombstones over the present key, newest first.
    pub(super) fn over(&self) -> &[SeqNo] {
        self.over.as_ref().map_or(&[], |over| &over.seqs)
    }
}

impl TablesInTheMaking<'_, '_> {
    /// The table that is written to, begun for what is written now: none is ever empty.
    pub(super) fn current(&mut self) -> Result<&mut Current> {
        Ok(match &mut self.current {
            Some(current) => current,
            none => none.insert(begin(self.output, self.shadowed_before)?),
        })
    }

    /// Ends the table before a key where it is full, and all before the key is in it. The key where
    /// its range tombstones end may be the last one of it if no entry of the key comes.
    pub(super) fn end_full_table(&mut self, key: &[u8], may_be_last: bool) -> Result<()> {
        let target = self.done.target_file(self.output.target_file);
        let Some(current) = &mut self.current else {
            return Ok(());
        };
        let largest = current.builder.largest();
        let is_behind = largest < key || may_be_last && largest == key;
        if !is_behind || !is_full(&current.builder, key, target, self.output) {
            return Ok(());
        }
        // Range tombstones that go on are cut behind the last key, of which nothing is longer.
        if let Some(range) = self.range.as_mut().filter(|range| *range.start <= *largest) {
            if largest.len() == MAX_KEY_LEN {
                return Ok(());
            }
            let cut = successor(largest);
            if !is_before(&cut, &range.end) {
                return Ok(());
            }
            let before = Fragment {
                start: std::mem::replace(&mut range.start, cut.clone()),
                end: cut,
                seqs: range.seqs.clone(),
            };
            current.builder.add_range_tombstones(&before);
        }
        let current = self.current.take();
        finish(current, self.shadowed_before, self.output, self.done)
    }

    /// Range tombstones begin at the next key; whether an entry of that key comes.
    fn begin_range(&mut self, range: Fragment, entry_comes: bool) -> Result<()> {
        if range.seqs.is_empty() {
            return Ok(());
        }
        let start = range.start.clone();
        self.range = Some(range);
        self.end_full_table(&start, !entry_comes)?;
        self.current().map(drop)
    }

    /// Those that were begun end before the next key.
    fn end_range(&mut self) {
        if let Some((range, current)) = self.range.take().zip(self.current.as_mut()) {
            current.builder.add_range_tombstones(&range);
        }
    }
}
