//! Lookups of a key whose newest entry is an operand: all of them down to what they are merged
//! into.

use super::{Found, OperandPlace, PointReader, TableVisit, Value};
use crate::base::expiring;
use crate::base::iter::InternalIterator;
use crate::base::key::{EntryKind, SeqNo, Tag};
use crate::base::sample;
use crate::budget::{Reservation, Role};
use crate::compaction::{RunFiles, RunIter};
use crate::error::{Error, Result};
use crate::fs::Purpose;
use crate::operator::OperandChain;
use crate::table::{Lookup, ScanOptions, TableGet};
use crate::version::FileMeta;

/// Operands of a table that are looked up one by one; for more of them their entries are gone
/// through. With half of it a scan is begun where mostly there is no third; twice of it asks the
/// filter and the index as often. Neither was measured.
const FEW: usize = 3;

/// What operands take is charged in steps of so many bytes, as many as a counter of some operands
/// takes.
const STEP: u64 = 1 << 10;

/// Operands on the way down.
struct Gathered<'o> {
    operands: OperandChain<'o>,
    memory: Reservation,
}

impl PointReader<'_> {
    /// The value of a key of which there are operands, the key that was looked up last.
    #[cold]
    pub(super) fn find_merged(&mut self, key: &[u8]) -> Result<Found> {
        let newest = self.newest_operand.take();
        self.find_merged_from(key, newest)
    }

    /// The value of a key of which there are operands; `newest` is where the newest one is, if that
    /// is known.
    pub(super) fn find_merged_from(
        &mut self,
        key: &[u8],
        newest: Option<OperandPlace>,
    ) -> Result<Found> {
        let keyspace = self.keyspace;
        let budget = self.path.shared.budget();
        let mut gathered = Gathered {
            operands: OperandChain::new(keyspace.operator()?, budget.limit()),
            memory: budget.open_account(Role::Iterators),
        };
        let base = self.gather(key, newest, &mut gathered)?;
        let value = gathered.operands.merge(key, base.as_deref())?;
        Ok(Found::Value(Value::boxed(value.into())))
    }

    /// Gathers the operands of a key, newest first; gives the value that they are merged into.
    fn gather(
        &mut self,
        key: &[u8],
        newest: Option<OperandPlace>,
        gathered: &mut Gathered<'_>,
    ) -> Result<Option<Vec<u8>>> {
        // Those before the newest one's have nothing of the key.
        let first = newest.map_or(0, |newest| newest.memtable);
        for (at, memtable) in self.state.memtables().enumerate().skip(first) {
            let newest = newest.filter(|newest| newest.memtable == at);
            let newest = newest.map(|newest| newest.entry);
            for (tag, value) in memtable.entries_of(key, self.seq, newest) {
                if tag.kind() != Some(EntryKind::Operand) {
                    return self.base(key, tag, value);
                }
                gathered.add(key, tag, value)?;
            }
        }
        // Tables one after the other, each from its newest entry on.
        let weight = sample::weight();
        let share = self.path.shared.options().hash_sharing;
        for (level, run) in self.state.version.runs() {
            let Some(file) = run.find(key) else {
                continue;
            };
            let visit = TableVisit {
                level,
                file,
                weight,
            };
            let opened = self.path.tables.visit(file)?;
            let opened = opened.as_deref().ok_or(Error::Closed)?;
            // Each by the number of the one before, with a lookup of its own for a few.
            let mut seq = Some(self.seq);
            for _ in 0..FEW {
                let Some(now) = seq else { break };
                let lookup = Lookup::new(key, now, share);
                let mut state = self.enter(&visit, opened, &lookup);
                let mut get = self.begin(&visit, opened, &lookup, &mut state);
                let answer = get.finish();
                let found = |answer: &TableGet| matches!(answer, TableGet::Found { .. });
                self.count(&visit, &get, answer.as_ref().ok().map(found));
                let TableGet::Found { tag, value } = answer? else {
                    seq = None;
                    break;
                };
                if tag.kind() != Some(EntryKind::Operand) {
                    return self.base(key, tag, &value);
                }
                gathered.add(key, tag, &value)?;
                seq = tag.seq().checked_sub(1);
            }
            if let Some(seq) = seq
                && let Some(base) = self.gather_many((key, seq), file, gathered)?
            {
                return Ok(base);
            }
        }
        Ok(None)
    }

    /// Goes on through the entries of a key in a table, from a number on; gives what they are
    /// merged into where that is there: a value, or nothing.
    fn gather_many(
        &mut self,
        (key, seq): (&[u8], SeqNo),
        file: &FileMeta,
        gathered: &mut Gathered<'_>,
    ) -> Result<Option<Option<Vec<u8>>>> {
        let scan = ScanOptions {
            purpose: Purpose::Scan,
            sources: 1,
            fill_cache: true,
            readahead_pages: 0,
            lazy: false,
            budget: self.path.shared.budget().clone(),
        };
        let files = RunFiles::Some(vec![file.clone()]);
        let mut entries = RunIter::new(self.path.tables.clone(), files, scan);
        entries.seek(key, Tag::seek(seq))?;
        let table = self.path.tables.get(file)?;
        let ranges = table.ranges();
        let deleted_at = ranges.map_or(0, |ranges| ranges.newest_over(key, self.seq));
        while entries.valid() && entries.key() == key {
            let tag = entries.tag();
            if tag.seq() < deleted_at {
                return Ok(Some(None));
            }
            if tag.kind() != Some(EntryKind::Operand) {
                return self.base(key, tag, entries.value()).map(Some);
            }
            gathered.add(key, tag, entries.value())?;
            entries.next()?;
        }
        // Nothing older is seen of what a range deleted.
        Ok((deleted_at > 0).then_some(None))
    }

    /// The value of an entry that is no operand.
    fn base(&mut self, key: &[u8], tag: Tag, stored: &[u8]) -> Result<Option<Vec<u8>>> {
        Ok(match tag.kind() {
            Some(EntryKind::Put) => Some(stored.to_vec()),
            Some(EntryKind::Expiring) => expiring::at(stored, self.time()).map(<[u8]>::to_vec),
            Some(EntryKind::Pointer | EntryKind::ExpiringPointer) => {
                match self.pointer_of::<Value>(tag, stored) {
                    Found::Pointer => {
                        // Before it is read: there may be no memory for it.
                        let budget = self.path.shared.budget();
                        let mut held = budget.open_account(Role::Iterators);
                        held.grow_iterator(self.pointer.get().len, 1)?;
                        self.find_pointed(key)?.into_value()
                    }
                    _ => None,
                }
                .map(Value::into_vec)
            }
            Some(EntryKind::Delete | EntryKind::Operand) | None => None,
        })
    }
}

impl Gathered<'_> {
    fn add(&mut self, key: &[u8], tag: Tag, operand: &[u8]) -> Result<()> {
        self.operands.add_older(key, tag, operand);
        let bytes = (self.operands.bytes() as u64).next_multiple_of(STEP);
        let more = bytes.saturating_sub(self.memory.bytes());
        if more == 0 {
            return Ok(());
        }
        // Others who read such keys give theirs back soon.
        let refused = self.memory.grow_iterator(more, 1);
        refused.or_else(|refused| {
            let taken = self.memory.grow_waiting(more);
            taken.then_some(()).ok_or(refused)
        })
    }
}
