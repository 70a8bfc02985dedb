//! Long values in transactions: written and read in pieces, and read whole.

use std::io::Read;
use std::sync::Arc;

use super::Transaction;
use super::long_values::LongValues;
use super::own_writes::{OwnBase, OwnEntry};
use crate::base::pointer::MAX_POINTER_LEN;
use crate::budget::Role;
use crate::db::in_pieces::{Streamed, stream};
use crate::db::keyspaces::KeyspaceInner;
use crate::db::value_reader::ValueReader;
use crate::db::{Keyspace, Value};
use crate::error::Result;

impl Transaction {
    /// Sets a key of the default keyspace to all that a reader gives, once the transaction is
    /// committed: see [`Db::put_reader`](crate::Db::put_reader). Where the transaction is not
    /// committed, the file goes that the value was written into.
    ///
    /// # Errors
    /// As [`Transaction::put`]; [`Error::ValueSource`](crate::Error::ValueSource) where the reader
    /// fails.
    pub fn put_reader(&mut self, key: impl AsRef<[u8]>, mut value: impl Read) -> Result<()> {
        let keyspace = self.default_keyspace().clone();
        self.push_reader(&keyspace, key.as_ref(), &mut value)
    }

    /// [`Transaction::put_reader`] for a keyspace.
    ///
    /// # Errors
    /// As there; [`Error::WrongDatabase`](crate::Error::WrongDatabase).
    pub fn put_reader_in(
        &mut self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
        mut value: impl Read,
    ) -> Result<()> {
        let keyspace = self.of(keyspace)?;
        self.push_reader(keyspace, key.as_ref(), &mut value)
    }

    /// The value of a key of the default keyspace, as the transaction sees it, to be read in
    /// pieces. It reads the same whatever becomes of the transaction.
    ///
    /// # Errors
    /// As [`Transaction::get`].
    pub fn get_reader(&self, key: impl AsRef<[u8]>) -> Result<Option<ValueReader>> {
        self.reader(self.default_keyspace(), key.as_ref())
    }

    /// [`Transaction::get_reader`] for a keyspace.
    ///
    /// # Errors
    /// As [`Transaction::get_in`].
    pub fn get_reader_in(
        &self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
    ) -> Result<Option<ValueReader>> {
        self.reader(self.of(keyspace)?, key.as_ref())
    }

    /// Sets a key to all that a reader gives.
    pub(super) fn push_reader(
        &mut self,
        keyspace: &Arc<KeyspaceInner>,
        key: &[u8],
        value: &mut dyn Read,
    ) -> Result<()> {
        let database = self.make_room((key.len(), MAX_POINTER_LEN), LongValues::FILE_BYTES)?;
        let db = self.snapshot.shared();
        match stream(db.inner(), keyspace, value)? {
            Streamed::Short(value) => self.push(keyspace, key, Some(&value)),
            Streamed::File(file) => {
                self.own.push_file((keyspace, database), key, (db, file));
                Ok(())
            }
        }
    }

    fn reader(&self, keyspace: &Arc<KeyspaceInner>, key: &[u8]) -> Result<Option<ValueReader>> {
        let db = self.snapshot.shared();
        match self.own_or_depend(keyspace, key, false)? {
            Some(OwnEntry::Base(OwnBase::Deleted)) => Ok(None),
            Some(OwnEntry::Base(OwnBase::InPieces(pointer))) => {
                let value = db.inner().reads().locate_pointed(keyspace, pointer)?;
                ValueReader::new(db, value).map(Some)
            }
            Some(OwnEntry::Base(OwnBase::Value(_)) | OwnEntry::Merged(_)) => {
                let value = self.read(keyspace, key, false)?;
                value.map(|value| ValueReader::whole(db, value)).transpose()
            }
            None => ValueReader::find(db, keyspace, key, Some(self.snapshot.point())),
        }
    }

    /// What of a key is the transaction's own, operands apart.
    pub(super) fn value_of(
        &self,
        keyspace: &KeyspaceInner,
        key: &[u8],
        own: OwnBase<'_>,
    ) -> Result<Option<Value>> {
        match own {
            OwnBase::Value(value) => Ok(Some(Value::owned(value))),
            OwnBase::InPieces(pointer) => {
                let reads = self.inner().reads();
                reads.get_pointed(keyspace, key, pointer).map(Some)
            }
            OwnBase::Deleted => Ok(None),
        }
    }

    /// The same where what iterators may hold bounds it: of one that it does not let pass a reader
    /// is to be had.
    pub(super) fn held_value_of(
        &self,
        keyspace: &KeyspaceInner,
        key: &[u8],
        own: OwnBase<'_>,
    ) -> Result<Option<Value>> {
        let OwnBase::InPieces(pointer) = own else {
            return self.value_of(keyspace, key, own);
        };
        // Before it is read: there may be no memory for it, and a piece of it.
        let budget = self.inner().shared().budget();
        let mut held = budget.open_account(Role::Iterators);
        held.grow_iterator(pointer.len.saturating_mul(2), 1)?;
        self.value_of(keyspace, key, own)
    }
}
