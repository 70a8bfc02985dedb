//! Values that an iterator merges of operands. One thread at a time.

use super::{Cursor, Position};
use crate::base::expiring;
use crate::base::iter::InternalIterator;
use crate::base::key::{EntryKind, Tag};
use crate::budget::Role;
use crate::error::Result;
use crate::operator::OperandChain;

impl Cursor {
    /// From the newest visible entry of a key, an operand, to what they come to: at the value, or
    /// lost. Then `self.key` is as it was, since it tells where to go on.
    #[cold]
    pub(super) fn merge_forward(&mut self) -> Result<()> {
        self.merge_operands(self.merge.key().to_vec())
    }

    /// The same from before all entries of `self.key`.
    #[cold]
    pub(super) fn merge_backward(&mut self) -> Result<()> {
        self.merge.seek(&self.key, Tag::seek(self.seq))?;
        self.merge_operands(self.key.clone())
    }

    fn merge_operands(&mut self, key: Vec<u8>) -> Result<()> {
        let keyspace = self.keyspace.clone();
        let budget = self.db.inner().shared().budget();
        let mut operands = OperandChain::new(keyspace.operator()?, budget.limit());
        let mut held = budget.open_account(Role::Iterators);
        let mut base = None;
        // Of what was not read yet no entry comes before its key.
        while self.merge.valid() && self.merge.key() <= key.as_slice() && !self.is_lost() {
            if self.merge.is_deferred() {
                self.merge.materialize()?;
                continue;
            }
            let tag = self.merge.tag();
            if self.is_hidden()? {
                break;
            }
            if tag.kind() != Some(EntryKind::Operand) {
                base = self.present_value(tag)?;
                break;
            }
            operands.add_older(&key, tag, self.merge.value());
            let more = (operands.bytes() as u64).saturating_sub(held.bytes());
            held.grow_iterator(more, 1)?;
            self.merge.next()?;
        }
        // What was not seen yet may be older.
        if self.is_lost() {
            return Ok(());
        }
        // An operand was seen there before.
        if operands.added() == 0 {
            return Err(self.out_of_order());
        }
        self.value.clear();
        if !self.options.keys_only {
            self.value = operands.merge(&key, base.as_deref())?;
        }
        self.key = key;
        self.place = Position::Merged;
        self.account()
    }

    /// The value of the merge's entry, if it has one.
    fn present_value(&mut self, tag: Tag) -> Result<Option<Vec<u8>>> {
        Ok(match tag.kind() {
            Some(EntryKind::Put) => Some(self.merge.value().to_vec()),
            Some(EntryKind::Expiring) => {
                let time = self.time();
                expiring::at(self.merge.value(), time).map(<[u8]>::to_vec)
            }
            Some(EntryKind::Pointer | EntryKind::ExpiringPointer) => match self.before_value(tag) {
                Some(_) if self.options.keys_only => Some(Vec::new()),
                Some(_) => {
                    let loaded = self.load(self.merge.key(), tag, self.merge.value());
                    Some(loaded?.0.to_vec())
                }
                None => None,
            },
            Some(EntryKind::Delete | EntryKind::Operand) | None => None,
        })
    }
}
