//! Operands on their way through a flush or merge: those of a key that all readers see alike become
//! one operand, or the value that they come to once what they are merged into is found.
//!
//! Where the operator fails, or the value would be too large, they stay as they are: a reader is
//! told, and nothing is lost. What has a time to live stays apart from what is merged into it.

use std::sync::Arc;

use super::Retain;
use crate::base::key::{EntryKind, Tag};
use crate::budget::{Budget, Reservation, Role};
use crate::error::Result;
use crate::operator::{OperandChain, Operator, most_of_operand};

/// An entry to be written.
#[derive(Clone, Copy)]
pub(super) struct Collapsed<'v> {
    pub(super) key: &'v [u8],
    /// The newest number that what it is made of had.
    pub(super) seq: u64,
    pub(super) tag: Tag,
    pub(super) value: &'v [u8],
    /// Whether every reader sees it and nothing lies below.
    pub(super) settled: bool,
    /// Whether it is what readers see of the key, and nothing that operands are merged into: then a
    /// filter may be asked about it.
    pub(super) is_seen: bool,
}

/// Operands of a key that wait for what is older.
struct Waiting<'o> {
    key: Vec<u8>,
    operands: OperandChain<'o>,
    /// Whether nothing is older than what comes of the key in this merge.
    settled: bool,
    memory: Reservation,
}

/// See the module.
pub(super) struct Collapse<'o> {
    operator: Option<&'o Operator>,
    budget: &'o Arc<Budget>,
    waiting: Option<Waiting<'o>>,
    /// Operands that are gone: part of others, or of values.
    pub(super) collapsed: u64,
}

impl<'o> Collapse<'o> {
    pub(super) fn new(operator: Option<&'o Operator>, budget: &'o Arc<Budget>) -> Self {
        Collapse {
            operator,
            budget,
            waiting: None,
            collapsed: 0,
        }
    }

    /// Whether operands wait for what is older.
    pub(super) fn is_waiting(&self) -> bool {
        self.waiting.is_some()
    }

    fn most(&self) -> usize {
        most_of_operand(self.budget.limit())
    }

    /// Takes the next entry that is kept, with the tag that it was kept with, and writes what is
    /// known by then.
    pub(super) fn add(
        &mut self,
        entry: Collapsed<'_>,
        retain: &Retain,
        mut write: impl FnMut(Collapsed<'_>) -> Result<()>,
    ) -> Result<()> {
        if !retain.is_chained() {
            self.end(&mut write)?;
        }
        if let Some(operator) = self.operator
            && entry.tag.kind() == Some(EntryKind::Operand)
            && retain.may_collapse(entry.seq)
        {
            return self.wait(entry, operator, write);
        }
        let is_seen = !retain.is_chained();
        let entry = Collapsed { is_seen, ..entry };
        // With nothing below, nobody needs to be told that there is nothing.
        let is_over = entry.settled && entry.tag.kind() == Some(EntryKind::Delete);
        let Some(waiting) = self.waiting.take() else {
            return if is_over { Ok(()) } else { write(entry) };
        };
        // What they are merged into.
        let base = match entry.tag.kind() {
            Some(EntryKind::Put) => Some(Some(entry.value)),
            Some(EntryKind::Delete) => Some(None),
            // What lies in a value file and is too large is merged when it is read.
            Some(_) | None => None,
        };
        let merged = base.and_then(|base| self.merged(&waiting, base));
        if let Some(value) = merged {
            return self.write_merged(&waiting, &value, entry.settled, write);
        }
        self.write_operands(waiting, &mut write)?;
        if is_over { Ok(()) } else { write(entry) }
    }

    /// Writes what waits: nothing older of its key comes.
    pub(super) fn end(&mut self, mut write: impl FnMut(Collapsed<'_>) -> Result<()>) -> Result<()> {
        let Some(waiting) = self.waiting.take() else {
            return Ok(());
        };
        let merged = waiting.settled.then(|| self.merged(&waiting, None));
        match merged.flatten() {
            Some(value) => self.write_merged(&waiting, &value, true, write),
            None => self.write_operands(waiting, &mut write),
        }
    }

    fn wait(
        &mut self,
        entry: Collapsed<'_>,
        operator: &'o Operator,
        mut write: impl FnMut(Collapsed<'_>) -> Result<()>,
    ) -> Result<()> {
        let budget = self.budget;
        let waiting = self.waiting.get_or_insert_with(|| Waiting {
            key: entry.key.to_vec(),
            operands: OperandChain::new(operator, budget.limit()),
            settled: false,
            memory: budget.open_account(Role::Compaction),
        });
        waiting.settled = entry.settled;
        let tag = Tag::new(entry.seq, EntryKind::Operand);
        waiting.operands.add_older(entry.key, tag, entry.value);
        let bytes = waiting.operands.bytes() + waiting.key.capacity();
        waiting.memory.resize(bytes as u64);
        if bytes > self.most()
            && let Some(waiting) = self.waiting.take()
        {
            self.write_operands(waiting, &mut write)?;
        }
        Ok(())
    }

    /// The value that operands come to, if there is one that is not too large.
    fn merged(&self, waiting: &Waiting<'_>, base: Option<&[u8]>) -> Option<Vec<u8>> {
        let value = waiting.operands.merge(&waiting.key, base).ok()?;
        (value.len() <= self.most()).then_some(value)
    }

    fn write_merged(
        &mut self,
        waiting: &Waiting<'_>,
        value: &[u8],
        settled: bool,
        mut write: impl FnMut(Collapsed<'_>) -> Result<()>,
    ) -> Result<()> {
        self.collapsed += waiting.operands.added();
        let seq = waiting.operands.tag().map_or(0, Tag::seq);
        let shown = if settled { 0 } else { seq };
        let _held = self.budget.reserve(Role::Compaction, value.len() as u64);
        write(Collapsed {
            key: &waiting.key,
            seq,
            tag: Tag::new(shown, EntryKind::Put),
            value,
            settled,
            is_seen: true,
        })
    }

    fn write_operands(
        &mut self,
        mut waiting: Waiting<'_>,
        write: &mut impl FnMut(Collapsed<'_>) -> Result<()>,
    ) -> Result<()> {
        waiting.operands.combine(&waiting.key);
        let mut left = 0;
        for (tag, value) in waiting.operands.operands() {
            left += 1;
            write(Collapsed {
                key: &waiting.key,
                seq: tag.seq(),
                tag,
                value,
                settled: waiting.settled,
                is_seen: false,
            })?;
        }
        self.collapsed += waiting.operands.added() - left;
        Ok(())
    }
}
