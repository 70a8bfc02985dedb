//! The end of a transaction: what it depends on is looked at once more, and its batch is written.

use super::Transaction;
use crate::base::key::SeqNo;
use crate::db::write::KeySet;
use crate::db::{DbInner, in_pieces};
use crate::error::{Error, Result};
use crate::metrics::Counter;
use crate::options::WriteOptions;

impl Transaction {
    /// Writes all that the transaction wrote, with the database's durability. One that wrote
    /// nothing always succeeds: all that it read was of one moment. It ends here, whether it was
    /// written or not: what is to be tried again is made anew, as [`Db::transact`] does.
    ///
    /// ```compile_fail,E0382
    /// # fn twice(transaction: shamba::Transaction) -> shamba::Result<()> {
    /// transaction.commit()?;
    /// transaction.commit()
    /// # }
    /// ```
    ///
    /// [`Db::transact`]: crate::Db::transact
    ///
    /// # Errors
    /// [`Error::Conflict`], and then nothing was written; those of
    /// [`Db::write`](crate::Db::write), and of [`Db::get`](crate::Db::get) for what has to be
    /// looked up again.
    pub fn commit(self) -> Result<()> {
        self.commit_with(WriteOptions::default())
    }

    /// [`Transaction::commit`] with a durability of its own.
    ///
    /// # Errors
    /// As [`Transaction::commit`].
    pub fn commit_with(self, options: WriteOptions) -> Result<()> {
        if self.own.is_empty() {
            return Ok(());
        }
        let Transaction {
            snapshot,
            own,
            depends,
            ..
        } = self;
        let (inner, mut depends) = (snapshot.shared().inner(), depends.into_inner());
        if depends.on_written {
            depends.add_written(&own, inner.default_keyspace());
        }
        // What is no longer needed, and what the look may take, is there for it.
        let spare = own.index_bytes_with(0) + depends.keys.look_bytes();
        let (batch, files) = own.into_batch();
        depends.memory.shrink(spare as u64);
        let done = if depends.keys.is_empty() {
            in_pieces::write(inner, batch, options)
        } else {
            let watching = inner.writes().watch(depends.keys);
            look_for_changes(inner, watching.keys(), snapshot.point().seq).and_then(|()| {
                in_pieces::write_by(inner, batch, |batch| {
                    inner.writes().write_watched(batch, options, &watching)
                })
            })
        };
        files.settle(&done);
        let counter = match &done {
            Ok(()) => Counter::transactions,
            Err(Error::Conflict { .. }) => Counter::transaction_conflicts,
            Err(_) => return done,
        };
        inner.shared().metrics().add(counter, 1);
        done
    }
}

/// Fails if any of the keys was written since a sequence number.
fn look_for_changes(inner: &DbInner, keys: &KeySet, since: SeqNo) -> Result<()> {
    let reads = inner.reads();
    for of in keys.keyspaces() {
        of.keyspace.check_alive()?;
    }
    // Nothing was.
    if inner.visibility().newest() == since {
        return Ok(());
    }
    for of in keys.keyspaces() {
        let conflict = |key: &[u8]| Error::Conflict {
            keyspace: of.keyspace.name().to_owned(),
            key: key.to_vec(),
        };
        for key in &of.points {
            if reads.key_changed_since(&of.keyspace, key, since)? {
                return Err(conflict(key));
            }
        }
        for range in &of.ranges {
            if let Some(key) = reads.range_changed_since(&of.keyspace, range, since)? {
                return Err(conflict(&key));
            }
        }
    }
    Ok(())
}
