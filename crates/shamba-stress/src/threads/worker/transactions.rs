//! Transactions: what they read is judged as at a snapshot, with their own writes over it; what
//! they write is the thread's own, and has happened or has not as a whole.

use shamba::{Error, Isolation, Transaction, TransactionOptions, WriteOptions};

use super::super::ledger::View;
use super::super::{key_bytes, key_number};
use super::Worker;
use super::writes::{Write, bounds};

/// The longest value that a transaction of the thread writes: all of them fit its share.
const LONGEST: usize = 1000;

/// Whether a transaction went on; not where it has no memory for more.
fn fits(result: shamba::Result<()>) -> bool {
    match result {
        Err(Error::TransactionTooLarge { max, .. }) => {
            assert!(
                max < 4 << 20,
                "a transaction refused where there are {max} bytes"
            );
            false
        }
        other => {
            other.unwrap();
            true
        }
    }
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
        for _ in 0..self.rng.below(5) {
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
