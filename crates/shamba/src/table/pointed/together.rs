//! Values of several keys at once: the blocks that they lie in are read together, in rounds, as
//! those of lookups are (`read_for`).
//!
//! Thread-safe; what is pending belongs to one thread.

use std::sync::Arc;

use super::entry_in;
use crate::base::pointer::ValuePointer;
use crate::base::sample;
use crate::error::{Error, Result};
use crate::table::get::{
    Get, GetState, Lookup, LookupTotals, ModuleReads, PendingGet, Poll, TableValue,
};
use crate::table::slot::TableFile;
use crate::table::table_cache::TableCache;

/// A value that is wanted with others: in which file, by which key, and what points to it.
pub(crate) struct WantedValue<'a, F> {
    /// Its place among what is asked for.
    pub(crate) at: usize,
    pub(crate) file: &'a F,
    pub(crate) key: &'a [u8],
    pub(crate) pointer: ValuePointer,
}

/// One of them between two rounds.
struct PendingValue<'a, F> {
    wanted: WantedValue<'a, F>,
    get: PendingGet<'a>,
    /// For how many visits this one is counted.
    weight: u64,
}

impl<'a, F> AsRef<PendingGet<'a>> for PendingValue<'a, F> {
    fn as_ref(&self) -> &PendingGet<'a> {
        &self.get
    }
}

impl<'a, F> AsMut<PendingGet<'a>> for PendingValue<'a, F> {
    fn as_mut(&mut self) -> &mut PendingGet<'a> {
        &mut self.get
    }
}

impl TableCache {
    /// Values, whole, each given to `found` with its place.
    ///
    /// # Errors
    /// As [`Self::value_of`]; then some were not found.
    pub(crate) fn values_of<'a, F: TableFile + 'a>(
        &self,
        wanted: impl Iterator<Item = WantedValue<'a, F>>,
        totals: &mut LookupTotals,
        mut found: impl FnMut(usize, TableValue),
    ) -> Result<()> {
        let mut waiting = Vec::new();
        let begun = self.begin_values(wanted, &mut waiting, totals, &mut found);
        let done = begun.and_then(|()| self.read_values(&mut waiting, totals, &mut found));
        // What those did that are given up is counted all the same.
        for pending in &mut waiting {
            totals.add(pending.get.get().trace());
        }
        done
    }

    /// Goes as far as memory answers.
    fn begin_values<'a, F: TableFile + 'a>(
        &self,
        wanted: impl Iterator<Item = WantedValue<'a, F>>,
        waiting: &mut Vec<PendingValue<'a, F>>,
        totals: &mut LookupTotals,
        found: &mut impl FnMut(usize, TableValue),
    ) -> Result<()> {
        for wanted in wanted {
            let at = wanted.at;
            // Of one in pieces each is as much as is read at once.
            if wanted.pointer.is_in_pieces() {
                found(at, self.gathered(wanted.file, wanted.pointer, totals)?);
                continue;
            }
            if let Some(value) = self.begin_value(wanted, waiting, totals)? {
                found(at, value);
            }
        }
        Ok(())
    }

    /// The value if memory answers; else it waits.
    fn begin_value<'a, F: TableFile + 'a>(
        &self,
        wanted: WantedValue<'a, F>,
        waiting: &mut Vec<PendingValue<'a, F>>,
        totals: &mut LookupTotals,
    ) -> Result<Option<TableValue>> {
        let WantedValue { file, pointer, .. } = wanted;
        let opened = self.visit(file)?;
        let opened = opened.as_deref().ok_or(Error::Closed)?;
        let lookup = Lookup::new(wanted.key, pointer.seq, true);
        let mut state = GetState::new(opened.table(), &lookup, ModuleReads::UpTo(0));
        let pinned = opened.pinned().filter(|_| self.may_pin());
        let mut get = Get::new(opened.table(), pinned, &lookup, &mut state);
        let weight = sample::weight();
        if weight > 0 && self.may_pin() {
            self.missed(file.slot(), opened, get.partition());
        }
        let polled = get.poll();
        if let Ok(Poll::Read(need)) = polled {
            let get = PendingGet::new(Arc::clone(opened.table()), lookup, state, need);
            waiting.push(PendingValue {
                wanted,
                get,
                weight,
            });
            return Ok(None);
        }
        totals.add(get.trace());
        let answer = match polled? {
            Poll::Answer(answer) => entry_in(answer, pointer.seq),
            Poll::Read(_) => None,
        };
        let value = self.checked(file, answer, pointer)?;
        get.count_visit(true, weight);
        Ok(Some(value))
    }

    /// Rounds: all that values wait for is read together, then each goes on until it waits again.
    fn read_values<'a, F: TableFile + 'a>(
        &self,
        waiting: &mut Vec<PendingValue<'a, F>>,
        totals: &mut LookupTotals,
        found: &mut impl FnMut(usize, TableValue),
    ) -> Result<()> {
        while !waiting.is_empty() {
            self.read_for(waiting, &mut totals.batches)?;
            let mut next = 0;
            while let Some(pending) = waiting.get_mut(next) {
                let Some(answer) = pending.get.poll()? else {
                    next += 1;
                    continue;
                };
                let mut done = waiting.swap_remove(next);
                let WantedValue { file, pointer, .. } = done.wanted;
                let get = done.get.get();
                totals.add(get.trace());
                let value = self.checked(file, entry_in(answer, pointer.seq), pointer)?;
                get.count_visit(true, done.weight);
                found(done.wanted.at, value);
            }
        }
        Ok(())
    }
}
