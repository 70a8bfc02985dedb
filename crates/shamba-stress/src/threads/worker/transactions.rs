//! Transactions: what they read is judged as at a snapshot, with their own writes over it; what
//! they write is the thread's own, and has happened or has not as a whole.

use shamba::{Error, Isolation, Transaction, TransactionOptions, WriteOptions};

use super::super::ledger::{KeyId, View};
use super::super::{key_bytes, key_number};
use super::Worker;
use super::writes::{Write, bounds};

/// The longest value that a transaction of the thread writes: all of them fit its share.
pub(super) const LONGEST: usize = 1000;

/// What a transaction gave, or nothing where it has no memory for more.
pub(super) fn unless_too_large<T>(result: shamba::Result<T>) -> Option<T> {
    match result {
        Err(Error::TransactionTooLarge { max, .. }) => {
            assert!(
                max < 4 << 20,
                "a transaction refused where there are {max} bytes"
            );
            None
        }
        other => Some(other.unwrap()),
    }
}

/// Whether a transaction went on.
fn fits(result: shamba::Result<()>) -> bool {
    unless_too_large(result).is_some()
}

/// What the last of a transaction's writes to a key made of it, if there is one.
fn last_write(writes: &[Write], key: KeyId) -> Option<Option<&[u8]>> {
    writes.iter().rev().find_map(|write| match write {
        Write::Put(of, value) => (*of == key).then_some(Some(value.as_slice())),
        Write::Delete(of) => (*of == key).then_some(None),
        Write::DeleteRange(keyspace, range) => {
            (*keyspace == key.0 && range.contains(&key.1)).then_some(None)
        }
    })
}

impl<'a> Worker<'a> {
    pub(super) fn transaction(&mut self) {
        let isolation = *self
            .rng
            .pick(&[Isolation::Serializable, Isolation::Snapshot]);
        let options = TransactionOptions::new().isolation(isolation);
        let mut view = self.shared.ledger.view();
        let mut transaction = self.db.transaction_with(options);
        view.taken();
        for _ in 0..self.rng.below(6) {
            if !self.read_in(&transaction, &mut view) {
                return;
            }
        }
        let mut writes = Vec::new();
        // How many writes there were at each.
        let mut savepoints = Vec::new();
        for _ in 0..self.rng.below(8) {
            if self.rng.one_in(3) {
                let (writes, savepoints) = (&mut writes, &mut savepoints);
                if !self.savepoint(&mut transaction, &mut view, writes, savepoints) {
                    return;
                }
                continue;
            }
            let write = self.some_write();
            if matches!(&write, Write::Put(_, value) if value.len() > LONGEST) {
                continue;
            }
            if !self.write_in(&mut transaction, &write) {
                return;
            }
            writes.push(write);
        }
        if self.rng.one_in(8) {
            return transaction.rollback();
        }
        let sums: Vec<_> = writes.iter().flat_map(Write::sums).collect();
        let durability = *self.rng.pick(self.shared.durabilities);
        let options = WriteOptions::new().durability(durability);
        self.shared.ledger.begin(self.number, &sums);
        let committed = transaction.commit_with(options);
        if matches!(committed, Err(Error::Conflict { .. })) || !fits(committed) {
            self.shared.ledger.abandon(self.number);
        } else {
            self.shared.ledger.finish(self.number);
        }
    }

    /// Sets a savepoint, or drops the last one, or goes back to it: then keys that were written
    /// since are as they were.
    fn savepoint(
        &mut self,
        transaction: &mut Transaction,
        view: &mut View<'a>,
        writes: &mut Vec<Write>,
        savepoints: &mut Vec<usize>,
    ) -> bool {
        let way = self.rng.below(5);
        if way < 2 {
            transaction.set_savepoint();
            savepoints.push(writes.len());
            return true;
        }
        let done = if way == 2 {
            transaction.pop_savepoint()
        } else {
            transaction.rollback_to_savepoint()
        };
        let Some(before) = savepoints.pop() else {
            let refused = matches!(done, Err(Error::NoSavepoint));
            assert!(refused, "a savepoint that nobody set: {done:?}");
            return true;
        };
        done.unwrap();
        if way == 2 {
            return true;
        }
        let taken_back = writes.split_off(before);
        let keys = taken_back.iter().filter_map(|write| write.sums().pop());
        for (key, _) in keys {
            let found = transaction.get_in(&self.keyspaces[key.0], key_bytes(key.1));
            let Some(found) = unless_too_large(found) else {
                return false;
            };
            match last_write(writes, key) {
                Some(wanted) => assert_eq!(found.as_deref(), wanted, "{key:?} at a savepoint"),
                None => view.judge(key, found.as_deref(), "get after going back to a savepoint"),
            }
        }
        true
    }

    /// Reads what the transaction has not written.
    fn read_in(&mut self, transaction: &Transaction, view: &mut View<'a>) -> bool {
        let key = self.any_key();
        let keyspace = &self.keyspaces[key.0];
        let read = match self.rng.below(4) {
            0 => {
                let keys = [key.1, (key.1 + 1) % self.shared.keys];
                let found = transaction.multi_get_in(keyspace, &keys.map(key_bytes));
                found.map(|found| {
                    for (number, found) in keys.into_iter().zip(found) {
                        view.judge(
                            (key.0, number),
                            found.as_deref(),
                            "multi_get in a transaction",
                        );
                    }
                })
            }
            1 => {
                let range = key.1..self.shared.keys.min(key.1 + 12);
                let entries = transaction.range_in(keyspace, bounds(&mut self.rng, &range));
                let entries: shamba::Result<Vec<_>> = entries
                    .map(|entry| entry.map(|(key, value)| (key_number(&key), value.into_vec())))
                    .collect();
                match entries {
                    Err(Error::IteratorsExhausted { .. }) => Ok(()),
                    entries => entries.map(|entries| {
                        let how = "a range in a transaction";
                        self.shared.judge_stretch(view, key.0, range, &entries, how);
                    }),
                }
            }
            2 => transaction
                .get_for_update_in(keyspace, key_bytes(key.1))
                .map(|found| view.judge(key, found.as_deref(), "get_for_update")),
            _ => transaction
                .get_in(keyspace, key_bytes(key.1))
                .map(|found| view.judge(key, found.as_deref(), "get in a transaction")),
        };
        fits(read)
    }

    /// Writes, and reads what was written.
    fn write_in(&mut self, transaction: &mut Transaction, write: &Write) -> bool {
        let (key, wanted, written) = match write {
            Write::Put(key, value) => {
                let keyspace = &self.keyspaces[key.0];
                let put = transaction.put_in(keyspace, key_bytes(key.1), value);
                (*key, Some(value.as_slice()), put)
            }
            Write::Delete(key) => {
                let keyspace = &self.keyspaces[key.0];
                (
                    *key,
                    None,
                    transaction.delete_in(keyspace, key_bytes(key.1)),
                )
            }
            Write::DeleteRange(number, range) => {
                let bounds = bounds(&mut self.rng, range);
                let deleted = transaction.delete_range_in(&self.keyspaces[*number], bounds);
                ((*number, range.start), None, deleted)
            }
        };
        let read = written.and_then(|()| {
            let found = transaction.get_in(&self.keyspaces[key.0], key_bytes(key.1))?;
            assert_eq!(
                found.as_deref(),
                wanted,
                "a transaction's own write of {key:?}"
            );
            Ok(())
        });
        fits(read)
    }
}
