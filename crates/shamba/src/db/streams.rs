//! Values that are written and read in pieces, so that one may be larger than memory: the way of
//! [`Db::put_reader`] and of [`ValueReader`].

use std::io::Read;

use super::in_pieces::put_reader;
use super::value_reader::ValueReader;
use super::{Db, Keyspace, Snapshot};
#[cfg(doc)]
use crate::error::Error;
use crate::error::Result;
use crate::options::WriteOptions;

impl Db {
    /// Sets a key of the default keyspace to all that a reader gives, however much that is: more
    /// than a small part of the memory budget goes into a file of its own as it comes, and never is
    /// in memory whole. Read it back with [`Db::get_reader`]. A value is there whole or, where the
    /// reader fails, not at all.
    ///
    /// While the reader is being read, other large puts of databases with this budget may wait.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// use shamba::{MemoryBudget, Options};
    /// use std::io::{Read, copy, repeat, sink};
    /// let options = Options::new().memory(MemoryBudget::bytes(4 << 20));
    /// let db = options.open(dir.path())?;
    /// db.put_reader("film", repeat(7).take(64 << 20))?;
    /// let mut film = db.get_reader("film")?.expect("it was put");
    /// assert_eq!(copy(&mut film, &mut sink())?, 64 << 20);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As [`Db::put`]; [`Error::ValueSource`] where the reader fails.
    pub fn put_reader(&self, key: impl AsRef<[u8]>, value: impl Read) -> Result<()> {
        self.put_reader_with(key, value, WriteOptions::default())
    }

    /// [`Db::put_reader`] with a durability, or a time to live, of its own.
    ///
    /// # Errors
    /// As [`Db::put_reader`].
    pub fn put_reader_with(
        &self,
        key: impl AsRef<[u8]>,
        value: impl Read,
        options: WriteOptions,
    ) -> Result<()> {
        let keyspace = self.default_keyspace();
        keyspace.put_reader_with(key, value, options)
    }

    /// The value of a key of the default keyspace as it is now, to be read in pieces. Later writes
    /// do not change what it reads.
    ///
    /// # Errors
    /// As [`Db::get`].
    pub fn get_reader(&self, key: impl AsRef<[u8]>) -> Result<Option<ValueReader>> {
        self.default_keyspace().get_reader(key)
    }
}

impl Keyspace {
    /// Sets a key to all that a reader gives: see [`Db::put_reader`].
    ///
    /// # Errors
    /// As [`Db::put_reader`].
    pub fn put_reader(&self, key: impl AsRef<[u8]>, value: impl Read) -> Result<()> {
        self.put_reader_with(key, value, WriteOptions::default())
    }

    /// [`Keyspace::put_reader`] with a durability, or a time to live, of its own.
    ///
    /// # Errors
    /// As [`Db::put_reader`].
    pub fn put_reader_with(
        &self,
        key: impl AsRef<[u8]>,
        mut value: impl Read,
        options: WriteOptions,
    ) -> Result<()> {
        let inner = self.shared().inner();
        put_reader(inner, self.inner(), key.as_ref(), &mut value, options)
    }

    /// The value of a key as it is now, to be read in pieces: see [`Db::get_reader`].
    ///
    /// # Errors
    /// As [`Db::get`].
    pub fn get_reader(&self, key: impl AsRef<[u8]>) -> Result<Option<ValueReader>> {
        ValueReader::find(self.shared(), self.inner(), key.as_ref(), None)
    }
}

impl Snapshot {
    /// The value of a key of the default keyspace then, to be read in pieces.
    ///
    /// # Errors
    /// As [`Db::get`].
    pub fn get_reader(&self, key: impl AsRef<[u8]>) -> Result<Option<ValueReader>> {
        let keyspace = self.shared().inner().default_keyspace();
        ValueReader::find(self.shared(), keyspace, key.as_ref(), Some(self.point()))
    }

    /// The value of a key of a keyspace then, to be read in pieces.
    ///
    /// # Errors
    /// As [`Db::get`].
    pub fn get_reader_in(
        &self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
    ) -> Result<Option<ValueReader>> {
        keyspace.check_database(self.shared().inner())?;
        ValueReader::find(
            self.shared(),
            keyspace.inner(),
            key.as_ref(),
            Some(self.point()),
        )
    }
}
